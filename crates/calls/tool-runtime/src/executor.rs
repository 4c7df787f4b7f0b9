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

/// What bounds a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// How many calls may overlap.
    pub concurrency: usize,
}

impl BatchLimits {
    /// Ten, or what variables say.
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

/// What every call of a message shares.
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
/// Push each `tool_use` as soon as its block is complete, while the message
/// still streams; take reports with [`Executor::next`]. Dropping the executor
/// stops everything it started.
pub struct Executor {
    pipeline: Arc<Pipeline>,
    pool: Arc<Pool>,
    schedule: Schedule,
    calls: Vec<ExecutorSlot>,
    tasks: JoinSet<CallReport>,
    running: HashMap<Id, usize>,
    /// Reports of calls that will never start.
    unstarted: VecDeque<(usize, CallReport)>,
    around: BatchContext,
    committed: Vec<ContextChange>,
    interrupted: bool,
    /// A call that was parsed and not added yet.
    offered: Option<(ToolUse, ParsedCall)>,
    /// Calls whose headlines nobody has taken.
    shown: Vec<CallDisplay>,
}

/// A call for people: what it does, in the words of its tool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallDisplay {
    /// The `tool_use` id.
    pub id: CallId,
    /// The tool's own name.
    pub name: String,
    /// One line that says what it does.
    pub headline: String,
}

struct ExecutorSlot {
    tool_use: ToolUse,
    /// Until it starts.
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

    /// Adds a call; starts it at once if it may. The call is parsed here, and
    /// only here.
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

    /// A call of this tool is being written: the tool may make itself ready.
    pub fn foresee(&self, name: &str) {
        if let Some(found) = self.pool.find(name) {
            found.tool.foreseen();
        }
    }

    /// Adds a call of which it is not certain yet whether it is made, if it only
    /// looks. One that acts is to be pushed when it is certain.
    pub fn push_if_read_only(&mut self, tool_use: &ToolUse) -> Option<CallSummary> {
        let parsed = self.parsed(tool_use);
        let is_read_only = parsed.outline().is_read_only;
        self.offered = Some((tool_use.clone(), parsed));
        is_read_only.then(|| self.push(tool_use.clone()))
    }

    /// What a call would be that will not be pushed.
    pub fn outline(&mut self, tool_use: &ToolUse) -> CallSummary {
        let parsed = self.parsed(tool_use);
        self.shown.extend(parsed.shown());
        parsed.outline()
    }

    /// Calls that came since the last time, for people. One that its tool did not
    /// accept is not among them.
    pub fn take_shown(&mut self) -> Vec<CallDisplay> {
        std::mem::take(&mut self.shown)
    }

    /// The message is complete: no more calls will come.
    pub fn close(&mut self) {
        self.schedule.close();
        self.start_ready();
    }

    /// The next finished call, in order of completion, with its position in
    /// the message. `None` when nothing runs and nothing can start.
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

    /// Every report, in the order the model made the calls.
    pub async fn finish_all(&mut self) -> Vec<CallReport> {
        self.close();
        let mut reports = Vec::new();
        while let Some(report) = self.next().await {
            reports.push(report);
        }
        reports.sort_by_key(|(idx, _)| *idx);
        reports.into_iter().map(|(_, report)| report).collect()
    }

    /// Session changes that took effect so far, in emission order.
    pub fn committed(&self) -> &[ContextChange] {
        &self.committed
    }

    /// Directory later calls will run in.
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

    /// What has not started never will.
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
        // An earlier call of the message went into another directory.
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

/// Input that does not parse runs alone: it fails in the pipeline anyway. So
/// does a tool whose own questions panic.
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
