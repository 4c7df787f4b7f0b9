//! The one task that holds a session: commands, turns, news, the end.

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

/// Holds a session.
pub(crate) struct SessionActor {
    spec: SessionSpec,
    events: EventSender,
    commands: mpsc::UnboundedReceiver<Command>,
    premises: Arc<SessionEnvironment>,
    /// The settings that were taken over last.
    loaded: Arc<LoadedSettings>,
    logs: SessionLogs,
    /// The session, as it is called now.
    session_id: SessionId,
    pipeline: Arc<Pipeline>,
    servers: Arc<SessionServers>,
    server_tools: ServerTools,
    server_turn: ServerReadyPhase,
    /// Whether servers were started.
    servers_begun: bool,
    extensions: Extensions,
    skills: Arc<ActiveSkills>,
    /// What the files of extensions were like when they were last read.
    extension_files: u64,
    /// What the agent of the session says first, until somebody speaks.
    initial_prompt: Option<String>,
    agents: Arc<SubagentRegistry>,
    plugins: Vec<PluginDir>,
    /// Agents of the host.
    host_agents: Vec<(String, HostAgent)>,
    /// The skills the host wants, if it said so.
    wanted_skills: Option<Vec<String>>,
    desk: Arc<QuestionRegistry>,
    asked: Arc<QuestionedCalls>,
    watch: Arc<TurnObserver>,
    own_hooks: Hooks,
    processes: Arc<haft_process::ProcessOwner>,
    seat: RunnerState,
    /// What reaches an agent that works; nothing without one.
    reach: Option<RunningAgentHandle>,
    /// What is to change when the agent does not work any more.
    later: Vec<DeferredChange>,
    queue: VecDeque<Prompt>,
    /// Calls that wait for those of the message before, in a session without a model.
    waiting_calls: VecDeque<QueuedCalls>,
    left_for_later: DeferredCalls,
    readers: Option<ReadOnlyTools>,
    files: Option<Arc<haft_workspace::SessionFiles>>,
    lsp: Option<Arc<haft_builtin_tools::lsp::LspServers>>,
    catalog: Arc<Catalog>,
    key_source: String,
    first_model: String,
    /// What fills the context, as it was before the agent began to work.
    snapshot: Option<ContextUsage>,
    /// How the session began, until hooks were told.
    begins: Option<SessionSource>,
    /// Turns that have ended.
    results: usize,
    /// Names of prompts without an answer whose end was not told yet.
    appended: Vec<Option<String>>,
    /// Prompts without an answer whose end was told.
    unanswered: usize,
    api_ms: u64,
    opened: Instant,
    finishing: bool,
    /// How long the next prompt waits for the reports of agents that were stopped.
    stopping_until: Option<Moment>,
    /// Whether it waited long enough for them.
    stopping_given_up: bool,
    /// Whether the session ends with the prompt that is being worked on.
    ending: bool,
    processes_ended: bool,
}

/// Who works in a session, and whether they do right now.
enum RunnerState {
    /// Somebody who waits.
    Idle(SessionRunner),
    /// Somebody who works.
    Working(RunningWork),
    /// Nobody: a turn broke off.
    Broken,
}

/// What reaches an agent that works.
struct RunningAgentHandle {
    inbox: AgentInbox,
    orders: AgentCommands,
}

/// A change of an agent that waits until it does not work.
enum DeferredChange {
    /// It hears something without answering.
    Overhear(UserInput),
    /// Its session gets a name.
    Name(String),
    /// It uses this tool of a name, or none.
    Tool(&'static str, Option<Arc<dyn DynTool>>),
    /// It is told something else first.
    Prompt { system: Option<String>, append: Option<String>, schema: Option<Value> },
    /// It becomes another agent.
    Become(Arc<AgentDefinition>),
    /// It writes in another way.
    Style(Option<haft_agent::OutputStyle>),
}

/// The calls of one message, what interrupts them, and where their reports go.
type QueuedCalls = (Vec<ToolUse>, CancellationToken, Reply<Vec<CallReport>>);

/// Calls of a resumed session that were left for later.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DeferredCalls {
    /// There are none, or they were taken up.
    Nothing,
    /// There are some; the host has to come first.
    Waiting,
    /// The host is there.
    Ready,
    /// There may be some, and the prompt before them is gone on with.
    GoesOn,
}

/// How often settings are looked at while a prompt is being worked on.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(1);

/// How long a stopped agent may take to write its report before a prompt begins
/// without it: only one that hangs takes that long.
const STOPPING: Duration = Duration::from_secs(10);

impl BuiltSession {
    /// Where the session is logged, if it is.
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
                if agent.left_for_later().is_empty() {
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
        owner.become_named_agent();
        owner
    }

    /// Works until the session is over.
    pub(crate) async fn run(mut self) {
        let how = self.work().await;
        self.close(how).await;
        let events = self.events.clone();
        // Whoever opens the session again finds nothing of it in use: a tool that
        // finds tools holds the pool it is in.
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
            // Nothing is left but commands in the background: not for ever.
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
                                // Nobody can say anything more, but what runs goes on.
                                self.wait_for_end(waits_until).await;
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
                () = self.watch.background.news() => self.hear_background(),
                () = self.agents.news() => self.hear_agents(),
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

    /// Waits for the end of what runs, or for news, when no command can come.
    async fn wait_for_end(&mut self, until: Option<Moment>) {
        tokio::select! {
            biased;
            () = at(until) => (),
            () = self.watch.background.news() => self.hear_background(),
            () = self.agents.news() => self.hear_agents(),
            ended = ended(&mut self.seat) => drop(self.finish(ended)),
        }
    }

    /// Carries out a command.
    fn obey(&mut self, command: Command) {
        let events = self.events.clone();
        match command {
            Command::Prompt(prompt) => self.hear_prompt(*prompt),
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
                let introduction = self.equip(*parts);
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
            | Command::TaskTail { .. }) => self.obey_about_tasks(command),
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
            // The loop ends with it before it comes here.
            Command::Close(_) => (),
        }
        self.watch.tell_mode();
    }

    /// Carries out a command about what goes on in the background.
    fn obey_about_tasks(&mut self, command: Command) {
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

    /// Changes the agent now, or when it is done with what it does.
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

    /// Whether somebody chose the model.
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
            Self::Overhear(input) => agent.overhear(input),
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
            Self::Become(kind) => kind.become_main(agent, catalog, model),
            Self::Style(style) => agent.prompt.style = style,
        }
    }
}

/// Waits for a moment, if there is one.
async fn at(moment: Option<Moment>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The end of what runs, if something does.
async fn ended(seat: &mut RunnerState) -> FinishedWork {
    match seat {
        RunnerState::Working(running) => running.ended().await,
        RunnerState::Idle(_) | RunnerState::Broken => std::future::pending().await,
    }
}

/// A session without a model has no agent to speak to.
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
