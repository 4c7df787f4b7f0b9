//! The configuration of a session, as plain data.

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

/// Configuration of a session. Command line flags, an SDK's `initialize`, an editor's `session/new`, a
/// fleet job and the library's builder are each converted into a `SessionSpec` by one function; front
/// ends with equal specs behave the same.
#[derive(Clone)]
pub struct SessionSpec {
    /// Working directory, home directory and environment variables.
    pub place: LocationSpec,
    /// The settings files and overrides that apply.
    pub settings: SettingsSpec,
    /// Permission rules and permission mode of this session, added to those of the settings.
    pub permissions: PermissionSpec,
    /// The tools that are available.
    pub tools: ToolsSpec,
    /// Model and provider. `None`: the session only runs the tool calls it is given
    /// ([`Command::Calls`](crate::Command::Calls)).
    pub model: Option<ModelSpec>,
    /// The log that is written, and the log that is resumed.
    pub log: LogSpec,
    /// MCP servers, in addition to those of the settings.
    pub servers: ServerSpec,
    /// Slash commands, skills, agents and plugins.
    pub extensions: ExtensionSpec,
    /// The approver that answers permission questions.
    pub asking: ApproverSpec,
    /// Questions other than permission questions that the front end can answer.
    pub face_answers: AnswerableQuestions,
    /// Hooks of the embedding program.
    pub hooks: Vec<HookDefinition>,
    /// Handling of a prompt that arrives while the model writes its last answer of a turn.
    pub late_input: LateInputPolicy,
    /// Whether file checkpoints are recorded, so that [`Command::Rewind`](crate::Command::Rewind) can
    /// restore files to their state before a prompt.
    pub checkpoints: bool,
    /// Whether the caller keeps earlier results in its context, as a conversation or a user does.
    /// `false` for MCP clients, which may have dropped them: every call then returns a complete result.
    pub remembers_results: bool,
    /// Whether several clients share the session. The stored large results of one client's calls are
    /// then not readable without permission by another client's calls.
    pub has_several_clients: bool,
    /// Whether running calls emit progress events
    /// ([`AgentEvent::Progress`](haft_agent::AgentEvent::Progress)).
    pub progress: bool,
    /// Tool hosts: remote machines that hold the files and run the commands.
    pub hosts: HostSpec,
    /// An editor with unsaved buffers, which file tools read instead of the file on disk.
    pub overlay: Option<Arc<dyn haft_workspace::EditorOverlay>>,
    /// Transport for messages to sessions in other processes or on other machines.
    pub far_post: Option<Arc<dyn crate::RemoteMail>>,
}

/// Tool hosts of a session: remote machines that hold its files and run its commands. Without hosts,
/// tools run on the local machine.
#[derive(Clone, Debug, Default)]
pub struct HostSpec {
    /// `NAME` of a host in the settings, or `NAME=ADDRESS`. The first entry is the default host.
    pub named: Vec<String>,
    /// Fencing epoch of the session, if an owner assigns one. Tool hosts reject calls with an epoch
    /// lower than the highest they have seen.
    pub epoch: Option<u64>,
    /// Whether this session runs tool calls for a caller on another machine. The caller then receives
    /// the updates about background commands, and this session does not report them.
    pub is_lent: bool,
    /// Timeouts of the host connections; `None` uses the defaults.
    pub times: Option<haft_tool_host::LinkTimeouts>,
}

/// Where a session works: directories and environment.
#[derive(Clone, Debug)]
pub struct LocationSpec {
    /// The working directory, which must exist.
    pub cwd: PathBuf,
    /// Environment variables of the session. `HOME` is the user's home directory.
    pub variables: EnvVars,
    /// Names of variables to treat as secret even if their names do not look like secrets.
    pub secret_names: Vec<String>,
    /// Haft's state directory; `None` means `.haft` in the home directory.
    pub state_dir: Option<PathBuf>,
    /// Further directories that belong to the workspace.
    pub extra_dirs: Vec<PathBuf>,
    /// Path of the `haft` executable, if known. It is started as a separate process to decode images and
    /// documents, and to run MCP servers in the sandbox.
    pub program: Option<PathBuf>,
}

/// The settings files and overrides that apply to a session.
#[derive(Clone, Debug, Default)]
pub struct SettingsSpec {
    /// Settings layers to read; `None` reads all. Managed settings of the organisation are always read.
    pub sources: Option<Vec<SettingsLayer>>,
    /// Whether the embedding program vouches for the project: its hooks, servers, variables and allow
    /// rules then apply although the user has not trusted the project. Listing the project layer in
    /// `sources` does not imply trust.
    pub trusts_project: bool,
    /// Settings of this session (`--settings`): JSON text, or the path of a JSON file.
    pub flags: Option<String>,
    /// Managed settings from the embedding program; no other layer can weaken them.
    pub managed: Option<String>,
}

/// Permission rules and permission mode of a session.
#[derive(Clone, Debug, Default)]
pub struct PermissionSpec {
    /// Permission mode: what happens to calls that no rule matches. `None` takes the mode from the
    /// settings.
    pub mode: Option<PermissionMode>,
    /// Allow rules.
    pub allow: Vec<String>,
    /// Deny rules.
    pub deny: Vec<String>,
    /// Whether the session may later switch to the bypass mode. Implied if `mode` is the bypass mode.
    pub may_bypass: bool,
    /// Who wrote these rules; decides what happens to invalid ones.
    pub origin: RuleOrigin,
}

/// Author of the rules in a spec.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RuleOrigin {
    /// The user, on the command line: an invalid rule is reported and ignored.
    #[default]
    CommandLine,
    /// The embedding program: an invalid rule makes opening the session fail.
    Program,
}

/// The tools of a session.
#[derive(Clone, Default)]
pub struct ToolsSpec {
    /// Whether the built-in tools are available.
    pub built_in: bool,
    /// Names of the built-in tools to keep; `None` keeps all.
    pub only: Option<Vec<String>>,
    /// Tools of the embedding program.
    pub own: Vec<Arc<dyn DynTool>>,
    /// Names of deferred tools that the first request declares in full, without a tool search. Unknown
    /// names are ignored.
    pub at_hand: Vec<String>,
}

/// Provider, model and request parameters of a session.
#[derive(Clone, Default)]
pub struct ModelSpec {
    /// How the provider is found.
    pub provider: ProviderSpec,
    /// Wraps the provider, for example with a rate limiter.
    pub between: Option<ProviderMiddleware>,
    /// Model name or alias; `None` takes it from the settings and variables.
    pub model: Option<String>,
    /// Model to use when `model` is overloaded or unavailable.
    pub fallback: Option<String>,
    /// Limits of a run: turns, cost and the like.
    pub limits: RunLimits,
    /// Extended thinking: off, or how much.
    pub thinking: Thinking,
    /// How much of the thinking the provider returns.
    pub thinking_display: Option<ThinkingDisplay>,
    /// Effort level requested from the model.
    pub effort: Option<Effort>,
    /// Token budget of the whole task, which the model is told.
    pub task_budget: Option<u64>,
    /// Beta features to request from the provider.
    pub betas: Vec<String>,
    /// Replaces the default system prompt.
    pub system_prompt: Option<String>,
    /// Text appended to the system prompt.
    pub append_system_prompt: Option<String>,
    /// JSON Schema that the output of every prompt must match.
    pub output_schema: Option<Value>,
    /// Name of the agent definition that the main agent uses: its prompt, tools and model.
    pub agent: Option<String>,
    /// File to record the whole run to.
    pub record: Option<PathBuf>,
    /// Replays a recorded run instead of asking a provider.
    pub replay: Option<ReplaySpec>,
}

/// Wraps a session's provider, for example to apply rate limits that many sessions share.
pub type ProviderMiddleware = Arc<dyn Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync>;

/// How the provider of a session is chosen.
#[derive(Clone)]
pub enum ProviderSpec {
    /// From flags, settings and environment variables.
    FromVariables {
        /// Variables set by flags; they override settings and environment.
        overrides: Vec<(String, String)>,
    },
    /// A provider the caller has created.
    Given {
        /// The provider.
        provider: Arc<dyn Provider>,
        /// Known models, with their limits and prices; `None` loads the default catalog.
        catalog: Option<Arc<Catalog>>,
    },
}

impl Default for ProviderSpec {
    fn default() -> Self {
        Self::FromVariables { overrides: Vec::new() }
    }
}

/// A recorded run to replay.
#[derive(Clone)]
pub struct ReplaySpec {
    /// The recording, which supplies settings, prompt, tools and messages.
    pub cassette: Arc<RecordedRun>,
    /// Whether tool calls are run again or answered from the recording.
    pub calls: ReplayCalls,
    /// Whether the hooks of this session run in addition to the recorded hook results.
    pub hooks: bool,
}

/// The log of a session: where it is written and which log it resumes.
#[derive(Clone, Debug, Default)]
pub struct LogSpec {
    /// Id of a new session; generated if `None`.
    pub id: Option<SessionId>,
    /// The log to resume, if any.
    pub start: LogStart,
    /// Resumes under a new id and leaves the old log unchanged.
    pub fork: bool,
    /// Resumes only up to and including the log line with this uuid (`--resume-session-at`). An unknown
    /// uuid is an error.
    pub until: Option<String>,
    /// Requires that resuming at `until` drops nothing but the turn with this uuid; otherwise opening
    /// fails. An error without `until`.
    pub drops_turn: Option<String>,
    /// Where log lines are written.
    pub kept: LogDestination,
    /// Whether every log line is also emitted as an event
    /// ([`SessionEventKind::Logged`](crate::SessionEventKind::Logged)).
    pub mirror: bool,
    /// Value of `entrypoint` in every log line: the program that opened the session.
    pub entrypoint: Option<String>,
    /// Remote store that also receives every line and decides who owns the log (fencing).
    pub fence: Option<Arc<dyn RemoteLog>>,
}

/// The log a session resumes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum LogStart {
    /// No log: the session is new.
    #[default]
    New,
    /// The log of the session with this id.
    Session(String),
    /// The newest log of the working directory, or a new session if there is none.
    Newest,
    /// The log in this file.
    File(PathBuf),
}

/// Where log lines are written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum LogDestination {
    /// No log is written.
    Nowhere,
    /// Haft's state directory.
    #[default]
    Own,
    /// The directory in which programs built on the Agent SDKs look for sessions.
    OfSdks,
    /// This file.
    File(PathBuf),
}

/// MCP servers of a session.
#[derive(Clone, Default)]
pub struct ServerSpec {
    /// When the servers are started.
    pub start: ServerStart,
    /// Server configurations (`--mcp-config`): JSON text, or paths of JSON files. An invalid one makes
    /// opening the session fail.
    pub configs: Vec<String>,
    /// Server configurations from the program that opens the session, by server name. An invalid one is
    /// reported and skipped.
    pub offered: Map<String, Value>,
    /// Ignores the servers of the settings, except managed ones (`--strict-mcp-config`).
    pub only_those: bool,
    /// Name of the only tool that will be called: if a configured server provides it, only that server
    /// is started.
    pub for_tool: Option<String>,
    /// Maximum time a request waits for servers that are still starting; `None` uses the defaults.
    pub patience: Option<Duration>,
    /// Creates the configurations of servers that run inside the embedding program.
    pub hosted: Option<HostedServers>,
    /// Name of the server that is the user's editor. The editor selection is attached to the user's
    /// prompts.
    pub editor: Option<String>,
}

/// Returns the configuration of the server with this name inside the embedding program.
pub type HostedServers = Arc<dyn Fn(&str) -> ServerConfig + Send + Sync>;

/// When a session starts its MCP servers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ServerStart {
    /// Before the first prompt.
    #[default]
    FirstPrompt,
    /// When a call or a hook first uses a server.
    OnDemand,
    /// Only if a hook is an MCP tool.
    ForHooks,
    /// Never.
    Never,
}

/// Slash commands, skills, agents and plugins of a session.
#[derive(Clone, Debug, Default)]
pub struct ExtensionSpec {
    /// Plugin directories to load.
    pub plugins: Vec<PluginDir>,
    /// Whether a prompt that begins with `/` is interpreted as a command.
    pub slash_commands: bool,
    /// Agent definitions of the program that opens the session, by name.
    pub agents: Vec<(String, crate::HostAgent)>,
}

/// The directory of a plugin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PluginDir {
    /// Path of the directory.
    pub path: PathBuf,
    /// Whether Haft starts the plugin's MCP servers; `false` if the host runs them itself.
    pub with_servers: bool,
}

/// The approver that answers permission questions.
#[derive(Clone, Default)]
pub enum ApproverSpec {
    /// No approver: calls that would ask are denied, and the denial names the rule that would allow
    /// them.
    #[default]
    Nobody,
    /// The front end: questions are emitted as events
    /// ([`SessionEventKind::Asked`](crate::SessionEventKind::Asked)) and answered with commands.
    Face(DenialText),
    /// This approver, for example a closure of the embedding program or the user of an MCP client.
    Port(Arc<dyn Approver>),
    /// The MCP tool with this full name (`mcp__server__tool`).
    Tool(String),
}

/// Text the model reads when a question was answered with a denial.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DenialText {
    /// The default text around the reason.
    #[default]
    Explained,
    /// The front end's text, unchanged.
    Verbatim,
}

/// Questions other than permission questions that a front end can answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AnswerableQuestions {
    /// Elicitation requests of MCP servers. If `false`, servers learn that elicitation is not supported.
    pub elicitation: bool,
    /// Whether an MCP server of the project may be started.
    pub server_trust: bool,
}

impl LocationSpec {
    /// A location with this working directory and the environment variables of the process.
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

    /// The home directory (`~`), if known.
    pub fn home(&self) -> Option<PathBuf> {
        haft_config::home_directory(self.variables.os_text("HOME"))
    }
}

impl SessionSpec {
    /// A session with the built-in tools, all settings, slash commands and a log, but without an
    /// approver and without a model.
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
