use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::CallId;

/// Which results the next request holds in full. Clones share it: tools that
/// say "you have seen this already" ask here first.
#[derive(Clone, Debug, Default)]
pub struct ResultsInContext(Arc<Mutex<HashSet<CallId>>>);

impl ResultsInContext {
    /// Whether the result of this call is in the next request.
    pub fn holds(&self, call: &CallId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(call)
    }

    pub(crate) fn add(&self, call: CallId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(call);
    }

    pub(crate) fn remove(&self, call: &CallId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(call);
    }

    pub(crate) fn set(&self, calls: HashSet<CallId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = calls;
    }
}
