//! What a session tells the terminal.

use haft_tool::{Rendered, Rendering};

use crate::question_card::QuestionCard;

/// Something a session tells.
#[derive(Clone, Debug)]
pub enum UiUpdate {
    /// The session is open: prompts can be worked on.
    Ready(Vec<SlashName>),
    /// The session cannot be opened; what to do about it, line by line. Nothing
    /// that was typed is lost.
    CannotOpen(Vec<String>),
    /// A prompt is being worked on.
    TurnBegan,
    /// Something was said that the person did not type.
    Said(String),
    /// A prompt from before, when a session is taken up again.
    SaidBefore(String),
    /// The beginning of an old conversation: part of the transcript, but not
    /// shown.
    Earlier(Vec<UiUpdate>),
    /// A piece of the answer.
    Text(String),
    /// A piece of what the model thinks.
    Thinking(String),
    /// What was being said is complete.
    BlockEnded,
    /// An answer begins.
    AnswerBegan,
    /// The answer broke off: what was said since it began is void, and so are
    /// these calls.
    AnswerBroke {
        /// Calls that were taken up early.
        calls: Vec<String>,
    },
    /// The model writes a call of this tool.
    CallWritten(String),
    /// A call runs.
    CallBegan {
        /// The call.
        id: String,
        /// The agent it belongs to, if it is not the main one.
        agent: Option<String>,
        /// The tool.
        name: String,
        /// What it does, in the tool's words.
        headline: String,
    },
    /// How far a call is.
    CallProgress {
        /// The call.
        id: String,
        /// The end of what it printed.
        tail: Vec<String>,
        /// How far it is, in words.
        note: String,
    },
    /// A call is done.
    CallEnded(Box<FinishedCall>),
    /// What the session waits for.
    Phase(TurnPhase),
    /// Something the person should know.
    Notice(String),
    /// A question.
    Asked(Box<QuestionCard>),
    /// What was answered cannot be taken, for this reason: the question stays.
    AnswerRefused {
        /// The question.
        id: String,
        /// Why.
        why: String,
    },
    /// Nobody waits for the answer any more.
    Withdrawn(String),
    /// Commands in the background.
    Tasks(Vec<PickerRow>),
    /// What is to be done: text, and whether it is done or being done.
    Todos(Vec<(String, TodoState)>),
    /// What fills the window, what it costs, who answers, in which mode.
    Meter(StatusUpdate),
    /// A prompt is done.
    TurnEnded {
        /// What went wrong, if something did.
        problem: Option<String>,
        /// Whether the person interrupted.
        interrupted: bool,
    },
    /// The conversation begins anew.
    Cleared,
    /// Something to read, the answer to a command.
    Panel(PagerText),
    /// Something to choose from.
    Pick {
        /// What the choice is for; comes back with it.
        purpose: String,
        /// What it says above.
        title: String,
        /// What there is.
        rows: Vec<PickerRow>,
        /// Whether what a row would show is asked for when it is selected.
        previewed: bool,
    },
    /// More to choose from: a long list is shown before all of it is known.
    PickMore {
        /// What the choice is for. It may have been made by now.
        purpose: String,
        /// What comes behind.
        rows: Vec<PickerRow>,
    },
    /// What a row shows before it is chosen.
    Preview {
        /// The row.
        id: String,
        /// What it shows.
        lines: Vec<haft_tool::RenderedLine>,
    },
    /// An agent works for another one.
    AgentBegan {
        /// The agent.
        id: String,
        /// What it does.
        title: String,
    },
    /// Something an agent said or did.
    AgentNews {
        /// The agent.
        id: String,
        /// What: words, ends of blocks, results of calls.
        news: Box<UiUpdate>,
    },
    /// A picture that was pasted, or why there is none.
    Picture(PastedImage),
    /// Files that fit a wish.
    Files {
        /// What was wished for.
        query: String,
        /// What was found.
        found: Vec<String>,
    },
    /// What the person wants of the terminal, as the settings say.
    Preferences(Box<TermPreferences>),
    /// This is sent as soon as it can be.
    Begin(String),
    /// This becomes the draft.
    Draft(String),
    /// The program ends; these lines are the last.
    Farewell(Vec<String>),
}

/// What the person wants of the terminal.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TermPreferences {
    /// Actions and their keys.
    pub keys: Vec<(String, Vec<String>)>,
    /// Keys of vi.
    pub vi: bool,
    /// Nothing moves by itself.
    pub still: bool,
    /// Prose is broken between words.
    pub by_words: bool,
    /// The conversation has a screen of its own.
    pub own_screen: bool,
    /// A theme by its name.
    pub theme: Option<String>,
    /// Colours by their meaning.
    pub colours: Vec<(String, String)>,
    /// How somebody who does not look is told.
    pub alert: Option<crate::terminal_caps::AlertKind>,
    /// Lines that are shown of a call, by the name of its tool; `*` at the end of a
    /// name stands for anything.
    pub folds: Vec<(String, usize)>,
}

/// A picture that was pasted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PastedImage {
    /// It is in this file.
    There {
        /// The file.
        path: String,
        /// What is shown in its place.
        label: String,
    },
    /// There is none; what was pasted is text.
    Missing {
        /// What was pasted.
        text: String,
        /// Why, and what works instead.
        why: String,
    },
}

/// A command of the session: its name, what it does, what may follow it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SlashName {
    /// What is typed after the slash.
    pub name: String,
    /// What it does.
    pub about: String,
    /// What may follow.
    pub hint: String,
}

/// How far something that is to be done is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TodoState {
    /// Not begun.
    Open,
    /// Being done.
    Doing,
    /// Done.
    Done,
}

/// A call that is done.
#[derive(Clone, Debug)]
pub struct FinishedCall {
    /// The call.
    pub id: String,
    /// The agent it belongs to, if it is not the main one.
    pub agent: Option<String>,
    /// The tool.
    pub name: String,
    /// What it did, in the tool's words.
    pub headline: String,
    /// Whether it failed.
    pub failed: bool,
    /// What a person sees of it.
    pub rendered: Rendered,
    /// Everything, for whoever opens it.
    pub whole: Option<Rendering>,
}

/// What a session waits for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TurnPhase {
    /// The model has not begun to answer.
    Waiting,
    /// The model thinks.
    Thinking,
    /// The model answers.
    Answering,
    /// The model writes the input of a call.
    Calling(String),
    /// A request is sent again.
    Retrying {
        /// Why.
        why: String,
        /// When, in milliseconds of the terminal's clock from now.
        in_ms: u64,
        /// Which attempt of how many.
        attempt: (u32, u32),
    },
    /// The conversation is being summed up.
    Compacting,
}

/// What the footer shows. What is not told stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusUpdate {
    /// The model.
    pub model: Option<String>,
    /// The permission mode.
    pub mode: Option<String>,
    /// Share of the window that is filled.
    pub context_percent: Option<u8>,
    /// Dollars so far.
    pub usd: Option<f64>,
    /// How hard the model tries.
    pub effort: Option<String>,
    /// Where the session works, as it is shown.
    pub place: Option<String>,
    /// A line of the person's own program.
    pub status_line: Option<String>,
}

/// Something to read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PagerText {
    /// What it says above.
    pub title: String,
    /// What it says, as Markdown.
    pub text: String,
    /// Lines of a call or a diff, behind the text.
    pub lines: Vec<haft_tool::RenderedLine>,
    /// Whether it is shown on a screen of its own; otherwise it becomes part of
    /// the conversation.
    pub paged: bool,
}

/// Something that can be chosen.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PickerRow {
    /// What comes back.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// What else is known.
    pub detail: String,
    /// What is shown of it before it is chosen.
    pub preview: Vec<haft_tool::RenderedLine>,
}
