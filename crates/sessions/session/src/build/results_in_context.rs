//! What models have seen, as far as their next requests still show it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft_agent::{Restored, ResultsInContext};
use haft_types::{AgentId, CallId};
use haft_workspace::{ContextView, ReadBy, SeenRecord, SessionFiles};

/// Which results are in the next requests of agents that others started. Clones
/// share it.
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

/// Which results are in the next request; all of them where there is no
/// conversation that could lose one.
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

/// Knows again what an earlier run of the session had read: the log says so.
pub(super) fn restore_seen(files: &SessionFiles, restored: &Restored) {
    for (call, meta) in &restored.meta {
        let record = meta.get("haft/seen").cloned().map(serde_json::from_value::<SeenRecord>);
        if let Some(Ok(record)) = record {
            let viewer = ReadBy { agent: AgentId::Main, call: call.clone() };
            files.reads().restore(&viewer, &record);
        }
    }
}
