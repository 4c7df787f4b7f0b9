use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use haft_tool::{CallContext, DynCall};

use crate::{AgentRights, Behavior, Decision, Names, PermissionUpdate, Policy, Warning, auto::Breaker};

/// The policy of a running session: one value that many calls read and a few
/// changes replace.
///
/// The session of an agent follows that of its parent: a rule the person adds
/// while the agent works counts from the next call on.
pub struct Session {
    policy: ArcSwap<Policy>,
    writing: Mutex<()>,
    breaker: Breaker,
    above: Option<Above>,
}

struct Above {
    parent: Arc<Session>,
    rights: AgentRights,
    /// The parent's policy this one was made from.
    seen: Mutex<Arc<Policy>>,
}

impl Session {
    /// Starts a session.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: ArcSwap::from_pointee(policy),
            writing: Mutex::new(()),
            breaker: Breaker::default(),
            above: None,
        }
    }

    /// The session of an agent that this one starts.
    pub fn child(self: &Arc<Self>, rights: AgentRights) -> Self {
        let parent = self.policy();
        let policy = parent.child(&rights);
        let above = Above { parent: Arc::clone(self), rights, seen: Mutex::new(parent) };
        Self { above: Some(above), ..Self::new(policy) }
    }

    /// What decides now.
    pub fn policy(&self) -> Arc<Policy> {
        if let Some(above) = &self.above {
            let parent = above.parent.policy();
            let mut seen = above.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !Arc::ptr_eq(&parent, &seen) {
                self.policy.store(Arc::new(parent.child(&above.rights)));
                *seen = parent;
            }
        }
        self.policy.load_full()
    }

    /// Makes a change and says what is wrong with it. A change an agent asked
    /// for is one of the whole session: what its parents would still ask about
    /// is not settled further down. Keeping it beyond the session is up to the
    /// caller, see [`Destination::persists`](crate::Destination::persists).
    pub fn apply(&self, update: &PermissionUpdate) -> Vec<Warning> {
        if let Some(above) = &self.above {
            return above.parent.apply(update);
        }
        self.change(|policy| policy.to_builder().update(update).build())
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

    /// Lets the classifier of auto mode answer, unless it has been saying no so
    /// often that a person should look.
    pub async fn classify(
        &self,
        decision: Decision,
        tool: &str,
        call: &dyn DynCall,
        cx: &CallContext,
    ) -> Decision {
        let policy = self.policy();
        if self.breaker.is_open() || !decision.is_classifiable() {
            return decision;
        }
        let answered = policy.classify(decision, tool, call, cx).await;
        self.breaker.count(answered.behavior);
        answered
    }

    /// Says that a person answered: the classifier gets another chance.
    pub fn person_answered(&self, _answer: Behavior) {
        self.breaker.reset();
    }

    fn change(&self, make: impl FnOnce(&Policy) -> Policy) -> Vec<Warning> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.policy.load_full();
        let after = make(&before);
        let news = after.warnings().iter().filter(|warning| !before.warnings().contains(warning));
        let news = news.cloned().collect();
        self.policy.store(Arc::new(after));
        news
    }
}
