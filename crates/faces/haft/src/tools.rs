use std::sync::Arc;

use haft_permission::Policy;
use haft_runtime::{
    CallSession, Gate, Pipeline, Pool, Report, ResultStore, SessionState, SharedPool, StoreLimits,
};
use haft_tool::DynTool;
use haft_types::ToolUse;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A set of tools and everything their calls pass through.
///
/// What would ask is denied, until [`Tools::with_gate`] says who answers.
pub struct Tools {
    session: CallSession,
    calls: u64,
}

impl Tools {
    /// These tools, in the current directory, with the default policy.
    pub fn new(tools: Vec<Arc<dyn DynTool>>) -> Self {
        Self::with_gate(tools, Gate::new(Policy::default()))
    }

    /// These tools, behind a gate of your own: rules, hooks, somebody to ask.
    pub fn with_gate(tools: Vec<Arc<dyn DynTool>>, gate: Gate) -> Self {
        let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let results = std::env::temp_dir().join(format!("haft-{}", std::process::id())).join("tool-results");
        let pipeline = Pipeline::new(gate, ResultStore::new(results, StoreLimits::default()));
        let pool = SharedPool::new(Pool::assemble(tools, Vec::new()));
        Self { session: CallSession::new(Arc::new(pipeline), pool, SessionState::new(cwd)), calls: 0 }
    }

    /// Calls one tool.
    pub async fn call(&mut self, name: &str, input: Value) -> Report {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let tool_use = ToolUse { id: id.clone().into(), name: name.to_owned(), input };
        let mut reports = self.session.run_message(vec![tool_use], &CancellationToken::new()).await;
        reports.pop().unwrap_or_else(|| {
            // Unreachable by the runtime's invariant: every call has a report.
            Report::refused(id.into(), name.to_owned(), haft_tool::ErrorKind::Internal, "the call was lost")
        })
    }

    /// Runs the calls of one model message; reports come in the order of the
    /// calls.
    pub async fn run(&mut self, calls: Vec<ToolUse>, cancel: &CancellationToken) -> Vec<Report> {
        self.session.run_message(calls, cancel).await
    }

    /// The session underneath.
    pub fn session(&mut self) -> &mut CallSession {
        &mut self.session
    }
}
