//! Everything the terminal shows, and what it knows to show it.

use crate::{
    completion::Completions,
    composer::Composer,
    keymap::KeyMap,
    markdown::MarkdownStream,
    overlay::Overlay,
    prompt_history::PromptHistory,
    question_card::QuestionQueue,
    styled_text::StyledLine,
    terminal_caps::TerminalCaps,
    transcript::TranscriptItem,
    ui_update::{PickerRow, SlashName, StatusUpdate, TodoState, TurnPhase},
    vi::ViKeys,
};

/// Columns and rows of the screen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ScreenSize {
    /// Columns.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// A call that runs.
#[derive(Clone, Debug)]
pub(crate) struct RunningCall {
    pub(crate) id: String,
    pub(crate) agent: Option<String>,
    pub(crate) name: String,
    pub(crate) headline: String,
    pub(crate) since: u64,
    pub(crate) tail: Vec<String>,
    pub(crate) note: String,
}

/// An agent that works for another one.
#[derive(Clone, Debug)]
pub(crate) struct AgentView {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) items: Vec<TranscriptItem>,
    /// What it is saying.
    pub(crate) speaking: String,
    pub(crate) answer_began: AnswerStart,
}

/// What the session is doing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConversationState {
    /// It is being opened; prompts wait.
    Opening,
    /// It cannot be opened.
    Closed,
    /// It waits for a prompt.
    Idle,
    /// It works since then.
    Working(u64, TurnPhase),
}

/// The voice that is speaking.
#[derive(Clone, Debug)]
pub(crate) enum StreamingVoice {
    Nobody,
    /// The answer, with its source.
    Answer(Box<MarkdownStream>, String),
    /// Thinking: since when, and what.
    Thought(u64, String),
}

/// Where the transcript was when an answer began.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerStart {
    /// So much had been said and done.
    pub(crate) items: usize,
    /// What had been answered last.
    pub(crate) last_answer: String,
}

impl AnswerStart {
    /// Takes the words of the answer out of a transcript; says whether there
    /// were any.
    pub(crate) fn take_back(&self, items: &mut Vec<TranscriptItem>) -> bool {
        let before = items.len();
        let later = items.split_off(self.items.min(before));
        let is_word =
            |it: &TranscriptItem| matches!(it, TranscriptItem::Answer(_) | TranscriptItem::Thought(_));
        items.extend(later.into_iter().filter(|it| !is_word(it)));
        items.len() < before
    }
}

/// A search in what was sent before.
#[derive(Clone, Debug)]
pub(crate) struct HistorySearch {
    pub(crate) typed: Composer,
    pub(crate) skip: usize,
    pub(crate) draft: String,
}

/// Everything the terminal shows. Changed only by [`AppState::update`].
#[derive(Debug)]
pub struct AppState {
    pub(crate) look: TerminalCaps,
    pub(crate) size: ScreenSize,
    pub(crate) keys: KeyMap,
    pub(crate) now: u64,
    /// Milliseconds since 1970 when `now` was 0.
    pub(crate) epoch_ms: u64,
    pub(crate) session: ConversationState,
    pub(crate) composer: Composer,
    pub(crate) history: PromptHistory,
    pub(crate) search: Option<HistorySearch>,
    pub(crate) offers: Completions,
    pub(crate) slash: Vec<SlashName>,
    /// Messages that wait for a pause.
    pub(crate) queue: Vec<String>,
    /// A message taken out of the queue to be changed: nothing is sent meanwhile.
    pub(crate) editing_queued: Option<usize>,
    pub(crate) asks: QuestionQueue,
    /// A row of a question whose text is being edited.
    pub(crate) editing_ask: Option<(String, usize)>,
    pub(crate) speaking: StreamingVoice,
    pub(crate) calls: Vec<RunningCall>,
    pub(crate) tasks: Vec<PickerRow>,
    /// Agents that work for others, and what they said and did.
    pub(crate) agents: Vec<AgentView>,
    /// When the session came into its phase.
    pub(crate) phase_since: u64,
    /// Rows above the newest that are shown, on a screen of our own.
    pub(crate) scrolled: usize,
    pub(crate) todos: Vec<(String, TodoState)>,
    pub(crate) meter: StatusUpdate,
    pub(crate) items: Vec<TranscriptItem>,
    /// Lines that are finished and not on the screen yet.
    pub(crate) finished: Vec<StyledLine>,
    /// Whether the last thing that was shown wants a blank line behind it.
    pub(crate) wants_gap: bool,
    pub(crate) overlay: Option<Overlay>,
    /// A short hint in the footer, until then.
    pub(crate) hint: Option<(String, u64)>,
    /// Ctrl-C was pressed when there was nothing to cancel.
    pub(crate) leaving_until: u64,
    /// Esc was pressed when there was nothing to stop.
    pub(crate) rewinding_until: u64,
    /// Esc stops the agents in the background until then, too.
    pub(crate) stopping_until: u64,
    pub(crate) focused: bool,
    pub(crate) last_key: u64,
    pub(crate) last_answer: String,
    /// What the answer that comes in can be taken back to.
    pub(crate) answer_began: AnswerStart,
    pub(crate) ended: bool,
    pub(crate) vi: ViKeys,
    /// Lines that are shown of a call, by the name of its tool.
    pub(crate) folds: Vec<(String, usize)>,
}

impl AppState {
    /// A terminal on which nothing was said.
    pub fn new(look: TerminalCaps, size: ScreenSize, history: PromptHistory) -> Self {
        Self {
            look,
            size,
            keys: KeyMap::default(),
            now: 0,
            epoch_ms: 0,
            session: ConversationState::Opening,
            composer: Composer::default(),
            history,
            search: None,
            offers: Completions::default(),
            slash: Vec::new(),
            queue: Vec::new(),
            editing_queued: None,
            asks: QuestionQueue::default(),
            editing_ask: None,
            speaking: StreamingVoice::Nobody,
            calls: Vec::new(),
            tasks: Vec::new(),
            agents: Vec::new(),
            phase_since: 0,
            scrolled: 0,
            todos: Vec::new(),
            meter: StatusUpdate::default(),
            items: Vec::new(),
            finished: Vec::new(),
            wants_gap: false,
            overlay: None,
            hint: None,
            leaving_until: 0,
            rewinding_until: 0,
            stopping_until: 0,
            focused: true,
            last_key: 0,
            last_answer: String::new(),
            answer_began: AnswerStart::default(),
            ended: false,
            vi: ViKeys::default(),
            folds: Vec::new(),
        }
    }

    /// Other keys, and what is wrong with them.
    pub fn set_keys(&mut self, keys: KeyMap, problems: &[String]) {
        self.keys = keys;
        for problem in problems {
            self.notice(problem);
        }
    }

    /// The time of day when the terminal's clock was 0.
    pub fn set_epoch(&mut self, epoch_ms: u64) {
        self.epoch_ms = epoch_ms;
    }

    /// Lines that belong above everything: shown once.
    pub fn greet(&mut self, lines: Vec<StyledLine>) {
        self.finished.extend(lines);
        self.wants_gap = true;
    }

    /// Rows above the newest that are shown, on a screen of our own.
    pub fn scrolled(&self) -> usize {
        self.scrolled
    }

    /// Nothing is above what is shown: so far it was scrolled.
    pub fn scrolled_to(&mut self, rows: usize) {
        self.scrolled = rows;
    }

    /// Lines that are finished, handed out once they are drawn.
    pub fn finished(&self) -> &[StyledLine] {
        &self.finished
    }

    /// The finished lines were drawn.
    pub fn drawn(&mut self) {
        self.finished.clear();
    }

    /// What was drawn last is on the screen since this moment: the terminal took all of it.
    /// Before that, a question or a choice hears nothing.
    pub fn shown(&mut self, now: u64) {
        match &mut self.overlay {
            Some(overlay) => overlay.is_seen(now),
            None => self.asks.is_seen(now),
        }
    }

    /// How it is shown.
    pub fn look(&self) -> &TerminalCaps {
        &self.look
    }

    /// The view on a screen of its own, if there is one.
    pub fn overlay(&mut self) -> Option<&mut Overlay> {
        self.overlay.as_mut()
    }

    /// Whether the program is to end.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// What is written and not sent.
    pub fn draft(&self) -> &Composer {
        &self.composer
    }

    /// Whether the cursor may stand elsewhere than at the caret: the terminal would lose its
    /// place otherwise, and nobody types, so that no input method opens at it.
    pub fn may_park(&self) -> bool {
        let is_typing = !self.composer.is_empty() || self.asks.shown().is_some() || self.search.is_some();
        self.look.wraps_early && !is_typing && !self.ended
    }

    /// Whether a prompt is being worked on.
    pub fn is_working(&self) -> bool {
        matches!(self.session, ConversationState::Working(..))
    }

    /// Whether only commands of the person run.
    pub(crate) fn runs_own_commands(&self) -> bool {
        !self.is_working() && self.calls.iter().any(|call| call.id.starts_with(OWN_COMMAND))
    }

    /// What the window of the terminal is called.
    pub fn title(&self) -> String {
        let what = match &self.session {
            _ if !self.asks.waiting.is_empty() => "? haft",
            ConversationState::Working(..) => "… haft",
            _ => "haft",
        };
        match &self.meter.place {
            Some(place) => format!("{what} · {place}"),
            None => what.to_owned(),
        }
    }

    /// Lines that are shown of a call of this tool. The name itself counts before
    /// one that ends in `*`.
    pub(crate) fn lines_of(&self, tool: &str) -> usize {
        let fits = |name: &str| name.strip_suffix('*').is_some_and(|head| tool.starts_with(head));
        let exact = self.folds.iter().find(|it| it.0 == tool);
        let found = exact.or_else(|| self.folds.iter().find(|it| fits(&it.0)));
        found.map_or(crate::rendered_call::MAX_LINES, |it| it.1)
    }

    /// When something changes by itself; nothing when all is still.
    pub fn deadline(&self) -> Option<u64> {
        if let Some(overlay) = &self.overlay {
            return overlay.deadline().map(|it| it.max(self.now + 1));
        }
        let tick = match &self.session {
            ConversationState::Working(since, _) if self.look.motion => {
                Some(self.now + SPIN_MS - (self.now - since) % SPIN_MS)
            }
            ConversationState::Working(since, _) => Some(self.now + 1000 - (self.now - since) % 1000),
            _ if !self.calls.is_empty() => Some(self.now + 1000 - self.now % 1000),
            _ => None,
        };
        let hint = self.hint.as_ref().map(|it| it.1);
        let soonest = [tick, hint, self.asks.deadline()].into_iter().flatten().min();
        soonest.map(|it| it.max(self.now + 1))
    }

    /// Begins something new in the conversation, set apart from what is above.
    pub(crate) fn begin_item(&mut self) {
        if std::mem::replace(&mut self.wants_gap, true) {
            self.finished.push(StyledLine::blank());
        }
    }
}

/// How calls begin that are commands of the person.
pub const OWN_COMMAND: char = '!';

/// How often the sign of work moves: with the seconds beside it, so that waiting
/// costs one frame a second.
pub(crate) const SPIN_MS: u64 = 1000;

impl AppState {
    /// Everything that was said and done, as lines.
    pub fn all_lines(&self) -> Vec<StyledLine> {
        crate::transcript::all_lines(&self.items, &self.look, self.size.columns)
    }

    /// The same, with what is finished of the answer that is being given.
    pub(crate) fn all_finished_lines(&self) -> Vec<StyledLine> {
        let mut lines = self.all_lines();
        if let StreamingVoice::Answer(_, source) = &self.speaking {
            let mut stream = MarkdownStream::new(&self.look, self.size.columns);
            stream.feed(source);
            lines.push(StyledLine::blank());
            lines.extend(stream.take_finished());
        }
        lines
    }

    /// The last screenful of the conversation is to be drawn again, before what is
    /// not drawn yet.
    pub(crate) fn show_last_screen_first(&mut self) {
        let rest = std::mem::take(&mut self.finished);
        self.show_last_screen();
        self.finished.extend(rest);
    }

    /// The last screenful of the conversation is to be drawn again.
    pub(crate) fn show_last_screen(&mut self) {
        let lines = self.all_lines();
        let room = self.size.rows.saturating_sub(8);
        let (mut rows, mut first) = (0, lines.len());
        while 0 < first && rows < room {
            first -= 1;
            rows += crate::layout::layout(&lines[first], self.size.columns).len();
        }
        self.finished = lines.into_iter().skip(first).collect();
    }
}
