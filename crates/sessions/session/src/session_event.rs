//! What a session tells, once and in order.

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

/// Something that happened in a session. Everything a face may show is one of
/// these; what a face shows is a function of their sequence.
#[derive(Clone, Debug)]
pub struct SessionEvent {
    /// The agent it belongs to.
    pub agent: AgentId,
    /// The call that started that agent, if it is a child.
    pub parent_call: Option<CallId>,
    /// When it happened.
    pub at: SystemTime,
    /// What happened.
    pub what: SessionEventKind,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum SessionEventKind {
    /// The agent did something.
    Agent(AgentEvent),
    /// The person should know this.
    Notice(String),
    /// A person who wants to see everything should know this.
    Detail(String),
    /// The state of a prompt that somebody named.
    PromptState(String, PromptState),
    /// What the session is busy with.
    Activity(Activity),
    /// A prompt is about to be worked on.
    TurnBegan(Box<TurnStarted>),
    /// Something was said while a prompt is being worked on; the agent hears it
    /// after the calls it is running.
    Heard(Box<Prompt>),
    /// A call was denied, and neither a person nor a hook said so. Comes before
    /// its result.
    CallDenied(Box<DeniedToolCall>),
    /// A command goes on in the background. Comes before the result of its call.
    TaskStarted(Box<TaskInfo>, CallId),
    /// These commands run in the background now.
    TasksRunning(Vec<TaskInfo>),
    /// A command in the background has ended.
    TaskEnded(Box<TaskInfo>, Option<CallId>),
    /// An agent began to work for another. Comes before the result of its call.
    ChildStarted(Arc<ChildIdentity>),
    /// An agent that another one started is this far.
    ChildProgress(Arc<ChildIdentity>, Box<ChildProgress>),
    /// The call that waited for an agent goes on without it.
    ChildMoved(Arc<ChildIdentity>),
    /// An agent that another one started has ended.
    ChildEnded(Arc<ChildIdentity>, Arc<AgentReport>),
    /// These agents work in the background now.
    ChildrenRunning(Vec<Arc<ChildIdentity>>),
    /// The session goes on in another permission mode.
    ModeChanged(PermissionMode),
    /// Another model answers from the next request on.
    ModelChanged(String),
    /// The session has another name.
    Renamed(String),
    /// A hook begins.
    HookStarted(HookRun),
    /// A hook is done.
    HookEnded(HookRun, Box<HookReport>),
    /// Somebody has to answer; see [`Command::Answer`](crate::Command::Answer).
    Asked(Arc<SessionQuestion>),
    /// Nobody waits for the answer to this question any more.
    Settled(String, QuestionOutcome),
    /// These lines were written to a log.
    Logged(PathBuf, Vec<Value>),
    /// The conversation begins anew, as this session.
    Cleared(SessionId),
    /// The conversation is being summed up because somebody asked for it.
    CompactionBegan,
    /// A command of ours is done.
    CommandEnded(Box<CommandEnded>),
    /// A prompt that wants no answer is part of the conversation.
    Appended(Box<Appended>),
    /// A prompt is done.
    TurnEnded(Box<TurnEnded>),
    /// A value that the face itself wanted to read here, in order with the rest.
    Echo(Value),
    /// A turn broke off because of an error in Haft; the session is over.
    Broke(String),
    /// The session is over. Nothing follows.
    Closed,
}

/// How far a prompt is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PromptState {
    /// It waits.
    Queued,
    /// It is being worked on.
    Started,
    /// It was answered.
    Completed,
    /// It was taken back.
    Cancelled,
}

/// What a session is busy with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Activity {
    /// Nothing: it waits for a prompt.
    Idle,
    /// A prompt.
    Running,
    /// It waits for the answer to a permission question.
    RequiresAction,
}

/// How a question was settled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuestionOutcome {
    /// It was answered.
    Answered,
    /// Whoever asked does not want to know any more.
    TakenBack,
}

/// One run of a hook.
#[derive(Clone, Debug)]
pub struct HookRun {
    /// Its own name.
    pub run: String,
    /// The hook.
    pub hook: HookId,
    /// At which event.
    pub event: HookEvent,
    /// The event, with what it is about.
    pub label: String,
}

/// A prompt that is about to be worked on.
#[derive(Clone, Debug)]
pub struct TurnStarted {
    /// What the session is at this moment.
    pub facts: SessionSummary,
    /// The prompt; none when calls are taken up that were left for later.
    pub prompt: Option<Prompt>,
}

/// What a session is at one moment.
#[derive(Clone, Debug, Default)]
pub struct SessionSummary {
    /// Where it works.
    pub cwd: PathBuf,
    /// Names of the tools that can be called.
    pub tools: Vec<String>,
    /// MCP servers.
    pub servers: Vec<ServerStatus>,
    /// The model.
    pub model: String,
    /// The permission mode.
    pub mode: PermissionMode,
    /// Where the provider's key comes from.
    pub key_source: String,
    /// How the model is to write.
    pub output_style: String,
    /// Names of agents.
    pub agents: Vec<String>,
    /// Names of commands.
    pub commands: Vec<String>,
    /// Names of skills.
    pub skills: Vec<String>,
    /// Plugins.
    pub plugins: Vec<PluginInfo>,
    /// Beta features asked for.
    pub betas: Vec<String>,
    /// Other directories of the workspace.
    pub extra_dirs: Vec<PathBuf>,
}

/// What a plugin says about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PluginInfo {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its version, if it says so.
    pub version: Option<String>,
    /// `name@marketplace`, or `name@inline` where a directory was named.
    pub source: String,
}

/// What a turn was about beside how it ended.
#[derive(Clone, Debug, Default)]
pub struct TurnInfo {
    /// The names of the prompts it answered, as far as somebody named them.
    pub prompts: Vec<String>,
    /// How many prompts wait.
    pub queued: usize,
    /// How many turns ended before.
    pub index: usize,
    /// Whether calls were running when somebody interrupted.
    pub in_tools: bool,
    /// A call that somebody wants to decide about later.
    pub deferred: Option<ToolUse>,
    /// Milliseconds until the model said something.
    pub ttft_ms: Option<u64>,
    /// The prompt, in words.
    pub prompt_text: String,
    /// Who began it.
    pub speaker: PromptAuthor,
    /// Which runs of agents it reports, where it does.
    pub origin: Option<Value>,
}

/// A prompt that wants no answer and is part of the conversation.
#[derive(Clone, Debug)]
pub struct Appended {
    /// What it was about.
    pub facts: TurnInfo,
    /// What the session has used.
    pub bill: UsageTotals,
}

/// A prompt that is done.
#[derive(Clone, Debug)]
pub struct TurnEnded {
    /// How it ended.
    pub end: TurnEnd,
    /// What it was about.
    pub facts: TurnInfo,
    /// What the session has used.
    pub bill: UsageTotals,
}

/// A command of ours that is done.
#[derive(Clone, Debug)]
pub struct CommandEnded {
    /// What the session is now.
    pub session: SessionSummary,
    /// What the command was about.
    pub facts: TurnInfo,
    /// What the session has used.
    pub bill: UsageTotals,
    /// What came of it.
    pub result: CommandResult,
}

/// What came of a command of ours.
#[derive(Clone, Debug)]
pub enum CommandResult {
    /// The conversation begins anew.
    Cleared,
    /// The conversation was summed up.
    Compacted {
        /// How much shorter it is.
        event: Option<CompactedEvent>,
        /// What it begins with now.
        summary: String,
    },
    /// The conversation stays as it is, for this reason.
    NotCompacted(String),
    /// What fills the window.
    Context(String),
    /// What the session has cost.
    Cost(String),
    /// A command could not be carried out: its name, and why.
    Failed(String, String),
}

impl CommandResult {
    /// What the person is shown of it, where that says it all.
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

/// Hands out events of a session. Clones hand out to the same reader.
#[derive(Clone)]
pub struct EventSender {
    take: Arc<dyn Fn(SessionEvent) + Send + Sync>,
    /// Nobody reads any more.
    unread: CancellationToken,
}

/// Reads the events of a session, in order.
#[derive(Debug)]
pub struct EventStream {
    events: mpsc::UnboundedReceiver<SessionEvent>,
    /// Tells that it is gone.
    _reading: DropGuard,
}

impl EventSender {
    /// A sender and its reader. If nobody reads any more, nobody misses them.
    pub fn channel() -> (Self, EventStream) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let send = move |event| drop(sender.send(event));
        let unread = CancellationToken::new();
        let reader = EventStream { events: receiver, _reading: unread.clone().drop_guard() };
        (Self { take: Arc::new(send), unread }, reader)
    }

    /// Hands every event to a function, at once and where it happens.
    pub fn to(take: impl Fn(SessionEvent) + Send + Sync + 'static) -> Self {
        Self { take: Arc::new(take), unread: CancellationToken::new() }
    }

    /// Waits until nobody reads any more.
    pub(crate) async fn unread(&self) {
        self.unread.cancelled().await;
    }

    /// Tells something about the main agent, or about the session as a whole.
    pub fn tell(&self, what: SessionEventKind) {
        self.tell_of(AgentId::Main, None, what);
    }

    /// Tells something about an agent of the session.
    pub fn tell_of(&self, agent: AgentId, parent_call: Option<CallId>, what: SessionEventKind) {
        (self.take)(SessionEvent { agent, parent_call, at: SystemTime::now(), what });
    }

    /// Tells the person something.
    pub fn notice(&self, text: impl Into<String>) {
        self.tell(SessionEventKind::Notice(text.into()));
    }
}

impl EventStream {
    /// The next event; none when the session and everybody who tells about it
    /// are gone.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        self.events.recv().await
    }

    /// The next event, if it has happened already.
    pub fn try_next(&mut self) -> Option<SessionEvent> {
        self.events.try_recv().ok()
    }
}
