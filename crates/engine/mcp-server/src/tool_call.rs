//! One call of one client, from the request to the result.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use haft_tool::{BoxFuture, CallContext, CallId, ErrorKind, ProgressEvent, ProgressSink};
use haft_tool_runtime::{CallReport, ParsedCall, wire_name};
use haft_types::{AgentId, ToolUse, text};
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, ServerRequest},
    service::{Peer, PeerRequestOptions},
    task_manager::{TaskContext, TaskExit, TaskOptions},
};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    ToolServer,
    call_clients::{CallClient, CallInFlight, ClientInput, ClientRequest, DeclaredCapabilities},
    call_result,
    caller::{McpCaller, ProtocolEra},
    client_tasks::{TaskCaller, rename},
    input_rounds::{InputRound, to_request},
    stored_results,
};

/// How long a client of the older protocol may take to answer a question.
const ANSWER_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A call that is running: what it reports, what it wishes, what comes of it.
struct RunningToolCall {
    run: BoxFuture<'static, CallReport>,
    wishes: mpsc::UnboundedReceiver<ClientRequest>,
    progress: mpsc::Receiver<ProgressEvent>,
    /// Fires at the latest when nobody drives the call any more.
    cancel: CancellationToken,
    call: CallId,
    /// Whose tasks it may leave running.
    caller: TaskCaller,
    /// Tasks it names, and the names the caller has for them.
    tasks: Vec<(String, String)>,
    _presence: CallInFlight,
}

impl Drop for RunningToolCall {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

enum Step {
    Done(Box<CallReport>),
    Wish(ClientRequest),
    Progress(ProgressEvent),
}

impl RunningToolCall {
    async fn step(&mut self) -> Step {
        tokio::select! {
            biased;
            Some(event) = self.progress.recv() => Step::Progress(event),
            Some(wish) = self.wishes.recv() => Step::Wish(wish),
            report = &mut self.run => Step::Done(Box::new(report)),
        }
    }
}

impl ToolServer {
    pub(super) async fn call(
        &self,
        mut params: CallToolRequestParams,
        mut caller: McpCaller,
    ) -> Result<CallToolResponse, ErrorData> {
        let Ok(_slot) = self.shared.busy.try_acquire() else {
            return Err(ErrorData::internal_error("too many calls at once; try again", None));
        };
        let mut round = match caller.protocol {
            ProtocolEra::Modern => Some(InputRound::open(&self.shared.seal, &params)?),
            ProtocolEra::Legacy => None,
        };
        let task_caller = TaskCaller::new(&self.client, caller.protocol, self.shared.options.several_clients);
        let tasks = self.shared.tasks_of_clients.resolve(params.arguments.as_mut(), &task_caller);
        let tasks =
            tasks.map_err(|task| ErrorData::invalid_params(format!("there is no task {task}"), None))?;
        let mut running = self.start(params, caller.can, task_caller);
        running.tasks = tasks;
        let mut answering = FuturesUnordered::new();
        let patience = caller.can.follow_tasks.then(|| Instant::now() + self.shared.options.task_after);
        loop {
            let step = tokio::select! {
                biased;
                step = running.step() => step,
                Some(()) = answering.next(), if !answering.is_empty() => continue,
                () = caller.withdrawn.cancelled(), if !running.cancel.is_cancelled() => {
                    running.cancel.cancel();
                    continue;
                }
                () = until(patience) => return Ok(self.go_on_as_task(running)),
            };
            match step {
                Step::Done(report) => {
                    return self.finished(*report, &running).map(CallToolResponse::Complete);
                }
                Step::Progress(event) => caller.progress(event).await,
                Step::Wish(ClientRequest::Log { level, data }) => caller.log(&level, data).await,
                Step::Wish(ClientRequest::Inputs { inputs, answers }) => match &mut round {
                    None => answering.push(ask_now(caller.peer.clone(), inputs, answers)),
                    Some(round) => match round.answers(&inputs) {
                        Some(given) => drop(answers.send(given)),
                        None => return round.request(&inputs).map(CallToolResponse::InputRequired),
                    },
                },
            }
        }
    }

    /// Begins to run the call through the pipeline.
    fn start(
        &self,
        params: CallToolRequestParams,
        can: DeclaredCapabilities,
        caller: TaskCaller,
    ) -> RunningToolCall {
        let (client, wishes) = CallClient::new(can);
        let (sink, progress) = ProgressSink::channel();
        let call = next_call_id(&self.client);
        let presence = self.shared.clients.enter(call.clone(), client);
        // Not a child of the request's token: the call may outlive the request as a task.
        let cancel = CancellationToken::new();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let cx = CallContext {
            call_id: call.clone(),
            agent_id: AgentId::from("mcp"),
            cwd: Arc::clone(&state.cwd),
            home: state.home,
            cancel: cancel.clone(),
            progress: sink,
        };
        let input = Value::Object(params.arguments.unwrap_or_default());
        let tool_use = ToolUse { id: call.clone(), name: params.name.into_owned(), input };
        let (pipeline, pool) = (Arc::clone(&self.shared.pipeline), self.shared.pool.get());
        let run = Box::pin(async move { pipeline.run(ParsedCall::parse(&pool, tool_use, &cx), cx).await });
        RunningToolCall {
            run,
            wishes,
            progress,
            cancel,
            call,
            caller,
            tasks: Vec::new(),
            _presence: presence,
        }
    }

    /// What the client gets, and what stays with its session.
    fn finished(
        &self,
        mut report: CallReport,
        running: &RunningToolCall,
    ) -> Result<CallToolResult, ErrorData> {
        if report.error == Some(ErrorKind::UnknownTool) {
            return Err(ErrorData::invalid_params(report.content.to_text(), None));
        }
        self.shared.tasks_of_clients.note(&mut report, &running.caller);
        running.tasks.iter().for_each(|(id, name)| rename(&mut report, id, name));
        report.changes.iter().for_each(|change| self.shared.pipeline.gate.take_over(change));
        self.state.lock().unwrap_or_else(PoisonError::into_inner).apply(&report.changes);
        let listed = self.listed();
        let named = |name: &str| listed.tools.iter().find(|tool| tool.name == name);
        let tool = named(&report.name).or_else(|| named(&wire_name(&report.name)));
        let structured = if tool.is_some_and(|it| it.output_schema.is_some()) {
            call_result::ResultSchema::Declared
        } else {
            call_result::ResultSchema::Undeclared
        };
        let stored =
            stored_results::StoredResult::find(&self.shared.pipeline.results, &running.call, &report.content)
                .or_else(|| stored_results::StoredResult::named_in(report.data.as_ref()?, &self.shared));
        Ok(call_result::result(report, structured, stored))
    }

    /// Lets the call go on without its request; the client looks after it.
    fn go_on_as_task(&self, mut running: RunningToolCall) -> CallToolResponse {
        let server = self.clone();
        let task = self.shared.tasks.spawn(TaskOptions::new().with_poll_interval_ms(500), move |task| {
            Box::pin(async move {
                let cancel = running.cancel.clone();
                loop {
                    let step = tokio::select! {
                        step = running.step() => step,
                        () = task.cancelled(), if !cancel.is_cancelled() => {
                            cancel.cancel();
                            continue;
                        }
                    };
                    match step {
                        Step::Done(report) if report.error == Some(ErrorKind::Interrupted) => {
                            return Err(TaskExit::Cancelled);
                        }
                        // A tool that crashed is the server's failure, not a result.
                        Step::Done(report) if report.error == Some(ErrorKind::Internal) => {
                            let message = report.content.to_text();
                            return Err(TaskExit::Error(ErrorData::internal_error(message, None)));
                        }
                        Step::Done(report) => {
                            return server.finished(*report, &running).map_err(TaskExit::Error);
                        }
                        Step::Progress(event) => {
                            if let Some(message) = event.data["message"].as_str() {
                                task.set_status_message(text::one_line(message, 200));
                            }
                        }
                        Step::Wish(ClientRequest::Log { .. }) => (),
                        Step::Wish(ClientRequest::Inputs { inputs, answers }) => {
                            ask_in_task(&task, inputs, answers)
                        }
                    }
                }
            })
        });
        CallToolResponse::Task(CreateTaskResult::new(task))
    }
}

/// Waits for a moment, or for ever.
pub(super) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Results are stored under it, so it says whose they are and cannot be guessed.
fn next_call_id(client: &str) -> CallId {
    static CALLS: AtomicU64 = AtomicU64::new(1);
    CallId::from(format!("{}{}", stored_results::own_prefix(client), CALLS.fetch_add(1, Ordering::Relaxed)))
}

/// Asks a client of the older protocol, which answers while the call waits.
/// Runs within the request, so that the question goes out on its stream.
async fn ask_now(peer: Peer<RoleServer>, inputs: Vec<ClientInput>, answers: oneshot::Sender<Vec<Value>>) {
    let asked = inputs.iter().map(|input| {
        let peer = &peer;
        async move {
            let request = json!({"method": input.kind.method(), "params": input.params});
            let request: ServerRequest = serde_json::from_value(request).ok()?;
            let options = PeerRequestOptions::with_timeout(ANSWER_LIMIT);
            let handle = peer.send_cancellable_request(request, options).await.ok()?;
            serde_json::to_value(handle.await_response().await.ok()?).ok()
        }
    });
    let given: Option<Vec<Value>> = futures_util::future::join_all(asked).await.into_iter().collect();
    if let Some(given) = given {
        let _ = answers.send(given);
    }
}

/// Asks the client that looks after a task.
fn ask_in_task(task: &TaskContext, inputs: Vec<ClientInput>, answers: oneshot::Sender<Vec<Value>>) {
    let task = task.clone();
    tokio::spawn(async move {
        let asked = inputs.iter().map(|input| {
            let task = &task;
            async move {
                let request = to_request(input).ok()?;
                task.request_input(input.key.clone(), request).await.ok()
            }
        });
        let given: Option<Vec<Value>> = futures_util::future::join_all(asked).await.into_iter().collect();
        if let Some(given) = given {
            let _ = answers.send(given);
        }
    });
}
