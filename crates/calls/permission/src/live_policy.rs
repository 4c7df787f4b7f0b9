use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use haft_tool::DynCall;

use crate::{
    AgentRights, Behavior, Decision, Destination, Names, PermissionUpdate, Policy, PolicyBuilder, RuleSource,
    RuleWarning,
    classifier::{CircuitBreaker, SpeculativeAnswer},
};

/// The policy of a running agent: one value that many calls read and a few
/// changes replace.
///
/// The permissions of a child follow those of its parent: a rule the person
/// adds while the child works counts from the next call on. A child sets a mode
/// of its own, which changes nothing above; every call of the child still has to
/// pass the mode of each agent above.
pub struct LivePermissions {
    policy: ArcSwap<Policy>,
    writing: Mutex<()>,
    breaker: CircuitBreaker,
    above: Option<ParentLink>,
}

struct ParentLink {
    parent: Arc<LivePermissions>,
    made_of: Mutex<ChildBasis>,
}

/// What the policy of a child was made from.
struct ChildBasis {
    rights: AgentRights,
    parent_policy: Arc<Policy>,
}

impl LivePermissions {
    /// The permissions of a session's main agent.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: ArcSwap::from_pointee(policy),
            writing: Mutex::new(()),
            breaker: CircuitBreaker::default(),
            above: None,
        }
    }

    /// The permissions of an agent that this one starts: a live view on these,
    /// within the rights of the child's definition.
    pub fn child(self: &Arc<Self>, rights: AgentRights) -> Self {
        let parent_policy = self.policy();
        let policy = parent_policy.child(&rights);
        let made_of = Mutex::new(ChildBasis { rights, parent_policy });
        Self { above: Some(ParentLink { parent: Arc::clone(self), made_of }), ..Self::new(policy) }
    }

    /// Whether these are the permissions of an agent that another one started.
    pub fn is_child(&self) -> bool {
        self.above.is_some()
    }

    /// What decides now.
    pub fn policy(&self) -> Arc<Policy> {
        if let Some(above) = &self.above {
            let parent_policy = above.parent.policy();
            let mut made_of = above.made_of.lock().unwrap_or_else(PoisonError::into_inner);
            if !Arc::ptr_eq(&parent_policy, &made_of.parent_policy) {
                self.policy.store(Arc::new(parent_policy.child(&made_of.rights)));
                made_of.parent_policy = parent_policy;
            }
        }
        self.policy.load_full()
    }

    /// Makes a change and says what is wrong with it. A rule or directory that
    /// was added while a child asked is one of the whole session: what its
    /// parents would still ask about is not settled further down. A child's mode
    /// is its own, and so is what was allowed to it alone ([`Destination::Agent`]).
    /// Keeping a change beyond the session is up to the caller, see
    /// [`LivePermissions::keeps`].
    pub fn apply(&self, update: &PermissionUpdate) -> Vec<RuleWarning> {
        match (&self.above, update) {
            (None, _) => self.change(|policy| policy.to_builder().update(update).build()),
            (Some(above), PermissionUpdate::SetMode { mode, .. }) => {
                self.remake(above, |rights| rights.mode = Some(*mode));
                Vec::new()
            }
            (Some(above), update) if update.destination() == Destination::Agent => {
                self.remake(above, |rights| rights.take(update));
                Vec::new()
            }
            (Some(above), _) => above.parent.apply(update),
        }
    }

    /// Rules that this agent alone has from now on, beside those of its
    /// definition. Every agent above has to allow a call as well, so they can
    /// only take away. Permissions of a main agent have none.
    pub fn add_own(&self, rules: Vec<(Behavior, Arc<str>)>) {
        let Some(above) = &self.above else { return };
        self.remake(above, |rights| rights.rules.extend(rules));
    }

    /// Denies more from now on, for this agent and everybody below it, as the
    /// definition of a session's main agent does. Saying the same again changes
    /// nothing.
    pub fn deny<I>(&self, origin: &RuleSource, texts: I)
    where
        I: IntoIterator<Item = String>,
    {
        self.change(|policy| {
            let known = policy.rules_as_written();
            let is_new = |text: &String| {
                !known.iter().any(|it| {
                    it.behavior == Behavior::Deny && *it.text == **text && it.origin.label == origin.label
                })
            };
            let new: Vec<String> = texts.into_iter().filter(is_new).collect();
            policy.to_builder().rules(origin, Behavior::Deny, new).build()
        });
    }

    /// Replaces all rules of an origin; those of others stay. For permissions of a main
    /// agent.
    pub fn set_rules_of<I>(&self, origin: &RuleSource, rules: I)
    where
        I: IntoIterator<Item = (Behavior, String)>,
    {
        self.change(|policy| {
            let mut builder = policy.to_builder();
            builder.rules.retain(|it| it.origin.label != origin.label);
            let add = |builder: PolicyBuilder, (behavior, text)| builder.rules(origin, behavior, [text]);
            rules.into_iter().fold(builder, add).build()
        });
    }

    /// Changes the rights of a child's own level.
    fn remake(&self, above: &ParentLink, change: impl FnOnce(&mut AgentRights)) {
        let mut made_of = above.made_of.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut made_of.rights);
        self.policy.store(Arc::new(made_of.parent_policy.child(&made_of.rights)));
    }

    /// Whether a change is to be written to settings. Settings are followed by
    /// the whole session, so the mode of a child is never written.
    pub fn keeps(&self, update: &PermissionUpdate) -> bool {
        let is_own_mode = self.is_child() && matches!(update, PermissionUpdate::SetMode { .. });
        update.destination().persists() && !is_own_mode
    }

    /// Replaces the names tools go by, when servers come and go.
    pub fn rename(&self, names: &Arc<Names>) {
        match &self.above {
            Some(above) => above.parent.rename(names),
            None => {
                self.change(|policy| policy.to_builder().names(Arc::clone(names)).build());
            }
        }
    }

    /// Replaces everything, when settings were read again. Changes made in the
    /// session are the caller's to make again.
    pub fn replace(&self, policy: &Policy) {
        match &self.above {
            Some(above) => above.parent.replace(policy),
            None => {
                self.change(|_| policy.clone());
            }
        }
    }

    /// Asks the classifier of auto mode while hooks still think, if it would be
    /// asked about this decision.
    pub async fn foresee(
        &self,
        decision: &Decision,
        tool: &str,
        call: &dyn DynCall,
    ) -> Option<SpeculativeAnswer> {
        let policy = self.policy();
        if self.breaker.is_open() { None } else { policy.foresee(decision, tool, call).await }
    }

    /// Lets the classifier of auto mode answer, unless it has been saying no so
    /// often that a person should look.
    pub async fn classify(
        &self,
        decision: Decision,
        tool: &str,
        call: &dyn DynCall,
        foreseen: Option<SpeculativeAnswer>,
    ) -> Decision {
        let policy = self.policy();
        if self.breaker.is_open() || !decision.is_classifiable() {
            return decision;
        }
        let answered = policy.classify(decision, tool, call, foreseen).await;
        self.breaker.count(answered.behavior);
        answered
    }

    /// Says that a person answered: the classifier gets another chance.
    pub fn person_answered(&self, _answer: Behavior) {
        self.breaker.reset();
    }

    fn change(&self, make: impl FnOnce(&Policy) -> Policy) -> Vec<RuleWarning> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.policy.load_full();
        let after = make(&before);
        let news = after.warnings().iter().filter(|warning| !before.warnings().contains(warning));
        let news = news.cloned().collect();
        self.policy.store(Arc::new(after));
        news
    }
}
