//! Text objects: words, quoted strings, brackets, paragraphs.

use super::{
    char_buffer::{CharBuffer, GlyphClass, WordSize},
    motion::MotionKind,
};

/// A text object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ViObject {
    pub(super) kind: ViObjectKind,
    /// Whether it includes its surroundings (`a`, not `i`).
    pub(super) around: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ViObjectKind {
    Word(WordSize),
    Quoted(char),
    Bracketed(char, char),
    Paragraph,
}

impl ViObject {
    pub(super) fn parse(key: char, around: bool) -> Option<Self> {
        let kind = match key {
            'w' => ViObjectKind::Word(WordSize::Small),
            'W' => ViObjectKind::Word(WordSize::Big),
            '"' | '\'' | '`' => ViObjectKind::Quoted(key),
            '(' | ')' | 'b' => ViObjectKind::Bracketed('(', ')'),
            '[' | ']' => ViObjectKind::Bracketed('[', ']'),
            '{' | '}' | 'B' => ViObjectKind::Bracketed('{', '}'),
            '<' | '>' => ViObjectKind::Bracketed('<', '>'),
            'p' => ViObjectKind::Paragraph,
            _ => return None,
        };
        Some(Self { kind, around })
    }

    /// Returns its range, end exclusive; `None` if there is none.
    pub(super) fn range(
        self,
        glyphs: &CharBuffer<'_>,
        at: usize,
        count: usize,
    ) -> Option<(usize, usize, MotionKind)> {
        let (from, to) = match self.kind {
            ViObjectKind::Word(size) => words(glyphs, at, size, count, self.around)?,
            ViObjectKind::Quoted(quote) => quoted(glyphs, at, quote, self.around)?,
            ViObjectKind::Bracketed(open, close) => {
                let (from, to) = bracketed(glyphs, at, open, close, count)?;
                if self.around { (from, to + 1) } else { (from + 1, to) }
            }
            ViObjectKind::Paragraph => {
                let (from, to) = paragraph(glyphs, at, self.around);
                return Some((from, to, MotionKind::Lines));
            }
        };
        Some((from, to, MotionKind::Exclusive))
    }
}

/// Returns runs of characters of one class; whitespace counts as a class.
fn words(
    glyphs: &CharBuffer<'_>,
    at: usize,
    size: WordSize,
    count: usize,
    around: bool,
) -> Option<(usize, usize)> {
    if at >= glyphs.count() || glyphs.is_break(at) {
        return None;
    }
    let (start, end) = (glyphs.line_start(at), glyphs.line_end(at));
    let class = |place: usize| glyphs.class(place, size);
    let run_end = |from: usize| (from..end).find(|it| class(*it) != class(from)).unwrap_or(end);
    let run_start = |from: usize| (start..from).rev().take_while(|it| class(*it) == class(from)).last();
    let from = run_start(at).unwrap_or(at);
    let mut to = from;
    for _ in 0..count {
        if end <= to {
            break;
        }
        let began_blank = class(to) == GlyphClass::Blank;
        to = run_end(to);
        if around && to < end && (began_blank || class(to) == GlyphClass::Blank) {
            to = run_end(to);
        }
    }
    // Without whitespace after it, the whitespace before it is included.
    let ends_blank = from < to && class(to - 1) == GlyphClass::Blank;
    let before = match from.checked_sub(1).filter(|it| start <= *it) {
        Some(before)
            if around
                && !ends_blank
                && class(before) == GlyphClass::Blank
                && class(from) != GlyphClass::Blank =>
        {
            run_start(before).unwrap_or(before)
        }
        _ => from,
    };
    Some((before, to))
}

/// Returns the text between two quotes of the line, optionally with them.
fn quoted(glyphs: &CharBuffer<'_>, at: usize, quote: char, around: bool) -> Option<(usize, usize)> {
    let (start, end) = (glyphs.line_start(at), glyphs.line_end(at));
    let is_quote = |place: &usize| {
        glyphs.first(*place) == Some(quote) && (*place == start || glyphs.first(*place - 1) != Some('\\'))
    };
    let quotes: Vec<usize> = (start..end).filter(is_quote).collect();
    let pair = quotes.chunks_exact(2).find(|pair| at <= pair[1])?;
    let (open, close) = (pair[0], pair[1]);
    if !around {
        return Some((open + 1, close));
    }
    // Includes whitespace after it.
    let is_blank = |place: &usize| glyphs.class(*place, WordSize::Big) == GlyphClass::Blank;
    let blanks = (close + 1..end).take_while(is_blank).count();
    Some((open, close + 1 + blanks))
}

/// Returns the brackets around an index, `count` levels out.
fn bracketed(
    glyphs: &CharBuffer<'_>,
    at: usize,
    open: char,
    close: char,
    count: usize,
) -> Option<(usize, usize)> {
    let mut from = at;
    let mut depth = count;
    let is = |place: usize, sign: char| glyphs.first(place) == Some(sign);
    // A caret on the closing bracket is inside of it.
    let mut inner = 0_usize;
    loop {
        if is(from, close) && from != at {
            inner += 1;
        }
        if is(from, open) {
            if inner == 0 {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            } else {
                inner -= 1;
            }
        }
        from = from.checked_sub(1)?;
    }
    let mut inner = 0_usize;
    let closes = |place: &usize| {
        if is(*place, open) {
            inner += 1;
        }
        if is(*place, close) {
            if inner == 0 {
                return true;
            }
            inner -= 1;
        }
        false
    };
    let to = (from + 1..glyphs.count()).find(closes)?;
    Some((from, to))
}

/// Returns lines up to an empty one, or empty lines; optionally with the empty lines after them.
fn paragraph(glyphs: &CharBuffer<'_>, at: usize, around: bool) -> (usize, usize) {
    let is_gap = |place: usize| glyphs.is_empty_line(glyphs.line_start(place));
    let gap = is_gap(at);
    let mut from = glyphs.line_start(at);
    while 0 < from && is_gap(from - 1) == gap {
        from = glyphs.line_start(from - 1);
    }
    let run = |mut to: usize, gap: bool| {
        while to < glyphs.count() && is_gap(to + 1) == gap {
            to = glyphs.line_end(to + 1);
        }
        to
    };
    let mut to = run(glyphs.line_end(at), gap);
    if around && to < glyphs.count() {
        to = run(glyphs.line_end(to + 1), !gap);
    }
    (from, to)
}
