//! Tracks which tool results are still part of a model's next request.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft_agent::{Restored, ResultsInContext};
use haft_types::{AgentId, CallId};
use haft_workspace::{ContextView, ReadBy, SeenRecord, SessionFiles};

/// Results in the next requests of sub-agents, by agent. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChildContextViews(Arc<Mutex<HashMap<AgentId, ResultsInContext>>>);

impl ChildContextViews {
    pub(crate) fn insert(&self, agent: AgentId, held: ResultsInContext) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(agent, held);
    }

    fn holds(&self, agent: &AgentId, call: &CallId) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(agent).is_some_and(|held| held.holds(call))
    }
}

/// Results in the next request of the main agent. Without a conversation, all results count as present.
#[derive(Default)]
pub(crate) struct MainContextView {
    pub(super) main: Option<ResultsInContext>,
    pub(super) children: ChildContextViews,
}

impl ContextView for MainContextView {
    fn holds(&self, agent: &AgentId, call: &CallId) -> bool {
        match agent {
            AgentId::Main => self.main.as_ref().is_none_or(|held| held.holds(call)),
            child => self.main.is_none() || self.children.holds(child, call),
        }
    }
}

/// Marks files as read that an earlier run of the session has read, according to its log.
pub(super) fn restore_seen(files: &SessionFiles, restored: &Restored) {
    for (call, meta) in &restored.meta {
        let record = meta.get("haft/seen").cloned().map(serde_json::from_value::<SeenRecord>);
        if let Some(Ok(record)) = record {
            let viewer = ReadBy { agent: AgentId::Main, call: call.clone() };
            files.reads().restore(&viewer, &record);
        }
    }
}
