//! Where the caret goes.

use super::char_buffer::{CharBuffer, GlyphClass, WordSize};

/// A way through the draft.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ViMotion {
    Left,
    Right,
    Down,
    Up,
    LineStart,
    FirstWord,
    LineEnd,
    Column,
    Word(WordSize),
    WordEnd(WordSize),
    WordBack(WordSize),
    WordEndBack(WordSize),
    FirstLine,
    LastLine,
    Paragraph,
    ParagraphBack,
    Bracket,
    Find(CharFind),
    /// The last find again, or the other way.
    FindAgain(bool),
    /// The last search again, or the other way.
    SearchAgain(bool),
    /// The word under the caret, forwards or backwards.
    SearchWord(bool),
}

/// A character to go to, in its line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct CharFind {
    pub(super) target: char,
    pub(super) back: bool,
    /// Whether the caret stops before it.
    pub(super) before: bool,
}

/// What an operator takes of a way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MotionKind {
    /// Up to there, without what stands there.
    Exclusive,
    /// With what stands there.
    Inclusive,
    /// Whole lines.
    Lines,
}

/// What was found or sought last.
#[derive(Clone, Debug, Default)]
pub(super) struct ViMemory {
    pub(super) find: Option<CharFind>,
    /// The text, and whether it was sought backwards.
    pub(super) search: Option<(String, bool)>,
}

/// Where a way leads, and what an operator takes of it; nothing if there is no way.
pub(super) fn go(
    glyphs: &CharBuffer<'_>,
    from: usize,
    motion: ViMotion,
    count: Option<usize>,
    memory: &mut ViMemory,
) -> Option<(usize, MotionKind)> {
    let times = count.unwrap_or(1);
    let repeat = |step: &dyn Fn(usize) -> usize| (0..times).fold(from, |at, _| step(at));
    let (start, end) = (glyphs.line_start(from), glyphs.line_end(from));
    Some(match motion {
        ViMotion::Left => (from.saturating_sub(times).max(start), MotionKind::Exclusive),
        ViMotion::Right => ((from + times).min(end), MotionKind::Exclusive),
        ViMotion::Down => (glyphs.lines_away(from, times, true), MotionKind::Lines),
        ViMotion::Up => (glyphs.lines_away(from, times, false), MotionKind::Lines),
        ViMotion::LineStart => (start, MotionKind::Exclusive),
        ViMotion::FirstWord => (glyphs.first_word_of_line(from), MotionKind::Exclusive),
        ViMotion::LineEnd => {
            let line = glyphs.lines_away(from, times - 1, true);
            (glyphs.last_of_line(line), MotionKind::Inclusive)
        }
        ViMotion::Column => ((start + times - 1).min(glyphs.last_of_line(from)), MotionKind::Exclusive),
        ViMotion::Word(size) => (repeat(&|at| word_after(glyphs, at, size)), MotionKind::Exclusive),
        ViMotion::WordEnd(size) => (repeat(&|at| word_end(glyphs, at, size)), MotionKind::Inclusive),
        ViMotion::WordBack(size) => (repeat(&|at| word_before(glyphs, at, size)), MotionKind::Exclusive),
        ViMotion::WordEndBack(size) => {
            (repeat(&|at| word_end_before(glyphs, at, size)), MotionKind::Inclusive)
        }
        ViMotion::FirstLine => (line_number(glyphs, times), MotionKind::Lines),
        ViMotion::LastLine => {
            let at = count.map_or(glyphs.line_start(glyphs.count()), |number| line_number(glyphs, number));
            (glyphs.first_word_of_line(at).min(glyphs.last_of_line(at)), MotionKind::Lines)
        }
        ViMotion::Paragraph => (repeat(&|at| empty_line(glyphs, at, true)), MotionKind::Exclusive),
        ViMotion::ParagraphBack => (repeat(&|at| empty_line(glyphs, at, false)), MotionKind::Exclusive),
        ViMotion::Bracket => (bracket(glyphs, from)?, MotionKind::Inclusive),
        ViMotion::Find(find) => {
            memory.find = Some(find);
            found(glyphs, from, find, times)?
        }
        ViMotion::FindAgain(turned) => {
            let find = memory.find?;
            let find = CharFind { back: find.back != turned, ..find };
            // What stops before it stands there already.
            let skips = find.before.then(|| found(glyphs, from, find, 1)).flatten();
            let again = if skips.is_some_and(|it| it.0 == from) { times + 1 } else { times };
            found(glyphs, from, find, again)?
        }
        ViMotion::SearchAgain(turned) => {
            let (text, back) = memory.search.clone()?;
            let seek = |at| sought(glyphs, at, &text, back != turned);
            ((0..times).try_fold(from, |at, _| seek(at))?, MotionKind::Exclusive)
        }
        ViMotion::SearchWord(back) => {
            let word = word_at(glyphs, from)?;
            memory.search = Some((word.clone(), back));
            ((0..times).try_fold(from, |at, _| sought(glyphs, at, &word, back))?, MotionKind::Exclusive)
        }
    })
}

fn line_number(glyphs: &CharBuffer<'_>, number: usize) -> usize {
    glyphs.line_start(glyphs.lines_away(0, number.saturating_sub(1), true))
}

/// The beginning of the next word; an empty line is one.
pub(super) fn word_after(glyphs: &CharBuffer<'_>, from: usize, size: WordSize) -> usize {
    let mut at = from;
    let class = glyphs.class(at, size);
    while class != GlyphClass::Blank && at < glyphs.count() && glyphs.class(at, size) == class {
        at += 1;
    }
    while at < glyphs.count() && glyphs.class(at, size) == GlyphClass::Blank {
        if at != from && glyphs.is_empty_line(at) {
            break;
        }
        at += 1;
    }
    at
}

/// The last character of this word, or of the next one.
pub(super) fn word_end(glyphs: &CharBuffer<'_>, from: usize, size: WordSize) -> usize {
    let last = glyphs.count().saturating_sub(1);
    let mut at = (from + 1).min(last);
    while at < last && glyphs.class(at, size) == GlyphClass::Blank {
        at += 1;
    }
    let class = glyphs.class(at, size);
    while at < last && glyphs.class(at + 1, size) == class && class != GlyphClass::Blank {
        at += 1;
    }
    at
}

fn word_before(glyphs: &CharBuffer<'_>, from: usize, size: WordSize) -> usize {
    let mut at = from.saturating_sub(1);
    while 0 < at && glyphs.class(at, size) == GlyphClass::Blank && !glyphs.is_empty_line(at) {
        at -= 1;
    }
    let class = glyphs.class(at, size);
    while 0 < at && class != GlyphClass::Blank && glyphs.class(at - 1, size) == class {
        at -= 1;
    }
    at
}

fn word_end_before(glyphs: &CharBuffer<'_>, from: usize, size: WordSize) -> usize {
    let class = glyphs.class(from, size);
    let mut at = from;
    while 0 < at && class != GlyphClass::Blank && glyphs.class(at, size) == class {
        at -= 1;
    }
    at = if at == from { at.saturating_sub(1) } else { at };
    while 0 < at && glyphs.class(at, size) == GlyphClass::Blank && !glyphs.is_empty_line(at) {
        at -= 1;
    }
    at
}

/// The next empty line that does not follow another, or the end.
fn empty_line(glyphs: &CharBuffer<'_>, from: usize, down: bool) -> usize {
    let is_gap = |at: &usize| glyphs.is_empty_line(*at) && (*at == 0 || !glyphs.is_empty_line(at - 1));
    if down {
        (from + 1..glyphs.count()).find(is_gap).unwrap_or(glyphs.count())
    } else {
        (0..from).rev().find(is_gap).unwrap_or(0)
    }
}

const PAIRS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];

/// The bracket that belongs to the first one from here on in the line.
fn bracket(glyphs: &CharBuffer<'_>, from: usize) -> Option<usize> {
    let is_bracket = |at: &usize| {
        glyphs.first(*at).is_some_and(|it| PAIRS.iter().any(|pair| pair.0 == it || pair.1 == it))
    };
    let at = (from..glyphs.line_end(from)).find(is_bracket)?;
    let it = glyphs.first(at)?;
    let (open, close) = PAIRS.into_iter().find(|pair| pair.0 == it || pair.1 == it)?;
    let mut depth = 0_usize;
    let mut belongs = |place: &usize| {
        let sign = glyphs.first(*place);
        if sign == Some(it) {
            depth += 1;
        } else if sign == Some(if it == open { close } else { open }) {
            depth = depth.saturating_sub(1);
            return depth == 0;
        }
        false
    };
    if it == open { (at..glyphs.count()).find(&mut belongs) } else { (0..=at).rev().find(&mut belongs) }
}

fn found(glyphs: &CharBuffer<'_>, from: usize, find: CharFind, times: usize) -> Option<(usize, MotionKind)> {
    let is_it = |at: &usize| glyphs.first(*at) == Some(find.target);
    let at = if find.back {
        (glyphs.line_start(from)..from).rev().filter(is_it).nth(times - 1)?
    } else {
        (from + 1..glyphs.line_end(from)).filter(is_it).nth(times - 1)?
    };
    Some(match (find.back, find.before) {
        (false, false) => (at, MotionKind::Inclusive),
        (false, true) => (at - 1, MotionKind::Inclusive),
        (true, false) => (at, MotionKind::Exclusive),
        (true, true) => (at + 1, MotionKind::Exclusive),
    })
}

/// The next place of a text, going on at the other end. Small letters find big
/// ones; big letters only themselves.
pub(super) fn sought(glyphs: &CharBuffer<'_>, from: usize, wanted: &str, back: bool) -> Option<usize> {
    let any_case = !wanted.chars().any(char::is_uppercase);
    let wanted: Vec<char> = wanted.chars().collect();
    let same = |found: char, wanted: char| {
        if any_case {
            found == wanted || found.to_lowercase().eq(wanted.to_lowercase())
        } else {
            found == wanted
        }
    };
    let fits = |at: &usize| {
        let mut chars = (*at..glyphs.count()).flat_map(|place| glyphs.glyph(place).chars());
        wanted.iter().all(|it| chars.next().is_some_and(|found| same(found, *it)))
    };
    let count = glyphs.count();
    if wanted.is_empty() {
        return None;
    }
    if back {
        (0..from).rev().find(fits).or_else(|| (from..count).rev().find(fits))
    } else {
        (from + 1..count).find(fits).or_else(|| (0..count.min(from + 1)).find(fits))
    }
}

fn word_at(glyphs: &CharBuffer<'_>, from: usize) -> Option<String> {
    let is_word = |at: &usize| glyphs.class(*at, WordSize::Small) == GlyphClass::Word;
    let at = (from..glyphs.line_end(from)).find(is_word)?;
    let start = (0..=at).rev().take_while(is_word).last()?;
    let end = (at..glyphs.count()).take_while(is_word).last()?;
    Some((start..=end).map(|place| glyphs.glyph(place)).collect())
}
