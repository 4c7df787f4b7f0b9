use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::CallId;

/// The calls whose full results are part of the next request. Tools check it before they answer
/// "unchanged since the last read". Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct ResultsInContext(Arc<Mutex<HashSet<CallId>>>);

impl ResultsInContext {
    /// Whether the result of this call is part of the next request.
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
