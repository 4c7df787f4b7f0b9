//! Prompt editor: several lines, kill ring, undo, and placeholders for long pastes.
//!
//! Own implementation, because existing maintained widgets lack paste placeholders, custom layout, or a
//! kill ring, or own the screen.

use unicode_segmentation::UnicodeSegmentation as _;

use crate::{
    layout::ScreenRow,
    paint::Caret,
    styled_text::{ColorRole, StyledSpan, TextStyle, grapheme_width, width_of},
};

/// Maximum characters of a paste that is inserted as text; a longer one, or one with more lines, becomes
/// a placeholder.
const LONGEST_SHOWN_PASTE: usize = 1000;
const MAX_SHOWN_LINES: usize = 8;
/// First private-use character that represents a placeholder.
const FIRST_MARK: u32 = 0xf_0000;
const MAX_UNDO: usize = 200;
const MAX_KILLS: usize = 32;

/// The prompt being written.
#[derive(Clone, Debug, Default)]
pub struct Composer {
    text: String,
    /// Caret position in bytes.
    at: usize,
    pastes: Vec<PastedMark>,
    undo: Vec<(String, usize)>,
    redo: Vec<(String, usize)>,
    kills: Vec<String>,
    /// The last action, for actions that continue each other.
    last: LastEdit,
    /// Column that vertical movement keeps.
    goal: Option<usize>,
    /// Whether changes are undone together until the group ends.
    grouped: bool,
}

/// The content of a placeholder.
#[derive(Clone, Debug)]
struct PastedMark {
    text: String,
    /// Displayed text.
    label: String,
    /// Number of line breaks.
    breaks: usize,
}

impl PastedMark {
    fn new(text: &str, label: &str) -> Self {
        let breaks = text.matches('\n').count();
        Self { text: text.to_owned(), label: label.to_owned(), breaks }
    }

    /// Creates a placeholder for the `number`th paste.
    fn of_paste(text: &str, number: usize) -> Self {
        let mut mark = Self::new(text, "");
        mark.name(number);
        mark
    }

    fn name(&mut self, number: usize) {
        let lines = self.breaks + usize::from(!self.text.ends_with('\n'));
        self.label = format!("pasted text {number}, {lines} lines");
    }
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum LastEdit {
    #[default]
    Other,
    Typed,
    Killed,
    /// Range of the last yank, and its index in the kill ring.
    Yanked(usize, usize, usize),
    /// Range of the last paste.
    Pasted(usize, usize),
}

impl Composer {
    /// Returns the text with placeholder characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the caret position in bytes.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the text with placeholders replaced by their content.
    pub fn whole(&self) -> String {
        let mut out = String::with_capacity(self.text.len());
        for it in self.text.chars() {
            match self.paste_of(it) {
                Some(paste) => out.push_str(paste),
                None => out.push(it),
            }
        }
        out
    }

    fn paste_of(&self, mark: char) -> Option<&String> {
        self.mark_of(mark).map(|it| &it.text)
    }

    fn mark_of(&self, mark: char) -> Option<&PastedMark> {
        self.pastes.get(self.number_of(mark)?)
    }

    fn number_of(&self, mark: char) -> Option<usize> {
        let number = usize::try_from(u32::from(mark).checked_sub(FIRST_MARK)?).ok()?;
        (number < self.pastes.len()).then_some(number)
    }

    /// Starts a group of changes that are undone together.
    pub(crate) fn begin_group(&mut self) {
        self.remember();
        self.grouped = true;
    }

    /// Ends the group.
    pub(crate) fn end_group(&mut self) {
        self.grouped = false;
        self.last = LastEdit::Other;
    }

    /// Replaces a range and sets the caret to a byte of the new text.
    pub(crate) fn replace(&mut self, bytes: std::ops::Range<usize>, text: &str, caret: usize) {
        self.remember();
        if self.text.get(bytes.clone()).is_some() {
            self.text.replace_range(bytes, text);
        }
        self.at = self.nearest(caret);
        self.last = LastEdit::Other;
        self.goal = None;
    }

    /// Returns everything and clears the prompt.
    pub fn take(&mut self) -> String {
        self.end_group();
        let whole = self.whole();
        self.remember();
        self.text.clear();
        self.at = 0;
        self.last = LastEdit::Other;
        whole
    }

    /// Replaces everything; the caret moves to the end.
    pub fn set(&mut self, text: &str) {
        self.end_group();
        self.remember();
        self.text = visible(text);
        self.at = self.text.len();
        self.last = LastEdit::Other;
    }

    /// Inserts typed text.
    pub fn insert(&mut self, text: &str) {
        if self.last != LastEdit::Typed || text.chars().any(char::is_whitespace) {
            self.remember();
        }
        let text = visible(text);
        self.text.insert_str(self.at, &text);
        self.at += text.len();
        self.last = LastEdit::Typed;
        self.goal = None;
    }

    /// Inserts pasted text; a long one becomes a placeholder.
    pub fn paste(&mut self, text: &str) {
        let from = self.at;
        let long = LONGEST_SHOWN_PASTE < text.len() || MAX_SHOWN_LINES < text.lines().count();
        if long {
            self.put_mark(PastedMark::of_paste(text, self.pastes.len() + 1));
        } else {
            self.insert(text);
        }
        self.last = LastEdit::Pasted(from, self.at);
    }

    /// Appends to the last paste.
    pub fn paste_more(&mut self, text: &str) {
        let LastEdit::Pasted(from, until) = self.last else { return self.paste(text) };
        let Some(pasted) = self.text.get(from..until).filter(|_| until == self.at) else {
            return self.paste(text);
        };
        let (first, is_one) = (pasted.chars().next(), pasted.chars().nth(1).is_none());
        match first.filter(|_| is_one).and_then(|it| self.number_of(it)) {
            Some(number) => {
                let mark = &mut self.pastes[number];
                mark.text.push_str(text);
                mark.breaks += text.matches('\n').count();
                mark.name(number + 1);
            }
            None => {
                let whole = format!("{pasted}{text}");
                self.text.replace_range(from..until, "");
                self.at = from;
                self.paste(&whole);
            }
        }
    }

    /// Inserts a placeholder that stands for `text` and is displayed as `label`.
    pub fn insert_mark(&mut self, text: &str, label: &str) {
        self.put_mark(PastedMark::new(text, label));
        self.last = LastEdit::Other;
    }

    fn put_mark(&mut self, mark: PastedMark) {
        match u32::try_from(self.pastes.len()).ok().and_then(|it| char::from_u32(FIRST_MARK + it)) {
            Some(sign) => {
                self.pastes.push(mark);
                self.insert(&sign.to_string());
            }
            None => self.insert(&mark.text),
        }
    }

    /// Replaces the placeholder at or before the caret by its text. Returns whether there was one.
    pub fn expand_paste(&mut self) -> bool {
        let before = self.text[..self.at].chars().next_back().filter(|it| self.paste_of(*it).is_some());
        let from = match before {
            Some(it) => self.at - it.len_utf8(),
            None => match self.text.char_indices().find(|(_, it)| self.paste_of(*it).is_some()) {
                Some((at, _)) => at,
                None => return false,
            },
        };
        self.remember();
        let Some(mark) = self.text[from..].chars().next() else { return false };
        let paste = visible(self.paste_of(mark).map_or("", String::as_str));
        self.text.replace_range(from..from + mark.len_utf8(), &paste);
        self.at = from + paste.len();
        true
    }

    fn remember(&mut self) {
        self.redo.clear();
        if self.grouped {
            return;
        }
        if self.undo.last().is_none_or(|(text, _)| *text != self.text) {
            self.undo.push((self.text.clone(), self.at));
        }
        if MAX_UNDO < self.undo.len() {
            self.undo.remove(0);
        }
    }

    /// Undoes the last change.
    pub fn undo(&mut self) {
        self.end_group();
        while let Some((text, at)) = self.undo.pop() {
            if text != self.text {
                self.redo.push((std::mem::replace(&mut self.text, text), self.at));
                self.at = at;
                break;
            }
        }
        self.last = LastEdit::Other;
    }

    /// Redoes the last undone change.
    pub fn redo(&mut self) {
        if let Some((text, at)) = self.redo.pop() {
            self.undo.push((std::mem::replace(&mut self.text, text), self.at));
            self.at = at;
        }
        self.last = LastEdit::Other;
    }

    fn before(&self) -> usize {
        self.text[..self.at].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        let next = self.text[self.at..].graphemes(true).next();
        self.at + next.map_or(0, str::len)
    }

    fn word_before(&self) -> usize {
        let head = &self.text[..self.at];
        let bounds = head.split_word_bound_indices().rev();
        bounds.into_iter().find(|(_, word)| !word.trim().is_empty()).map_or(0, |(at, _)| at)
    }

    fn word_after(&self) -> usize {
        let mut bounds = self.text[self.at..].split_word_bound_indices();
        let found = bounds.find(|(_, word)| !word.trim().is_empty());
        found.map_or(self.text.len(), |(at, word)| self.at + at + word.len())
    }

    fn line_start(&self) -> usize {
        self.text[..self.at].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.at..].find('\n').map_or(self.text.len(), |at| self.at + at)
    }

    /// Moves the caret.
    pub fn go(&mut self, to: CaretMove) {
        self.at = match to {
            CaretMove::Left => self.before(),
            CaretMove::Right => self.after(),
            CaretMove::WordLeft => self.word_before(),
            CaretMove::WordRight => self.word_after(),
            CaretMove::LineStart => self.line_start(),
            CaretMove::LineEnd => self.line_end(),
            CaretMove::Start => 0,
            CaretMove::End => self.text.len(),
            CaretMove::To(at) => self.nearest(at),
        };
        self.last = LastEdit::Other;
        self.goal = None;
    }

    fn nearest(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// Deletes up to where the caret would move.
    pub fn delete(&mut self, to: CaretMove) {
        let (from, old) = (self.at, self.last);
        self.go(to);
        self.last = old;
        let (from, to) = (from.min(self.at), from.max(self.at));
        if from < to {
            self.remember();
            self.text.replace_range(from..to, "");
        }
        self.at = from;
        self.last = LastEdit::Other;
    }

    /// Deletes up to where the caret would move, into the kill ring (see [`Self::yank`]). Consecutive
    /// kills are merged.
    pub fn kill(&mut self, to: CaretMove) {
        let (begun, joins) = (self.at, self.last == LastEdit::Killed);
        self.go(to);
        let (from, until) = (begun.min(self.at), begun.max(self.at));
        // At the end of a line, deletes the line break.
        let until = if from == until && to == CaretMove::LineEnd { self.nearest(until + 1) } else { until };
        if from < until {
            let killed = self.text[from..until].to_owned();
            self.at = begun;
            self.remember();
            self.text.replace_range(from..until, "");
            match self.kills.last_mut().filter(|_| joins) {
                Some(last) if from < begun => last.insert_str(0, &killed),
                Some(last) => last.push_str(&killed),
                None => self.kills.push(killed),
            }
            if MAX_KILLS < self.kills.len() {
                self.kills.remove(0);
            }
        }
        self.at = from;
        self.last = LastEdit::Killed;
    }

    /// Inserts the last kill.
    pub fn yank(&mut self) {
        let Some(text) = self.kills.last().cloned() else { return };
        self.remember();
        let from = self.at;
        self.text.insert_str(from, &text);
        self.at += text.len();
        self.last = LastEdit::Yanked(from, self.at, self.kills.len() - 1);
    }

    /// Replaces the text just yanked by the previous kill.
    pub fn yank_pop(&mut self) {
        let LastEdit::Yanked(from, until, which) = self.last else { return };
        let which = which.checked_sub(1).unwrap_or(self.kills.len() - 1);
        let text = self.kills[which].clone();
        self.text.replace_range(from..until, &text);
        self.at = from + text.len();
        self.last = LastEdit::Yanked(from, self.at, which);
    }

    /// Swaps the characters around the caret.
    pub fn transpose(&mut self) {
        if self.at == self.text.len() {
            self.at = self.before();
        }
        let (before, after) = (self.before(), self.after());
        if before < self.at && self.at < after {
            self.remember();
            let swapped = format!("{}{}", &self.text[self.at..after], &self.text[before..self.at]);
            self.text.replace_range(before..after, &swapped);
            self.at = after;
        }
    }

    /// Moves by one row. Returns whether there was one.
    pub fn move_row(&mut self, down: bool, width: usize) -> bool {
        let places = self.places(width);
        let here = places.iter().rposition(|it| it.0 <= self.at && it.1 != usize::MAX).unwrap_or(0);
        let (row, column) = (places[here].1, self.goal.unwrap_or(places[here].2));
        let wanted = if down { row + 1 } else { row.wrapping_sub(1) };
        let mut found = places.iter().filter(|it| it.1 == wanted).peekable();
        if found.peek().is_none() {
            return false;
        }
        let best = found.min_by_key(|it| it.2.abs_diff(column)).map_or(self.at, |it| it.0);
        self.at = best;
        self.last = LastEdit::Other;
        self.goal = Some(column);
        true
    }

    /// Returns all caret positions: byte, row, column.
    fn places(&self, width: usize) -> Vec<(usize, usize, usize)> {
        let width = width.saturating_sub(PROMPT_WIDTH).max(2);
        let (mut row, mut column) = (0, 0);
        let mut places = Vec::new();
        for (at, grapheme) in self.text.grapheme_indices(true) {
            if grapheme == "\n" {
                places.push((at, row, column));
                (row, column) = (row + 1, 0);
                continue;
            }
            let wide = width_of(&self.shown(grapheme)).min(width);
            if width < column + wide {
                (row, column) = (row + 1, 0);
            }
            places.push((at, row, column));
            column += wide;
        }
        if width <= column {
            (row, column) = (row + 1, 0);
        }
        places.push((self.text.len(), row, column));
        places
    }

    fn shown(&self, grapheme: &str) -> String {
        match grapheme.chars().next().and_then(|it| self.mark_of(it)) {
            Some(mark) => format!("[{}]", mark.label),
            None => grapheme.to_owned(),
        }
    }

    /// Renders the text after a prompt symbol; returns its rows and the caret.
    pub fn rows(&self, width: usize, sign: &str, ink: TextStyle) -> (Vec<ScreenRow>, Caret) {
        self.rows_with(width, sign, ink, 0..0)
    }

    /// Like [`rows`](Self::rows), with a selection.
    pub(crate) fn rows_with(
        &self,
        width: usize,
        sign: &str,
        ink: TextStyle,
        selected: std::ops::Range<usize>,
    ) -> (Vec<ScreenRow>, Caret) {
        let places = self.places(width);
        let count = places.last().map_or(0, |it| it.1) + 1;
        let mut rows: Vec<ScreenRow> = Vec::with_capacity(count);
        for number in 0..count {
            let lead = if number == 0 {
                StyledSpan::new(sign, ink)
            } else {
                StyledSpan::new("  ", TextStyle::PLAIN)
            };
            rows.push(ScreenRow { spans: vec![lead], soft: false });
        }
        let mut caret = Caret::default();
        for ((at, row, column), next) in places.iter().zip(self.text.graphemes(true).map(Some).chain([None]))
        {
            if *at <= self.at {
                caret = Caret { row: *row, column: column + PROMPT_WIDTH };
            }
            let Some(grapheme) = next.filter(|it| *it != "\n") else { continue };
            let shown = self.shown(grapheme);
            let is_mark = shown != grapheme;
            let mut ink = if is_mark { TextStyle::tone(ColorRole::Info) } else { TextStyle::PLAIN };
            ink.reverse = selected.contains(at);
            let span = StyledSpan::new(&shown, ink);
            match rows[*row].spans.last_mut().filter(|it| it.ink == ink && *column != 0) {
                Some(last) => last.text.push(&span.text),
                None => rows[*row].spans.push(span),
            }
        }
        (rows, caret)
    }
}

/// Columns of the prompt symbol.
pub(crate) const PROMPT_WIDTH: usize = 2;

/// A movement of the caret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CaretMove {
    Left,
    Right,
    /// To the start of the word.
    WordLeft,
    /// To the end of the word.
    WordRight,
    /// To the start of the line.
    LineStart,
    /// To the end of the line.
    LineEnd,
    /// To the start of the text.
    Start,
    /// To the end of the text.
    End,
    /// To this byte.
    To(usize),
}

/// Replaces tabs by spaces, and removes other controls and placeholder characters.
fn visible(text: &str) -> String {
    if text.chars().count() == 1 && text.chars().all(|it| FIRST_MARK <= u32::from(it)) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '\t' => out.push_str("    "),
            '\n' => out.push('\n'),
            it if it.is_control() || FIRST_MARK <= u32::from(it) => (),
            it => out.push(it),
        }
    }
    out
}

/// Returns the columns of a text up to a byte.
pub(crate) fn columns_before(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).graphemes(true).map(grapheme_width).sum()
}

#[cfg(test)]
mod tests;
