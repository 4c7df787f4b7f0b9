use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    sync::Arc,
    time::Instant,
};

use haft_tool::{CallContext, ContextChange, ErrorKind, ProgressSink, ToolError};
use haft_types::{AgentId, CallId, ToolUse};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{CallLog, CallReport, CallSummary, ParsedCall, Pipeline, Pool, Schedule, ScheduleKind};

/// Limits of a batch of calls.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Maximum number of calls that run at the same time. Default 10.
    pub concurrency: usize,
}

impl BatchLimits {
    /// Reads the limit from `HAFT_MAX_TOOL_USE_CONCURRENCY`, then
    /// `CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY`. Values that are not a positive integer count as unset.
    pub fn from(variable: impl Fn(&str) -> Option<String>) -> Self {
        let named = |name: &str| variable(name).and_then(|text| text.trim().parse().ok());
        let set = named("HAFT_MAX_TOOL_USE_CONCURRENCY")
            .or_else(|| named("CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY"))
            .filter(|limit| 0 < *limit);
        Self { concurrency: set.unwrap_or(Self::default().concurrency) }
    }
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { concurrency: 10 }
    }
}

/// Context shared by all calls of a message.
#[derive(Clone)]
pub(crate) struct BatchContext {
    pub(crate) agent_id: AgentId,
    pub(crate) cwd: Arc<Path>,
    pub(crate) home: Option<Arc<Path>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) progress: ProgressSink,
    pub(crate) witness: Option<Arc<dyn CallLog>>,
}

/// Runs the calls of one model message.
///
/// Push each `tool_use` as soon as its block is complete, while the message is still streaming, and take
/// reports with [`Executor::next`]. Dropping the executor aborts everything it started.
pub struct Executor {
    pipeline: Arc<Pipeline>,
    pool: Arc<Pool>,
    schedule: Schedule,
    calls: Vec<ExecutorSlot>,
    tasks: JoinSet<CallReport>,
    running: HashMap<Id, usize>,
    /// Reports of calls that were abandoned before they started.
    unstarted: VecDeque<(usize, CallReport)>,
    around: BatchContext,
    committed: Vec<ContextChange>,
    interrupted: bool,
    /// The call last parsed by [`Executor::push_if_read_only`] and not pushed; saves parsing it again.
    offered: Option<(ToolUse, ParsedCall)>,
    /// Display lines not yet fetched with [`Executor::take_shown`].
    shown: Vec<CallDisplay>,
}

/// A call as it is displayed to users.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallDisplay {
    /// The `tool_use` id.
    pub id: CallId,
    /// The tool's own name, which may differ from the name the model used.
    pub name: String,
    /// One line that says what the call does, in the tool's own wording.
    pub headline: String,
}

struct ExecutorSlot {
    tool_use: ToolUse,
    /// `None` once the call has started.
    parsed: Option<ParsedCall>,
    changes: Vec<ContextChange>,
    pushed: Instant,
}

impl Executor {
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        pool: Arc<Pool>,
        around: BatchContext,
        limits: BatchLimits,
    ) -> Self {
        Self {
            pipeline,
            pool,
            schedule: Schedule::new(limits.concurrency),
            calls: Vec::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            unstarted: VecDeque::new(),
            around,
            committed: Vec::new(),
            interrupted: false,
            offered: None,
            shown: Vec::new(),
        }
    }

    /// Parses a call, adds it, and starts it at once if the schedule allows. The executor parses a call
    /// only once, unless an earlier call of the message changes the working directory.
    pub fn push(&mut self, tool_use: ToolUse) -> CallSummary {
        let pushed = Instant::now();
        let parsed = match self.offered.take() {
            Some((offered, parsed)) if offered == tool_use => parsed,
            _ => self.parsed(&tool_use),
        };
        let outline = parsed.outline();
        self.shown.extend(parsed.shown());
        self.schedule.push(kind(outline));
        self.calls.push(ExecutorSlot { tool_use, parsed: Some(parsed), changes: Vec::new(), pushed });
        self.start_ready();
        outline
    }

    /// Tells the tool `name` that the model is generating a call of it, so that the tool can prepare.
    /// No-op for an unknown name.
    pub fn foresee(&self, name: &str) {
        if let Some(found) = self.pool.find(name) {
            found.tool.foreseen();
        }
    }

    /// Adds a call that may still be revoked (its message is incomplete), but only if it is read-only.
    /// Returns `None` for any other call; push that one when it is final. The parse is reused if the
    /// same call follows.
    pub fn push_if_read_only(&mut self, tool_use: &ToolUse) -> Option<CallSummary> {
        let parsed = self.parsed(tool_use);
        let is_read_only = parsed.outline().is_read_only;
        self.offered = Some((tool_use.clone(), parsed));
        is_read_only.then(|| self.push(tool_use.clone()))
    }

    /// Parses a call that will not be pushed and returns its properties. The call is listed in
    /// [`Executor::take_shown`] nevertheless.
    pub fn outline(&mut self, tool_use: &ToolUse) -> CallSummary {
        let parsed = self.parsed(tool_use);
        self.shown.extend(parsed.shown());
        parsed.outline()
    }

    /// Returns the display lines of the calls added since the last time. Calls that failed to parse have
    /// none.
    pub fn take_shown(&mut self) -> Vec<CallDisplay> {
        std::mem::take(&mut self.shown)
    }

    /// Declares the message complete, which lets calls start that had to wait for it. No call may be
    /// pushed afterwards.
    pub fn close(&mut self) {
        self.schedule.close();
        self.start_ready();
    }

    /// Waits for the next finished call and returns it with its position in the message, in order of
    /// completion. `None` if no call is running; calls may still wait for [`Executor::close`].
    pub async fn next(&mut self) -> Option<(usize, CallReport)> {
        loop {
            if let Some(unstarted) = self.unstarted.pop_front() {
                return Some(unstarted);
            }
            if self.tasks.is_empty() {
                return None;
            }
            let cancel = self.around.cancel.clone();
            tokio::select! {
                biased;
                ended = self.tasks.join_next_with_id() => return self.finish(ended?),
                () = cancel.cancelled(), if !self.interrupted => self.interrupt(),
            }
        }
    }

    /// Closes the executor, waits for all calls and returns the reports not yet taken, in emission
    /// order.
    pub async fn finish_all(&mut self) -> Vec<CallReport> {
        self.close();
        let mut reports = Vec::new();
        while let Some(report) = self.next().await {
            reports.push(report);
        }
        reports.sort_by_key(|(idx, _)| *idx);
        reports.into_iter().map(|(_, report)| report).collect()
    }

    /// Returns the lasting session changes that took effect so far, in emission order.
    pub fn committed(&self) -> &[ContextChange] {
        &self.committed
    }

    /// Returns the directory later calls will run in.
    pub fn cwd(&self) -> &Path {
        &self.around.cwd
    }

    fn finish(
        &mut self,
        ended: Result<(Id, CallReport), tokio::task::JoinError>,
    ) -> Option<(usize, CallReport)> {
        let (id, report) = match ended {
            Ok((id, report)) => (id, Some(report)),
            Err(err) => (err.id(), None),
        };
        let idx = self.running.remove(&id)?;
        let mut report = report.unwrap_or_else(|| lost(&self.calls[idx].tool_use));
        if report.stop.is_some() {
            self.interrupt();
        }
        self.calls[idx].changes = std::mem::take(&mut report.changes);
        report.changes.clone_from(&self.calls[idx].changes);
        self.schedule.finish(idx);
        self.start_ready();
        Some((idx, report))
    }

    /// Abandons every call that has not started; each gets a report that says so.
    fn interrupt(&mut self) {
        self.interrupted = true;
        for idx in self.schedule.abandon() {
            self.unstarted.push_back((idx, not_started(&self.calls[idx].tool_use)));
        }
    }

    fn parsed(&self, tool_use: &ToolUse) -> ParsedCall {
        let mut real = tool_use.clone();
        haft_types::tags::restore_value(&mut real.input);
        if let Some(secrets) = &self.pipeline.secrets
            && let Err(message) = secrets.unmask_input(&mut real.input)
        {
            return ParsedCall::refused(real, message, Arc::clone(&self.around.cwd));
        }
        ParsedCall::parse(&self.pool, real, &self.context(tool_use))
    }

    fn start_ready(&mut self) {
        if self.around.cancel.is_cancelled() && !self.interrupted {
            self.interrupt();
        }
        loop {
            while let Some(idx) = self.schedule.start_next() {
                self.start(idx);
            }
            match self.schedule.commit_next() {
                Some(batch) => batch.for_each(|idx| self.commit(idx)),
                None => return,
            }
        }
    }

    fn start(&mut self, idx: usize) {
        let parsed = self.calls[idx].parsed.take().filter(|call| call.is_for(&self.around.cwd));
        let tool_use = &self.calls[idx].tool_use;
        // Reached when an earlier call of the message changed the working directory: paths must be
        // resolved again.
        let parsed = parsed.unwrap_or_else(|| self.parsed(tool_use));
        let cx = self.context(tool_use);
        let pipeline = Arc::clone(&self.pipeline);
        let queue = self.calls[idx].pushed.elapsed();
        let witness = self.around.witness.clone();
        let task = self.tasks.spawn(async move {
            let mut report = pipeline.run_witnessed(parsed, cx, witness.as_deref()).await;
            report.timing.queue = queue;
            report
        });
        self.running.insert(task.id(), idx);
    }

    fn commit(&mut self, idx: usize) {
        for change in std::mem::take(&mut self.calls[idx].changes) {
            self.pipeline.gate.take_over(&change);
            if let ContextChange::Cwd(dir) = &change {
                self.around.cwd = Arc::from(dir.as_path());
            }
            if change.is_lasting() {
                self.committed.push(change);
            }
        }
    }

    fn context(&self, tool_use: &ToolUse) -> CallContext {
        CallContext {
            call_id: tool_use.id.clone(),
            agent_id: self.around.agent_id.clone(),
            cwd: Arc::clone(&self.around.cwd),
            home: self.around.home.clone(),
            cancel: self.around.cancel.child_token(),
            progress: self.around.progress.clone(),
        }
    }
}

/// Calls that fail to parse, and tools that panic when asked for their properties, report "not safe for
/// concurrency" and therefore run alone.
fn kind(outline: CallSummary) -> ScheduleKind {
    match (outline.is_concurrency_safe, outline.is_read_only) {
        (true, true) => ScheduleKind::Early,
        (true, false) => ScheduleKind::Shared,
        (false, _) => ScheduleKind::Exclusive,
    }
}

fn not_started(tool_use: &ToolUse) -> CallReport {
    let message = format!("The turn was interrupted before {} ran; it had no effect", tool_use.name);
    let error = ToolError::new(ErrorKind::NotStarted, message);
    CallReport::failure(tool_use.id.clone(), tool_use.name.clone(), error)
}

fn lost(tool_use: &ToolUse) -> CallReport {
    let message = format!("{} was stopped; what it did until then is unknown", tool_use.name);
    let error = ToolError::new(ErrorKind::Internal, message);
    CallReport::failure(tool_use.id.clone(), tool_use.name.clone(), error)
}
