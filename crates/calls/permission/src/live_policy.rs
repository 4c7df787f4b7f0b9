use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use haft_tool::DynCall;

use crate::{
    AgentRights, Behavior, Decision, Destination, Names, PermissionUpdate, Policy, PolicyBuilder, RuleSource,
    RuleWarning,
    classifier::{CircuitBreaker, SpeculativeAnswer},
};

/// The current policy of a running agent, read by concurrent calls and replaced on changes.
///
/// A child's permissions follow its parent's: a rule the user adds while the child works applies from
/// the next call on. A child can have its own mode, but each of its calls must also pass the mode of
/// every parent.
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

/// Inputs from which a child's policy was computed.
struct ChildBasis {
    rights: AgentRights,
    parent_policy: Arc<Policy>,
}

impl LivePermissions {
    /// Permissions of a session's main agent.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: ArcSwap::from_pointee(policy),
            writing: Mutex::new(()),
            breaker: CircuitBreaker::default(),
            above: None,
        }
    }

    /// Permissions of a sub-agent: follow these, restricted by the child's rights.
    pub fn child(self: &Arc<Self>, rights: AgentRights) -> Self {
        let parent_policy = self.policy();
        let policy = parent_policy.child(&rights);
        let made_of = Mutex::new(ChildBasis { rights, parent_policy });
        Self { above: Some(ParentLink { parent: Arc::clone(self), made_of }), ..Self::new(policy) }
    }

    /// Whether these are the permissions of a sub-agent.
    pub fn is_child(&self) -> bool {
        self.above.is_some()
    }

    /// The current policy.
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

    /// Applies an update and returns warnings about invalid rules. A rule or directory added while a
    /// child asks applies to the whole session. Exceptions are a child's mode and updates for
    /// [`Destination::Agent`], which apply to the child only. The caller must persist the update, see
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

    /// Adds rules for this sub-agent only. They can only restrict, because every parent must allow a
    /// call too. No effect for the main agent.
    pub fn add_own(&self, rules: Vec<(Behavior, Arc<str>)>) {
        let Some(above) = &self.above else { return };
        self.remake(above, |rights| rights.rules.extend(rules));
    }

    /// Adds deny rules for this agent and its children, as the definition of a session's main agent
    /// does. Idempotent.
    pub fn deny<I>(&self, origin: &RuleSource, texts: I)
    where
        I: IntoIterator<Item = String>,
    {
        self.change(|policy| {
            let known = policy.source_rules();
            let is_new = |text: &String| {
                !known.iter().any(|it| {
                    it.behavior == Behavior::Deny && *it.text == **text && it.origin.label == origin.label
                })
            };
            let new: Vec<String> = texts.into_iter().filter(is_new).collect();
            policy.to_builder().rules(origin, Behavior::Deny, new).build()
        });
    }

    /// Replaces all rules of a source and keeps those of others. For the main agent.
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

    /// Whether an update must be written to settings. The mode of a child never is, because settings
    /// apply to the whole session.
    pub fn keeps(&self, update: &PermissionUpdate) -> bool {
        let is_own_mode = self.is_child() && matches!(update, PermissionUpdate::SetMode { .. });
        update.destination().persists() && !is_own_mode
    }

    /// Replaces the tool names, when MCP servers connect or disconnect.
    pub fn rename(&self, names: &Arc<Names>) {
        match &self.above {
            Some(above) => above.parent.rename(names),
            None => {
                self.change(|policy| policy.to_builder().names(Arc::clone(names)).build());
            }
        }
    }

    /// Replaces the whole policy after settings were reloaded. The caller must reapply changes made
    /// during the session.
    pub fn replace(&self, policy: &Policy) {
        match &self.above {
            Some(above) => above.parent.replace(policy),
            None => {
                self.change(|_| policy.clone());
            }
        }
    }

    /// Asks the classifier of auto mode in advance, while hooks run. `None` if it would not be asked
    /// about this decision.
    pub async fn foresee(
        &self,
        decision: &Decision,
        tool: &str,
        call: &dyn DynCall,
    ) -> Option<SpeculativeAnswer> {
        let policy = self.policy();
        if self.breaker.is_open() { None } else { policy.foresee(decision, tool, call).await }
    }

    /// Lets the classifier of auto mode answer, unless it has blocked so often that the user should
    /// decide.
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

    /// Records that the user answered, which resets the classifier's block counts.
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
