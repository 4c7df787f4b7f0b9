//! State of the user interface.

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

/// Size of the screen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ScreenSize {
    pub columns: usize,
    pub rows: usize,
}

/// A running call.
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

/// A sub-agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentView {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) items: Vec<TranscriptItem>,
    /// Text it is generating.
    pub(crate) speaking: String,
    pub(crate) answer_began: AnswerStart,
}

/// State of the session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConversationState {
    /// Being opened; prompts wait.
    Opening,
    /// Cannot be opened.
    Closed,
    /// Waiting for a prompt.
    Idle,
    /// Working since this time.
    Working(u64, TurnPhase),
}

/// The text being streamed.
#[derive(Clone, Debug)]
pub(crate) enum StreamingVoice {
    Nobody,
    /// An answer: renderer and source.
    Answer(Box<MarkdownStream>, String),
    /// Thinking: start time and text.
    Thought(u64, String),
}

/// Position of the transcript when an answer started.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerStart {
    /// Number of items.
    pub(crate) items: usize,
    /// The previous answer.
    pub(crate) last_answer: String,
}

impl AnswerStart {
    /// Removes the answer from a transcript, because it is repeated. Returns whether there was any text.
    pub(crate) fn take_back(&self, items: &mut Vec<TranscriptItem>) -> bool {
        let before = items.len();
        let later = items.split_off(self.items.min(before));
        let is_word =
            |it: &TranscriptItem| matches!(it, TranscriptItem::Answer(_) | TranscriptItem::Thought(_));
        items.extend(later.into_iter().filter(|it| !is_word(it)));
        items.len() < before
    }
}

/// A search in the prompt history.
#[derive(Clone, Debug)]
pub(crate) struct HistorySearch {
    pub(crate) typed: Composer,
    pub(crate) skip: usize,
    pub(crate) draft: String,
}

/// State of the user interface. Changed only by [`AppState::update`].
#[derive(Debug)]
pub struct AppState {
    pub(crate) look: TerminalCaps,
    pub(crate) size: ScreenSize,
    pub(crate) keys: KeyMap,
    pub(crate) now: u64,
    /// Milliseconds since 1970 at time 0 of the terminal's clock.
    pub(crate) epoch_ms: u64,
    pub(crate) session: ConversationState,
    pub(crate) composer: Composer,
    pub(crate) history: PromptHistory,
    pub(crate) search: Option<HistorySearch>,
    pub(crate) offers: Completions,
    pub(crate) slash: Vec<SlashName>,
    /// Messages to be sent at the next opportunity.
    pub(crate) queue: Vec<String>,
    /// Index of a queued message that is being edited; nothing is sent meanwhile.
    pub(crate) editing_queued: Option<usize>,
    pub(crate) asks: QuestionQueue,
    /// Question and row whose text is being edited.
    pub(crate) editing_ask: Option<(String, usize)>,
    pub(crate) speaking: StreamingVoice,
    pub(crate) calls: Vec<RunningCall>,
    pub(crate) tasks: Vec<PickerRow>,
    /// Sub-agents with their output.
    pub(crate) agents: Vec<AgentView>,
    /// When the current phase started.
    pub(crate) phase_since: u64,
    /// Rows scrolled up, in full-screen mode.
    pub(crate) scrolled: usize,
    pub(crate) todos: Vec<(String, TodoState)>,
    pub(crate) meter: StatusUpdate,
    pub(crate) items: Vec<TranscriptItem>,
    /// Finished lines that are not painted yet.
    pub(crate) finished: Vec<StyledLine>,
    /// Whether a blank line is needed before the next item.
    pub(crate) wants_gap: bool,
    pub(crate) overlay: Option<Overlay>,
    /// A temporary hint in the footer, and when it disappears.
    pub(crate) hint: Option<(String, u64)>,
    /// Until when a second Ctrl-C exits, after one with nothing to cancel.
    pub(crate) leaving_until: u64,
    /// Until when a second Esc opens the rewind list, after one with nothing to stop.
    pub(crate) rewinding_until: u64,
    /// Until when another Esc also stops background agents.
    pub(crate) stopping_until: u64,
    pub(crate) focused: bool,
    pub(crate) last_key: u64,
    pub(crate) last_answer: String,
    /// Where the current answer started, in case it is repeated.
    pub(crate) answer_began: AnswerStart,
    pub(crate) ended: bool,
    pub(crate) vi: ViKeys,
    /// Maximum lines shown of a call, by tool name.
    pub(crate) folds: Vec<(String, usize)>,
}

impl AppState {
    /// Creates the state before any message.
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

    /// Changes the key bindings and shows their problems.
    pub fn set_keys(&mut self, keys: KeyMap, problems: &[String]) {
        self.keys = keys;
        for problem in problems {
            self.notice(problem);
        }
    }

    /// Sets the time of day at time 0 of the terminal's clock.
    pub fn set_epoch(&mut self, epoch_ms: u64) {
        self.epoch_ms = epoch_ms;
    }

    /// Sets lines shown once at the top.
    pub fn greet(&mut self, lines: Vec<StyledLine>) {
        self.finished.extend(lines);
        self.wants_gap = true;
    }

    /// Returns the number of rows scrolled up, in full-screen mode.
    pub fn scrolled(&self) -> usize {
        self.scrolled
    }

    /// Limits scrolling, because there are only this many rows above.
    pub fn scrolled_to(&mut self, rows: usize) {
        self.scrolled = rows;
    }

    /// Returns finished lines that are not painted yet.
    pub fn finished(&self) -> &[StyledLine] {
        &self.finished
    }

    /// Marks the finished lines as painted.
    pub fn drawn(&mut self) {
        self.finished.clear();
    }

    /// Marks the last frame as visible since `now`, because the terminal has accepted all of it.
    /// Questions and pickers ignore keys before that.
    pub fn shown(&mut self, now: u64) {
        match &mut self.overlay {
            Some(overlay) => overlay.is_seen(now),
            None => self.asks.is_seen(now),
        }
    }

    /// Returns the terminal's capabilities.
    pub fn look(&self) -> &TerminalCaps {
        &self.look
    }

    /// Returns the overlay, if one is open.
    pub fn overlay(&mut self) -> Option<&mut Overlay> {
        self.overlay.as_mut()
    }

    /// Whether the program should exit.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the prompt being written.
    pub fn draft(&self) -> &Composer {
        &self.composer
    }

    /// Whether the cursor may be parked away from the caret. Only while terminals need it to track the
    /// region, and nobody is typing (an input method opens at the cursor).
    pub fn can_park_cursor(&self) -> bool {
        let is_typing = !self.composer.is_empty() || self.asks.shown().is_some() || self.search.is_some();
        self.look.wraps_early && !is_typing && !self.ended
    }

    /// Whether a turn is in progress.
    pub fn is_working(&self) -> bool {
        matches!(self.session, ConversationState::Working(..))
    }

    /// Whether only the user's own shell commands are running.
    pub(crate) fn runs_own_commands(&self) -> bool {
        !self.is_working() && self.calls.iter().any(|call| call.id.starts_with(OWN_COMMAND))
    }

    /// Returns the title of the terminal window.
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

    /// Returns the maximum lines shown of a call. An exact tool name takes precedence over a pattern
    /// ending in `*`.
    pub(crate) fn lines_of(&self, tool: &str) -> usize {
        let fits = |name: &str| name.strip_suffix('*').is_some_and(|head| tool.starts_with(head));
        let exact = self.folds.iter().find(|it| it.0 == tool);
        let found = exact.or_else(|| self.folds.iter().find(|it| fits(&it.0)));
        found.map_or(crate::rendered_call::MAX_LINES, |it| it.1)
    }

    /// Returns when the display changes without an event; `None` if it does not.
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

    /// Starts a new item, separated from the previous one.
    pub(crate) fn begin_item(&mut self) {
        if std::mem::replace(&mut self.wants_gap, true) {
            self.finished.push(StyledLine::blank());
        }
    }
}

/// Prefix of ids of calls that are the user's own shell commands.
pub const OWN_COMMAND: char = '!';

/// Interval of the spinner; the same as that of the elapsed seconds, so that waiting costs one frame per
/// second.
pub(crate) const SPIN_MS: u64 = 1000;

impl AppState {
    /// Returns the whole transcript as lines.
    pub fn all_lines(&self) -> Vec<StyledLine> {
        crate::transcript::all_lines(&self.items, &self.look, self.size.columns)
    }

    /// Like [`all_lines`](Self::all_lines), plus the finished lines of the current answer.
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

    /// Schedules the last screenful of the transcript to be painted before unpainted lines.
    pub(crate) fn show_last_screen_first(&mut self) {
        let rest = std::mem::take(&mut self.finished);
        self.show_last_screen();
        self.finished.extend(rest);
    }

    /// Schedules the last screenful of the transcript to be painted again.
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
