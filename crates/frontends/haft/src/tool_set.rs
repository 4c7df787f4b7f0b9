use std::sync::Arc;

use haft_tool::DynTool;
use haft_tool_runtime::CallReport;
use haft_types::ToolUse;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{BuildError, local_calls::LocalCalls};

/// A set of tools and everything their calls pass through: input check, hooks, rules,
/// time limits, a place for large results.
///
/// Settings count only where they are the organisation's. What would ask is denied,
/// unless the tools are those of a session whose spec says who answers.
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
    /// These tools, in the current directory, with the default rules. Must be
    /// called inside a tokio runtime.
    ///
    /// # Errors
    /// The working directory is gone, there is no runtime, or settings of the
    /// organisation contradict each other.
    pub fn new(tools: Vec<Arc<dyn DynTool>>) -> Result<Self, BuildError> {
        tokio::runtime::Handle::try_current().map_err(|_| BuildError::Runtime)?;
        Ok(Self { runner: CallRunner::Local(Box::new(LocalCalls::open(tools)?)), calls: 0 })
    }

    /// The tools of a session: its rules, its hooks, whom it asks. The model of the spec
    /// is left out. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// There is no runtime, or the session cannot be opened.
    #[cfg(feature = "agent")]
    pub fn of(mut spec: haft_session::SessionSpec) -> Result<Self, BuildError> {
        tokio::runtime::Handle::try_current().map_err(|_| BuildError::Runtime)?;
        spec.model = None;
        let (handle, _events) = haft_session::Session::open(spec)?;
        Ok(Self { runner: CallRunner::Session(handle), calls: 0 })
    }

    /// Calls one tool. Whatever goes wrong is in the report.
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

    /// Runs the calls of one model message, as many at the same time as their tools
    /// allow; reports come in the order of the calls. Firing `cancel` interrupts them,
    /// and their reports say so.
    pub async fn run(&mut self, calls: Vec<ToolUse>, cancel: &CancellationToken) -> Vec<CallReport> {
        match &mut self.runner {
            CallRunner::Local(local) => local.run(calls, cancel).await,
            #[cfg(feature = "agent")]
            CallRunner::Session(handle) => handle.run_calls(calls, cancel.clone()).await,
        }
    }

    /// The session underneath, if these are the [tools of one](Tools::of).
    #[cfg(feature = "agent")]
    pub fn session(&self) -> Option<&haft_session::SessionHandle> {
        match &self.runner {
            CallRunner::Local(_) => None,
            CallRunner::Session(handle) => Some(handle),
        }
    }
}
