//! A draft as vi sees it: characters in lines, words of letters or of signs.

use unicode_segmentation::UnicodeSegmentation as _;

/// What a character is, for words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum GlyphClass {
    Blank,
    Word,
    Sign,
}

/// Which words are meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WordSize {
    /// Letters and signs are words of their own.
    Small,
    /// Whatever blanks are around.
    Big,
}

/// A text by its characters. Places are counted in them; the last place is behind
/// all of them.
pub(super) struct CharBuffer<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> CharBuffer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, starts: text.grapheme_indices(true).map(|it| it.0).collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len()
    }

    /// The place of a byte.
    pub(super) fn place(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start < byte)
    }

    /// The byte of a place.
    pub(super) fn byte(&self, place: usize) -> usize {
        self.starts.get(place).copied().unwrap_or(self.text.len())
    }

    pub(super) fn glyph(&self, place: usize) -> &'a str {
        self.text.get(self.byte(place)..self.byte(place + 1)).unwrap_or_default()
    }

    /// The first character of what stands there.
    pub(super) fn first(&self, place: usize) -> Option<char> {
        self.glyph(place).chars().next()
    }

    pub(super) fn is_break(&self, place: usize) -> bool {
        self.glyph(place).ends_with('\n')
    }

    pub(super) fn class(&self, place: usize, size: WordSize) -> GlyphClass {
        match self.first(place) {
            None => GlyphClass::Blank,
            Some(it) if it.is_whitespace() => GlyphClass::Blank,
            Some(it) if size == WordSize::Big || it.is_alphanumeric() || it == '_' => GlyphClass::Word,
            Some(_) => GlyphClass::Sign,
        }
    }

    /// Whether a line without anything begins there.
    pub(super) fn is_empty_line(&self, place: usize) -> bool {
        let begins = place == 0 || self.is_break(place - 1);
        begins && (place == self.count() || self.is_break(place))
    }

    pub(super) fn line_start(&self, place: usize) -> usize {
        (0..place).rev().find(|it| self.is_break(*it)).map_or(0, |it| it + 1)
    }

    /// The place of the break that ends the line, or the end.
    pub(super) fn line_end(&self, place: usize) -> usize {
        (place..self.count()).find(|it| self.is_break(*it)).unwrap_or(self.count())
    }

    pub(super) fn first_word_of_line(&self, place: usize) -> usize {
        let (start, end) = (self.line_start(place), self.line_end(place));
        (start..end).find(|it| self.class(*it, WordSize::Big) != GlyphClass::Blank).unwrap_or(end)
    }

    /// The last place of a line where a caret can stand upon a character.
    pub(super) fn last_of_line(&self, place: usize) -> usize {
        let (start, end) = (self.line_start(place), self.line_end(place));
        end.saturating_sub(1).max(start)
    }

    /// The same column of a line so many lines away; of the first or the last one
    /// if there are not so many.
    pub(super) fn lines_away(&self, place: usize, count: usize, down: bool) -> usize {
        let column = place - self.line_start(place);
        let mut start = self.line_start(place);
        for _ in 0..count {
            if down {
                if self.line_end(start) < self.count() { start = self.line_end(start) + 1 } else { break }
            } else if 0 < start {
                start = self.line_start(start - 1)
            } else {
                break;
            }
        }
        (start + column).min(self.last_of_line(start))
    }
}
