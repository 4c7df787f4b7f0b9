//! Opening a session, and the handle a front end controls it with.

use std::{path::PathBuf, sync::Arc};

use haft_mcp_client::McpManager;
use haft_model::{Catalog, Provider};
use haft_shell::run::TaskRegistry;
use haft_tool_runtime::{CallReport, CallSessionState, Pipeline, Pool, SharedPool};
use haft_types::{SessionId, ToolUse};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    AgentDefinition, AgentProblem, CloseMode, Command, EventSender, EventStream, ExtensionProblem, ModelSpec,
    OpenError, PluginList, Prompt, QuestionAnswer, Reply, SessionSpec, SlashCommand,
    actor::SessionActor,
    agents::{AgentKindCatalog, AgentModels, SubagentRegistry, TreeLimits},
    build::{
        BuiltSession, ChosenProvider, MainContextView, ModelPolicy, SessionServices, ShellRecords,
        usable_tools,
    },
    environment::SessionEnvironment,
    mcp_servers::{SessionServers, names},
};

/// Entry point for opening sessions.
pub struct Session;

/// Controls a session. Clones refer to the same session, which closes when the last clone is dropped.
#[derive(Clone)]
pub struct SessionHandle {
    commands: mpsc::UnboundedSender<Command>,
    id: SessionId,
    log: Option<PathBuf>,
    calls: CallPipeline,
    premises: Arc<SessionEnvironment>,
    servers: Arc<SessionServers>,
    tasks: Option<Arc<TaskRegistry>>,
    files: Option<Arc<haft_workspace::SessionFiles>>,
}

/// The path that tool calls of a session take, for callers that run calls of their own (an MCP server, a
/// front end that renders calls).
#[derive(Clone)]
pub struct CallPipeline {
    /// The pipeline of eight stages (validation, hooks, permission and so on).
    pub pipeline: Arc<Pipeline>,
    /// The current tools.
    pub pool: SharedPool,
    /// The state that calls see, as of when the session was opened.
    pub state: CallSessionState,
}

impl Session {
    /// Opens a session and spawns its actor task. Reads settings, extensions and logs from disk, so it
    /// blocks briefly. Panics outside a tokio runtime.
    pub fn open(spec: SessionSpec) -> Result<(SessionHandle, EventStream), OpenError> {
        let (events, stream) = EventSender::channel();
        Ok((Self::open_on(spec, events)?, stream))
    }

    /// Like [`Session::open`], with an event sender created by the caller, who can then emit own events
    /// in order with those of the session.
    pub fn open_on(spec: SessionSpec, events: EventSender) -> Result<SessionHandle, OpenError> {
        let assembly = BuiltSession::build(&spec, &events)?;
        if let Some(notice) = assembly.premises.waiting_for_trust() {
            events.notice(notice);
        }
        let (commands, receiver) = mpsc::unbounded_channel();
        let calls = assembly.seat.calls();
        let handle = SessionHandle {
            commands,
            id: assembly.premises.session_id.clone(),
            log: assembly.log_path(),
            calls: CallPipeline {
                pipeline: Arc::clone(&calls.pipeline),
                pool: calls.pool.clone(),
                state: calls.state.clone(),
            },
            premises: Arc::clone(&assembly.premises),
            servers: Arc::clone(&assembly.servers),
            tasks: assembly.services.as_ref().map(|it| Arc::clone(&it.tasks)),
            files: assembly.services.as_ref().map(|it| Arc::clone(&it.files)),
        };
        tokio::spawn(SessionActor::new(spec, assembly, events, receiver).run());
        Ok(handle)
    }
}

impl SessionHandle {
    /// Queues a command and returns at once. A closed session ignores it.
    pub fn send(&self, command: Command) {
        self.commands.send(command).ok();
    }

    /// Sends a command and waits for its reply. Returns `None` if the session is closed or drops the
    /// reply.
    pub async fn ask<T: Send + 'static>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Option<T> {
        let (reply, answer) = Reply::oneshot();
        self.send(command(reply));
        answer.await.ok()
    }

    /// Sends a prompt to the model.
    pub fn prompt(&self, prompt: Prompt) {
        self.send(Command::Prompt(Box::new(prompt)));
    }

    /// Answers the question with this id. Answers to unknown or settled questions are ignored.
    pub fn answer(&self, question: impl Into<String>, answer: QuestionAnswer) {
        self.send(Command::Answer { question: question.into(), answer });
    }

    /// Interrupts the running turn. Queued prompts stay queued.
    pub fn interrupt(&self) {
        self.send(Command::Interrupt { cancel_queued: false, reply: Reply::ignored() });
    }

    /// Runs the tool calls of one message, in a session without a model, and returns one report per call
    /// in order. Empty if the session is closed.
    pub async fn run_calls(&self, calls: Vec<ToolUse>, cancel: CancellationToken) -> Vec<CallReport> {
        self.ask(|reply| Command::Calls { calls, cancel, reply }).await.unwrap_or_default()
    }

    /// Closes the session in orderly fashion and waits until its actor has ended.
    pub async fn close(&self) {
        self.send(Command::Close(CloseMode::Orderly));
        self.commands.closed().await;
    }

    /// The id the session was opened with; `/clear` starts a new id that this does not return.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The files as the session's tools see them; `None` without file tools.
    pub fn files(&self) -> Option<&Arc<haft_workspace::SessionFiles>> {
        self.files.as_ref()
    }

    /// Path of the log at the time of opening; `None` if no log is written.
    pub fn log_path(&self) -> Option<&std::path::Path> {
        self.log.as_deref()
    }

    /// The path that tool calls take.
    pub fn calls(&self) -> &CallPipeline {
        &self.calls
    }

    /// The registry of shell commands; `None` if there is none.
    pub(crate) fn tasks(&self) -> Option<Arc<TaskRegistry>> {
        self.tasks.clone()
    }

    /// Directories, settings and permission rules.
    pub fn premises(&self) -> &Arc<SessionEnvironment> {
        &self.premises
    }

    /// The MCP servers.
    pub fn servers(&self) -> &McpManager {
        self.servers.manager()
    }
}

impl SessionEnvironment {
    /// Returns the provider a spec would use (`None`: the default) and the catalog of models. Sends no
    /// request.
    pub fn provider(&self, spec: Option<&ModelSpec>) -> Result<(Arc<dyn Provider>, Arc<Catalog>), OpenError> {
        let usual = ModelSpec::default();
        let chosen = ChosenProvider::choose(self, spec.unwrap_or(&usual))?;
        Ok((chosen.provider, chosen.catalog))
    }

    /// The tools a session in this environment would have, for description only: a call of them fails.
    /// Does not include tools of MCP servers; see [`SessionEnvironment::pool_with`].
    pub fn pool(self: &Arc<Self>) -> Result<Pool, OpenError> {
        let servers = SessionServers::new(Arc::clone(self), crate::ServerSpec::default(), Arc::default())?;
        let policy = self.policy()?;
        let extensions = crate::extensions::Extensions::load(self, &[]);
        let shelf = AgentKindCatalog::new(&extensions.agents, &[]);
        let models =
            AgentModels::Known { catalog: self.catalog()?, usual: None, policy: ModelPolicy::default() };
        let (agents, _) = SubagentRegistry::new(self.events.clone(), TreeLimits::default(), shelf, models);
        let services = SessionServices::open(
            self,
            MainContextView::default(),
            ShellRecords::None,
            None,
            &agents,
            &[],
            None,
        )?;
        let tools = usable_tools(self, &services, servers.manager(), &policy, None);
        Ok(Pool::assemble(tools, Vec::new()))
    }

    /// Kinds of agents a session in this environment would know, in order of precedence, and the
    /// problems found in agent files. Reads the files.
    pub fn agents(&self) -> (Vec<Arc<AgentDefinition>>, Vec<AgentProblem>) {
        let extensions = crate::extensions::Extensions::load(self, &[]);
        let shelf = AgentKindCatalog::new(&extensions.agents, &[]);
        (shelf.kinds().to_vec(), shelf.problems().to_vec())
    }

    /// Default model of sub-agents from the environment variable, if it is set and not blank.
    pub fn usual_agent_model(&self) -> Option<String> {
        self.variable(crate::agents::USUAL_MODEL).filter(|it| !it.trim().is_empty())
    }

    /// Slash commands and skills a session in this environment would have, and the problems found in
    /// their files. Reads the files.
    pub fn commands(&self) -> (Vec<SlashCommand>, Vec<ExtensionProblem>) {
        let found = crate::extensions::Extensions::load(self, &[]);
        (found.commands, found.problems)
    }

    /// Plugins known in this environment, and the problems found in their files. Reads the files.
    pub fn plugins(&self) -> PluginList {
        let found = crate::extensions::Extensions::load(self, &[]);
        let of_plugin = |it: &ExtensionProblem| {
            let dirs = found.plugin_list.plugins.iter().filter_map(|it| it.dir.as_ref());
            dirs.into_iter().any(|dir| it.file.starts_with(dir))
        };
        let mut list = found.plugin_list.clone();
        for problem in &found.problems {
            if of_plugin(problem) && !list.problems.contains(problem) {
                list.problems.push(problem.clone());
            }
        }
        list
    }

    /// Enables or disables a plugin in the settings file of `scope`.
    pub fn switch_plugin(&self, scope: haft_config::SettingsScope, id: &str, on: bool) -> Result<(), String> {
        let updated = self.store.update(scope, |settings| {
            let slot = settings.entry("enabledPlugins").or_insert_with(|| serde_json::json!({}));
            match slot.as_object_mut() {
                Some(table) => drop(table.insert(id.to_owned(), on.into())),
                None => *slot = serde_json::json!({id: on}),
            }
        });
        updated.map_err(|err| err.to_string())
    }

    /// Like [`SessionEnvironment::pool`], plus the tools of the configured MCP servers. Starts the
    /// servers, waits until each has connected or failed, lists their tools and stops them again. The
    /// tools are for description only: a call returns an error.
    pub async fn pool_with(self: &Arc<Self>, servers: &SessionServers) -> Result<Pool, OpenError> {
        let pool = self.pool()?;
        servers.start();
        servers.settled().await;
        let manager = servers.manager();
        let permissions = haft_permission::LivePermissions::new(self.policy()?);
        permissions.rename(&Arc::new(names(manager)));
        let (policy, mut tools) = (permissions.policy(), manager.tools());
        tools.retain(|tool| policy.removes(tool.name()).is_none());
        servers.stop().await;
        Ok(pool.with_external(tools, |_| String::from("its server is no longer there")))
    }
}
