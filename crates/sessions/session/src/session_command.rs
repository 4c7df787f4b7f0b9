//! What a session can be told, and how it answers.

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

/// Something a session is told. Commands are carried out in order, most of them
/// also while a prompt is being worked on.
pub enum Command {
    /// Says something to the agent.
    Prompt(Box<Prompt>),
    /// Goes on with the prompt that the log ends in, without saying anything: calls
    /// that did not begin are run, and the model is asked.
    GoOn,
    /// Stops the prompt that is being worked on.
    Interrupt {
        /// Whether prompts that wait are taken back too.
        cancel_queued: bool,
        /// What waits, and what was taken back.
        reply: Reply<Interrupted>,
    },
    /// Takes back a prompt that waits.
    Withdraw {
        /// The name of the prompt.
        name: String,
        /// Whether it was there.
        reply: Reply<bool>,
    },
    /// Answers a question.
    Answer {
        /// The id of the question.
        question: String,
        /// The answer.
        answer: QuestionAnswer,
    },
    /// Goes on in another permission mode.
    SetMode {
        /// The mode.
        mode: PermissionMode,
        /// The mode in force, or why it is not another.
        reply: Reply<Result<PermissionMode, ModeRefused>>,
    },
    /// Another model answers from the next request on; the first one again when
    /// none is named.
    SetModel {
        /// The model, as a person calls it.
        model: Option<String>,
        /// The model that answers from now on, or why it is not another.
        reply: Reply<Result<String, String>>,
    },
    /// Changes how the model is asked, from the next request on.
    Order(SettingsChange),
    /// Takes in what the embedding program brings. May come again: the newest
    /// parts count.
    Equip {
        /// What it brings.
        parts: Box<ClientParts>,
        /// What the session is then.
        reply: Reply<SessionIntroduction>,
    },
    /// Looks again for commands, skills, agents and plugins.
    Reload(Reply<SessionIntroduction>),
    /// Begins to start the MCP servers, which otherwise start with the first
    /// prompt. Nothing waits for them.
    StartServers,
    /// Runs exactly these MCP servers from now on.
    SetServers {
        /// `{name: configuration}`.
        servers: Value,
        /// What changed.
        reply: Reply<ServersSet>,
    },
    /// Switches a server on or off, or connects to it again.
    SwitchServer {
        /// The server.
        server: String,
        /// How.
        switch: ServerSwitch,
        /// Why it did not work, if it did not.
        reply: Reply<Result<(), String>>,
    },
    /// Takes files back to what they were before a prompt.
    Rewind {
        /// The name of the prompt in the log.
        prompt: String,
        /// Whether it is only looked at what would change.
        dry_run: bool,
        /// What changed, or why nothing did.
        reply: Reply<Result<RewindReport, String>>,
    },
    /// What fills the context, for hosts.
    ContextUsage(Reply<ContextUsage>),
    /// What the next request would hold; nothing while a prompt is being worked
    /// on, or without a model. Servers are started and waited for.
    WindowFill(Reply<Option<WindowUsage>>),
    /// The messages the next request would hold.
    Messages(Reply<Vec<Message>>),
    /// Changes the settings of the flags: keys that are null go, others are
    /// replaced.
    ChangeFlagSettings {
        /// The keys.
        changes: Map<String, Value>,
        /// Why it did not work, if it did not.
        reply: Reply<Result<(), String>>,
    },
    /// Writes a setting of the person into a file.
    WriteSetting {
        /// Which file.
        scope: WrittenScope,
        /// The keys.
        changes: Map<String, Value>,
        /// Why it did not work, if it did not.
        reply: Reply<Result<(), String>>,
    },
    /// The settings of the flags, and the model.
    FlagSettings(Reply<(Map<String, Value>, String)>),
    /// Calls that wait for their commands go on without them: one, or all.
    MoveToBackground(Option<CallId>),
    /// Ends every agent that works in the background; the model hears of it with
    /// its next request.
    StopAgents,
    /// Ends a command or an agent in the background, with everything it started.
    StopTask {
        /// The task.
        task: String,
        /// Comes when it has ended.
        reply: Reply<()>,
    },
    /// The end of what a command in the background printed.
    TaskTail {
        /// The task.
        task: String,
        /// Nothing when there is no such task.
        reply: Reply<Option<TaskTail>>,
    },
    /// Reads a file that rules let be read without a question.
    ReadFile {
        /// The file.
        path: PathBuf,
        /// Bytes at most.
        max_bytes: u64,
        /// Its content, or why there is none.
        reply: Reply<Result<FileContent, String>>,
    },
    /// The model has read a file when it had this time, in milliseconds.
    SeedRead {
        /// The file.
        path: PathBuf,
        /// When it was changed last.
        mtime: f64,
    },
    /// Gives the session a name.
    Rename {
        /// The name.
        title: String,
        /// The session that is meant, if it was said.
        session: Option<String>,
        /// Why it did not work, if it did not.
        reply: Reply<Result<(), String>>,
    },
    /// What the session has used.
    Usage(Reply<SessionUsage>),
    /// Models by the names a person may use.
    Models(Reply<Vec<(String, String)>>),
    /// Runs the calls of one message, in a session without a model.
    Calls {
        /// The calls.
        calls: Vec<ToolUse>,
        /// Interrupts them.
        cancel: CancellationToken,
        /// One report per call, in order.
        reply: Reply<Vec<CallReport>>,
    },
    /// Replies when the session has begun: its hooks ran.
    Ready(Reply<()>),
    /// There is nothing more to say: the session closes when everything is done.
    Finish,
    /// Ends the session when the prompt that is being worked on has ended; what
    /// waits is not begun.
    EndAfterTurn,
    /// Ends the session.
    Close(CloseMode),
}

/// How a session is ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CloseMode {
    /// What runs is interrupted; hooks hear of the end.
    Orderly,
    /// What runs is interrupted; nobody is told.
    AtOnce,
}

/// What an interrupt left.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Interrupted {
    /// Names of prompts that still wait.
    pub still_queued: Vec<String>,
    /// Names of prompts that were taken back, if that was asked for.
    pub cancelled: Option<Vec<String>>,
}

/// Why a session does not change its permission mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ModeRefused {
    /// The settings forbid it.
    Forbidden,
    /// The session was not opened with the right to it.
    NotLaunched,
}

/// What an embedding program brings.
#[derive(Clone, Default)]
pub struct ClientParts {
    /// Plugins, beside those of the spec.
    pub plugins: Option<Vec<PluginDir>>,
    /// Hooks.
    pub hooks: Vec<HookDefinition>,
    /// Agents, by name.
    pub agents: Vec<(String, HostAgent)>,
    /// Only these skills, if it says so.
    pub skills: Option<Vec<String>>,
    /// Replaces the system prompt.
    pub system_prompt: Option<String>,
    /// Added to the system prompt.
    pub append_system_prompt: Option<String>,
    /// What the output of prompts must follow.
    pub output_schema: Option<Value>,
    /// Names of servers inside the program.
    pub servers: Vec<String>,
    /// What it says about them: `tools` with a permission policy each.
    pub server_configs: Map<String, Value>,
    /// The directory of the project, if the program answers for what its settings run
    /// and allow.
    pub trusted_directory: Option<std::path::PathBuf>,
    /// Whether it wants to hear now and then what agents do, in words of their
    /// models.
    pub agent_summaries: bool,
}

/// What a session is, for the program that embeds it.
#[derive(Clone, Debug)]
pub struct SessionIntroduction {
    /// Commands.
    pub commands: Vec<SlashCommand>,
    /// Skills the model may use.
    pub skills: Vec<SlashCommand>,
    /// Agents: name, description, model if one is named.
    pub agents: Vec<(String, String, Option<String>)>,
    /// How the model is to write.
    pub output_style: String,
    /// Where the provider's key comes from.
    pub key_source: String,
    /// Models by the names a person may use.
    pub models: Vec<(String, String)>,
    /// The permission mode.
    pub mode: PermissionMode,
    /// What the session is busy with.
    pub activity: Activity,
    /// Plugins.
    pub plugins: Vec<PluginInfo>,
    /// Whether all plugins of the program are there, if it brought any.
    pub plugins_applied: Option<bool>,
    /// Whether calls wait that were left for later; they are taken up now.
    pub takes_up: bool,
}

/// What became of a new list of servers.
#[derive(Clone, Debug, Default)]
pub struct ServersSet {
    /// Servers that are new.
    pub added: Vec<String>,
    /// Servers that are gone.
    pub removed: Vec<String>,
    /// What is wrong with others, by name.
    pub errors: std::collections::BTreeMap<String, String>,
}

/// What is done with a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServerSwitch {
    /// It is started.
    On,
    /// It is stopped.
    Off,
    /// It is connected to again.
    Reconnect,
}

/// A settings file that faces may write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WrittenScope {
    /// The person's, for this project: `outputStyle`.
    Local,
    /// The person's, for all projects: `effortLevel`.
    User,
}

/// The content of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileContent {
    /// The file.
    pub path: PathBuf,
    /// What it holds, as far as that was wanted.
    pub bytes: Vec<u8>,
    /// Whether there is more.
    pub truncated: bool,
}

/// What a session has used.
#[derive(Clone, Debug)]
pub struct SessionUsage {
    /// The session.
    pub session_id: SessionId,
    /// Tokens and money.
    pub bill: UsageTotals,
    /// How long models have been answering, in milliseconds.
    pub api_ms: u64,
    /// How long the session is open, in milliseconds.
    pub open_ms: u64,
}

/// Where the answer to a command goes.
pub struct Reply<T>(Box<ReplyFn<T>>);

/// Takes an answer, and the events it may be told among.
type ReplyFn<T> = dyn FnOnce(T, &EventSender) + Send + Sync;

impl<T: Send + 'static> Reply<T> {
    /// To somebody who waits for it.
    pub fn oneshot() -> (Self, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Box::new(move |value, _| drop(sender.send(value)))), receiver)
    }

    /// Into the stream of events, in order with what else happens
    /// ([`SessionEventKind::Echo`]).
    pub fn echoed(make: impl FnOnce(T) -> Value + Send + Sync + 'static) -> Self {
        Self(Box::new(move |value, events| events.tell(SessionEventKind::Echo(make(value)))))
    }

    /// Nowhere.
    pub fn ignored() -> Self {
        Self(Box::new(|_, _| ()))
    }

    pub(crate) fn send(self, value: T, events: &EventSender) {
        (self.0)(value, events);
    }
}
