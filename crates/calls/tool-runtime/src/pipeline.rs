use std::{
    any::Any,
    mem::discriminant,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use haft_hooks::HookEvent;
use haft_permission::AgentRights;
use haft_tool::{
    AccessSet, CallContext, ContextChange, DynCall, DynTool, ErrorKind, Output, Permit, ToolError,
};
use haft_types::{Block, Content};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    CallDecision, CallLog, CallReport, CallStart, CallTiming, Gate, ParsedCall, ResultStore,
    hook_rewrites::WrittenFiles,
    parsed_call::{CalledTool, ToolCall},
    session_hooks::{HookNotes, PostToolOutcome, RuleMatches},
    timing::StageTimer,
};

/// The stages every call goes through. One pipeline is shared by all calls of an agent.
pub struct Pipeline {
    /// Hooks, permissions and approver.
    pub gate: Arc<Gate>,
    /// Stores results that are too large for the context window.
    pub results: ResultStore,
    /// How long an interrupted or timed-out call may take to return partial output. Default 400 ms.
    pub grace: Duration,
    /// Masks secrets in results; `None` masks nothing.
    pub secrets: Option<Arc<dyn SecretMask>>,
}

/// Masks secrets in results. The model may use a mask in later calls; it is replaced by the secret
/// again.
pub trait SecretMask: Send + Sync {
    /// Replaces the secrets in the result of a call that accessed `reach`. Called before the result is
    /// stored or shown.
    fn mask_result(&self, reach: &AccessSet, content: &mut Content);

    /// Replaces masks in the input of a call by the secrets. An error rejects the call; its text is read
    /// by the model and says what to do.
    fn unmask_input(&self, input: &mut Value) -> Result<(), String>;
}

/// Default grace period of an interrupted call. Short enough that the user does not notice it.
const GRACE: Duration = Duration::from_millis(400);

/// A failure at any stage, with the hook notes and session changes to report with it.
pub(crate) struct CallStageError {
    pub(crate) error: ToolError,
    pub(crate) notes: Box<HookNotes>,
    /// Session changes that apply although the call failed.
    pub(crate) changes: Vec<ContextChange>,
}

impl From<ToolError> for CallStageError {
    fn from(error: ToolError) -> Self {
        Self { error, notes: Box::default(), changes: Vec::new() }
    }
}

/// The call log to write to, and what the report says about timing and permission.
struct CallRecord<'a> {
    witness: Option<&'a dyn CallLog>,
    timing: CallTiming,
    decision: Option<Box<CallDecision>>,
}

impl CallRecord<'_> {
    /// Writes the call to the log if it may change something, and waits until the record is durable.
    /// Skips calls that are already cancelled, which do not run.
    async fn starting(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
    ) -> Result<(), ToolError> {
        let Some(witness) = self.witness.filter(|_| !call.is_read_only() && !cx.cancel.is_cancelled()) else {
            return Ok(());
        };
        let starting = CallStart {
            call_id: &cx.call_id,
            agent_id: &cx.agent_id,
            tool: tool.name(),
            input: call.input(),
            decision: self.decision.as_deref(),
        };
        let refused = |why| ToolError::new(ErrorKind::NotStarted, why);
        match witness.starting(&starting).map_err(refused)? {
            None => Ok(()),
            Some(kept) => tokio::select! {
                biased;
                kept = kept => kept.map_err(refused),
                () = cx.cancel.cancelled() => Err(interrupted_before(tool.name())),
            },
        }
    }
}

impl Pipeline {
    /// Creates a pipeline with the default grace period and without secret masking.
    pub fn new(gate: impl Into<Arc<Gate>>, results: ResultStore) -> Self {
        Self { gate: gate.into(), results, grace: GRACE, secrets: None }
    }

    /// Creates the pipeline of a sub-agent: a child gate (see [`Gate::child`]), the same result store
    /// and secrets.
    pub fn child(&self, rights: AgentRights) -> Self {
        let gate = Arc::new(self.gate.child(rights));
        Self { gate, results: self.results.clone(), grace: self.grace, secrets: self.secrets.clone() }
    }

    /// Runs a call through all stages. Always returns one report, also if a stage fails, panics, hangs
    /// or is interrupted. Writes no call log.
    pub async fn run(&self, parsed: ParsedCall, cx: CallContext) -> CallReport {
        self.run_witnessed(parsed, cx, None).await
    }

    /// Like [`Pipeline::run`], but records a call that may change something in `witness` before it runs.
    /// If that fails, the call does not run.
    pub async fn run_witnessed(
        &self,
        parsed: ParsedCall,
        cx: CallContext,
        witness: Option<&dyn CallLog>,
    ) -> CallReport {
        let ParsedCall { id, name, outcome, .. } = parsed;
        let mut trace = CallRecord { witness, timing: CallTiming::default(), decision: None };
        let stages = AssertUnwindSafe(self.stages(outcome, cx, &mut trace)).catch_unwind();
        let ended = stages.await.unwrap_or_else(|panic| Err(crashed(&name, panic.as_ref()).into()));
        let (mut report, notes) = match ended {
            Ok((output, notes)) => (CallReport::success(id, name, output), notes),
            Err(CallStageError { error, notes, changes }) => {
                (CallReport { changes, ..CallReport::failure(id, name, error) }, *notes)
            }
        };
        report.context.extend(notes.context);
        report.notices = notes.notices;
        report.stop = notes.stop;
        report.left_for_later = notes.left_for_later;
        report.denied_by = notes.denied_by;
        let (timing, error) = (&trace.timing, &report.error);
        tracing::debug!(call = %report.id, tool = report.name, ?timing, ?error, "the call has ended");
        report.timing = trace.timing;
        report.decision = trace.decision;
        report
    }

    /// The eight stages, in order; start reading here to see what happens to a call. Stage one is
    /// complete once a [`ParsedCall`] exists.
    async fn stages(
        &self,
        parsed: Result<ToolCall, CallStageError>,
        cx: CallContext,
        trace: &mut CallRecord<'_>,
    ) -> Result<(Output, HookNotes), CallStageError> {
        let mut lap = StageTimer::start();
        let ToolCall { tool: called, call, taken } = parsed?; //                1 look up
        let tool = &called.tool;
        tracing::debug!(call = %cx.call_id, tool = tool.name(), "a call begins");
        call.validate(&cx)?; //                                                 2 check the input
        let hooked = unless_interrupted(tool, &cx, self.gate.run_pre_hooks(tool, call, &cx));
        let hooked = hooked.await; //                                           3 pre-hooks
        trace.timing.hooks = lap.next();
        let mut hooked = hooked?;
        let notes = std::mem::take(&mut hooked.notes);
        let id = cx.call_id.clone();
        tracing::debug!(call = %id, tool = tool.name(), "waits for permission");
        let permitted =
            unless_interrupted(tool, &cx, self.gate.permitted(tool, hooked, &cx, &mut trace.decision));
        let permitted = permitted.await; //                                     4 permission
        trace.timing.permission = lap.next();
        let (call, permit) = permitted?;
        // An approver may have changed the call; post-tool hooks get the input that runs.
        let observer = self.observer(tool, call.as_ref(), &cx);
        let hides = self.secrets.as_ref().map(|secrets| (Arc::clone(secrets), call.reach(&cx)));
        trace.starting(tool, call.as_ref(), &cx).await?; //                     written down, if it may act
        tracing::debug!(call = %id, tool = tool.name(), "runs");
        let ran = self.execute(tool, call, permit, cx).await; //                5 run
        let ran = masked(hides, ran);
        trace.timing.run = lap.next();
        tracing::debug!(call = %id, tool = tool.name(), "has run; its result is stored and observed");
        let ran = self.fitted(tool, &id, ran).await; //                         6 store if large
        let ran = self.observed(observer, ran).await; //                        7 post-hooks
        trace.timing.after = lap.next();
        finished(&called, ran, notes, taken) //                                 8 hand back
    }

    /// Stage five: runs the tool in a task of its own, so that a tool that blocks its thread cannot
    /// delay the answer to an interrupt or a timeout.
    async fn execute(
        &self,
        tool: &Arc<dyn DynTool>,
        call: Box<dyn DynCall>,
        permit: Permit,
        cx: CallContext,
    ) -> Result<Output, ToolError> {
        let turn = cx.cancel.clone();
        if turn.is_cancelled() {
            return Err(interrupted_before(tool.name()));
        }
        let own = turn.child_token();
        let timeout = tool.spec().timeout;
        let mut task = CallTask(tokio::spawn(call.run(permit, CallContext { cancel: own.clone(), ..cx })));
        // Most calls finish before this task is polled again, so they never need a timer.
        give_way().await;
        tokio::select! {
            biased;
            ended = &mut task.0 => joined(tool.name(), ended),
            () = turn.cancelled() => {
                let why = format!("{} was interrupted while it ran", tool.name());
                self.cut_short(tool, task, ErrorKind::Interrupted, why).await
            }
            () = expired(timeout) => {
                own.cancel();
                let why = format!("{} took longer than {:?} and was stopped", tool.name(), timeout.unwrap_or_default());
                self.cut_short(tool, task, ErrorKind::TimedOut, why).await
            }
        }
    }

    /// Waits the grace period for a cancelled call. Output it still returns becomes part of the error;
    /// the call never counts as successful.
    async fn cut_short(
        &self,
        tool: &Arc<dyn DynTool>,
        mut task: CallTask,
        kind: ErrorKind,
        why: String,
    ) -> Result<Output, ToolError> {
        match tokio::time::timeout(self.grace, &mut task.0).await {
            Ok(ended) => match joined(tool.name(), ended) {
                Ok(partial) => {
                    let text = partial.content.to_text();
                    let message = format!("{why}. Until then it returned:\n{text}");
                    Err(ToolError::new(kind, message).with_data(partial.data))
                }
                Err(err) => {
                    Err(ToolError { kind, message: format!("{why}: {}", err.message), data: err.data })
                }
            },
            Err(_) => {
                let message = format!("{why}; what it did until then is unknown. Check before you repeat it");
                Err(ToolError::new(kind, message))
            }
        }
    }

    /// Stage six: stores the result if it exceeds the tool's `max_result_chars`.
    async fn fitted(
        &self,
        tool: &Arc<dyn DynTool>,
        id: &str,
        ran: Result<Output, ToolError>,
    ) -> Result<Output, ToolError> {
        let limit = tool.spec().max_result_chars;
        match ran {
            Ok(mut output) => {
                output.content = self.results.fit(id, output.content, limit).await;
                Ok(output)
            }
            Err(mut error) => {
                error.message = self.results.fit(id, error.message.into(), limit).await.to_text();
                Err(error)
            }
        }
    }

    fn observer(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
    ) -> Option<CallObserver> {
        let wanted = AFTER.iter().any(|event| self.gate.hooks().listens(*event));
        wanted.then(|| CallObserver {
            tool: Arc::clone(tool),
            input: call.input().clone(),
            about: self.gate.subject(tool.as_ref(), call, cx).answers(&self.gate.hooks().get(), &AFTER),
            cx: cx.clone(),
            started: Instant::now(),
        })
    }

    /// Stage seven: runs the post-tool hooks, and notes files they changed.
    async fn observed(
        &self,
        observer: Option<CallObserver>,
        mut ran: Result<Output, ToolError>,
    ) -> (Result<Output, ToolError>, PostToolOutcome) {
        let Some(observer) = observer else { return (ran, PostToolOutcome::default()) };
        let left = match &ran {
            Ok(output) => WrittenFiles::from_output(output).await,
            Err(_) => None,
        };
        let CallObserver { tool, input, about, cx, started } = &observer;
        let subject = self.gate.past_subject(tool.as_ref(), input, about, cx);
        let after = tokio::select! {
            biased;
            after = self.gate.hooks().after(&subject, &ran, started.elapsed()) => after,
            // After an interrupt, hooks get only the grace period.
            () = interrupted_for(&cx.cancel, self.grace) => PostToolOutcome::default(),
        };
        if let (Ok(output), Some(left)) = (&mut ran, left) {
            output.content.0.extend(left.rewritten().await.map(Block::text));
        }
        (ran, after)
    }
}

/// Returns the result with its secrets masked.
fn masked(
    hides: Option<(Arc<dyn SecretMask>, AccessSet)>,
    ran: Result<Output, ToolError>,
) -> Result<Output, ToolError> {
    let Some((secrets, reach)) = hides else { return ran };
    match ran {
        Ok(mut output) => {
            secrets.mask_result(&reach, &mut output.content);
            Ok(output)
        }
        Err(mut error) => {
            let mut content = Content::text(std::mem::take(&mut error.message));
            secrets.mask_result(&reach, &mut content);
            error.message = content.to_text();
            Err(error)
        }
    }
}

/// What post-tool hooks need to know about a call. Copied beforehand because running consumes the call.
struct CallObserver {
    tool: Arc<dyn DynTool>,
    input: Value,
    about: RuleMatches,
    cx: CallContext,
    started: Instant,
}

/// The hook events of stage seven.
const AFTER: [HookEvent; 2] = [HookEvent::PostToolUse, HookEvent::PostToolUseFailure];

/// Aborts the task on drop.
struct CallTask(JoinHandle<Result<Output, ToolError>>);

impl Drop for CallTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Stage eight: merges the tool's result with what the hooks added.
fn finished(
    called: &CalledTool,
    (ran, after): (Result<Output, ToolError>, PostToolOutcome),
    mut notes: HookNotes,
    taken: Option<String>,
) -> Result<(Output, HookNotes), CallStageError> {
    notes.extend(after.notes);
    let objection = after.objection.map(|reason| format!("A hook objected to this result: {reason}"));
    let loaded = called.deferred.then(|| ContextChange::LoadTools(vec![called.wire_name.clone()]));
    match ran {
        Ok(mut output) => {
            if let Some(replaced) = after.updated_output.filter(|it| replaces(called, &output.data, it)) {
                let reworded = called.tool.reworded(&replaced);
                output.content = reworded.unwrap_or_else(|| content_of(&replaced));
                output.data = replaced;
            }
            output.content.0.extend(taken.map(Block::text));
            output.content.0.extend(objection.map(Block::text));
            output.changes.extend(loaded);
            Ok((output, notes))
        }
        Err(mut error) => {
            if let Some(objection) = objection {
                error.message = format!("{}\n{objection}", error.message);
            }
            Err(CallStageError { error, notes: Box::new(notes), changes: loaded.into_iter().collect() })
        }
    }
}

/// Whether a hook's output may replace the tool's: it must have the same JSON shape, which programs rely
/// on. MCP tools have no fixed shape, so anything may replace their output.
fn replaces(called: &CalledTool, data: &Value, replaced: &Value) -> bool {
    match (data, replaced) {
        _ if called.tool.name().starts_with("mcp__") => true,
        (Value::Object(data), Value::Object(replaced)) => {
            let mut common =
                data.iter().filter_map(|(key, value)| Some((value, replaced.get(key)?))).peekable();
            common.peek().is_some() && common.all(|(a, b)| discriminant(a) == discriminant(b))
        }
        (Value::Null, _) => true,
        (data, replaced) => discriminant(data) == discriminant(replaced),
    }
}

/// Converts a result written by a hook to content for the model: MCP content blocks if it has them, else
/// its text.
fn content_of(data: &Value) -> Content {
    let block = |it: &Value| match (it["type"].as_str(), it["data"].as_str(), it["mimeType"].as_str()) {
        (Some("text"), ..) => it["text"].as_str().map(Block::text),
        (Some("image"), Some(data), Some(kind)) => Some(Block::image(kind, data)),
        _ => None,
    };
    let blocks = data.as_array().or_else(|| data["content"].as_array());
    let blocks = blocks.and_then(|all| all.iter().map(block).collect::<Option<Vec<_>>>());
    match (blocks, data) {
        (Some(blocks), _) => Content(blocks),
        (None, Value::String(text)) => text.as_str().into(),
        (None, other) => other.to_string().into(),
    }
}

/// Runs a stage until it ends or the turn is interrupted.
async fn unless_interrupted<T>(
    tool: &Arc<dyn DynTool>,
    cx: &CallContext,
    stage: impl Future<Output = Result<T, CallStageError>>,
) -> Result<T, CallStageError> {
    tokio::select! {
        biased;
        ended = stage => ended,
        () = cx.cancel.cancelled() => Err(interrupted_before(tool.name()).into()),
    }
}

async fn interrupted_for(cancel: &CancellationToken, grace: Duration) {
    cancel.cancelled().await;
    tokio::time::sleep(grace).await;
}

/// Yields to other ready tasks once.
async fn give_way() {
    let mut gave = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut gave, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

async fn expired(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

fn joined(
    name: &str,
    ended: Result<Result<Output, ToolError>, tokio::task::JoinError>,
) -> Result<Output, ToolError> {
    match ended {
        Ok(result) => result,
        Err(err) => match err.try_into_panic() {
            Ok(panic) => Err(crashed(name, panic.as_ref())),
            Err(_) => Err(ToolError::new(ErrorKind::Interrupted, format!("{name} was stopped"))),
        },
    }
}

fn interrupted_before(name: &str) -> ToolError {
    let message = format!("The turn was interrupted before {name} ran; it had no effect");
    ToolError::new(ErrorKind::NotStarted, message)
}

pub(crate) fn crashed(name: &str, panic: &(dyn Any + Send)) -> ToolError {
    let said = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let said = haft_types::text::one_line(&said, 300);
    let message = format!(
        "{name} crashed ({said}). This is a bug in the tool, not in your input; what it did until then is unknown"
    );
    ToolError::new(ErrorKind::Internal, message)
}
