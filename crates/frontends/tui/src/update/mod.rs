//! Processes events.

mod key_press;
mod submit;
mod tasks_and_agents;
mod ui_update;
mod vi;

use crate::{
    app_state::{AppState, ConversationState},
    effect::TermEffect,
    event::TermEvent,
    overlay::{Overlay, OverlayStep},
    question_card::{CardAnswer, ChosenOption, QuestionKeyResult},
    styled_text::{StyledLine, TextStyle},
    transcript::{TranscriptItem, notice_lines},
};

/// File extensions of images.
const PICTURES: [&str; 6] = [".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"];

/// Returns the path of an image, if the pasted text is nothing else. Terminals quote or escape paths of
/// dropped files.
fn picture_path(text: &str) -> Option<String> {
    let text = text.trim();
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|it| it.strip_suffix(quote));
    let path = match quoted('\'').or_else(|| quoted('"')) {
        Some(inner) => inner.to_owned(),
        None => text.strip_prefix("file://").unwrap_or(text).replace("\\ ", " "),
    };
    let is_path = ["/", "~/", "./", "../"].iter().any(|it| path.starts_with(it))
        || path.as_bytes().get(1..3).is_some_and(|it| it == b":\\" || it == b":/");
    let lower = path.to_lowercase();
    let is_picture = PICTURES.iter().any(|it| lower.ends_with(it));
    (is_path && is_picture && !path.contains('\n') && path.len() < 4096).then_some(path)
}

impl AppState {
    /// Processes an event at time `now`, in milliseconds of the terminal's clock, and returns the
    /// effects. The only function that changes the state.
    pub fn update(&mut self, event: TermEvent, now: u64) -> Vec<TermEffect> {
        self.now = self.now.max(now);
        let mut effects = Vec::new();
        if self.hint.as_ref().is_some_and(|it| it.1 <= self.now) {
            self.hint = None;
        }
        match event {
            TermEvent::Key(key) => {
                self.key(key, &mut effects);
                self.last_key = self.now;
            }
            TermEvent::Paste(text) => {
                self.paste(&text, &mut effects);
                self.last_key = self.now;
            }
            TermEvent::PasteMore(text) => {
                self.paste_more(&text, &mut effects);
                self.last_key = self.now;
            }
            TermEvent::Focus(focused) => self.focused = focused,
            TermEvent::Background(background) => self.background(background),
            TermEvent::Resize(size) => {
                self.size = size;
                if let crate::app_state::StreamingVoice::Answer(stream, _) = &mut self.speaking {
                    stream.set_width(size.columns);
                }
            }
            TermEvent::Tick => {
                self.asks.arm(self.now);
                if let Some(overlay) = &mut self.overlay {
                    overlay.arm(self.now);
                }
            }
            TermEvent::News(news) => self.hear(news, &mut effects),
            TermEvent::Edited(text) => self.edited(text, &mut effects),
        }
        if let Some(step) = self.asks.settle(self.now) {
            self.ask_step(step, &mut effects);
        }
        effects
    }

    /// Inserts pasted text into an overlay or question, if one accepts text. Returns whether it did.
    fn pasted_elsewhere(&mut self, text: &str) -> bool {
        match self.overlay.as_mut().filter(|it| it.accepts_keys()) {
            Some(overlay) => {
                overlay.paste(text);
                true
            }
            None => self.asks.paste(text),
        }
    }

    fn paste(&mut self, text: &str, effects: &mut Vec<TermEffect>) {
        if self.pasted_elsewhere(text) {
            return;
        }
        self.asks.on_other_key(self.now);
        self.vi.insert();
        if let Some(path) = picture_path(text) {
            return effects.push(TermEffect::Picture(path));
        }
        self.composer.paste(text);
        self.draft_changed(effects);
    }

    fn paste_more(&mut self, text: &str, effects: &mut Vec<TermEffect>) {
        if self.pasted_elsewhere(text) {
            return;
        }
        self.asks.on_other_key(self.now);
        self.composer.paste_more(text);
        self.draft_changed(effects);
    }

    fn edited(&mut self, text: Option<String>, effects: &mut Vec<TermEffect>) {
        if let Some((id, row)) = self.editing_ask.take() {
            // The question stays open until the edited text is accepted.
            if let Some(words) = text.filter(|_| self.asks.waiting.front().is_some_and(|it| it.id == id)) {
                let answer = CardAnswer::Choice(ChosenOption { row, words });
                effects.push(TermEffect::Answer { id, answer });
            }
            return self.asks.on_other_key(self.now);
        }
        match text {
            Some(text) => {
                self.composer.set(text.trim_end_matches('\n'));
                self.draft_changed(effects);
            }
            None => self.hint("the editor failed; the draft is as it was"),
        }
    }

    /// Shows a temporary hint in the footer.
    pub(crate) fn hint(&mut self, text: &str) {
        self.hint = Some((text.to_owned(), self.now + 3000));
    }

    /// Adds a notice to the conversation.
    pub(crate) fn notice(&mut self, text: &str) {
        self.finish_speaking();
        let lines = notice_lines(text);
        if lines.is_empty() {
            return;
        }
        let follows = matches!(self.items.last(), Some(TranscriptItem::Notice(_)));
        self.wants_gap &= !follows;
        self.show_item(TranscriptItem::Notice(text.to_owned()), lines);
    }

    pub(crate) fn show_item(&mut self, item: TranscriptItem, lines: Vec<StyledLine>) {
        self.begin_item();
        self.finished.extend(lines);
        self.items.push(item);
    }

    /// Updates completions after a change of the prompt.
    pub(crate) fn draft_changed(&mut self, effects: &mut Vec<TermEffect>) {
        if let Some(query) = self.offers.look(&self.composer, &self.slash) {
            effects.push(TermEffect::Files(query));
        }
    }

    pub(crate) fn ask_step(&mut self, step: QuestionKeyResult, effects: &mut Vec<TermEffect>) {
        match step {
            QuestionKeyResult::NotMine | QuestionKeyResult::Taken => (),
            QuestionKeyResult::Typed(text) => {
                self.composer.insert(&text);
                self.draft_changed(effects);
            }
            QuestionKeyResult::Answered(id, answer) => {
                // A question whose answer may be rejected stays open.
                if !self.asks.may_refuse(&answer) {
                    self.asks.answered(self.now);
                }
                effects.push(TermEffect::Answer { id, answer });
            }
            QuestionKeyResult::Open => self.open_question(),
            QuestionKeyResult::Edit(id, row, text) => {
                self.editing_ask = Some((id, row));
                effects.push(TermEffect::Edit(text));
            }
        }
    }

    fn open_question(&mut self) {
        let Some(card) = self.asks.shown() else { return };
        let mut lines: Vec<StyledLine> =
            card.headline.lines().map(|line| StyledLine::new(line, TextStyle::BOLD)).collect();
        lines.extend(card.body.iter().map(|line| crate::rendered_call::body_line(line, 0)));
        self.overlay = Some(Overlay::pager(&card.title, lines, false));
    }

    pub(crate) fn overlay_step(&mut self, step: OverlayStep, effects: &mut Vec<TermEffect>) {
        match step {
            OverlayStep::Stay => (),
            OverlayStep::Close => self.overlay = None,
            OverlayStep::Picked { purpose, id } => {
                self.overlay = None;
                if !self.open_agent(&id) {
                    effects.push(TermEffect::Picked { purpose, id });
                }
            }
        }
        self.request_preview(effects);
        if self.overlay.is_none() {
            // Keys for the overlay must not reach a question behind it.
            self.asks.was_hidden(self.now);
        }
    }

    /// Opens the transcript in a pager.
    pub(crate) fn open_transcript(&mut self) {
        let mut lines = self.all_lines();
        if let crate::app_state::StreamingVoice::Answer(_, source) = &self.speaking {
            lines.push(StyledLine::blank());
            lines.extend(crate::transcript::answer_lines(source, &self.look, self.size.columns));
        }
        self.overlay = Some(Overlay::pager("Transcript", lines, true));
    }

    /// Requests the preview of the selected row, once.
    pub(crate) fn request_preview(&mut self, effects: &mut Vec<TermEffect>) {
        let wish = self.overlay.as_mut().and_then(Overlay::preview_request);
        let Some((purpose, id)) = wish else { return };
        match self.agent_lines(&id) {
            Some(lines) => self.preview(&id, lines),
            None => effects.push(TermEffect::Preview { purpose, id }),
        }
    }

    fn preview(&mut self, id: &str, lines: Vec<haft_tool::RenderedLine>) {
        if let Some(overlay) = &mut self.overlay {
            overlay.preview(id, lines);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.session, ConversationState::Idle)
    }
}
