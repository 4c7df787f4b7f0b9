//! What the session tells.

use haft_tool::RenderedRest;

use crate::{
    effect::TermEffect,
    markdown::MarkdownStream,
    model::{AnswerMark, RunningCall, Speaking, TalkState, TermModel},
    news::{CallFinish, MeterNews, PanelText, PickRow, SessionNews, TurnPhase},
    overlay::Overlay,
    rendered::{self, MOST_LINES},
    text::{Fit, Ink, InkLine, Tone},
    transcript::{TranscriptItem, answer_lines, shown_prompt_lines},
};

/// Work that took longer is worth an alert when nobody looks.
const LONG_MS: u64 = 10_000;

/// Lines of a call that settings can have shown without being asked.
const MOST_UNASKED: usize = 1000;

/// Stands below the words of an answer that broke off.
const BROKE_OFF: &str = "· the answer broke off here and does not count; it is asked for again";

impl TermModel {
    pub(super) fn hear(&mut self, news: SessionNews, effects: &mut Vec<TermEffect>) {
        match news {
            SessionNews::Ready(commands) => {
                self.slash = commands;
                if matches!(self.session, TalkState::Opening | TalkState::Closed) {
                    self.session = TalkState::Idle;
                    self.send_waiting(effects);
                }
            }
            SessionNews::CannotOpen(lines) => self.cannot_open(&lines),
            SessionNews::TurnBegan => {
                if !self.is_working() {
                    self.session = TalkState::Working(self.now, TurnPhase::Waiting);
                }
            }
            SessionNews::Said(text) => self.notice(&text),
            SessionNews::SaidBefore(text) => {
                self.finish_speaking();
                let lines = shown_prompt_lines(&text);
                self.show_item(TranscriptItem::Prompt(text), lines);
            }
            SessionNews::Earlier(earlier) => self.take_earlier(earlier, effects),
            SessionNews::Text(piece) => self.speak(&piece),
            SessionNews::Thinking(piece) => self.think(&piece),
            SessionNews::BlockEnded => self.finish_speaking(),
            SessionNews::AnswerBegan => self.begin_answer(),
            SessionNews::AnswerBroke { calls } => self.take_answer_back(&calls),
            SessionNews::CallWritten(name) => {
                self.finish_speaking();
                self.phase(TurnPhase::Calling(name));
            }
            SessionNews::CallBegan { id, agent, name, headline } => {
                let (since, tail, note) = (self.now, Vec::new(), String::new());
                self.call_began(RunningCall { id, agent, name, headline, since, tail, note });
            }
            SessionNews::CallProgress { id, tail, note } => self.call_goes_on(&id, tail, note),
            SessionNews::CallEnded(call) => self.call_ended(*call, effects),
            SessionNews::Phase(phase) => self.phase(phase),
            SessionNews::Notice(text) => self.notice(&text),
            SessionNews::Asked(card) => {
                self.alert(&format!("{}: {}", card.title, card.headline), effects);
                self.asks.add(*card, self.now.max(self.last_key));
            }
            SessionNews::AnswerRefused { id, why } => self.asks.refuse(&id, why),
            SessionNews::Withdrawn(id) => self.asks.withdraw(&id, self.now),
            SessionNews::Tasks(tasks) => self.tasks = tasks,
            SessionNews::Todos(todos) => self.todos = todos,
            SessionNews::Meter(meter) => self.measure(meter),
            SessionNews::TurnEnded { problem, interrupted } => {
                self.turn_ended(problem, interrupted, effects);
            }
            SessionNews::Cleared => {
                self.todos.clear();
                self.notice("a new conversation begins; the old one is kept (/resume)");
            }
            SessionNews::Panel(panel) => self.panel(panel),
            SessionNews::Pick { purpose, title, rows, previewed } => {
                let picker = Overlay::picker(purpose, title, rows).deaf_until_seen();
                self.overlay = Some(if previewed { picker.previewed() } else { picker });
                self.wish_preview(effects);
            }
            SessionNews::PickMore { purpose, rows } => self.list_more(&purpose, rows, effects),
            SessionNews::Preview { id, lines } => self.preview(&id, lines),
            SessionNews::AgentBegan { id, title } => self.agent_began(id, title),
            SessionNews::AgentNews { id, news } => self.agent_news(&id, *news),
            SessionNews::Picture(picture) => self.picture(picture, effects),
            SessionNews::Files { query, found } => self.offers.files(&query, found),
            SessionNews::Preferences(wanted) => self.prefer(&wanted),
            SessionNews::Begin(text) => {
                self.history.add(&text, self.epoch_ms + self.now);
                self.queue.push(text);
                self.send_waiting(effects);
            }
            SessionNews::Draft(text) => {
                self.composer.set(&text);
                self.draft_changed(effects);
            }
            SessionNews::Farewell(lines) => self.farewell(&lines),
        }
    }

    /// The beginning of an old conversation is in the transcript, and not shown.
    fn take_earlier(&mut self, earlier: Vec<SessionNews>, effects: &mut Vec<TermEffect>) {
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

    /// Everything that is said from here on can still be taken back.
    fn begin_answer(&mut self) {
        let (items, last_answer) = (self.items.len(), self.last_answer.clone());
        self.answer_began = AnswerMark { items, last_answer };
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
        if let TalkState::Working(_, now) = &mut self.session {
            if *now != phase {
                self.phase_since = self.now;
            }
            *now = phase;
        }
    }

    fn speak(&mut self, piece: &str) {
        self.phase(TurnPhase::Answering);
        if !matches!(self.speaking, Speaking::Answer(..)) {
            if piece.trim().is_empty() {
                return;
            }
            self.finish_speaking();
            let stream = MarkdownStream::new(&self.look, self.size.columns);
            self.speaking = Speaking::Answer(Box::new(stream), String::new());
            self.begin_item();
        }
        if let Speaking::Answer(stream, source) = &mut self.speaking {
            // An answer does not begin with blank lines.
            let piece = if source.is_empty() { piece.trim_start_matches('\n') } else { piece };
            source.push_str(piece);
            stream.feed(piece);
            self.finished.extend(stream.take_finished());
        }
    }

    fn think(&mut self, piece: &str) {
        self.phase(TurnPhase::Thinking);
        match &mut self.speaking {
            Speaking::Thought(_, text) => text.push_str(piece),
            _ => {
                self.finish_speaking();
                self.speaking = Speaking::Thought(self.now, piece.to_owned());
            }
        }
    }

    /// What was being said is complete.
    pub(crate) fn finish_speaking(&mut self) {
        match std::mem::replace(&mut self.speaking, Speaking::Nobody) {
            Speaking::Nobody => (),
            Speaking::Answer(mut stream, source) => {
                stream.end();
                self.finished.extend(stream.take_finished());
                self.last_answer.clone_from(&source);
                self.items.push(TranscriptItem::Answer(source));
            }
            Speaking::Thought(_, text) if text.trim().is_empty() => (),
            Speaking::Thought(since, text) => {
                let seconds = (self.now - since) / 1000;
                if 1 < seconds {
                    let words = format!("· thought for {seconds} s");
                    self.begin_item();
                    self.finished.push(InkLine::of(&words, Ink::DIM).fit(Fit::Cut));
                }
                self.items.push(TranscriptItem::Thought(text));
            }
        }
    }

    /// What was said since the answer began is void. What is on the screen stays
    /// there, with a line that says so.
    fn take_answer_back(&mut self, calls: &[String]) {
        self.calls.retain(|it| !calls.contains(&it.id));
        let was_open = match std::mem::replace(&mut self.speaking, Speaking::Nobody) {
            Speaking::Nobody => false,
            Speaking::Answer(mut stream, _) => {
                stream.end();
                self.finished.extend(stream.take_finished());
                true
            }
            Speaking::Thought(_, text) => !text.trim().is_empty(),
        };
        let was_said = self.answer_began.take_back(&mut self.items);
        self.last_answer.clone_from(&self.answer_began.last_answer);
        if was_open || was_said {
            self.finished.push(InkLine::of(BROKE_OFF, Ink::DIM).fit(Fit::Flow));
        }
    }

    fn list_more(&mut self, purpose: &str, rows: Vec<PickRow>, effects: &mut Vec<TermEffect>) {
        if let Some(overlay) = &mut self.overlay {
            overlay.more_rows(purpose, rows);
            self.wish_preview(effects);
        }
    }

    fn call_ended(&mut self, call: CallFinish, effects: &mut Vec<TermEffect>) {
        self.finish_speaking();
        self.calls.retain(|it| it.id != call.id);
        let most = self.lines_of(&call.name);
        let lines = match &call.whole {
            Some(whole) if MOST_LINES < most && !call.failed => {
                let mut lines = rendered::card(&call, 0);
                lines.truncate(1);
                lines.extend(rendered::body(&whole.make(), most.min(MOST_UNASKED)));
                lines
            }
            _ => rendered::card(&call, most),
        };
        // Calls of one line stand close together.
        let is_line = |item: &TranscriptItem| match item {
            TranscriptItem::Call(call) => call.rendered.lines.is_empty() && call.rendered.headline.is_empty(),
            _ => false,
        };
        if lines.len() == 1 && self.items.last().is_some_and(is_line) {
            self.wants_gap = false;
        }
        let mut kept = call;
        if kept.whole.is_some() && !kept.failed {
            // All of it is made again when somebody looks.
            kept.rendered.lines.truncate(1);
            (kept.rendered.rest, kept.rendered.notes) = (RenderedRest::Nothing, Vec::new());
        }
        self.show_item(TranscriptItem::Call(Box::new(kept)), lines);
        self.send_between(effects);
    }

    fn measure(&mut self, news: MeterNews) {
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
            TalkState::Working(since, _) => since,
            _ => self.now,
        };
        let own = |call: &RunningCall| call.id.starts_with(crate::model::OWN_COMMAND);
        let (own, calls) = std::mem::take(&mut self.calls).into_iter().partition(own);
        self.calls = own;
        let calls: Vec<RunningCall> = calls;
        for call in calls {
            let words = format!("· {} {} was stopped", call.name, call.headline);
            self.begin_item();
            self.finished.push(InkLine::of(&words, Ink::DIM).fit(Fit::Cut));
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
        self.session = TalkState::Idle;
        self.send_waiting(effects);
    }

    fn problem(&mut self, text: &str) {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let head = InkLine::of("✗ ", Ink::tone(Tone::Bad)).with(first, Ink::PLAIN).fit(Fit::Hang(2));
        let rest = lines.map(|line| InkLine::of(&format!("  {line}"), Ink::PLAIN).fit(Fit::Hang(2)));
        let lines: Vec<InkLine> = std::iter::once(head).chain(rest).collect();
        self.show_item(TranscriptItem::Panel(lines.clone()), lines);
    }

    fn cannot_open(&mut self, lines: &[String]) {
        self.session = TalkState::Closed;
        let lines: Vec<InkLine> =
            lines.iter().map(|line| InkLine::of(line, Ink::PLAIN).fit(Fit::Hang(2))).collect();
        self.show_item(TranscriptItem::Panel(lines.clone()), lines);
        // What waits becomes the draft again.
        if !self.queue.is_empty() {
            let mut texts = std::mem::take(&mut self.queue);
            texts.push(self.composer.whole());
            texts.retain(|it| !it.is_empty());
            self.composer.set(&texts.join("\n"));
        }
    }

    fn panel(&mut self, panel: PanelText) {
        let mut lines = answer_lines(&panel.text, &self.look, self.size.columns);
        if !lines.is_empty() && !panel.lines.is_empty() {
            lines.push(InkLine::blank());
        }
        lines.extend(panel.lines.iter().map(|line| rendered::body_line(line, 0)));
        if panel.paged {
            self.overlay = Some(Overlay::pager(&panel.title, lines, false));
            return;
        }
        self.finish_speaking();
        if !panel.title.is_empty() {
            lines.insert(0, InkLine::of(&panel.title, Ink::BOLD));
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
        self.finished.extend(lines.iter().map(|line| InkLine::of(line, Ink::DIM)));
        // What was written is not lost, even if it was not sent.
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
