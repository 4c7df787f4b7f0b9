//! State and services that outlive a single model message.

use std::{
    borrow::Borrow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_permission::AgentRights;
use haft_tool::{BoxFuture, ContextChange, ProgressSink};
use haft_types::{AgentId, ToolUse};
use tokio_util::sync::CancellationToken;

use crate::{
    AnsweredCall, BatchLimits, CallLog, CallReport, Executor, HookNotes, Pipeline, SharedPool,
    executor::BatchContext,
};

/// The part of the session state that tool calls read and change.
#[derive(Clone, Debug)]
pub struct CallSessionState {
    /// Working directory of the next call.
    pub cwd: Arc<Path>,
    /// Home directory, which `~` in paths expands to. `None`: `~` is not expanded.
    pub home: Option<Arc<Path>>,
    /// Wire names of the deferred tools whose schemas go into the next request, in the order they were
    /// loaded.
    pub loaded: Vec<String>,
}

impl CallSessionState {
    /// Creates the state of a new session whose working directory is `cwd`.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        Self { cwd: Arc::from(cwd.into()), home: home.map(Arc::from), loaded: Vec::new() }
    }

    /// Applies the committed changes of one message (see [`Executor::committed`]).
    pub fn apply(&mut self, changes: &[ContextChange]) {
        for change in changes {
            match change {
                ContextChange::Cwd(dir) => self.cwd = Arc::from(dir.as_path()),
                ContextChange::LoadTools(names) => {
                    for name in names {
                        if !self.loaded.contains(name) {
                            self.loaded.push(name.clone());
                        }
                    }
                }
                // The gate holds these; see `Gate::take_over`.
                ContextChange::Mode(_) | ContextChange::LeavePlan | ContextChange::AddDirectory(_) => (),
                ContextChange::Trace(_) | ContextChange::Unknown(_) => (),
            }
        }
    }
}

/// Everything one agent needs to run tool calls, message after message.
pub struct CallSession {
    /// The stages every call passes through.
    pub pipeline: Arc<Pipeline>,
    /// The tools available now; shared with other owners, who may replace the pool.
    pub pool: SharedPool,
    /// The agent that makes the calls.
    pub agent_id: AgentId,
    /// Limits of a batch of calls.
    pub limits: BatchLimits,
    /// Receives progress updates of running calls.
    pub progress: ProgressSink,
    /// Working directory and loaded tools.
    pub state: CallSessionState,
    /// Records calls that may change something, before they run. `None` records nothing.
    pub witness: Option<Arc<dyn CallLog>>,
    /// Adds text for the model after each message, about what its calls touched.
    pub companion: Option<Arc<dyn BatchObserver>>,
}

/// Inspects the finished calls of a message and adds text for the model, such as diagnostics of changed
/// files.
pub trait BatchObserver: Send + Sync {
    /// Called once all calls of a message have finished; `answered` is in emission order. Each returned
    /// text is added after the results.
    fn after<'a>(
        &'a self,
        calls: &'a CallSession,
        answered: &'a [&'a AnsweredCall],
    ) -> BoxFuture<'a, Vec<String>>;

    /// The conversation no longer contains what this observer reported to the agent of `calls` (it was
    /// compacted or cleared). The observer must report it again when it matters.
    fn forget(&self, calls: &CallSession);
}

impl CallSession {
    /// Creates the call session of a main agent, without progress reporting, call log and observer. The
    /// concurrency limit comes from the environment ([`BatchLimits::from`]).
    pub fn new(pipeline: Arc<Pipeline>, pool: SharedPool, state: CallSessionState) -> Self {
        Self {
            pipeline,
            pool,
            agent_id: AgentId::Main,
            limits: BatchLimits::from(|name| std::env::var(name).ok()),
            progress: ProgressSink::closed(),
            state,
            witness: None,
            companion: None,
        }
    }

    /// Creates the call session of a sub-agent: same tools, result store, hooks, approver and working
    /// directory, but with its own `rights`, no call log and no loaded deferred tools.
    pub fn child(&self, agent_id: AgentId, rights: AgentRights) -> Self {
        let state = CallSessionState { loaded: Vec::new(), ..self.state.clone() };
        Self {
            pipeline: Arc::new(self.pipeline.child(rights)),
            pool: self.pool.clone(),
            agent_id,
            limits: self.limits,
            progress: self.progress.clone(),
            state,
            // A sub-agent keeps its own call log.
            witness: None,
            companion: self.companion.clone(),
        }
    }

    /// Creates an executor for the next message, with the current pool and directory. When the message
    /// is done, pass [`Executor::committed`] to [`CallSessionState::apply`].
    pub fn executor(&self, cancel: &CancellationToken) -> Executor {
        let around = BatchContext {
            agent_id: self.agent_id.clone(),
            cwd: Arc::clone(&self.state.cwd),
            home: self.state.home.clone(),
            cancel: cancel.child_token(),
            progress: self.progress.clone(),
            witness: self.witness.clone(),
        };
        Executor::new(Arc::clone(&self.pipeline), self.pool.get(), around, self.limits)
    }

    /// Runs all calls of a complete message and returns their reports in emission order. Applies their
    /// context changes; notes of batch hooks and the observer are added to the last report.
    pub async fn run_message(&mut self, calls: Vec<ToolUse>, cancel: &CancellationToken) -> Vec<CallReport> {
        let mut executor = self.executor(cancel);
        for call in &calls {
            executor.push(call.clone());
        }
        let reports = executor.finish_all().await;
        self.state.apply(executor.committed());
        let mut answered: Vec<AnsweredCall> =
            calls.into_iter().zip(reports).map(|(call, report)| AnsweredCall { call, report }).collect();
        let notes = self.after_batch(&answered).await;
        if let Some(AnsweredCall { report: last, .. }) = answered.last_mut() {
            last.context.extend(notes.context);
            last.notices.extend(notes.notices);
            last.stop = last.stop.take().or(notes.stop);
        }
        answered.into_iter().map(|it| it.report).collect()
    }

    /// Runs the batch hooks and the observer for a finished message and returns the text they add. The
    /// text of the observer comes first.
    pub async fn after_batch(&self, answered: &[impl Borrow<AnsweredCall>]) -> HookNotes {
        let answered: Vec<&AnsweredCall> = answered.iter().map(Borrow::borrow).collect();
        let gate = &self.pipeline.gate;
        let base = || gate.hook_base(&self.agent_id, self.state.cwd.to_path_buf());
        let mut notes = gate.hooks().after_batch(&answered, base).await;
        if let Some(companion) = &self.companion {
            let added = companion.after(self, &answered).await;
            notes.context.splice(0..0, added);
        }
        notes
    }

    /// Ends the hooks that still run in the background, at most one second from now. The hooks belong to
    /// the session, so closing a sub-agent's call session does nothing.
    pub async fn close(&self) {
        if !self.pipeline.gate.permissions().is_child() {
            self.pipeline.gate.hooks().close(Duration::from_secs(1)).await;
        }
    }
}
