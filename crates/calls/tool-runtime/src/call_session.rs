//! What lives on from one model message to the next.

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

/// The part of a session's state that calls see and change.
#[derive(Clone, Debug)]
pub struct CallSessionState {
    /// Where the next call runs.
    pub cwd: Arc<Path>,
    /// What `~` means.
    pub home: Option<Arc<Path>>,
    /// Deferred tools whose schemas go into the next request, in the order they
    /// were loaded.
    pub loaded: Vec<String>,
}

impl CallSessionState {
    /// A fresh session in this directory.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        Self { cwd: Arc::from(cwd.into()), home: home.map(Arc::from), loaded: Vec::new() }
    }

    /// Takes over what the calls of one message changed.
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
                // The gate holds these: see `Gate::take_over`.
                ContextChange::Mode(_) | ContextChange::LeavePlan | ContextChange::AddDirectory(_) => (),
                ContextChange::Trace(_) | ContextChange::Unknown(_) => (),
            }
        }
    }
}

/// Everything an agent needs to run the calls of one message after the other.
pub struct CallSession {
    /// What every call passes through.
    pub pipeline: Arc<Pipeline>,
    /// Which tools there are right now.
    pub pool: SharedPool,
    /// Who calls.
    pub agent_id: AgentId,
    /// What bounds a batch.
    pub limits: BatchLimits,
    /// Where progress goes.
    pub progress: ProgressSink,
    /// What calls see and change.
    pub state: CallSessionState,
    /// Who writes down calls that act, before they run.
    pub witness: Option<Arc<dyn CallLog>>,
    /// Who adds what is worth knowing about what calls touched.
    pub companion: Option<Arc<dyn BatchObserver>>,
}

/// Looks at what the calls of one message touched, and says what the model
/// should know about it.
pub trait BatchObserver: Send + Sync {
    /// The calls of a message are done, in order. What comes back goes behind the
    /// results, a text each.
    fn after<'a>(
        &'a self,
        calls: &'a CallSession,
        answered: &'a [&'a AnsweredCall],
    ) -> BoxFuture<'a, Vec<String>>;

    /// What was said to the agent of these calls is not in its conversation any
    /// more.
    fn forget(&self, calls: &CallSession);
}

impl CallSession {
    /// A session of the main agent that nobody watches.
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

    /// The call session of an agent that this one starts: the same tools, result
    /// store, hooks, person and directory, with rights of its own.
    pub fn child(&self, agent_id: AgentId, rights: AgentRights) -> Self {
        let state = CallSessionState { loaded: Vec::new(), ..self.state.clone() };
        Self {
            pipeline: Arc::new(self.pipeline.child(rights)),
            pool: self.pool.clone(),
            agent_id,
            limits: self.limits,
            progress: self.progress.clone(),
            state,
            // A child has a log of its own.
            witness: None,
            companion: self.companion.clone(),
        }
    }

    /// An executor for the next message. Give what it committed back with
    /// [`CallSessionState::apply`] when the message is done.
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

    /// Runs a complete message and returns its reports in emission order.
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

    /// Tells the hooks and the observer about a finished message, and returns what
    /// they add to its results.
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

    /// The session is over: ends what hooks left running. The hooks belong to
    /// the session, so the end of a child leaves them alone.
    pub async fn close(&self) {
        if !self.pipeline.gate.permissions().is_child() {
            self.pipeline.gate.hooks().close(Duration::from_secs(1)).await;
        }
    }
}
