//! Vi keys in the prompt: operators with motions and text objects, counts, visual mode, registers,
//! repeat, find and search.
//!
//! Keys are collected until they form a command ([`fn@parse`]), which changes only the prompt. Anything
//! else is returned as a [`ViStep`].

mod change;
mod char_buffer;
mod motion;
mod parse;
mod register;
mod text_object;

use std::ops::Range;

use self::{
    char_buffer::CharBuffer,
    motion::{ViMemory, ViMotion},
    parse::{ParsedKeys, ViCommand, ViInput, ViTarget, parse},
    register::ViRegisters,
};
use crate::{
    composer::{CaretMove, Composer},
    event::{KeyCode, KeyPress},
};

/// Mode.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum ViMode {
    #[default]
    Insert,
    Normal,
    /// Visual mode; `anchor` is the byte where the selection starts.
    Visual {
        anchor: usize,
        lines: bool,
    },
}

/// Result of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ViStep {
    /// Not handled: it has its usual meaning.
    NotMine,
    /// Handled, or part of an incomplete command.
    Taken,
    /// Move by rows; beyond the prompt, through the history.
    Rows { down: bool, count: usize },
    /// Copy this text to the clipboard.
    Copied(String),
}

/// The last repeatable change: its command and the text typed.
#[derive(Clone, Debug)]
struct LastChange {
    order: ViInput,
    typed: Vec<TypedEdit>,
}

/// An edit in insert mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TypedEdit {
    Char(char),
    DeleteLeft,
}

/// A search text being typed.
#[derive(Clone, Debug)]
struct TypedSearch {
    text: String,
    back: bool,
    order: ViInput,
}

/// State of the vi keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViKeys {
    mode: ViMode,
    /// Keys of an incomplete command.
    keys: Vec<char>,
    memory: ViMemory,
    registers: ViRegisters,
    search: Option<TypedSearch>,
    last: Option<LastChange>,
    /// Whether typed text belongs to the last change.
    records: bool,
}

impl ViKeys {
    /// Whether insert mode is active.
    pub(crate) fn is_inserting(&self) -> bool {
        self.mode == ViMode::Insert
    }

    /// Switches to insert mode.
    pub(crate) fn insert(&mut self) {
        self.mode = ViMode::Insert;
        self.keys.clear();
        (self.search, self.records) = (None, false);
    }

    /// Returns the text for the footer: mode and incomplete command.
    pub(crate) fn label(&self) -> Option<String> {
        let mode = match self.mode {
            ViMode::Insert => return None,
            ViMode::Normal => "NORMAL",
            ViMode::Visual { lines: false, .. } => "VISUAL",
            ViMode::Visual { lines: true, .. } => "VISUAL LINE",
        };
        let keys: String = match &self.search {
            Some(search) => format!("{}{}", if search.back { '?' } else { '/' }, search.text),
            None => self.keys.iter().collect(),
        };
        Some(format!("{mode} {keys}").trim_end().to_owned())
    }

    /// Returns the selected bytes.
    pub(crate) fn selection(&self, draft: &Composer) -> Option<Range<usize>> {
        let ViMode::Visual { anchor, lines } = self.mode else { return None };
        let glyphs = CharBuffer::new(draft.text());
        let (from, to) = change::selected(&glyphs, anchor, draft.at(), lines);
        Some(glyphs.byte(from)..glyphs.byte(to))
    }

    /// Handles a key.
    pub(crate) fn key(&mut self, key: KeyPress, draft: &mut Composer) -> ViStep {
        if self.search.is_some() {
            return self.search_key(key, draft);
        }
        if self.mode == ViMode::Insert {
            return self.insert_key(key, draft);
        }
        if key == KeyPress::plain(KeyCode::Esc) {
            return self.leave(draft);
        }
        if key == KeyPress::ctrl('r') {
            self.keys.clear();
            return self.carry_out(ViInput { register: None, count: None, command: ViCommand::Redo }, draft);
        }
        let Some(it) = key.typed() else {
            self.keys.clear();
            return ViStep::NotMine;
        };
        if it == '/' && draft.is_empty() && self.keys.is_empty() {
            // The prompt is empty, so `/` starts a slash command.
            self.insert();
            return ViStep::NotMine;
        }
        self.keys.push(it);
        match parse(&self.keys, matches!(self.mode, ViMode::Visual { .. })) {
            ParsedKeys::More => ViStep::Taken,
            ParsedKeys::Unknown => {
                self.keys.clear();
                ViStep::Taken
            }
            ParsedKeys::Order(order) => {
                self.keys.clear();
                self.carry_out(order, draft)
            }
        }
    }

    /// Handles Esc in normal mode: drops an incomplete command; without one, the key is not handled.
    fn leave(&mut self, draft: &mut Composer) -> ViStep {
        let had_keys = !std::mem::take(&mut self.keys).is_empty();
        if self.mode != ViMode::Normal {
            self.mode = ViMode::Normal;
            self.stay_on_character(draft);
            return ViStep::Taken;
        }
        if had_keys { ViStep::Taken } else { ViStep::NotMine }
    }

    /// Handles a key in insert mode. Esc ends it, unless the prompt is empty.
    fn insert_key(&mut self, key: KeyPress, draft: &mut Composer) -> ViStep {
        if key == KeyPress::plain(KeyCode::Esc) {
            if draft.is_empty() {
                return ViStep::NotMine;
            }
            draft.end_group();
            (self.mode, self.records) = (ViMode::Normal, false);
            let glyphs = CharBuffer::new(draft.text());
            let at = glyphs.place(draft.at());
            let left = at.saturating_sub(1).max(glyphs.line_start(at));
            let byte = glyphs.byte(left);
            draft.go(CaretMove::To(byte));
            return ViStep::Taken;
        }
        if let Some(last) = self.last.as_mut().filter(|_| self.records) {
            let is_newline = key.code == KeyCode::Enter || key == KeyPress::ctrl('j');
            match (key.typed(), key.code) {
                (Some(it), _) => last.typed.push(TypedEdit::Char(it)),
                (None, KeyCode::Backspace) if !key.alt && !key.ctrl => last.typed.push(TypedEdit::DeleteLeft),
                (None, _) if is_newline => last.typed.push(TypedEdit::Char('\n')),
                // Moving the caret ends the recorded change.
                _ => self.records = false,
            }
        }
        ViStep::NotMine
    }

    fn search_key(&mut self, key: KeyPress, draft: &mut Composer) -> ViStep {
        let Some(mut search) = self.search.take() else { return ViStep::NotMine };
        match (key.code, key.typed()) {
            (KeyCode::Enter, _) => {
                if !search.text.is_empty() {
                    self.memory.search = Some((search.text, search.back));
                }
                let again = ViTarget::Way(ViMotion::SearchAgain(false));
                let command = match search.order.command {
                    ViCommand::Operate(operator, _) => ViCommand::Operate(operator, again),
                    _ => ViCommand::Go(again),
                };
                return self.carry_out(ViInput { command, ..search.order }, draft);
            }
            (KeyCode::Backspace, _) if search.text.pop().is_none() => return ViStep::Taken,
            (KeyCode::Backspace, _) => (),
            (_, Some(it)) => search.text.push(it),
            _ => return ViStep::Taken,
        }
        self.search = Some(search);
        ViStep::Taken
    }

    fn carry_out(&mut self, order: ViInput, draft: &mut Composer) -> ViStep {
        let target = match order.command {
            ViCommand::Go(target) | ViCommand::Operate(_, target) => Some(target),
            _ => None,
        };
        if let Some(ViTarget::Search(back)) = target {
            self.search = Some(TypedSearch { text: String::new(), back, order });
            return ViStep::Taken;
        }
        let count = order.count.unwrap_or(1);
        if let (ViCommand::Go(ViTarget::Way(way @ (ViMotion::Up | ViMotion::Down))), ViMode::Normal) =
            (order.command, self.mode)
        {
            return ViStep::Rows { down: way == ViMotion::Down, count };
        }
        if order.command == ViCommand::Repeat {
            self.repeat(order.count, draft);
            return ViStep::Taken;
        }
        let copied = self.change(order, draft);
        if self.is_inserting() {
            return copied;
        }
        draft.end_group();
        if self.mode == ViMode::Normal {
            self.stay_on_character(draft);
        }
        copied
    }

    /// Repeats the last change, with another count if given.
    fn repeat(&mut self, count: Option<usize>, draft: &mut Composer) {
        let Some(mut last) = self.last.take() else { return };
        last.order.count = count.or(last.order.count);
        draft.begin_group();
        self.change(last.order, draft);
        for edit in &last.typed {
            match edit {
                TypedEdit::Char(it) => draft.insert(&it.to_string()),
                TypedEdit::DeleteLeft => draft.delete(CaretMove::Left),
            }
        }
        if self.is_inserting() {
            self.insert_key(KeyPress::plain(KeyCode::Esc), draft);
            self.mode = ViMode::Normal;
        }
        draft.end_group();
        self.last = Some(last);
        self.stay_on_character(draft);
    }

    /// In normal mode the caret is on a character, not after the end of the line.
    pub(crate) fn stay_on_character(&self, draft: &mut Composer) {
        if self.is_inserting() {
            return;
        }
        let glyphs = CharBuffer::new(draft.text());
        let at = glyphs.place(draft.at());
        let last = glyphs.last_of_line(at.min(glyphs.count()));
        if last < at {
            let byte = glyphs.byte(last);
            draft.go(CaretMove::To(byte));
        }
    }

    /// Stores a change to be repeated.
    fn remember(&mut self, order: ViInput) {
        self.last = Some(LastChange { order, typed: Vec::new() });
    }
}

#[cfg(test)]
mod tests;
