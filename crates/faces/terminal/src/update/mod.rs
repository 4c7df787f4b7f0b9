//! What happens to the model when something happens.

mod keys;
mod news;
mod send;
mod vi;

use crate::{
    asks::{AskAnswer, AskChoice, AskStep},
    effect::TermEffect,
    event::TermEvent,
    model::{TalkState, TermModel},
    overlay::{Overlay, OverlayStep},
    text::InkLine,
    transcript::{TranscriptItem, notice_lines},
};

impl TermModel {
    /// Takes what happened at this moment, in milliseconds of the terminal's
    /// clock, and says what is to be done. Nothing else changes the model.
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
            TermEvent::Focus(focused) => self.focused = focused,
            TermEvent::Resize(size) => {
                self.size = size;
                if let crate::model::Speaking::Answer(stream, _) = &mut self.speaking {
                    stream.set_width(size.columns);
                }
            }
            TermEvent::Tick => (),
            TermEvent::News(news) => self.hear(news, &mut effects),
            TermEvent::Edited(text) => self.edited(text, &mut effects),
        }
        if let Some(step) = self.asks.settle(self.now) {
            self.ask_step(step, &mut effects);
        }
        effects
    }

    fn paste(&mut self, text: &str, effects: &mut Vec<TermEffect>) {
        if self.overlay.is_some() || self.asks.paste(text) {
            return;
        }
        self.asks.typed_elsewhere(self.now);
        self.vi_normal = false;
        self.composer.paste(text);
        self.draft_changed(effects);
    }

    fn edited(&mut self, text: Option<String>, effects: &mut Vec<TermEffect>) {
        if let Some((id, row)) = self.editing_ask.take() {
            // The question stays until what was edited is understood.
            if let Some(words) = text.filter(|_| self.asks.waiting.front().is_some_and(|it| it.id == id)) {
                let answer = AskAnswer::Choice(AskChoice { row, words });
                effects.push(TermEffect::Answer { id, answer });
            }
            return self.asks.typed_elsewhere(self.now);
        }
        match text {
            Some(text) => {
                self.composer.set(text.trim_end_matches('\n'));
                self.draft_changed(effects);
            }
            None => self.hint("the editor failed; the draft is as it was"),
        }
    }

    /// Shows a short hint in the footer, for a while.
    pub(crate) fn hint(&mut self, text: &str) {
        self.hint = Some((text.to_owned(), self.now + 3000));
    }

    /// Something the person should know becomes part of the conversation.
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

    pub(crate) fn show_item(&mut self, item: TranscriptItem, lines: Vec<InkLine>) {
        self.begin_item();
        self.finished.extend(lines);
        self.items.push(item);
    }

    /// The draft is another one.
    pub(crate) fn draft_changed(&mut self, effects: &mut Vec<TermEffect>) {
        if let Some(query) = self.offers.look(&self.composer, &self.slash) {
            effects.push(TermEffect::Files(query));
        }
    }

    pub(crate) fn ask_step(&mut self, step: AskStep, effects: &mut Vec<TermEffect>) {
        match step {
            AskStep::NotMine | AskStep::Taken => (),
            AskStep::Typed(text) => {
                self.composer.insert(&text);
                self.draft_changed(effects);
            }
            AskStep::Answered(id, answer) => {
                // A form may be refused: it stays until it is withdrawn.
                if !matches!(answer, AskAnswer::Form(_)) {
                    self.asks.answered(self.now);
                }
                effects.push(TermEffect::Answer { id, answer });
            }
            AskStep::Open => self.open_question(),
            AskStep::Edit(id, row, text) => {
                self.editing_ask = Some((id, row));
                effects.push(TermEffect::Edit(text));
            }
        }
    }

    fn open_question(&mut self) {
        let Some(card) = self.asks.shown() else { return };
        let title = format!("{} {}", card.title, card.headline);
        let lines = card.body.iter().map(|line| crate::rendered::body_line(line, 0)).collect();
        self.overlay = Some(Overlay::pager(&title, lines, false));
    }

    pub(crate) fn overlay_step(&mut self, step: OverlayStep, effects: &mut Vec<TermEffect>) {
        match step {
            OverlayStep::Stay => (),
            OverlayStep::Close => self.overlay = None,
            OverlayStep::Picked { purpose, id } => {
                self.overlay = None;
                effects.push(TermEffect::Picked { purpose, id });
            }
        }
        if self.overlay.is_none() {
            // Keys of an overlay must not reach a question behind it.
            self.asks.typed_elsewhere(self.now);
        }
    }

    /// Everything that was said and done, on a screen of its own.
    pub(crate) fn open_transcript(&mut self) {
        let mut lines = crate::transcript::all_lines(&self.items, &self.look, self.size.columns);
        if let crate::model::Speaking::Answer(_, source) = &self.speaking {
            lines.push(InkLine::blank());
            lines.extend(crate::transcript::answer_lines(source, &self.look, self.size.columns));
        }
        self.overlay = Some(Overlay::pager("Transcript", lines, true));
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.session, TalkState::Idle)
    }
}
