use std::sync::Arc;

use haft_tool::DynTool;
use haft_tool_runtime::CallReport;
use haft_types::ToolUse;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{BuildError, local_calls::LocalCalls};

/// A set of tools with the pipeline of their calls: input validation, hooks, permission rules, timeouts,
/// storage of large results.
///
/// Only managed settings of the organisation apply. Calls that would ask are denied, unless the set was
/// created from a session spec with an approver.
pub struct Tools {
    runner: CallRunner,
    calls: u64,
}

enum CallRunner {
    Local(Box<LocalCalls>),
    #[cfg(feature = "agent")]
    Session(haft_session::SessionHandle),
}

impl Tools {
    /// Creates a tool set in the current directory, with the default rules. Must be called inside a
    /// tokio runtime.
    ///
    /// # Errors
    ///
    /// The working directory does not exist, there is no runtime, or managed settings contradict each
    /// other.
    pub fn new(tools: Vec<Arc<dyn DynTool>>) -> Result<Self, BuildError> {
        tokio::runtime::Handle::try_current().map_err(|_| BuildError::Runtime)?;
        Ok(Self { runner: CallRunner::Local(Box::new(LocalCalls::open(tools)?)), calls: 0 })
    }

    /// Opens a session for its tools, with its rules, hooks and approver. The model of the spec is
    /// ignored. Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// There is no runtime, or the session cannot be opened.
    #[cfg(feature = "agent")]
    pub fn of(mut spec: haft_session::SessionSpec) -> Result<Self, BuildError> {
        tokio::runtime::Handle::try_current().map_err(|_| BuildError::Runtime)?;
        spec.model = None;
        let (handle, _events) = haft_session::Session::open(spec)?;
        Ok(Self { runner: CallRunner::Session(handle), calls: 0 })
    }

    /// Calls one tool. Errors are part of the report.
    pub async fn call(&mut self, name: &str, input: Value) -> CallReport {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let tool_use = ToolUse { id: id.clone().into(), name: name.to_owned(), input };
        let mut reports = self.run(vec![tool_use], &CancellationToken::new()).await;
        reports.pop().unwrap_or_else(|| {
            // Another handle has closed the session.
            CallReport::refused(
                id.into(),
                name.to_owned(),
                haft_tool::ErrorKind::Internal,
                "the session is closed",
            )
        })
    }

    /// Runs the calls of one model message, in parallel as far as their tools allow, and returns one
    /// report per call in order. Cancelling `cancel` interrupts them, which their reports mention.
    pub async fn run(&mut self, calls: Vec<ToolUse>, cancel: &CancellationToken) -> Vec<CallReport> {
        match &mut self.runner {
            CallRunner::Local(local) => local.run(calls, cancel).await,
            #[cfg(feature = "agent")]
            CallRunner::Session(handle) => handle.run_calls(calls, cancel.clone()).await,
        }
    }

    /// The session, if the set was created with [`Tools::of`].
    #[cfg(feature = "agent")]
    pub fn session(&self) -> Option<&haft_session::SessionHandle> {
        match &self.runner {
            CallRunner::Local(_) => None,
            CallRunner::Session(handle) => Some(handle),
        }
    }
}
