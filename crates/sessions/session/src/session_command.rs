//! The commands a session accepts, and their replies.

use std::path::PathBuf;

use haft_agent::{SettingsChange, WindowUsage};
use haft_hooks::HookDefinition;
use haft_tool_runtime::CallReport;
use haft_types::{CallId, Message, PermissionMode, SessionId, ToolUse};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    Activity, ContextUsage, EventSender, HostAgent, PluginDir, PluginInfo, Prompt, QuestionAnswer,
    RewindReport, SessionEventKind, SlashCommand, TaskTail, UsageTotals,
};

/// A command to a session. Commands are carried out in order, most of them also while a turn runs.
pub enum Command {
    /// Queues a prompt, or adds it to the running turn.
    Prompt(Box<Prompt>),
    /// Continues the unfinished turn at the end of the log without a new prompt: runs the calls that
    /// were not started, then asks the model.
    GoOn,
    /// Interrupts the running turn.
    Interrupt {
        /// Whether queued prompts are cancelled too.
        cancel_queued: bool,
        /// Receives the prompts that are still queued and those that were cancelled.
        reply: Reply<Interrupted>,
    },
    /// Withdraws a prompt that the model has not received yet.
    Withdraw {
        /// Uuid of the prompt.
        name: String,
        /// Receives `false` if no such prompt was waiting.
        reply: Reply<bool>,
    },
    /// Answers a question. Ignored if the question is unknown or settled.
    Answer {
        /// The id of the question.
        question: String,
        /// The answer.
        answer: QuestionAnswer,
    },
    /// Changes the permission mode.
    SetMode {
        /// The new mode.
        mode: PermissionMode,
        /// Receives the mode in force, or why it was not changed.
        reply: Reply<Result<PermissionMode, ModeRefused>>,
    },
    /// Changes the model, from the next request on. `None` or `default` restores the model the session
    /// was opened with.
    SetModel {
        /// Model name or alias.
        model: Option<String>,
        /// Receives the name of the new model, or why it was not changed.
        reply: Reply<Result<String, String>>,
    },
    /// Changes request settings of the agent, from the next request on.
    Order(SettingsChange),
    /// Installs hooks, agents, plugins and other parts of the embedding program. Can be sent again; the
    /// new parts replace the old ones.
    Equip {
        /// The parts.
        parts: Box<ClientParts>,
        /// Receives a description of the session with these parts.
        reply: Reply<SessionIntroduction>,
    },
    /// Reloads slash commands, skills, agents and plugins from disk.
    Reload(Reply<SessionIntroduction>),
    /// Starts the MCP servers in the background, instead of with the first prompt.
    StartServers,
    /// Replaces the set of running MCP servers.
    SetServers {
        /// `{name: configuration}` of all servers that should run.
        servers: Value,
        /// Receives the servers that were added and removed, and errors.
        reply: Reply<ServersSet>,
    },
    /// Enables, disables or reconnects an MCP server.
    SwitchServer {
        /// Name of the server.
        server: String,
        /// What to do with the server.
        switch: ServerSwitch,
        /// Receives the reason if it failed. Sent when the server has answered.
        reply: Reply<Result<(), String>>,
    },
    /// Restores files to their state before a prompt. Fails if the session records no checkpoints.
    Rewind {
        /// Uuid of the prompt in the log.
        prompt: String,
        /// Whether to only report what would change.
        dry_run: bool,
        /// Receives what changed, or why nothing did.
        reply: Reply<Result<RewindReport, String>>,
    },
    /// Requests the context usage in the form SDK hosts expect.
    ContextUsage(Reply<ContextUsage>),
    /// Requests what the next model request would contain, by category. Starts the MCP servers and waits
    /// for them. The reply is `None` while a turn runs or without a model.
    WindowFill(Reply<Option<WindowUsage>>),
    /// Requests the messages of the next model request.
    Messages(Reply<Vec<Message>>),
    /// Changes the settings of the flags layer. A `null` removes a key, any other value replaces it.
    ChangeFlagSettings {
        /// The keys to change.
        changes: Map<String, Value>,
        /// Receives the reason if it failed.
        reply: Reply<Result<(), String>>,
    },
    /// Writes user settings to a settings file.
    WriteSetting {
        /// The file to write.
        scope: WrittenScope,
        /// The keys to change.
        changes: Map<String, Value>,
        /// Receives the reason if it failed.
        reply: Reply<Result<(), String>>,
    },
    /// Requests the settings of the flags layer, and the name of the model.
    FlagSettings(Reply<(Map<String, Value>, String)>),
    /// Moves the command or sub-agent a call waits for to the background, so that the call returns.
    /// `None` moves those of all calls.
    MoveToBackground(Option<CallId>),
    /// Stops the main agent's background agents and their descendants. The next request to the model
    /// contains their reports.
    StopAgents,
    /// Stops a background command or agent and everything it started.
    StopTask {
        /// Id of the task.
        task: String,
        /// Receives `()` when the task has ended, and also when there is no such task.
        reply: Reply<()>,
    },
    /// Requests the end of the output of a background command or agent.
    TaskTail {
        /// Id of the task.
        task: String,
        /// Receives `None` when there is no such task.
        reply: Reply<Option<TaskTail>>,
    },
    /// Reads a file. Fails for files that the permission rules do not let Read open without a prompt.
    ReadFile {
        /// Path of the file; relative paths start at the working directory.
        path: PathBuf,
        /// Maximum number of bytes returned; the rest is cut off.
        max_bytes: u64,
        /// Receives the content, or why there is none.
        reply: Reply<Result<FileContent, String>>,
    },
    /// Marks a file as already read by the model, so that it may be edited without reading it again.
    /// Ignored if the file has changed since `mtime`.
    SeedRead {
        /// Path of the file.
        path: PathBuf,
        /// Modification time of the version that was read, in milliseconds since the Unix epoch.
        mtime: f64,
    },
    /// Renames the session.
    Rename {
        /// The new title.
        title: String,
        /// Id of the session to rename. If given and not the current session, the command fails.
        session: Option<String>,
        /// Receives the reason if it failed.
        reply: Reply<Result<(), String>>,
    },
    /// Requests the token usage and cost of the session.
    Usage(Reply<SessionUsage>),
    /// Requests the models the user can choose: alias and full name. The first alias is `default`, the
    /// model the session started with.
    Models(Reply<Vec<(String, String)>>),
    /// Runs the tool calls of one message, in a session without a model. Messages are processed one
    /// after the other.
    Calls {
        /// The tool calls.
        calls: Vec<ToolUse>,
        /// Cancelling this token interrupts the calls.
        cancel: CancellationToken,
        /// Receives one report per call, in order.
        reply: Reply<Vec<CallReport>>,
    },
    /// Replies when the SessionStart hooks have run, in a session without a model.
    Ready(Reply<()>),
    /// No more input follows: the session closes when the queue is empty and nothing runs. Background
    /// tasks are waited for up to a limit.
    Finish,
    /// Closes the session when the running turn has ended. Queued prompts are not started.
    EndAfterTurn,
    /// Closes the session now.
    Close(CloseMode),
}

/// How a session is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CloseMode {
    /// Interrupts what runs and runs the SessionEnd hooks.
    Orderly,
    /// Interrupts what runs without running SessionEnd hooks.
    AtOnce,
}

/// Prompts affected by an interrupt.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Interrupted {
    /// Names of prompts that are still queued.
    pub still_queued: Vec<String>,
    /// Names of prompts that were cancelled; `None` unless requested.
    pub cancelled: Option<Vec<String>>,
}

/// Why the permission mode was not changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ModeRefused {
    /// The settings disable the mode.
    Forbidden,
    /// The session was not opened with permission to use the bypass mode.
    NotLaunched,
}

/// Parts that an embedding program adds to a session after opening it.
#[derive(Clone, Default)]
pub struct ClientParts {
    /// Plugins, in addition to those of the spec.
    pub plugins: Option<Vec<PluginDir>>,
    /// Hooks of the program.
    pub hooks: Vec<HookDefinition>,
    /// Agent definitions, by name.
    pub agents: Vec<(String, HostAgent)>,
    /// Names of the skills to offer; `None` offers all.
    pub skills: Option<Vec<String>>,
    /// Replaces the system prompt.
    pub system_prompt: Option<String>,
    /// Text appended to the system prompt.
    pub append_system_prompt: Option<String>,
    /// JSON Schema that the output of every prompt must match.
    pub output_schema: Option<Value>,
    /// Names of the MCP servers that run inside the program.
    pub servers: Vec<String>,
    /// Configuration of these servers by name; `tools` sets a permission policy for each tool.
    pub server_configs: Map<String, Value>,
    /// Directory of the project, if the program vouches for what the project's settings run and allow.
    pub trusted_directory: Option<std::path::PathBuf>,
    /// Whether to emit progress summaries of sub-agents, which cost model requests.
    pub agent_summaries: bool,
}

/// Description of a session for the embedding program.
#[derive(Clone, Debug)]
pub struct SessionIntroduction {
    /// Slash commands.
    pub commands: Vec<SlashCommand>,
    /// Skills the model may use.
    pub skills: Vec<SlashCommand>,
    /// Kinds of agents: name, description, and model if the definition names one.
    pub agents: Vec<(String, String, Option<String>)>,
    /// Name of the output style.
    pub output_style: String,
    /// Where the provider's API key comes from.
    pub key_source: String,
    /// Models the user can choose: alias and full name.
    pub models: Vec<(String, String)>,
    /// The permission mode.
    pub mode: PermissionMode,
    /// What the session is doing.
    pub activity: Activity,
    /// Plugins that are loaded.
    pub plugins: Vec<PluginInfo>,
    /// Whether all plugins of the program were loaded; `None` if it brought none.
    pub plugins_applied: Option<bool>,
    /// Whether deferred calls of the resumed session are run now.
    pub takes_up: bool,
}

/// Result of [`Command::SetServers`].
#[derive(Clone, Debug, Default)]
pub struct ServersSet {
    /// Names of servers that were started.
    pub added: Vec<String>,
    /// Names of servers that were stopped.
    pub removed: Vec<String>,
    /// Errors of servers that could not be started, by name.
    pub errors: std::collections::BTreeMap<String, String>,
}

/// Action on an MCP server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServerSwitch {
    /// Enables and starts the server.
    On,
    /// Disables and stops the server.
    Off,
    /// Disconnects and connects again.
    Reconnect,
}

/// A settings file that front ends may write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WrittenScope {
    /// The user's settings for this project; accepts `outputStyle` only.
    Local,
    /// The user's settings for all projects; accepts `effortLevel` only.
    User,
}

/// Content of a file, possibly truncated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileContent {
    /// Path of the file.
    pub path: PathBuf,
    /// The first bytes, up to the requested maximum.
    pub bytes: Vec<u8>,
    /// Whether the file is longer than `bytes`.
    pub truncated: bool,
}

/// Usage of a session.
#[derive(Clone, Debug)]
pub struct SessionUsage {
    /// Id of the session.
    pub session_id: SessionId,
    /// Tokens and cost.
    pub bill: UsageTotals,
    /// Total duration of model requests, in milliseconds.
    pub api_ms: u64,
    /// Time since the session was opened, in milliseconds.
    pub open_ms: u64,
}

/// Destination of a command's reply. Dropping it without sending is allowed; a waiting
/// [`SessionHandle::ask`](crate::SessionHandle::ask) then returns `None`.
pub struct Reply<T>(Box<ReplyFn<T>>);

/// Callback that receives the reply and the sender of the session's events.
type ReplyFn<T> = dyn FnOnce(T, &EventSender) + Send + Sync;

impl<T: Send + 'static> Reply<T> {
    /// A reply that is sent to the returned receiver.
    pub fn oneshot() -> (Self, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Box::new(move |value, _| drop(sender.send(value)))), receiver)
    }

    /// A reply that is emitted as an event ([`SessionEventKind::Echo`]), in order with other events.
    pub fn echoed(make: impl FnOnce(T) -> Value + Send + Sync + 'static) -> Self {
        Self(Box::new(move |value, events| events.tell(SessionEventKind::Echo(make(value)))))
    }

    /// A reply that is discarded.
    pub fn ignored() -> Self {
        Self(Box::new(|_, _| ()))
    }

    pub(crate) fn send(self, value: T, events: &EventSender) {
        (self.0)(value, events);
    }
}
