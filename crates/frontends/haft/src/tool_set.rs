use std::sync::Arc;

use haft_session::{Session, SessionHandle, SessionSpec};
use haft_tool::DynTool;
use haft_tool_runtime::CallReport;
use haft_types::ToolUse;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{BuildError, agent::program_spec};

/// A set of tools and everything their calls pass through: a session without a
/// model.
///
/// What would ask is denied, unless the spec of [`Tools::of`] says who answers.
pub struct Tools {
    handle: SessionHandle,
    calls: u64,
}

impl Tools {
    /// These tools, in the current directory, with the default rules. Must be
    /// called inside a tokio runtime.
    pub fn new(tools: Vec<Arc<dyn DynTool>>) -> Result<Self, BuildError> {
        let cwd = std::env::current_dir().map_err(BuildError::Directory)?;
        let mut spec = program_spec(cwd);
        spec.tools.own = tools;
        Self::of(spec)
    }

    /// The tools of any spec: rules, hooks, somebody to ask. Its model is left
    /// out.
    pub fn of(mut spec: SessionSpec) -> Result<Self, BuildError> {
        tokio::runtime::Handle::try_current().map_err(|_| BuildError::Runtime)?;
        spec.model = None;
        let (handle, _events) = Session::open(spec)?;
        Ok(Self { handle, calls: 0 })
    }

    /// Calls one tool.
    pub async fn call(&mut self, name: &str, input: Value) -> CallReport {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let tool_use = ToolUse { id: id.clone().into(), name: name.to_owned(), input };
        let mut reports = self.run(vec![tool_use], &CancellationToken::new()).await;
        reports.pop().unwrap_or_else(|| {
            // The session was closed from elsewhere.
            CallReport::refused(
                id.into(),
                name.to_owned(),
                haft_tool::ErrorKind::Internal,
                "the session is closed",
            )
        })
    }

    /// Runs the calls of one model message; reports come in the order of the
    /// calls.
    pub async fn run(&mut self, calls: Vec<ToolUse>, cancel: &CancellationToken) -> Vec<CallReport> {
        self.handle.run_calls(calls, cancel.clone()).await
    }

    /// The session underneath.
    pub fn session(&self) -> &SessionHandle {
        &self.handle
    }
}
