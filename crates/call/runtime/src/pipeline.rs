use std::{
    any::Any,
    mem::discriminant,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use haft_hooks::HookEvent;
use haft_tool::{CallContext, ContextChange, DynCall, DynTool, ErrorKind, Output, Permit, ToolError};
use haft_types::{Block, Content, ToolUse};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    Gate, Pool, Report, ResultStore, Timing,
    gate::Hooked,
    hooks::{After, Notes, Subject},
    pool::Found,
    timing::Lap,
};

/// Everything a call passes through. Shared by all calls of a session.
pub struct Pipeline {
    /// Who may object.
    pub gate: Gate,
    /// Where large results go.
    pub results: ResultStore,
    /// How long an interrupted call has to hand back what it has.
    pub grace: Duration,
}

/// How long an interrupted call has to hand back what it has, unless said
/// otherwise. Shorter than a person's patience.
const GRACE: Duration = Duration::from_millis(400);

/// A call that failed, with what goes beside the error.
pub(crate) struct Failure {
    pub(crate) error: ToolError,
    pub(crate) notes: Box<Notes>,
    /// Session changes that hold although the call failed.
    pub(crate) changes: Vec<ContextChange>,
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self { error, notes: Box::default(), changes: Vec::new() }
    }
}

/// A result with what hooks added.
struct Finished {
    output: Output,
    notes: Notes,
}

impl Pipeline {
    /// A pipeline with the usual grace period.
    pub fn new(gate: Gate, results: ResultStore) -> Self {
        Self { gate, results, grace: GRACE }
    }

    /// Runs one call through all stages. Whatever fails, panics, hangs or is
    /// interrupted: the model gets one result it can act on.
    pub async fn run(&self, pool: &Pool, tool_use: ToolUse, cx: CallContext) -> Report {
        let id = tool_use.id.clone();
        let name =
            pool.find(&tool_use.name).map_or_else(|| tool_use.name.clone(), |it| it.tool.name().to_owned());
        let mut timing = Timing::default();
        let stages = AssertUnwindSafe(self.stages(pool, tool_use, cx, &mut timing)).catch_unwind();
        let ended = stages.await.unwrap_or_else(|panic| Err(crashed(&name, panic.as_ref()).into()));
        let (mut report, notes) = match ended {
            Ok(Finished { output, notes }) => (Report::success(id, name, output), notes),
            Err(Failure { error, notes, changes }) => {
                (Report { changes, ..Report::failure(id, name, error) }, *notes)
            }
        };
        report.context.extend(notes.context);
        report.notices = notes.notices;
        report.stop = notes.stop;
        report.denied_by = notes.denied_by;
        tracing::debug!(call = %report.id, tool = report.name, ?timing, error = ?report.error, "the call has ended");
        report.timing = timing;
        report
    }

    /// The eight stages, in order. Read this to know what happens to a call.
    async fn stages(
        &self,
        pool: &Pool,
        tool_use: ToolUse,
        cx: CallContext,
        timing: &mut Timing,
    ) -> Result<Finished, Failure> {
        let mut lap = Lap::start();
        tracing::debug!(call = %tool_use.id, tool = tool_use.name, "a call begins");
        let found = look_up(pool, &tool_use.name)?; //                          1 look up
        let tool = found.tool;
        let asked = found.deferred.then(|| tool_use.input.clone());
        let call = checked(found, tool_use.input, &cx)?; //                     2 check the input
        let taken = asked.and_then(|asked| taken_as(&asked, call.input()));
        let hooked = unless_interrupted(tool, &cx, self.gate.hooked(tool, call, &cx));
        let hooked = hooked.await; //                                           3 pre-hooks
        timing.hooks = lap.next();
        let mut hooked = hooked?;
        let notes = std::mem::take(&mut hooked.notes);
        let observer = self.observer(tool, &hooked, &cx);
        tracing::debug!(call = %tool_use.id, tool = tool.name(), "waits for permission");
        let permitted = unless_interrupted(tool, &cx, self.gate.permitted(tool, hooked, &cx));
        let permitted = permitted.await; //                                     4 permission
        timing.permission = lap.next();
        let (call, permit) = permitted?;
        tracing::debug!(call = %tool_use.id, tool = tool.name(), "runs");
        let ran = self.execute(tool, call, permit, cx).await; //                5 run
        timing.run = lap.next();
        tracing::debug!(call = %tool_use.id, tool = tool.name(), "has run; its result is stored and observed");
        let ran = self.fitted(tool, &tool_use.id, ran).await; //                6 store if large
        let ran = self.observed(observer, ran).await; //                        7 post-hooks
        timing.after = lap.next();
        finished(found, ran, notes, taken) //                                   8 hand back
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
        let mut task = Task(tokio::spawn(call.run(permit, CallContext { cancel: own.clone(), ..cx })));
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
        mut task: Task,
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

    fn observer(&self, tool: &Arc<dyn DynTool>, hooked: &Hooked, cx: &CallContext) -> Option<Observer> {
        let hooks = self.gate.hooks();
        let wanted = hooks.listens(HookEvent::PostToolUse) || hooks.listens(HookEvent::PostToolUseFailure);
        wanted.then(|| Observer {
            tool: Arc::clone(tool),
            input: hooked.call.input().clone(),
            cx: cx.clone(),
            started: Instant::now(),
        })
    }

    /// Stage seven.
    async fn observed(
        &self,
        observer: Option<Observer>,
        ran: Result<Output, ToolError>,
    ) -> (Result<Output, ToolError>, After) {
        let Some(observer) = observer else { return (ran, After::default()) };
        let Observer { tool, input, cx, started } = &observer;
        let subject = Subject { tool: tool.as_ref(), input, cx, mode: self.gate.mode() };
        let after = tokio::select! {
            biased;
            after = self.gate.hooks().after(&subject, &ran, started.elapsed()) => after,
            // Whoever interrupts does not wait for observers.
            () = interrupted_for(&cx.cancel, self.grace) => After::default(),
        };
        (ran, after)
    }
}

/// What post-hooks are told about a call that is gone by then.
struct Observer {
    tool: Arc<dyn DynTool>,
    input: Value,
    cx: CallContext,
    started: Instant,
}

/// Aborts the task when nobody waits for it any more.
struct Task(JoinHandle<Result<Output, ToolError>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn look_up<'a>(pool: &'a Pool, name: &str) -> Result<Found<'a>, ToolError> {
    let Some(found) = pool.find(name) else {
        if let Some(why) = pool.why_absent(name) {
            return Err(ToolError::failed(why));
        }
        let hint = match pool.meant(name).as_slice() {
            [] => String::from("Use only tools from the list you were given"),
            meant => format!("Did you mean {}?", meant.join(" or ")),
        };
        return Err(ToolError::new(ErrorKind::UnknownTool, format!("There is no tool named {name}. {hint}")));
    };
    match found.gone {
        None => Ok(found),
        Some(reason) => {
            let message =
                format!("{name} is temporarily unavailable: {reason}. Go on without it or try again later");
            Err(ToolError::failed(message))
        }
    }
}

/// Stage two. The model may not have seen the schema of a deferred tool, so its
/// error carries it.
fn checked(found: Found<'_>, input: Value, cx: &CallContext) -> Result<Box<dyn DynCall>, Failure> {
    let parsed = Arc::clone(found.tool).parse(input, cx);
    let failed = |mut error: ToolError| {
        let mut failure = Failure::from(ToolError::invalid(""));
        if found.deferred {
            error.message.push_str(&format!("\nIts schema: {}", found.tool.spec().input_schema));
            failure.changes = vec![ContextChange::LoadTools(vec![found.wire_name.to_owned()])];
        }
        Failure { error, ..failure }
    };
    let call = parsed.map_err(failed)?;
    call.validate(cx)?;
    Ok(call)
}

/// What became of values the model wrote as text because it had not seen the
/// schema, so that it writes them right the next time.
fn taken_as(asked: &Value, taken: &Value) -> Option<String> {
    let (asked, taken) = (asked.as_object()?, taken.as_object()?);
    let differ = asked.iter().filter_map(|(key, asked)| {
        let taken = taken.get(key)?;
        (asked.is_string() && !taken.is_string()).then(|| format!("`{key}` was taken as {}", kind_of(taken)))
    });
    let differ: Vec<String> = differ.collect();
    (!differ.is_empty()).then(|| format!("[{}, not as text]", differ.join(", ")))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Stage eight.
fn finished(
    found: Found<'_>,
    (ran, after): (Result<Output, ToolError>, After),
    mut notes: Notes,
    taken: Option<String>,
) -> Result<Finished, Failure> {
    notes.extend(after.notes);
    let objection = after.objection.map(|reason| format!("A hook objected to this result: {reason}"));
    let loaded = found.deferred.then(|| ContextChange::LoadTools(vec![found.wire_name.to_owned()]));
    match ran {
        Ok(mut output) => {
            if let Some(replaced) = after.updated_output.filter(|it| replaces(found, &output.data, it)) {
                let reworded = found.tool.reworded(&replaced);
                output.content = reworded.unwrap_or_else(|| content_of(&replaced));
                output.data = replaced;
            }
            output.content.0.extend(taken.map(Block::text));
            output.content.0.extend(objection.map(Block::text));
            output.changes.extend(loaded);
            Ok(Finished { output, notes })
        }
        Err(mut error) => {
            if let Some(objection) = objection {
                error.message = format!("{}\n{objection}", error.message);
            }
            Err(Failure { error, notes: Box::new(notes), changes: loaded.into_iter().collect() })
        }
    }
}

/// Whether what a hook says can stand for what a tool said: programs rely on the
/// shape of what our tools say. Tools of servers have none.
fn replaces(found: Found<'_>, data: &Value, replaced: &Value) -> bool {
    match (data, replaced) {
        _ if found.tool.name().starts_with("mcp__") => true,
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
    stage: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
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

fn crashed(name: &str, panic: &(dyn Any + Send)) -> ToolError {
    let said = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let said = haft_types::text::one_line(&said, 300);
    let message = format!(
        "{name} crashed ({said}). This is a bug in the tool, not in your input; what it did until then is unknown"
    );
    ToolError::new(ErrorKind::Internal, message)
}
