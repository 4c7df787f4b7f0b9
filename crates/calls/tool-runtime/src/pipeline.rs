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

/// Everything a call passes through. Shared by all calls of a session.
pub struct Pipeline {
    /// Who may object.
    pub gate: Arc<Gate>,
    /// Where large results go.
    pub results: ResultStore,
    /// How long an interrupted call has to hand back what it has.
    pub grace: Duration,
    /// Who keeps secrets from whoever reads results, if anybody does.
    pub secrets: Option<Arc<dyn SecretMask>>,
}

/// Keeps secrets out of results. A call may name what was kept from its maker.
pub trait SecretMask: Send + Sync {
    /// Replaces the secrets in what a call that touches `reach` returned, before it
    /// is stored or shown.
    fn mask_result(&self, reach: &AccessSet, content: &mut Content);

    /// Puts secrets back into the input of a call. The error says to the model what
    /// to do.
    fn unmask_input(&self, input: &mut Value) -> Result<(), String>;
}

/// How long an interrupted call has to hand back what it has, unless said
/// otherwise. Shorter than a person's patience.
const GRACE: Duration = Duration::from_millis(400);

/// A call that failed, with what goes beside the error.
pub(crate) struct CallStageError {
    pub(crate) error: ToolError,
    pub(crate) notes: Box<HookNotes>,
    /// Session changes that hold although the call failed.
    pub(crate) changes: Vec<ContextChange>,
}

impl From<ToolError> for CallStageError {
    fn from(error: ToolError) -> Self {
        Self { error, notes: Box::default(), changes: Vec::new() }
    }
}

/// Who is told of a call before it runs, and what is known about it afterwards.
struct CallRecord<'a> {
    witness: Option<&'a dyn CallLog>,
    timing: CallTiming,
    decision: Option<Box<CallDecision>>,
}

impl CallRecord<'_> {
    /// A call that may act is written down first. One that was interrupted
    /// meanwhile is not: it does not run.
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
    /// A pipeline with the usual grace period.
    pub fn new(gate: impl Into<Arc<Gate>>, results: ResultStore) -> Self {
        Self { gate: gate.into(), results, grace: GRACE, secrets: None }
    }

    /// The pipeline of an agent that this one's agent starts: see
    /// [`Gate::child`]. Large results go to the same store.
    pub fn child(&self, rights: AgentRights) -> Self {
        let gate = Arc::new(self.gate.child(rights));
        Self { gate, results: self.results.clone(), grace: self.grace, secrets: self.secrets.clone() }
    }

    /// Runs one call through all stages. Whatever fails, panics, hangs or is
    /// interrupted: the model gets one result it can act on.
    pub async fn run(&self, parsed: ParsedCall, cx: CallContext) -> CallReport {
        self.run_witnessed(parsed, cx, None).await
    }

    /// The same; a call that may act is written down before it runs, or does
    /// not run.
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

    /// The eight stages, in order. Read this to know what happens to a call. The
    /// first is over when a [`ParsedCall`] is there.
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
        let hooked = unless_interrupted(tool, &cx, self.gate.hooked(tool, call, &cx));
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
        // Whoever approved the call may have changed it: observers hear of what runs.
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

    /// Stage five. The tool runs as a task of its own: one that blocks its
    /// thread cannot keep us from answering in time.
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
        // Most calls are done by the time it is our turn again; no clock is set for those.
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

    /// Gives a cancelled call its grace period. What it hands back is part of
    /// the truth about the interruption, never a success.
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

    /// Stage six.
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

    /// Stage seven.
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
            // Whoever interrupts does not wait for observers.
            () = interrupted_for(&cx.cancel, self.grace) => PostToolOutcome::default(),
        };
        if let (Ok(output), Some(left)) = (&mut ran, left) {
            output.content.0.extend(left.rewritten().await.map(Block::text));
        }
        (ran, after)
    }
}

/// A result without the secrets in it.
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

/// What post-hooks are told about a call that is gone by then.
struct CallObserver {
    tool: Arc<dyn DynTool>,
    input: Value,
    about: RuleMatches,
    cx: CallContext,
    started: Instant,
}

/// The events after a call.
const AFTER: [HookEvent; 2] = [HookEvent::PostToolUse, HookEvent::PostToolUseFailure];

/// Aborts the task when nobody waits for it any more.
struct CallTask(JoinHandle<Result<Output, ToolError>>);

impl Drop for CallTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Stage eight.
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

/// Whether what a hook says can stand for what a tool said: programs rely on the
/// shape of what our tools say. Tools of servers have none.
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

/// What the model reads of a result that somebody made.
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

/// Hooks and questions end when the turn does.
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

/// Lets what is ready to run go first, once.
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
