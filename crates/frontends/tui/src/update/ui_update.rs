//! Processes updates of the session.

use haft_tool::CollapsedLines;

use crate::{
    app_state::{AnswerStart, AppState, ConversationState, RunningCall, StreamingVoice},
    effect::TermEffect,
    markdown::MarkdownStream,
    overlay::Overlay,
    rendered_call::{self, MAX_LINES},
    styled_text::{ColorRole, StyledLine, TextStyle, WrapMode},
    transcript::{TranscriptItem, answer_lines, shown_prompt_lines},
    ui_update::{FinishedCall, PagerText, PickerRow, StatusUpdate, TurnPhase, UiUpdate},
};

/// Minimum duration of a turn in milliseconds for a notification when the user is not looking.
const LONG_MS: u64 = 10_000;

/// Maximum lines per call that settings can configure to be shown.
const MAX_UNASKED: usize = 1000;

/// Note below the text of a discarded answer.
const BROKE_OFF: &str = "· the answer broke off here and does not count; it is asked for again";

impl AppState {
    pub(super) fn hear(&mut self, news: UiUpdate, effects: &mut Vec<TermEffect>) {
        match news {
            UiUpdate::Ready(commands) => {
                self.slash = commands;
                if matches!(self.session, ConversationState::Opening | ConversationState::Closed) {
                    self.session = ConversationState::Idle;
                    self.send_waiting(effects);
                }
            }
            UiUpdate::CannotOpen(lines) => self.cannot_open(&lines),
            UiUpdate::TurnBegan => {
                if !self.is_working() {
                    self.session = ConversationState::Working(self.now, TurnPhase::Waiting);
                }
            }
            UiUpdate::Said(text) => self.notice(&text),
            UiUpdate::SaidBefore(text) => {
                self.finish_speaking();
                let lines = shown_prompt_lines(&text);
                self.show_item(TranscriptItem::Prompt(text), lines);
            }
            UiUpdate::Earlier(earlier) => self.take_earlier(earlier, effects),
            UiUpdate::Text(piece) => self.speak(&piece),
            UiUpdate::Thinking(piece) => self.think(&piece),
            UiUpdate::BlockEnded => self.finish_speaking(),
            UiUpdate::AnswerBegan => self.begin_answer(),
            UiUpdate::AnswerBroke { calls } => self.take_answer_back(&calls),
            UiUpdate::CallWritten(name) => {
                self.finish_speaking();
                self.phase(TurnPhase::Calling(name));
            }
            UiUpdate::CallBegan { id, agent, name, headline } => {
                let (since, tail, note) = (self.now, Vec::new(), String::new());
                self.call_began(RunningCall { id, agent, name, headline, since, tail, note });
            }
            UiUpdate::CallProgress { id, tail, note } => self.call_goes_on(&id, tail, note),
            UiUpdate::CallEnded(call) => self.call_ended(*call, effects),
            UiUpdate::Phase(phase) => self.phase(phase),
            UiUpdate::Notice(text) => self.notice(&text),
            UiUpdate::Asked(card) => {
                self.alert(&format!("{}: {}", card.title, card.headline), effects);
                self.asks.add(*card, self.now.max(self.last_key));
            }
            UiUpdate::AnswerRefused { id, why } => self.asks.refuse(&id, why),
            UiUpdate::Withdrawn(id) => self.asks.withdraw(&id, self.now),
            UiUpdate::Tasks(tasks) => self.tasks = tasks,
            UiUpdate::Todos(todos) => self.todos = todos,
            UiUpdate::Meter(meter) => self.measure(meter),
            UiUpdate::TurnEnded { problem, interrupted } => {
                self.turn_ended(problem, interrupted, effects);
            }
            UiUpdate::Cleared => {
                self.todos.clear();
                self.notice("a new conversation begins; the old one is kept (/resume)");
            }
            UiUpdate::Panel(panel) => self.panel(panel),
            UiUpdate::Pick { purpose, title, rows, previewed } => {
                let picker = Overlay::picker(purpose, title, rows).require_visible();
                self.overlay = Some(if previewed { picker.previewed() } else { picker });
                self.request_preview(effects);
            }
            UiUpdate::PickMore { purpose, rows } => self.list_more(&purpose, rows, effects),
            UiUpdate::Preview { id, lines } => self.preview(&id, lines),
            UiUpdate::AgentBegan { id, title } => self.agent_began(id, title),
            UiUpdate::AgentNews { id, news } => self.agent_news(&id, *news),
            UiUpdate::Picture(picture) => self.picture(picture, effects),
            UiUpdate::Files { query, found } => self.offers.files(&query, found),
            UiUpdate::Preferences(wanted) => self.prefer(&wanted),
            UiUpdate::Begin(text) => {
                self.history.add(&text, self.epoch_ms + self.now);
                self.queue.push(text);
                self.send_waiting(effects);
            }
            UiUpdate::Draft(text) => {
                self.composer.set(&text);
                self.draft_changed(effects);
            }
            UiUpdate::Farewell(lines) => self.farewell(&lines),
        }
    }

    /// Adds the beginning of a resumed conversation to the transcript without showing it.
    fn take_earlier(&mut self, earlier: Vec<UiUpdate>, effects: &mut Vec<TermEffect>) {
        let (shown, wants_gap, before) = (self.finished.len(), self.wants_gap, self.items.len());
        for news in earlier {
            self.hear(news, effects);
        }
        self.finish_speaking();
        self.calls.clear();
        self.finished.truncate(shown);
        self.wants_gap = wants_gap;
        let count = self.items.len() - before;
        let key = self.keys.label(crate::keymap::KeyAction::Transcript);
        let words = format!("{count} earlier messages and calls are not shown here; {key} shows them");
        self.begin_item();
        self.finished.extend(crate::transcript::notice_lines(&words));
    }

    /// Starts an answer, so that it can be discarded as a whole.
    fn begin_answer(&mut self) {
        let (items, last_answer) = (self.items.len(), self.last_answer.clone());
        self.answer_began = AnswerStart { items, last_answer };
    }

    fn call_goes_on(&mut self, id: &str, tail: Vec<String>, note: String) {
        if let Some(call) = self.calls.iter_mut().find(|it| it.id == id) {
            (call.tail, call.note) = (tail, note);
        }
    }

    fn call_began(&mut self, call: RunningCall) {
        self.finish_speaking();
        self.phase(TurnPhase::Waiting);
        self.calls.push(call);
    }

    fn phase(&mut self, phase: TurnPhase) {
        if let ConversationState::Working(_, now) = &mut self.session {
            if *now != phase {
                self.phase_since = self.now;
            }
            *now = phase;
        }
    }

    fn speak(&mut self, piece: &str) {
        self.phase(TurnPhase::Answering);
        if !matches!(self.speaking, StreamingVoice::Answer(..)) {
            if piece.trim().is_empty() {
                return;
            }
            self.finish_speaking();
            let stream = MarkdownStream::new(&self.look, self.size.columns);
            self.speaking = StreamingVoice::Answer(Box::new(stream), String::new());
            self.begin_item();
        }
        if let StreamingVoice::Answer(stream, source) = &mut self.speaking {
            // Strip blank lines at the start of an answer.
            let piece = if source.is_empty() { piece.trim_start_matches('\n') } else { piece };
            source.push_str(piece);
            stream.feed(piece);
            self.finished.extend(stream.take_finished());
        }
    }

    fn think(&mut self, piece: &str) {
        self.phase(TurnPhase::Thinking);
        match &mut self.speaking {
            StreamingVoice::Thought(_, text) => text.push_str(piece),
            _ => {
                self.finish_speaking();
                self.speaking = StreamingVoice::Thought(self.now, piece.to_owned());
            }
        }
    }

    /// Ends the streamed text.
    pub(crate) fn finish_speaking(&mut self) {
        match std::mem::replace(&mut self.speaking, StreamingVoice::Nobody) {
            StreamingVoice::Nobody => (),
            StreamingVoice::Answer(mut stream, source) => {
                stream.end();
                self.finished.extend(stream.take_finished());
                self.last_answer.clone_from(&source);
                self.items.push(TranscriptItem::Answer(source));
            }
            StreamingVoice::Thought(_, text) if text.trim().is_empty() => (),
            StreamingVoice::Thought(since, text) => {
                let seconds = (self.now - since) / 1000;
                if 1 < seconds {
                    let words = format!("· thought for {seconds} s");
                    self.begin_item();
                    self.finished.push(StyledLine::new(&words, TextStyle::DIM).fit(WrapMode::Cut));
                }
                self.items.push(TranscriptItem::Thought(text));
            }
        }
    }

    /// Discards the current answer. Text that is already on the screen stays, with a note.
    fn take_answer_back(&mut self, calls: &[String]) {
        self.calls.retain(|it| !calls.contains(&it.id));
        let was_open = match std::mem::replace(&mut self.speaking, StreamingVoice::Nobody) {
            StreamingVoice::Nobody => false,
            StreamingVoice::Answer(mut stream, _) => {
                stream.end();
                self.finished.extend(stream.take_finished());
                true
            }
            StreamingVoice::Thought(_, text) => !text.trim().is_empty(),
        };
        let was_said = self.answer_began.take_back(&mut self.items);
        self.last_answer.clone_from(&self.answer_began.last_answer);
        if was_open || was_said {
            self.finished.push(StyledLine::new(BROKE_OFF, TextStyle::DIM).fit(WrapMode::Flow));
        }
    }

    fn list_more(&mut self, purpose: &str, rows: Vec<PickerRow>, effects: &mut Vec<TermEffect>) {
        if let Some(overlay) = &mut self.overlay {
            overlay.more_rows(purpose, rows);
            self.request_preview(effects);
        }
    }

    fn call_ended(&mut self, call: FinishedCall, effects: &mut Vec<TermEffect>) {
        self.finish_speaking();
        self.calls.retain(|it| it.id != call.id);
        let most = self.lines_of(&call.name);
        let lines = match &call.whole {
            Some(whole) if MAX_LINES < most && !call.failed => {
                let mut lines = rendered_call::card(&call, 0);
                lines.truncate(1);
                lines.extend(rendered_call::body(&whole.make(), most.min(MAX_UNASKED)));
                lines
            }
            _ => rendered_call::card(&call, most),
        };
        // Calls of one line are not separated by blank lines.
        let is_line = |item: &TranscriptItem| match item {
            TranscriptItem::Call(call) => call.rendered.lines.is_empty() && call.rendered.headline.is_empty(),
            _ => false,
        };
        if lines.len() == 1 && self.items.last().is_some_and(is_line) {
            self.wants_gap = false;
        }
        let mut kept = call;
        if kept.whole.is_some() && !kept.failed {
            // The full rendering is recreated when the user opens it.
            kept.rendered.lines.truncate(1);
            (kept.rendered.rest, kept.rendered.notes) = (CollapsedLines::Nothing, Vec::new());
        }
        self.show_item(TranscriptItem::Call(Box::new(kept)), lines);
        self.send_between(effects);
    }

    fn measure(&mut self, news: StatusUpdate) {
        let meter = &mut self.meter;
        meter.model = news.model.or(meter.model.take());
        meter.mode = news.mode.or(meter.mode.take());
        meter.context_percent = news.context_percent.or(meter.context_percent);
        meter.usd = news.usd.or(meter.usd);
        meter.effort = news.effort.or(meter.effort.take());
        meter.place = news.place.or(meter.place.take());
        meter.status_line = news.status_line.or(meter.status_line.take());
    }

    fn turn_ended(&mut self, problem: Option<String>, interrupted: bool, effects: &mut Vec<TermEffect>) {
        self.finish_speaking();
        let since = match self.session {
            ConversationState::Working(since, _) => since,
            _ => self.now,
        };
        let own = |call: &RunningCall| call.id.starts_with(crate::app_state::OWN_COMMAND);
        let (own, calls) = std::mem::take(&mut self.calls).into_iter().partition(own);
        self.calls = own;
        let calls: Vec<RunningCall> = calls;
        for call in calls {
            let words = format!("· {} {} was stopped", call.name, call.headline);
            self.begin_item();
            self.finished.push(StyledLine::new(&words, TextStyle::DIM).fit(WrapMode::Cut));
        }
        if interrupted {
            self.notice("stopped; say what to do instead");
        } else if let Some(problem) = problem {
            self.problem(&problem);
        }
        if LONG_MS < self.now - since {
            self.alert("done", effects);
        }
        self.hint = None;
        self.session = ConversationState::Idle;
        self.send_waiting(effects);
    }

    fn problem(&mut self, text: &str) {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let head = StyledLine::new("✗ ", TextStyle::tone(ColorRole::Bad))
            .with(first, TextStyle::PLAIN)
            .fit(WrapMode::Hang(2));
        let rest =
            lines.map(|line| StyledLine::new(&format!("  {line}"), TextStyle::PLAIN).fit(WrapMode::Hang(2)));
        let lines: Vec<StyledLine> = std::iter::once(head).chain(rest).collect();
        self.show_item(TranscriptItem::Panel(lines.clone()), lines);
    }

    fn cannot_open(&mut self, lines: &[String]) {
        self.session = ConversationState::Closed;
        let lines: Vec<StyledLine> =
            lines.iter().map(|line| StyledLine::new(line, TextStyle::PLAIN).fit(WrapMode::Hang(2))).collect();
        self.show_item(TranscriptItem::Panel(lines.clone()), lines);
        // Queued messages go back to the prompt.
        if !self.queue.is_empty() {
            let mut texts = std::mem::take(&mut self.queue);
            texts.push(self.composer.whole());
            texts.retain(|it| !it.is_empty());
            self.composer.set(&texts.join("\n"));
        }
    }

    fn panel(&mut self, panel: PagerText) {
        let mut lines = answer_lines(&panel.text, &self.look, self.size.columns);
        if !lines.is_empty() && !panel.lines.is_empty() {
            lines.push(StyledLine::blank());
        }
        lines.extend(panel.lines.iter().map(|line| rendered_call::body_line(line, 0)));
        if panel.paged {
            self.overlay = Some(Overlay::pager(&panel.title, lines, false));
            return;
        }
        self.finish_speaking();
        if !panel.title.is_empty() {
            lines.insert(0, StyledLine::new(&panel.title, TextStyle::BOLD));
        }
        self.show_item(TranscriptItem::Panel(lines.clone()), lines);
    }

    fn farewell(&mut self, lines: &[String]) {
        self.finish_speaking();
        self.overlay = None;
        self.ended = true;
        if !lines.is_empty() {
            self.begin_item();
        }
        self.finished.extend(lines.iter().map(|line| StyledLine::new(line, TextStyle::DIM)));
        // An unsent prompt is printed, so that it is not lost.
        let draft = self.composer.whole();
        if !draft.trim().is_empty() {
            self.history.add(&draft, self.epoch_ms + self.now);
        }
        for text in std::mem::take(&mut self.queue) {
            self.history.add(&text, self.epoch_ms + self.now);
        }
    }

    fn alert(&self, why: &str, effects: &mut Vec<TermEffect>) {
        if !self.focused {
            effects.push(TermEffect::Alert(why.to_owned()));
        }
    }
}
