//! Questions: one at a time, and nothing is decided by accident.
//!
//! A question is deaf until it is on the screen and no key came for [`DEAF_MS`]; what
//! is typed until then is text. It begins to hear at a moment at which no key waits to
//! be read: keys that lay in a queue were not meant for it. Nothing is selected at first. A single letter decides only when no
//! other key follows within [`SETTLE_MS`]: a word that is being typed is a word.

use std::collections::VecDeque;

use haft_tool::RenderedLine;

use crate::{
    composer::{CaretMove, Composer},
    event::{KeyCode, KeyPress},
};

/// How long nobody may have typed before a question hears keys.
pub(crate) const DEAF_MS: u64 = 400;
/// How long a letter waits for another one before it decides.
pub(crate) const SETTLE_MS: u64 = 150;

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionCard {
    /// Its name; the answer repeats it.
    pub id: String,
    /// Who asks, if it is not the main agent.
    pub from: Option<String>,
    /// What it is about, in a word or two.
    pub title: String,
    /// What would happen.
    pub headline: String,
    /// What has to be read before answering: a diff, a command, parts and why.
    pub body: Vec<RenderedLine>,
    /// What can be answered.
    pub kind: QuestionKind,
}

/// What can be answered.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionKind {
    /// One of these.
    Choice(Vec<ChoiceOption>),
    /// Some of these; further words are taken.
    Many(Vec<ChoiceOption>),
    /// Values of these fields.
    Form(Vec<QuestionField>),
}

/// One answer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ChoiceOption {
    /// The key that means it.
    pub key: char,
    /// What it says.
    pub label: String,
    /// What it would change, line by line.
    pub detail: Vec<String>,
    /// Whether it has to be said twice.
    pub twice: bool,
    /// Whether words may go with it.
    pub words: bool,
    /// What the words are at first. Such a question stays until somebody takes it
    /// away: the words may be refused.
    pub given: String,
    /// A text that is edited first, and comes back as the words.
    pub edits: Option<String>,
}

/// A field of a form.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QuestionField {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub label: String,
    /// What it may hold.
    pub hint: String,
    /// What it holds.
    pub value: String,
}

/// An answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CardAnswer {
    /// One of the rows, with words where it takes some.
    Choice(ChosenOption),
    /// These rows, and other words.
    Many(Vec<usize>, String),
    /// Values, in the order of the fields.
    Form(Vec<String>),
    /// No answer, and none will come.
    Cancelled,
}

/// The row that was chosen, and what was said with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChosenOption {
    /// Which row.
    pub row: usize,
    /// Words.
    pub words: String,
}

/// What a key did to a question.
#[derive(Debug, PartialEq)]
pub(crate) enum QuestionKeyResult {
    /// Nothing: it belongs to the draft.
    NotMine,
    /// It changed what is shown.
    Taken,
    /// It was typed, with what waited before it: text for the draft.
    Typed(String),
    /// The question is answered.
    Answered(String, CardAnswer),
    /// The question is to be seen whole.
    Open,
    /// This text is to be edited for a row of the question.
    Edit(String, usize, String),
}

/// Questions that wait, the first of them shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuestionQueue {
    pub(crate) waiting: VecDeque<QuestionCard>,
    pub(crate) state: QuestionInput,
}

/// How far the answer to the first question is.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuestionInput {
    /// Whether it is on the screen.
    seen: bool,
    /// Deaf until then.
    hears_at: u64,
    /// Whether that moment came, and no key with it.
    armed: bool,
    pub(crate) selected: Option<usize>,
    pub(crate) marked: Vec<usize>,
    /// A letter that waits to be alone.
    pub(crate) pending: Option<(usize, char, u64)>,
    /// A row that was chosen once and wants to be chosen again.
    pub(crate) confirm: Option<usize>,
    /// Words for a row, or the value of a field.
    pub(crate) field: Option<(usize, Composer)>,
    pub(crate) values: Vec<String>,
    pub(crate) problem: Option<String>,
    pub(crate) folded: bool,
    /// The first line of the body that is shown.
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

    /// Nobody waits for the answer to a question any more.
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

    /// A key was typed that was not for a question.
    pub(crate) fn typed_elsewhere(&mut self, now: u64) {
        self.state.hears_at = self.state.hears_at.max(now + DEAF_MS);
        (self.state.armed, self.state.pending) = (false, None);
    }

    /// Something else was in its place: it has to be seen anew.
    pub(crate) fn was_hidden(&mut self, now: u64) {
        self.typed_elsewhere(now);
        self.state.seen = false;
    }

    /// What is shown is on the screen now.
    pub(crate) fn is_seen(&mut self, now: u64) {
        if self.shown().is_some() && !self.state.seen {
            self.state.seen = true;
            self.typed_elsewhere(now);
        }
    }

    /// A moment at which no key waits: the question hears, if it is time.
    pub(crate) fn arm(&mut self, now: u64) {
        self.state.armed |= self.state.seen && self.shown().is_some() && self.state.hears_at <= now;
    }

    /// Whether keys are heard.
    pub(crate) fn hears(&self) -> bool {
        self.shown().is_some() && (self.state.armed || self.state.field.is_some())
    }

    /// When something happens by itself.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.shown()?;
        let pending = self.state.pending.map(|it| it.2);
        let hears = (self.state.seen && !self.state.armed).then_some(self.state.hears_at);
        pending.into_iter().chain(hears).min()
    }

    /// A letter was alone long enough: it decides.
    pub(crate) fn settle(&mut self, now: u64) -> Option<QuestionKeyResult> {
        let (row, _, at) = self.state.pending?;
        if now < at {
            return None;
        }
        self.state.pending = None;
        Some(self.choose(row))
    }

    /// Whether the question stays until it is withdrawn, because this answer to it
    /// may be refused.
    pub(crate) fn may_refuse(&self, answer: &CardAnswer) -> bool {
        match (answer, self.waiting.front().map(|it| &it.kind)) {
            (CardAnswer::Form(_), _) => true,
            (CardAnswer::Choice(choice), Some(QuestionKind::Choice(rows))) => {
                rows.get(choice.row).is_some_and(|row| !row.given.is_empty())
            }
            _ => false,
        }
    }

    /// The answer was given; the next question is shown.
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

    /// A key, when the question hears it.
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
            // Another key came at once: somebody writes.
            if let Some(it) = key.typed() {
                self.typed_elsewhere(now);
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
                // Nothing is chosen: what was written meanwhile is sent.
                None => QuestionKeyResult::NotMine,
            },
            KeyCode::Char(it) if !key.ctrl && !is_form => self.letter(it, key.alt, now),
            _ => QuestionKeyResult::NotMine,
        }
    }

    /// A letter that means a row waits to be alone; with Alt it is meant.
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
                self.typed_elsewhere(now);
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
        // The last row of several sends what is marked.
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

    /// A key inside of a field changes or leaves the field, and nothing else.
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
