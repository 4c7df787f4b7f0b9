use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft_tool::{CallTrace, ContextChange};
use serde_json::{Map, Value};

use super::caller::Protocol;

/// Which client left what running. A session's tasks are its own; clients
/// without a session have theirs in common, because nothing tells them apart.
#[derive(Default)]
pub(super) struct TasksOfClients(Mutex<HashMap<String, Option<Arc<str>>>>);

/// Whose tasks a client may speak of.
pub(super) fn owner(client: &Arc<str>, protocol: Protocol) -> Option<Arc<str>> {
    (protocol == Protocol::Legacy).then(|| Arc::clone(client))
}

impl TasksOfClients {
    /// Notes what a call left running.
    pub(super) fn note(&self, changes: &[ContextChange], owner: &Option<Arc<str>>) {
        for change in changes {
            if let ContextChange::Trace(CallTrace::BackgroundStarted { id, .. }) = change {
                let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                tasks.insert(id.clone(), owner.clone());
            }
        }
    }

    /// The task of somebody else that the arguments of a call name.
    pub(super) fn foreign(
        &self,
        arguments: Option<&Map<String, Value>>,
        owner: &Option<Arc<str>>,
    ) -> Option<String> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names = arguments?.iter().filter(|(key, _)| key.to_ascii_lowercase().ends_with("id"));
        names
            .filter_map(|(_, value)| value.as_str())
            .find(|id| tasks.get(*id).is_some_and(|it| it != owner))
            .map(str::to_owned)
    }
}
