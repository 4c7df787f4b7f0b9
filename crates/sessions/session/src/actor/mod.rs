//! The actor: the single task that owns a session. It processes commands, turns, background events and
//! the close.

mod change_settings;
mod client_parts;
mod close;
mod end_turn;
mod extensions;
mod file_commands;
mod prompts;
mod running;
mod typed_commands;

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_agent::{AgentCommands, AgentInbox, UserInput};
use haft_config::LoadedSettings;
use haft_hooks::{Hooks, SessionSource};
use haft_model::Catalog;
use haft_tool::DynTool;
use haft_tool_runtime::{CallReport, CallSession, Pipeline};
use haft_types::{SessionId, ToolUse};
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant as Moment};
use tokio_util::sync::CancellationToken;

use self::running::{FinishedWork, RunningWork, ServerReadyPhase};
use crate::{
    AgentDefinition, CloseMode, Command, EventSender, HostAgent, LogStart, OpenError, PluginDir, Prompt,
    Reply, SessionEventKind, SessionSpec,
    agents::{StoppedBy, SubagentRegistry},
    background_tasks::patience,
    build::{BuiltSession, ReadOnlyTools, SessionRunner},
    context_usage::ContextUsage,
    environment::SessionEnvironment,
    extensions::{ActiveSkills, Extensions, ModelIs, fingerprint},
    mcp_servers::{ServerTools, SessionServers},
    questions::{QuestionRegistry, QuestionedCalls},
    session_logs::SessionLogs,
    turn_observer::TurnObserver,
};

/// The state of a session and the task that owns it.
pub(crate) struct SessionActor {
    spec: SessionSpec,
    events: EventSender,
    commands: mpsc::UnboundedReceiver<Command>,
    premises: Arc<SessionEnvironment>,
    /// The settings that were applied last.
    loaded: Arc<LoadedSettings>,
    logs: SessionLogs,
    /// The current session id; `/clear` changes it.
    session_id: SessionId,
    pipeline: Arc<Pipeline>,
    servers: Arc<SessionServers>,
    server_tools: ServerTools,
    server_turn: ServerReadyPhase,
    /// Whether the MCP servers were started.
    servers_begun: bool,
    extensions: Extensions,
    skills: Arc<ActiveSkills>,
    /// Fingerprint of the extension files when they were last read.
    extension_files: u64,
    /// First prompt of the main agent's definition; sent before the first prompt of the user.
    initial_prompt: Option<String>,
    agents: Arc<SubagentRegistry>,
    plugins: Vec<PluginDir>,
    /// Agent definitions of the host.
    host_agents: Vec<(String, HostAgent)>,
    /// Names of the skills the host wants; `None` for all.
    wanted_skills: Option<Vec<String>>,
    desk: Arc<QuestionRegistry>,
    asked: Arc<QuestionedCalls>,
    watch: Arc<TurnObserver>,
    own_hooks: Hooks,
    processes: Arc<haft_process::ProcessOwner>,
    seat: RunnerState,
    /// Input and control of the agent while a turn runs; `None` in a session without a model.
    reach: Option<RunningAgentHandle>,
    /// Changes of the agent that are applied when the running turn ends.
    later: Vec<DeferredChange>,
    queue: VecDeque<Prompt>,
    /// Batches of calls that wait for the running batch, in a session without a model.
    waiting_calls: VecDeque<QueuedCalls>,
    left_for_later: DeferredCalls,
    readers: Option<ReadOnlyTools>,
    files: Option<Arc<haft_workspace::SessionFiles>>,
    lsp: Option<Arc<haft_builtin_tools::lsp::LspServers>>,
    catalog: Arc<Catalog>,
    key_source: String,
    first_model: String,
    /// Context usage when the running turn started.
    snapshot: Option<ContextUsage>,
    /// How the session started; taken when the SessionStart hooks run.
    begins: Option<SessionSource>,
    /// Number of turns that have ended.
    results: usize,
    /// Names of prompts added without an answer that were not reported as completed yet.
    appended: Vec<Option<String>>,
    /// Number of prompts added without an answer that were reported.
    unanswered: usize,
    api_ms: u64,
    opened: Instant,
    finishing: bool,
    /// Until when the next prompt waits for the reports of stopped agents.
    stopping_until: Option<Moment>,
    /// Whether that wait timed out.
    stopping_given_up: bool,
    /// Whether the session closes after the running turn.
    ending: bool,
    processes_ended: bool,
}

/// The agent (or call session), and whether it is running.
enum RunnerState {
    /// Nothing runs.
    Idle(SessionRunner),
    /// A turn or a batch of calls runs in its own task.
    Working(RunningWork),
    /// The task that owned the agent crashed.
    Broken,
}

/// Channels to an agent that is running.
struct RunningAgentHandle {
    inbox: AgentInbox,
    orders: AgentCommands,
}

/// A change of the agent that must wait until no turn runs.
enum DeferredChange {
    /// Adds input without asking for an answer.
    Overhear(UserInput),
    /// Names the session.
    Name(String),
    /// Installs a tool under its name, or with `None` removes it.
    Tool(&'static str, Option<Arc<dyn DynTool>>),
    /// Changes the system prompt and the output schema.
    Prompt { system: Option<String>, append: Option<String>, schema: Option<Value> },
    /// Uses another agent definition.
    Become(Arc<AgentDefinition>),
    /// Uses another output style.
    Style(Option<haft_agent::OutputStyle>),
}

/// The calls of one message, the token that cancels them, and the destination of their reports.
type QueuedCalls = (Vec<ToolUse>, CancellationToken, Reply<Vec<CallReport>>);

/// State of calls that a resumed session still has to run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DeferredCalls {
    /// There are none, or they have been started.
    Nothing,
    /// There are some, but the host has not sent its parts yet.
    Waiting,
    /// They can be started.
    Ready,
    /// The unfinished turn at the end of the log is continued, whether or not calls are open.
    GoesOn,
}

/// How often settings and extension files are checked for changes while a turn runs.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time the next prompt waits for the reports of stopped agents; only an agent that hangs takes
/// that long.
const STOPPING: Duration = Duration::from_secs(10);

impl BuiltSession {
    /// Path of the current log; `None` if no log is written.
    pub(crate) fn log_path(&self) -> Option<PathBuf> {
        match &self.seat {
            SessionRunner::Agent(agent) => agent.conversation.log_path().map(std::path::Path::to_owned),
            SessionRunner::Calls(_) => None,
        }
    }
}

impl SessionActor {
    pub(crate) fn new(
        spec: SessionSpec,
        assembly: BuiltSession,
        events: EventSender,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        let calls = assembly.seat.calls();
        let (reach, first_model, left_for_later) = match &assembly.seat {
            SessionRunner::Agent(agent) => (
                Some(RunningAgentHandle { inbox: agent.inbox.clone(), orders: agent.orders.clone() }),
                agent.settings.model.clone(),
                if agent.deferred_calls().is_empty() {
                    DeferredCalls::Nothing
                } else {
                    DeferredCalls::Waiting
                },
            ),
            SessionRunner::Calls(_) => (None, String::new(), DeferredCalls::Nothing),
        };
        let begins = match (&spec.log.start, spec.log.fork) {
            (LogStart::New, _) => SessionSource::Startup,
            (_, false) => SessionSource::Resume,
            (_, true) => SessionSource::Fork,
        };
        let mut owner = Self {
            loaded: assembly.premises.loaded(),
            session_id: assembly.premises.session_id.clone(),
            pipeline: Arc::clone(&calls.pipeline),
            server_tools: ServerTools::new(&assembly.servers, calls),
            server_turn: ServerReadyPhase::First,
            servers_begun: false,
            plugins: spec.extensions.plugins.clone(),
            premises: assembly.premises,
            logs: assembly.logs,
            servers: assembly.servers,
            extensions: assembly.extensions,
            skills: assembly.skills,
            extension_files: 0,
            initial_prompt: None,
            agents: assembly.agents,
            host_agents: spec.extensions.agents.clone(),
            wanted_skills: None,
            desk: assembly.desk,
            asked: assembly.asked,
            watch: assembly.watch,
            own_hooks: assembly.own_hooks,
            processes: assembly.processes,
            seat: RunnerState::Idle(assembly.seat),
            reach,
            later: Vec::new(),
            queue: VecDeque::new(),
            waiting_calls: VecDeque::new(),
            left_for_later,
            readers: assembly.services.as_ref().map(|it| it.readers.clone()),
            files: assembly.services.as_ref().map(|it| Arc::clone(&it.files)),
            lsp: assembly.services.as_ref().map(|it| Arc::clone(&it.lsp)),
            catalog: assembly.catalog,
            key_source: assembly.key_source,
            first_model,
            snapshot: None,
            begins: Some(begins),
            results: 0,
            appended: Vec::new(),
            unanswered: 0,
            api_ms: 0,
            opened: Instant::now(),
            finishing: false,
            stopping_until: None,
            stopping_given_up: false,
            ending: false,
            processes_ended: false,
            spec,
            events,
            commands,
        };
        owner.extension_files = fingerprint(&owner.premises);
        owner.install_skills();
        owner.apply_named_agent();
        owner
    }

    /// Runs the session until it is closed. Emits [`SessionEventKind::Closed`] last.
    pub(crate) async fn run(mut self) {
        let how = self.work().await;
        self.close(how).await;
        let events = self.events.clone();
        // Releases everything first, so that a session opened again from the same log finds no locks.
        // The tool search tool refers to the pool that contains it, a cycle broken here.
        self.skills.close();
        if let Some(calls) = calls_of(&self.seat) {
            calls.pool.set(haft_tool_runtime::Pool::assemble(Vec::new(), Vec::new()));
        }
        drop(self);
        events.tell(SessionEventKind::Closed);
    }

    async fn work(&mut self) -> CloseMode {
        let patience = patience(&self.premises);
        let mut waits_until: Option<Moment> = None;
        let mut told_waiting = false;
        loop {
            self.start_next();
            let is_working = matches!(self.seat, RunnerState::Working(_));
            if self.ending && !is_working {
                return CloseMode::AtOnce;
            }
            let is_done =
                self.finishing && !is_working && self.queue.is_empty() && self.waiting_calls.is_empty();
            if is_done && !self.is_busy() {
                return CloseMode::Orderly;
            }
            // Only background commands are left: wait for them, up to the limit.
            if !is_done {
                waits_until = None;
            } else if waits_until.is_none() {
                waits_until = patience.map(|it| Moment::now() + it);
                if !told_waiting {
                    told_waiting = true;
                    self.watch.background.tell_waiting(patience);
                }
            }
            tokio::select! {
                biased;
                command = self.commands.recv(), if !self.finishing || is_working || !self.commands.is_closed() => {
                    match command {
                        None => {
                            if self.finishing && (is_working || self.is_busy()) {
                                // No command can arrive any more, but work is still running.
                                self.drain(waits_until).await;
                                continue;
                            }
                            return CloseMode::Orderly;
                        }
                        Some(Command::Close(how)) => return how,
                        Some(command) => self.obey(command),
                    }
                }
                () = at(waits_until) => return CloseMode::Orderly,
                () = at(self.stopping_until) => {
                    self.stopping_until = None;
                    self.stopping_given_up = true;
                }
                () = self.watch.background.news() => self.on_background_change(),
                () = self.agents.news() => self.on_agents_change(),
                () = tokio::time::sleep(SETTINGS_INTERVAL), if is_working => {
                    self.follow_settings();
                    self.follow_extensions();
                }
                ended = ended(&mut self.seat) => if self.finish(ended).is_err() {
                    return CloseMode::AtOnce;
                },
            }
        }
    }

    /// Waits until running work ends, background work reports something, or `until` has passed. Used
    /// once the command channel is closed.
    async fn drain(&mut self, until: Option<Moment>) {
        tokio::select! {
            biased;
            () = at(until) => (),
            () = self.watch.background.news() => self.on_background_change(),
            () = self.agents.news() => self.on_agents_change(),
            ended = ended(&mut self.seat) => drop(self.finish(ended)),
        }
    }

    /// Processes a command. Commands that take longer reply later, from a background task.
    fn obey(&mut self, command: Command) {
        let events = self.events.clone();
        match command {
            Command::Prompt(prompt) => self.enqueue_prompt(*prompt),
            Command::GoOn => self.left_for_later = DeferredCalls::GoesOn,
            Command::Interrupt { cancel_queued, reply } => {
                let interrupted = self.interrupt(cancel_queued);
                reply.send(interrupted, &events);
            }
            Command::Withdraw { name, reply } => {
                let withdrawn = self.withdraw(&name);
                reply.send(withdrawn, &events);
            }
            Command::Answer { question, answer } => self.desk.answer(&question, answer),
            Command::SetMode { mode, reply } => {
                let set = self.set_mode(mode);
                reply.send(set, &events);
            }
            Command::SetModel { model, reply } => {
                let model = self.set_model(model.as_deref());
                reply.send(model, &events);
            }
            Command::Order(order) => self.order(order),
            Command::Equip { parts, reply } => {
                let introduction = self.apply_client_parts(*parts);
                reply.send(introduction, &events);
            }
            Command::Reload(reply) => {
                self.reload();
                let introduction = self.introduction(None);
                reply.send(introduction, &events);
            }
            Command::StartServers => self.begin_servers(),
            Command::SetServers { servers, reply } => {
                let set = self.set_servers(&servers);
                reply.send(set, &events);
            }
            Command::SwitchServer { server, switch, reply } => self.switch_server(server, switch, reply),
            Command::Rewind { prompt, dry_run, reply } => {
                let rewound = self.rewind(&prompt, dry_run);
                reply.send(rewound, &events);
            }
            Command::ContextUsage(reply) => reply.send(self.context_usage(), &events),
            Command::WindowFill(reply) => self.window_fill(reply),
            Command::Messages(reply) => reply.send(self.messages(), &events),
            Command::ChangeFlagSettings { changes, reply } => {
                let changed = self.change_flag_settings(&changes);
                reply.send(changed, &events);
            }
            Command::WriteSetting { scope, changes, reply } => {
                let written = self.write_setting(scope, &changes);
                reply.send(written, &events);
            }
            Command::FlagSettings(reply) => {
                let model = self.current_model();
                reply.send((self.premises.flag_settings(), model), &events);
            }
            command @ (Command::MoveToBackground(_)
            | Command::StopAgents
            | Command::StopTask { .. }
            | Command::TaskTail { .. }) => self.handle_task_command(command),
            Command::ReadFile { path, max_bytes, reply } => self.read_file(&path, max_bytes, reply),
            Command::SeedRead { path, mtime } => self.seed_read(&path, mtime),
            Command::Rename { title, session, reply } => {
                let renamed = self.rename(title, session.as_deref());
                reply.send(renamed, &events);
            }
            Command::Usage(reply) => reply.send(self.usage(), &events),
            Command::Models(reply) => reply.send(self.models(), &events),
            Command::Calls { calls, cancel, reply } => self.run_calls(calls, cancel, reply),
            Command::Ready(reply) => self.get_ready(reply),
            Command::Finish => self.finish_when_done(),
            Command::EndAfterTurn => self.ending = true,
            // The loop handles `Close` before it calls this function.
            Command::Close(_) => (),
        }
        self.watch.emit_mode_change();
    }

    /// Processes a command about background tasks.
    fn handle_task_command(&mut self, command: Command) {
        match command {
            Command::MoveToBackground(call) => {
                self.watch.background.move_to_background(call.as_ref());
                self.agents.move_to_background(call.as_ref());
            }
            Command::StopAgents => self.agents.stop_background(StoppedBy::AllStopped),
            Command::StopTask { task, reply } => self.stop_task(task, reply),
            Command::TaskTail { task, reply } => {
                let tail = self.watch.background.tail(&task).or_else(|| self.agent_tail(&task));
                reply.send(tail, &self.events);
            }
            _ => (),
        }
    }

    /// Applies a change to the agent now, or when the running turn ends. Ignored in a session without a
    /// model.
    fn change(&mut self, change: DeferredChange) {
        let model = self.model_is();
        match &mut self.seat {
            RunnerState::Idle(SessionRunner::Agent(agent)) => {
                change.apply(agent, &self.catalog, model, &self.premises);
            }
            RunnerState::Working(RunningWork::Turn(_)) => self.later.push(change),
            RunnerState::Idle(SessionRunner::Calls(_)) | RunnerState::Working(_) | RunnerState::Broken => (),
        }
    }

    /// Whether the spec names a model.
    fn model_is(&self) -> ModelIs {
        if self.spec.model.as_ref().is_some_and(|it| it.model.is_some()) {
            ModelIs::Named
        } else {
            ModelIs::Open
        }
    }
}

impl DeferredChange {
    fn apply(
        self,
        agent: &mut haft_agent::Agent,
        catalog: &Catalog,
        model: ModelIs,
        premises: &SessionEnvironment,
    ) {
        match self {
            Self::Overhear(input) => agent.add_context(input),
            Self::Name(title) => agent.name_session(&title),
            Self::Tool(name, tool) => {
                let pool = agent.tools.pool.get();
                agent.tools.pool.set(pool.with_builtin(name, tool));
            }
            Self::Prompt { system, append, schema } => {
                if let Some(system) = system {
                    agent.prompt.base = haft_agent::PromptBase::Replaced(system);
                }
                if append.is_some() {
                    agent.prompt.append = append;
                }
                if let Some(schema) = schema
                    && let Err(problem) = agent.require_output(schema)
                {
                    premises.events.notice(problem);
                }
            }
            Self::Become(kind) => kind.apply_to_main(agent, catalog, model),
            Self::Style(style) => agent.prompt.style = style,
        }
    }
}

/// Waits until the moment; forever if there is none.
async fn at(moment: Option<Moment>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Waits until running work ends; forever if nothing runs.
async fn ended(seat: &mut RunnerState) -> FinishedWork {
    match seat {
        RunnerState::Working(running) => running.ended().await,
        RunnerState::Idle(_) | RunnerState::Broken => std::future::pending().await,
    }
}

/// The call session if nothing runs; `None` while a turn or batch runs.
fn calls_of(seat: &RunnerState) -> Option<&CallSession> {
    match seat {
        RunnerState::Idle(seat) => Some(seat.calls()),
        RunnerState::Working(_) | RunnerState::Broken => None,
    }
}

impl From<OpenError> for String {
    fn from(err: OpenError) -> Self {
        err.to_string()
    }
}
