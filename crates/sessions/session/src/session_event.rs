//! The events a session emits, each once and in order.

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use haft_agent::{AgentEvent, CompactedEvent, DeniedToolCall, TurnEnd, log::ShownContent};
use haft_hooks::{HookEvent, HookId, HookReport};
use haft_mcp_client::ServerStatus;
use haft_shell::run::TaskInfo;
use haft_types::{AgentId, CallId, PermissionMode, SessionId, ToolUse};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{AgentReport, ChildIdentity, ChildProgress, Prompt, PromptAuthor, SessionQuestion, UsageTotals};

/// An event of a session. Everything a front end shows can be derived from the sequence of these events.
#[derive(Clone, Debug)]
pub struct SessionEvent {
    /// The agent the event belongs to.
    pub agent: AgentId,
    /// The call that started that agent, if it is a sub-agent.
    pub parent_call: Option<CallId>,
    /// When it happened.
    pub at: SystemTime,
    /// What happened.
    pub what: SessionEventKind,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum SessionEventKind {
    /// An event of the agent loop.
    Agent(AgentEvent),
    /// A message for the user.
    Notice(String),
    /// A message for users who asked for verbose output.
    Detail(String),
    /// The state of a named prompt changed (name of the prompt, new state).
    PromptState(String, PromptState),
    /// The session became idle, started working, or waits for approval.
    Activity(Activity),
    /// A turn is about to start.
    TurnBegan(Box<TurnStarted>),
    /// A prompt arrived during a turn. The agent receives it after the calls that are running.
    Heard(Box<Prompt>),
    /// A call was denied neither by a user nor by a hook. Emitted before the result of the call.
    CallDenied(Box<DeniedToolCall>),
    /// A command continues in the background. Emitted before the result of its call.
    TaskStarted(Box<TaskInfo>, CallId),
    /// The complete list of commands running in the background, sent when it changes.
    TasksRunning(Vec<TaskInfo>),
    /// A background command has ended. The id is that of the call that started it, if known.
    TaskEnded(Box<TaskInfo>, Option<CallId>),
    /// A sub-agent was started. Emitted before the result of the call that started it.
    ChildStarted(Arc<ChildIdentity>),
    /// Progress of a sub-agent.
    ChildProgress(Arc<ChildIdentity>, Box<ChildProgress>),
    /// A sub-agent moved to the background: the call that waited for it returns without its report.
    ChildMoved(Arc<ChildIdentity>),
    /// A sub-agent has ended.
    ChildEnded(Arc<ChildIdentity>, Arc<AgentReport>),
    /// The complete list of agents running in the background, sent when it changes.
    ChildrenRunning(Vec<Arc<ChildIdentity>>),
    /// The permission mode changed.
    ModeChanged(PermissionMode),
    /// The model changed, from the next request on.
    ModelChanged(String),
    /// The session was renamed.
    Renamed(String),
    /// A hook started.
    HookStarted(HookRun),
    /// A hook ended.
    HookEnded(HookRun, Box<HookReport>),
    /// A question needs an answer; see [`Command::Answer`](crate::Command::Answer).
    Asked(Arc<SessionQuestion>),
    /// A question (id) no longer waits for an answer.
    Settled(String, QuestionOutcome),
    /// Lines were written to the log at this path.
    Logged(PathBuf, Vec<Value>),
    /// `/clear`: an empty conversation starts under this session id.
    Cleared(SessionId),
    /// Compaction started because the user requested it.
    CompactionBegan,
    /// A built-in slash command (`/clear`, `/compact`, …) has finished.
    CommandEnded(Box<CommandEnded>),
    /// A prompt that needs no answer was added to the conversation.
    Appended(Box<Appended>),
    /// A turn ended.
    TurnEnded(Box<TurnEnded>),
    /// A value the front end asked to receive in order with the other events
    /// ([`Reply::echoed`](crate::Reply::echoed)).
    Echo(Value),
    /// A turn crashed because of an error in Haft; the session ends.
    Broke(String),
    /// The session is closed. This is the last event.
    Closed,
}

/// State of a prompt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PromptState {
    /// Queued.
    Queued,
    /// Being processed.
    Started,
    /// Answered.
    Completed,
    /// Removed from the queue, or withdrawn.
    Cancelled,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Activity {
    /// Waiting for a prompt.
    Idle,
    /// Running a turn.
    Running,
    /// Waiting for the answer to a permission question.
    RequiresAction,
}

/// How a question was settled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuestionOutcome {
    /// It was answered.
    Answered,
    /// The asker no longer waits for the answer.
    TakenBack,
}

/// One run of a hook.
#[derive(Clone, Debug)]
pub struct HookRun {
    /// Unique id of this run.
    pub run: String,
    /// The hook that ran.
    pub hook: HookId,
    /// The event that triggered it.
    pub event: HookEvent,
    /// The event and its subject, for example the name of the tool.
    pub label: String,
}

/// Facts about a turn that is about to start.
#[derive(Clone, Debug)]
pub struct TurnStarted {
    /// The session at this moment.
    pub facts: SessionSummary,
    /// The prompt; `None` when deferred calls of a resumed session are run first.
    pub prompt: Option<Prompt>,
}

/// Snapshot of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionSummary {
    /// Working directory.
    pub cwd: PathBuf,
    /// Names of the tools that can be called.
    pub tools: Vec<String>,
    /// State of the MCP servers.
    pub servers: Vec<ServerStatus>,
    /// Name of the current model.
    pub model: String,
    /// Current permission mode.
    pub mode: PermissionMode,
    /// Where the provider's API key comes from.
    pub key_source: String,
    /// Name of the output style.
    pub output_style: String,
    /// Names of the available kinds of agents.
    pub agents: Vec<String>,
    /// Names of the slash commands.
    pub commands: Vec<String>,
    /// Names of the skills.
    pub skills: Vec<String>,
    /// Plugins that are loaded.
    pub plugins: Vec<PluginInfo>,
    /// Beta features requested from the provider.
    pub betas: Vec<String>,
    /// Further directories of the workspace.
    pub extra_dirs: Vec<PathBuf>,
}

/// Metadata of a plugin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PluginInfo {
    /// Name of the plugin.
    pub name: String,
    /// Directory of the plugin.
    pub path: PathBuf,
    /// Version from the plugin's manifest, if any.
    pub version: Option<String>,
    /// `name@marketplace`, or `name@inline` for a plugin given as a directory.
    pub source: String,
}

/// Facts about a turn, apart from its outcome.
#[derive(Clone, Debug, Default)]
pub struct TurnInfo {
    /// Names of the prompts the turn answered; prompts without a name are left out.
    pub prompts: Vec<String>,
    /// Number of prompts that are queued.
    pub queued: usize,
    /// Number of turns that ended before this one.
    pub index: usize,
    /// Whether tool calls were running when the turn was interrupted.
    pub in_tools: bool,
    /// A call whose permission decision was deferred; the turn ended without running it.
    pub deferred: Option<ToolUse>,
    /// Milliseconds until the first output of the model; `None` without output.
    pub ttft_ms: Option<u64>,
    /// The text of the prompt.
    pub prompt_text: String,
    /// Author of the prompt.
    pub speaker: PromptAuthor,
    /// The agent runs this prompt reports, as JSON, if it is such a report.
    pub origin: Option<Value>,
}

/// A prompt that was added to the conversation without an answer.
#[derive(Clone, Debug)]
pub struct Appended {
    /// Facts about the prompt.
    pub facts: TurnInfo,
    /// Usage of the session so far.
    pub bill: UsageTotals,
}

/// A turn that ended.
#[derive(Clone, Debug)]
pub struct TurnEnded {
    /// How the turn ended.
    pub end: TurnEnd,
    /// Facts about the turn.
    pub facts: TurnInfo,
    /// Usage of the session so far.
    pub bill: UsageTotals,
}

/// A built-in slash command that finished.
#[derive(Clone, Debug)]
pub struct CommandEnded {
    /// The session after the command.
    pub session: SessionSummary,
    /// Facts about the command's turn.
    pub facts: TurnInfo,
    /// Usage of the session so far.
    pub bill: UsageTotals,
    /// Result of the command.
    pub result: CommandResult,
}

/// Result of a built-in slash command.
#[derive(Clone, Debug)]
pub enum CommandResult {
    /// `/clear` started an empty conversation.
    Cleared,
    /// `/compact` summarised the conversation.
    Compacted {
        /// Sizes before and after, if they were measured.
        event: Option<CompactedEvent>,
        /// The summary the conversation starts with now.
        summary: String,
    },
    /// `/compact` did not change the conversation, for this reason.
    NotCompacted(String),
    /// Report of `/context` about what fills the context window.
    Context(String),
    /// Report of `/cost` about the session's cost.
    Cost(String),
    /// The command failed: its name, and the reason.
    Failed(String, String),
}

impl CommandResult {
    /// The text to show to the user; `None` if the command has no such text.
    pub fn shown(&self) -> Option<ShownContent> {
        match self {
            Self::Cleared => None,
            Self::Compacted { .. } => {
                Some(ShownContent::Said(String::from("The conversation was summed up.")))
            }
            Self::NotCompacted(why) => {
                Some(ShownContent::Said(format!("The conversation was not summed up: {why}")))
            }
            Self::Context(words) | Self::Cost(words) => Some(ShownContent::Printed(words.clone())),
            Self::Failed(name, why) => Some(ShownContent::Said(format!("{name}: {why}"))),
        }
    }
}

/// Emits events of a session. Clones send to the same receiver.
#[derive(Clone)]
pub struct EventSender {
    take: Arc<dyn Fn(SessionEvent) + Send + Sync>,
    /// Cancelled when the [`EventStream`] is dropped.
    unread: CancellationToken,
}

/// Receives the events of a session, in order.
#[derive(Debug)]
pub struct EventStream {
    events: mpsc::UnboundedReceiver<SessionEvent>,
    /// Cancels [`EventSender`]'s token when the stream is dropped.
    _reading: DropGuard,
}

impl EventSender {
    /// Creates a sender and its stream, without a limit on queued events. Events sent after the stream
    /// was dropped are discarded.
    pub fn channel() -> (Self, EventStream) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let send = move |event| drop(sender.send(event));
        let unread = CancellationToken::new();
        let reader = EventStream { events: receiver, _reading: unread.clone().drop_guard() };
        (Self { take: Arc::new(send), unread }, reader)
    }

    /// Creates a sender that passes every event to `take`, synchronously on the thread that emits it.
    pub fn to(take: impl Fn(SessionEvent) + Send + Sync + 'static) -> Self {
        Self { take: Arc::new(take), unread: CancellationToken::new() }
    }

    /// Waits until the event stream was dropped. Never returns for a sender created with
    /// [`EventSender::to`].
    pub(crate) async fn unread(&self) {
        self.unread.cancelled().await;
    }

    /// Emits an event about the main agent or the session.
    pub fn tell(&self, what: SessionEventKind) {
        self.tell_of(AgentId::Main, None, what);
    }

    /// Emits an event about an agent of the session.
    pub fn tell_of(&self, agent: AgentId, parent_call: Option<CallId>, what: SessionEventKind) {
        (self.take)(SessionEvent { agent, parent_call, at: SystemTime::now(), what });
    }

    /// Emits a message for the user.
    pub fn notice(&self, text: impl Into<String>) {
        self.tell(SessionEventKind::Notice(text.into()));
    }
}

impl EventStream {
    /// Waits for the next event; `None` when the session and all other senders are gone.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        self.events.recv().await
    }

    /// Returns the next event if one is queued, without waiting.
    pub fn try_next(&mut self) -> Option<SessionEvent> {
        self.events.try_recv().ok()
    }
}
