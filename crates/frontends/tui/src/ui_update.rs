//! Updates from a session to the user interface.

use haft_tool::{Rendered, Rendering};

use crate::question_card::QuestionCard;

/// An update from a session.
#[derive(Clone, Debug)]
pub enum UiUpdate {
    /// The session is open; its commands.
    Ready(Vec<SlashName>),
    /// The session could not be opened; the reason and advice, line by line. Typed text is kept.
    CannotOpen(Vec<String>),
    /// A turn has started.
    TurnBegan,
    /// A user message that was not typed here.
    Said(String),
    /// A user message from before a resume.
    SaidBefore(String),
    /// The beginning of a resumed conversation: part of the transcript, but not shown.
    Earlier(Vec<UiUpdate>),
    /// A text delta.
    Text(String),
    /// A thinking delta.
    Thinking(String),
    /// The streamed block is complete.
    BlockEnded,
    /// An answer has started.
    AnswerBegan,
    /// The answer failed and is repeated: discard its text and these calls.
    AnswerBroke {
        /// Ids of calls that were started early.
        calls: Vec<String>,
    },
    /// The model is generating a call of this tool.
    CallWritten(String),
    /// A call has started.
    CallBegan {
        id: String,
        /// The sub-agent that made it; `None` for the main agent.
        agent: Option<String>,
        /// Name of the tool.
        name: String,
        /// What it does, as rendered by the tool.
        headline: String,
    },
    /// Progress of a call.
    CallProgress {
        id: String,
        /// The last lines of its output.
        tail: Vec<String>,
        /// Progress text.
        note: String,
    },
    /// A call has finished.
    CallEnded(Box<FinishedCall>),
    /// The phase of the turn has changed.
    Phase(TurnPhase),
    /// A notice to the user.
    Notice(String),
    /// A question to the user.
    Asked(Box<QuestionCard>),
    /// The answer was rejected; the question stays open.
    AnswerRefused {
        id: String,
        /// Why.
        why: String,
    },
    /// A question is no longer relevant.
    Withdrawn(String),
    /// Background tasks.
    Tasks(Vec<PickerRow>),
    /// The to-do list: text and state.
    Todos(Vec<(String, TodoState)>),
    /// Context window, cost, model and mode.
    Meter(StatusUpdate),
    /// A turn has ended.
    TurnEnded {
        /// The error, if there was one.
        problem: Option<String>,
        /// Whether the user interrupted it.
        interrupted: bool,
    },
    /// The conversation was cleared.
    Cleared,
    /// A text to show, as the result of a command.
    Panel(PagerText),
    /// Opens a picker.
    Pick {
        /// Purpose, repeated in the result.
        purpose: String,
        title: String,
        rows: Vec<PickerRow>,
        /// Whether previews are loaded when a row is selected.
        previewed: bool,
    },
    /// More rows for a picker whose list is loaded incrementally.
    PickMore {
        /// Purpose of the picker, which may have been closed by now.
        purpose: String,
        rows: Vec<PickerRow>,
    },
    /// The preview of a row.
    Preview {
        /// Id of the row.
        id: String,
        lines: Vec<haft_tool::RenderedLine>,
    },
    /// A sub-agent has started.
    AgentBegan {
        id: String,
        /// Its task.
        title: String,
    },
    /// An update from a sub-agent.
    AgentNews {
        id: String,
        /// Its text, block ends or call results.
        news: Box<UiUpdate>,
    },
    /// A pasted image, or why there is none.
    Picture(PastedImage),
    /// Files that match a query.
    Files { query: String, found: Vec<String> },
    /// User interface preferences from the settings.
    Preferences(Box<TermPreferences>),
    /// Sends this message as soon as possible.
    Begin(String),
    /// Puts this text into the prompt.
    Draft(String),
    /// The program exits; the last lines to print.
    Farewell(Vec<String>),
}

/// User interface preferences.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TermPreferences {
    /// Actions and their keys.
    pub keys: Vec<(String, Vec<String>)>,
    /// Whether vi keys are used.
    pub vi: bool,
    /// Whether animations are disabled.
    pub still: bool,
    /// Whether prose is wrapped between words.
    pub by_words: bool,
    /// Whether the conversation is shown on the alternate screen.
    pub own_screen: bool,
    /// Name of a theme.
    pub theme: Option<String>,
    /// Colour overrides by name.
    pub colours: Vec<(String, String)>,
    /// How the user is notified when not looking.
    pub alert: Option<crate::terminal_caps::AlertKind>,
    /// Maximum lines shown of a call, by tool name; a name may end in `*`.
    pub folds: Vec<(String, usize)>,
}

/// A pasted image.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PastedImage {
    /// It was saved to a file.
    There {
        path: String,
        /// Placeholder shown in the prompt.
        label: String,
    },
    /// There is no image; the paste is text.
    Missing {
        text: String,
        /// Why, and what works instead.
        why: String,
    },
}

/// A slash command of the session.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SlashName {
    /// Name without the slash.
    pub name: String,
    /// Description.
    pub about: String,
    /// Description of its arguments.
    pub hint: String,
}

/// State of a to-do item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TodoState {
    Open,
    /// In progress.
    Doing,
    Done,
}

/// A finished call.
#[derive(Clone, Debug)]
pub struct FinishedCall {
    pub id: String,
    /// The sub-agent that made it; `None` for the main agent.
    pub agent: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// What it did, as rendered by the tool.
    pub headline: String,
    pub failed: bool,
    /// Folded rendering.
    pub rendered: Rendered,
    /// Complete rendering, shown on request.
    pub whole: Option<Rendering>,
}

/// What a turn is waiting for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TurnPhase {
    /// The model has not started to answer.
    Waiting,
    Thinking,
    Answering,
    /// The model is generating the input of a call.
    Calling(String),
    /// A failed request will be sent again.
    Retrying {
        why: String,
        /// Milliseconds until the retry.
        in_ms: u64,
        /// Number of the attempt, and the maximum.
        attempt: (u32, u32),
    },
    /// The conversation is being compacted.
    Compacting,
}

/// Changes of the footer; `None` keeps the previous value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusUpdate {
    pub model: Option<String>,
    pub mode: Option<String>,
    /// Percentage of the context window in use.
    pub context_percent: Option<u8>,
    /// Cost so far in US dollars.
    pub usd: Option<f64>,
    /// Effort level.
    pub effort: Option<String>,
    /// Working directory, formatted.
    pub place: Option<String>,
    /// Output of the user's status line command.
    pub status_line: Option<String>,
}

/// A text to show.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PagerText {
    pub title: String,
    /// Markdown.
    pub text: String,
    /// Rendered lines after the text.
    pub lines: Vec<haft_tool::RenderedLine>,
    /// Whether it opens in a pager; otherwise it becomes part of the conversation.
    pub paged: bool,
}

/// A row of a picker.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PickerRow {
    pub id: String,
    pub title: String,
    /// Additional information.
    pub detail: String,
    /// Preview, if it is known from the start.
    pub preview: Vec<haft_tool::RenderedLine>,
}
