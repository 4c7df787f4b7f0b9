//! Questions to the user: one at a time, and never answered by accident.
//!
//! A question ignores keys until it is visible and no key has arrived for [`DEAF_MS`]; keys typed until
//! then go to the prompt. It becomes active only when the input queue is empty, because queued keys were
//! not meant for it. Initially nothing is selected. A single letter answers only if no other key follows
//! within [`SETTLE_MS`], so that words can be typed.

use std::collections::VecDeque;

use haft_tool::RenderedLine;

use crate::{
    composer::{CaretMove, Composer},
    event::{KeyCode, KeyPress},
};

/// Milliseconds without a key before a question accepts keys.
pub(crate) const DEAF_MS: u64 = 400;
/// Milliseconds a letter waits for another key before it answers.
pub(crate) const SETTLE_MS: u64 = 150;

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionCard {
    /// Id, repeated in the answer.
    pub id: String,
    /// The agent that asks, if it is not the main one.
    pub from: Option<String>,
    /// Subject in one or two words.
    pub title: String,
    /// What would happen.
    pub headline: String,
    /// What the user has to read before answering: a diff, a command, reasons.
    pub body: Vec<RenderedLine>,
    pub kind: QuestionKind,
}

/// Kind of answer.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionKind {
    /// One option.
    Choice(Vec<ChoiceOption>),
    /// Any number of options, and free text.
    Many(Vec<ChoiceOption>),
    /// Values of a form.
    Form(Vec<QuestionField>),
}

/// An option.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ChoiceOption {
    /// Key that selects it.
    pub key: char,
    pub label: String,
    /// What it would change, one line each.
    pub detail: Vec<String>,
    /// Whether it has to be confirmed.
    pub twice: bool,
    /// Whether free text can be added.
    pub words: bool,
    /// Initial text. The question stays open until it is withdrawn, because the text may be rejected.
    pub given: String,
    /// A text to open in the editor; the result becomes the answer's text.
    pub edits: Option<String>,
}

/// A field of a form.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QuestionField {
    pub name: String,
    pub label: String,
    /// Description of valid values.
    pub hint: String,
    /// Initial value.
    pub value: String,
}

/// An answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CardAnswer {
    /// One option, with its text.
    Choice(ChosenOption),
    /// Indices of options, and free text.
    Many(Vec<usize>, String),
    /// Values in the order of the fields.
    Form(Vec<String>),
    /// Dismissed without an answer.
    Cancelled,
}

/// A selected option and its text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChosenOption {
    /// Index of the option.
    pub row: usize,
    pub words: String,
}

/// Result of a key press for a question.
#[derive(Debug, PartialEq)]
pub(crate) enum QuestionKeyResult {
    /// Not handled: it belongs to the prompt.
    NotMine,
    /// The display changed.
    Taken,
    /// Text for the prompt: this key and those held back before it.
    Typed(String),
    /// Answered: id and answer.
    Answered(String, CardAnswer),
    /// Show the whole question.
    Open,
    /// Open a text in the editor for a row: question id, row, text.
    Edit(String, usize, String),
}

/// Pending questions; the first one is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuestionQueue {
    pub(crate) waiting: VecDeque<QuestionCard>,
    pub(crate) state: QuestionInput,
}

/// State of the answer to the first question.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuestionInput {
    /// Whether it is visible.
    seen: bool,
    /// Time until which keys are ignored.
    hears_at: u64,
    /// Whether that time has passed without a key.
    armed: bool,
    pub(crate) selected: Option<usize>,
    pub(crate) marked: Vec<usize>,
    /// A letter that waits to see whether another key follows: row, letter, time.
    pub(crate) pending: Option<(usize, char, u64)>,
    /// A row that needs a second key press.
    pub(crate) confirm: Option<usize>,
    /// Text for a row, or the value of a field.
    pub(crate) field: Option<(usize, Composer)>,
    pub(crate) values: Vec<String>,
    pub(crate) problem: Option<String>,
    pub(crate) folded: bool,
    /// First visible line of the body.
    pub(crate) top: usize,
}

impl QuestionQueue {
    pub(crate) fn shown(&self) -> Option<&QuestionCard> {
        self.waiting.front().filter(|_| !self.state.folded)
    }

    pub(crate) fn add(&mut self, card: QuestionCard, now: u64) {
        self.waiting.push_back(card);
        if self.waiting.len() == 1 {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: u64) {
        self.state = QuestionInput { hears_at: now + DEAF_MS, ..QuestionInput::default() };
        if let Some(QuestionKind::Form(fields)) = self.waiting.front().map(|it| &it.kind) {
            self.state.values = fields.iter().map(|field| field.value.clone()).collect();
        }
    }

    /// Removes a question that is no longer relevant.
    pub(crate) fn withdraw(&mut self, id: &str, now: u64) {
        let is_shown = self.waiting.front().is_some_and(|it| it.id == id);
        self.waiting.retain(|it| it.id != id);
        if is_shown {
            self.begin(now);
        }
    }

    pub(crate) fn refuse(&mut self, id: &str, why: String) {
        if self.waiting.front().is_some_and(|it| it.id == id) {
            self.state.problem = Some(why);
        }
    }

    /// Records a key that was not for the question; restarts the waiting time.
    pub(crate) fn on_other_key(&mut self, now: u64) {
        self.state.hears_at = self.state.hears_at.max(now + DEAF_MS);
        (self.state.armed, self.state.pending) = (false, None);
    }

    /// Records that the question was hidden; it has to become visible again.
    pub(crate) fn was_hidden(&mut self, now: u64) {
        self.on_other_key(now);
        self.state.seen = false;
    }

    /// Marks the question as visible.
    pub(crate) fn is_seen(&mut self, now: u64) {
        if self.shown().is_some() && !self.state.seen {
            self.state.seen = true;
            self.on_other_key(now);
        }
    }

    /// Called when the input queue is empty: activates the question if the waiting time has passed.
    pub(crate) fn arm(&mut self, now: u64) {
        self.state.armed |= self.state.seen && self.shown().is_some() && self.state.hears_at <= now;
    }

    /// Whether keys are accepted.
    pub(crate) fn accepts_enter(&self) -> bool {
        self.shown().is_some() && (self.state.armed || self.state.field.is_some())
    }

    /// Returns when something changes without an event.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.shown()?;
        let pending = self.state.pending.map(|it| it.2);
        let hears = (self.state.seen && !self.state.armed).then_some(self.state.hears_at);
        pending.into_iter().chain(hears).min()
    }

    /// Answers with the pending letter if it has waited long enough.
    pub(crate) fn settle(&mut self, now: u64) -> Option<QuestionKeyResult> {
        let (row, _, at) = self.state.pending?;
        if now < at {
            return None;
        }
        self.state.pending = None;
        Some(self.choose(row))
    }

    /// Whether the question stays open until it is withdrawn, because this answer may be rejected.
    pub(crate) fn may_refuse(&self, answer: &CardAnswer) -> bool {
        match (answer, self.waiting.front().map(|it| &it.kind)) {
            (CardAnswer::Form(_), _) => true,
            (CardAnswer::Choice(choice), Some(QuestionKind::Choice(rows))) => {
                rows.get(choice.row).is_some_and(|row| !row.given.is_empty())
            }
            _ => false,
        }
    }

    /// Removes the answered question and shows the next one.
    pub(crate) fn answered(&mut self, now: u64) {
        self.waiting.pop_front();
        self.begin(now);
    }

    pub(crate) fn paste(&mut self, text: &str) -> bool {
        match &mut self.state.field {
            Some((_, field)) => {
                field.insert(text);
                true
            }
            None => false,
        }
    }

    /// Handles a key, if keys are accepted.
    pub(crate) fn key(&mut self, key: KeyPress, now: u64) -> QuestionKeyResult {
        let Some(card) = self.waiting.front() else { return QuestionKeyResult::NotMine };
        if self.state.field.is_some() {
            return self.field_key(key);
        }
        let (rows, is_form) = match &card.kind {
            QuestionKind::Choice(rows) | QuestionKind::Many(rows) => (rows.len(), false),
            QuestionKind::Form(fields) => (fields.len() + 2, true),
        };
        if let Some((_, waiting, _)) = self.state.pending.take() {
            // Another key followed quickly: the user is typing.
            if let Some(it) = key.typed() {
                self.on_other_key(now);
                return QuestionKeyResult::Typed(format!("{waiting}{it}"));
            }
            return QuestionKeyResult::Taken;
        }
        match key.code {
            KeyCode::Up | KeyCode::Down | KeyCode::Tab if !key.ctrl && !key.alt => {
                let back = key.code == KeyCode::Up || key.shift;
                self.state.selected = Some(match self.state.selected {
                    None if back => rows - 1,
                    None => 0,
                    Some(at) if back => at.checked_sub(1).unwrap_or(rows - 1),
                    Some(at) => (at + 1) % rows,
                });
                self.state.confirm = None;
                QuestionKeyResult::Taken
            }
            KeyCode::PageDown => {
                self.state.top = self.state.top.saturating_add(8);
                QuestionKeyResult::Taken
            }
            KeyCode::PageUp => {
                self.state.top = self.state.top.saturating_sub(8);
                QuestionKeyResult::Taken
            }
            KeyCode::Esc => {
                self.state.folded = true;
                QuestionKeyResult::Taken
            }
            KeyCode::Char('o') if key.ctrl => QuestionKeyResult::Open,
            KeyCode::Enter => match self.state.selected {
                Some(row) if is_form => self.form_row(row),
                Some(row) => self.choose(row),
                // Nothing is selected: Enter sends the prompt.
                None => QuestionKeyResult::NotMine,
            },
            KeyCode::Char(it) if !key.ctrl && !is_form => self.letter(it, key.alt, now),
            _ => QuestionKeyResult::NotMine,
        }
    }

    /// Handles a letter that selects a row: waits for further keys, unless Alt is held.
    fn letter(&mut self, it: char, alt: bool, now: u64) -> QuestionKeyResult {
        let Some(QuestionKind::Choice(rows) | QuestionKind::Many(rows)) =
            self.waiting.front().map(|it| &it.kind)
        else {
            return QuestionKeyResult::NotMine;
        };
        let number = it.to_digit(10).and_then(|it| usize::try_from(it).ok()).and_then(|it| it.checked_sub(1));
        let row = rows.iter().position(|row| row.key == it).or(number.filter(|at| *at < rows.len()));
        match row {
            Some(row) if alt => self.choose(row),
            Some(row) => {
                self.state.pending = Some((row, it, now + SETTLE_MS));
                QuestionKeyResult::Taken
            }
            None if it == ' '
                && matches!(self.waiting.front().map(|it| &it.kind), Some(QuestionKind::Many(_))) =>
            {
                if let Some(row) = self.state.selected {
                    self.mark(row);
                }
                QuestionKeyResult::Taken
            }
            None => {
                self.on_other_key(now);
                QuestionKeyResult::Typed(it.to_string())
            }
        }
    }

    fn mark(&mut self, row: usize) {
        match self.state.marked.iter().position(|it| *it == row) {
            Some(at) => drop(self.state.marked.remove(at)),
            None => self.state.marked.push(row),
        }
        self.state.marked.sort_unstable();
    }

    fn choose(&mut self, row: usize) -> QuestionKeyResult {
        let Some(card) = self.waiting.front() else { return QuestionKeyResult::Taken };
        let (rows, many) = match &card.kind {
            QuestionKind::Choice(rows) => (rows, false),
            QuestionKind::Many(rows) => (rows, true),
            QuestionKind::Form(_) => return QuestionKeyResult::Taken,
        };
        let Some(chosen) = rows.get(row) else { return QuestionKeyResult::Taken };
        self.state.selected = Some(row);
        if chosen.words {
            let mut field = Composer::default();
            field.set(&chosen.given);
            self.state.field = Some((row, field));
            self.state.problem = None;
            return QuestionKeyResult::Taken;
        }
        if let Some(text) = &chosen.edits {
            return QuestionKeyResult::Edit(card.id.clone(), row, text.clone());
        }
        // The last row of a multiple choice submits it.
        if many && row + 1 < rows.len() {
            self.mark(row);
            return QuestionKeyResult::Taken;
        }
        if chosen.twice && self.state.confirm != Some(row) {
            self.state.confirm = Some(row);
            return QuestionKeyResult::Taken;
        }
        let answer = if many {
            CardAnswer::Many(self.state.marked.clone(), String::new())
        } else {
            CardAnswer::Choice(ChosenOption { row, words: String::new() })
        };
        QuestionKeyResult::Answered(card.id.clone(), answer)
    }

    fn form_row(&mut self, row: usize) -> QuestionKeyResult {
        let Some(card) = self.waiting.front() else { return QuestionKeyResult::Taken };
        let QuestionKind::Form(fields) = &card.kind else { return QuestionKeyResult::Taken };
        if row == fields.len() {
            return QuestionKeyResult::Answered(card.id.clone(), CardAnswer::Form(self.state.values.clone()));
        }
        if fields.len() < row {
            return QuestionKeyResult::Answered(card.id.clone(), CardAnswer::Cancelled);
        }
        let mut field = Composer::default();
        field.set(self.state.values.get(row).map_or("", String::as_str));
        self.state.field = Some((row, field));
        QuestionKeyResult::Taken
    }

    /// Handles a key inside of a field: it edits or leaves the field.
    fn field_key(&mut self, key: KeyPress) -> QuestionKeyResult {
        let Some((row, field)) = &mut self.state.field else { return QuestionKeyResult::NotMine };
        let row = *row;
        match key.code {
            KeyCode::Enter if !key.shift && !key.alt => return self.leave_field(row),
            KeyCode::Esc => self.state.field = None,
            KeyCode::Backspace if key.alt || key.ctrl => field.kill(CaretMove::WordLeft),
            KeyCode::Backspace => field.delete(CaretMove::Left),
            KeyCode::Delete => field.delete(CaretMove::Right),
            KeyCode::Left => field.go(CaretMove::Left),
            KeyCode::Right => field.go(CaretMove::Right),
            KeyCode::Home => field.go(CaretMove::Start),
            KeyCode::End => field.go(CaretMove::End),
            KeyCode::Char('a') if key.ctrl => field.go(CaretMove::Start),
            KeyCode::Char('e') if key.ctrl => field.go(CaretMove::End),
            KeyCode::Char('u') if key.ctrl => field.kill(CaretMove::Start),
            KeyCode::Char('w') if key.ctrl => field.kill(CaretMove::WordLeft),
            KeyCode::Char('c') if key.ctrl => self.state.field = None,
            KeyCode::Char(it) if !key.ctrl && !key.alt => field.insert(&it.to_string()),
            _ => (),
        }
        QuestionKeyResult::Taken
    }

    fn leave_field(&mut self, row: usize) -> QuestionKeyResult {
        let Some((_, field)) = self.state.field.take() else { return QuestionKeyResult::Taken };
        let Some(card) = self.waiting.front() else { return QuestionKeyResult::Taken };
        let words = field.whole();
        match &card.kind {
            QuestionKind::Form(fields) => {
                if let Some(value) = self.state.values.get_mut(row) {
                    *value = words;
                }
                self.state.selected = Some((row + 1).min(fields.len()));
                self.state.problem = None;
                QuestionKeyResult::Taken
            }
            QuestionKind::Choice(_) => {
                QuestionKeyResult::Answered(card.id.clone(), CardAnswer::Choice(ChosenOption { row, words }))
            }
            QuestionKind::Many(_) => QuestionKeyResult::Answered(
                card.id.clone(),
                CardAnswer::Many(self.state.marked.clone(), words),
            ),
        }
    }
}
