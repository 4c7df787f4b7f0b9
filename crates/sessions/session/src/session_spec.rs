//! What a session is made of, as plain data.

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_agent::{LateInputPolicy, ReplayCalls, RunLimits, log::RemoteLog, recording::RecordedRun};
use haft_config::SettingsLayer;
use haft_hooks::HookDefinition;
use haft_mcp_client::ServerConfig;
use haft_model::{Catalog, Effort, Provider, Thinking, ThinkingDisplay};
use haft_tool::DynTool;
use haft_tool_runtime::Approver;
use haft_types::{EnvVars, PermissionMode, SessionId};
use serde_json::{Map, Value};

/// Everything a session is made of. Flags, an SDK's `initialize`, an editor's
/// `session/new`, a fleet job and the facade's builder each turn into one of
/// these in one function; two faces with equal specs behave the same.
#[derive(Clone)]
pub struct SessionSpec {
    /// Where the session works, and whose home and variables it sees.
    pub place: LocationSpec,
    /// Which settings count.
    pub settings: SettingsSpec,
    /// Rules and mode that come with the session.
    pub permissions: PermissionSpec,
    /// Which tools there are.
    pub tools: ToolsSpec,
    /// Who answers; a session without a model only runs calls it is given.
    pub model: Option<ModelSpec>,
    /// Where the session is logged, and which log it goes on from.
    pub log: LogSpec,
    /// MCP servers beside those of the settings.
    pub servers: ServerSpec,
    /// Commands, skills, agents and plugins.
    pub extensions: ExtensionSpec,
    /// Who answers permission questions.
    pub asking: ApproverSpec,
    /// Which questions beside permissions the face answers.
    pub face_answers: AnswerableQuestions,
    /// Hooks of the program that embeds the session.
    pub hooks: Vec<HookDefinition>,
    /// What becomes of input that comes while the model gives its last answer.
    pub late_input: LateInputPolicy,
    /// Whether files can be taken back to what they were before a prompt.
    pub checkpoints: bool,
    /// Whether results stay known to the caller: a conversation, or a person. An
    /// MCP client may have forgotten them, so that every call stands for itself.
    pub remembers_results: bool,
    /// Whether several clients share the session, none of which may read what
    /// another one's calls stored.
    pub has_several_clients: bool,
    /// Whether calls tell how far they are ([`AgentEvent::Progress`](haft_agent::AgentEvent::Progress)).
    pub progress: bool,
    /// Machines on which files and commands are.
    pub hosts: HostSpec,
    /// An editor with text that may not be on the disk yet.
    pub overlay: Option<Arc<dyn haft_workspace::EditorOverlay>>,
    /// Who carries messages to sessions elsewhere.
    pub far_post: Option<Arc<dyn crate::RemoteMail>>,
}

/// Machines on which the files and commands of a session are; without any they
/// are here.
#[derive(Clone, Debug, Default)]
pub struct HostSpec {
    /// `NAME`, as settings know it, or `NAME=ADDRESS`; the first is the usual one.
    pub named: Vec<String>,
    /// The session's turn, where somebody counts turns: hosts refuse a lower one.
    pub epoch: Option<u64>,
    /// Whether the session is itself lent to a caller on another machine: news of
    /// its commands are the caller's.
    pub is_lent: bool,
    /// How long connecting may take and the like, if not the usual time.
    pub times: Option<haft_tool_host::LinkTimeouts>,
}

/// Where a session works.
#[derive(Clone, Debug)]
pub struct LocationSpec {
    /// The working directory; it must be there.
    pub cwd: PathBuf,
    /// The environment variables the session sees. `HOME` is the person's home.
    pub variables: EnvVars,
    /// Names of variables whose values are secret whatever they are called.
    pub secret_names: Vec<String>,
    /// Haft's own directory; `.haft` in the home when nobody says.
    pub state_dir: Option<PathBuf>,
    /// Other directories that count as part of the workspace.
    pub extra_dirs: Vec<PathBuf>,
    /// The program `haft`, where it is at hand: it unpacks pictures and documents
    /// in a process of its own, and holds sandboxed servers.
    pub program: Option<PathBuf>,
}

/// Which settings count.
#[derive(Clone, Debug, Default)]
pub struct SettingsSpec {
    /// Which files are read: all of them, or only these layers. Settings of the
    /// organisation always count.
    pub sources: Option<Vec<SettingsLayer>>,
    /// Whether the program that opens the session answers for the project, so that its
    /// hooks, servers, variables and allow rules count although the person did not
    /// agree to them. Naming a source is no such answer.
    pub trusts_project: bool,
    /// Settings for this session: JSON text, or the path of a file with it.
    pub flags: Option<String>,
    /// Settings nobody can weaken, from the program that embeds the session.
    pub managed: Option<String>,
}

/// Rules and mode that come with a session.
#[derive(Clone, Debug, Default)]
pub struct PermissionSpec {
    /// What happens to calls no rule speaks about; the settings say when this
    /// does not.
    pub mode: Option<PermissionMode>,
    /// Allow rules.
    pub allow: Vec<String>,
    /// Deny rules.
    pub deny: Vec<String>,
    /// Whether the session may be switched to the bypass mode later.
    pub may_bypass: bool,
    /// Who wrote these rules.
    pub origin: RuleOrigin,
}

/// Who wrote the rules of a spec.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RuleOrigin {
    /// A person on the command line: a rule that makes no sense is reported.
    #[default]
    CommandLine,
    /// A program: a rule that makes no sense keeps the session from opening.
    Program,
}

/// Which tools a session has.
#[derive(Clone, Default)]
pub struct ToolsSpec {
    /// Whether the built-in tools are there.
    pub built_in: bool,
    /// Only built-in tools of these names, if somebody says so.
    pub only: Option<Vec<String>>,
    /// Tools of the program that embeds the session.
    pub own: Vec<Arc<dyn DynTool>>,
    /// Tools that the first request declares although they come on demand.
    pub at_hand: Vec<String>,
}

/// Who answers, and how.
#[derive(Clone, Default)]
pub struct ModelSpec {
    /// The provider.
    pub provider: ProviderSpec,
    /// Who stands between the session and its provider, if anybody does.
    pub between: Option<ProviderMiddleware>,
    /// Which model; settings and variables say when this does not.
    pub model: Option<String>,
    /// Which model when that one cannot answer.
    pub fallback: Option<String>,
    /// What bounds a run.
    pub limits: RunLimits,
    /// Whether and how the model thinks.
    pub thinking: Thinking,
    /// How much of what it thinks comes back.
    pub thinking_display: Option<ThinkingDisplay>,
    /// How hard it tries.
    pub effort: Option<Effort>,
    /// Tokens the whole task may take, as the model is told.
    pub task_budget: Option<u64>,
    /// Beta features of the provider.
    pub betas: Vec<String>,
    /// Replaces the system prompt.
    pub system_prompt: Option<String>,
    /// Added to the system prompt.
    pub append_system_prompt: Option<String>,
    /// JSON Schema the output of a prompt must follow.
    pub output_schema: Option<Value>,
    /// The agent that the session is: its prompt, tools and model.
    pub agent: Option<String>,
    /// Writes the whole run into this file.
    pub record: Option<PathBuf>,
    /// Goes through a recorded run again.
    pub replay: Option<ReplaySpec>,
}

/// Puts somebody between a session and its provider: who keeps to limits that
/// many sessions share.
pub type ProviderMiddleware = Arc<dyn Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync>;

/// Who answers.
#[derive(Clone)]
pub enum ProviderSpec {
    /// Whoever flags, settings and variables name.
    FromVariables {
        /// Variables that flags set: they win over settings and environment.
        overrides: Vec<(String, String)>,
    },
    /// This one.
    Given {
        /// Who answers.
        provider: Arc<dyn Provider>,
        /// What is known about models.
        catalog: Option<Arc<Catalog>>,
    },
}

impl Default for ProviderSpec {
    fn default() -> Self {
        Self::FromVariables { overrides: Vec::new() }
    }
}

/// A recorded run that is gone through again.
#[derive(Clone)]
pub struct ReplaySpec {
    /// The recording: settings, prompt, tools and messages come from it.
    pub cassette: Arc<RecordedRun>,
    /// What becomes of its calls.
    pub calls: ReplayCalls,
    /// Whether hooks of this session run: what hooks did then is recorded.
    pub hooks: bool,
}

/// Where a session is logged.
#[derive(Clone, Debug, Default)]
pub struct LogSpec {
    /// The id of a new session; made up when nobody says.
    pub id: Option<SessionId>,
    /// Which log it goes on from.
    pub start: LogStart,
    /// Goes on under a new id; the old log stays as it is.
    pub fork: bool,
    /// Goes on only up to the line of this name.
    pub until: Option<String>,
    /// Goes on only if nothing but this turn is lost.
    pub drops_turn: Option<String>,
    /// Where lines are written.
    pub kept: LogDestination,
    /// Whether every line is told as well ([`SessionEventKind::Logged`](crate::SessionEventKind::Logged)).
    pub mirror: bool,
    /// What lines say about the program they come from.
    pub entrypoint: Option<String>,
    /// The store that lines go to as well, and that says whose the log is.
    pub fence: Option<Arc<dyn RemoteLog>>,
}

/// Which log a session goes on from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum LogStart {
    /// None: the session is new.
    #[default]
    New,
    /// That of the session with this id.
    Session(String),
    /// The newest of the working directory; a new one when there is none.
    Newest,
    /// This file.
    File(PathBuf),
}

/// Where lines of a log are written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum LogDestination {
    /// Nowhere.
    Nowhere,
    /// In Haft's own directory.
    #[default]
    Own,
    /// Where programs around the Agent SDKs look for sessions.
    OfSdks,
    /// In this file.
    File(PathBuf),
}

/// MCP servers of a session.
#[derive(Clone, Default)]
pub struct ServerSpec {
    /// When servers are started.
    pub start: ServerStart,
    /// Configurations: JSON text or files (`--mcp-config`).
    pub configs: Vec<String>,
    /// Servers by name from the program that opens the session. One that cannot be
    /// used is reported and left out; in `configs` it keeps the session from opening.
    pub offered: Map<String, Value>,
    /// Whether only those count, and not the servers of the settings.
    pub only_those: bool,
    /// Only the server this tool belongs to is needed, if it belongs to one.
    pub for_tool: Option<String>,
    /// How long requests wait for servers that are starting.
    pub patience: Option<Duration>,
    /// Servers inside the program that embeds the session, by name.
    pub hosted: Option<HostedServers>,
    /// The server that is the person's editor, by name: what is selected there comes
    /// with what they say.
    pub editor: Option<String>,
}

/// Makes the configuration of a server inside the embedding program.
pub type HostedServers = Arc<dyn Fn(&str) -> ServerConfig + Send + Sync>;

/// When a session starts its MCP servers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ServerStart {
    /// Before the first prompt.
    #[default]
    FirstPrompt,
    /// When a call or a hook needs one.
    OnDemand,
    /// Only for hooks that are tools of servers.
    ForHooks,
    /// Never.
    Never,
}

/// Commands, skills, agents and plugins of a session.
#[derive(Clone, Debug, Default)]
pub struct ExtensionSpec {
    /// Directories of plugins.
    pub plugins: Vec<PluginDir>,
    /// Whether a prompt that begins with a slash may be a command.
    pub slash_commands: bool,
    /// Agents of whoever opens the session, by name.
    pub agents: Vec<(String, crate::HostAgent)>,
}

/// The directory of a plugin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PluginDir {
    /// Where it is.
    pub path: PathBuf,
    /// Whether its MCP servers are started; the host may run them itself.
    pub with_servers: bool,
}

/// Who answers permission questions.
#[derive(Clone, Default)]
pub enum ApproverSpec {
    /// Nobody: what would be asked is denied, with the rule that would allow it.
    #[default]
    Nobody,
    /// The face: questions are events ([`SessionEventKind::Asked`](crate::SessionEventKind::Asked)), answers commands.
    Face(DenialText),
    /// This port: a closure of the embedding program, the person at an MCP client.
    Port(Arc<dyn Approver>),
    /// A tool of an MCP server, by its whole name.
    Tool(String),
}

/// What the model reads when a question was answered with no.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DenialText {
    /// The usual words around the reason.
    #[default]
    Explained,
    /// The words of the face, and nothing else.
    Verbatim,
}

/// Which questions beside permissions a face answers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AnswerableQuestions {
    /// What MCP servers want to know. Servers are told when nobody answers.
    pub elicitation: bool,
    /// Whether servers of the project may start.
    pub server_trust: bool,
}

impl LocationSpec {
    /// This directory, with the variables of the process.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self {
            cwd: cwd.into(),
            variables: EnvVars::of_process(),
            secret_names: Vec::new(),
            state_dir: None,
            extra_dirs: Vec::new(),
            program: None,
        }
    }

    /// What `~` means, if there is a home.
    pub fn home(&self) -> Option<PathBuf> {
        haft_config::home_directory(self.variables.os_text("HOME"))
    }
}

impl SessionSpec {
    /// A session in this place with the built-in tools, all settings, slash
    /// commands, a log, nobody to ask, and no model.
    pub fn new(place: LocationSpec) -> Self {
        Self {
            place,
            settings: SettingsSpec::default(),
            permissions: PermissionSpec::default(),
            tools: ToolsSpec { built_in: true, ..ToolsSpec::default() },
            model: None,
            log: LogSpec::default(),
            servers: ServerSpec::default(),
            extensions: ExtensionSpec { slash_commands: true, ..ExtensionSpec::default() },
            asking: ApproverSpec::default(),
            face_answers: AnswerableQuestions::default(),
            hooks: Vec::new(),
            late_input: LateInputPolicy::NextPrompt,
            checkpoints: false,
            remembers_results: true,
            has_several_clients: false,
            progress: false,
            hosts: HostSpec::default(),
            overlay: None,
            far_post: None,
        }
    }
}
