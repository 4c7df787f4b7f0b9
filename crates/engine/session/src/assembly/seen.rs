//! What the model has seen, as far as the next request still shows it.

use haft_agent::{Held, Restored};
use haft_types::{AgentId, CallId};
use haft_workspace::{ContextView, Files, SeenRecord, Viewer};

/// Which results are in the next request; all of them where there is no
/// conversation that could lose one.
pub(super) struct InRequest(pub(super) Option<Held>);

impl ContextView for InRequest {
    fn holds(&self, _agent: &AgentId, call: &CallId) -> bool {
        self.0.as_ref().is_none_or(|held| held.holds(call))
    }
}

/// Knows again what an earlier run of the session had read: the log says so.
pub(super) fn restore_seen(files: &Files, restored: &Restored) {
    for (call, meta) in &restored.meta {
        let record = meta.get("haft/seen").cloned().map(serde_json::from_value::<SeenRecord>);
        if let Some(Ok(record)) = record {
            let viewer = Viewer { agent: AgentId::Main, call: call.clone() };
            files.reads().restore(&viewer, &record);
        }
    }
}
