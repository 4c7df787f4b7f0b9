//! The prompt as vi sees it: characters in lines, words of letters or of punctuation.

use unicode_segmentation::UnicodeSegmentation as _;

/// Class of a character, to separate words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum GlyphClass {
    Blank,
    Word,
    Sign,
}

/// Kind of word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WordSize {
    /// `w`: letters and punctuation are separate words.
    Small,
    /// `W`: separated by whitespace.
    Big,
}

/// A text indexed by characters; the last index is after all of them.
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

    /// Returns the index of a byte.
    pub(super) fn place(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start < byte)
    }

    /// Returns the byte of an index.
    pub(super) fn byte(&self, place: usize) -> usize {
        self.starts.get(place).copied().unwrap_or(self.text.len())
    }

    pub(super) fn glyph(&self, place: usize) -> &'a str {
        self.text.get(self.byte(place)..self.byte(place + 1)).unwrap_or_default()
    }

    /// Returns the first character at an index.
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

    /// Whether an empty line starts at an index.
    pub(super) fn is_empty_line(&self, place: usize) -> bool {
        let begins = place == 0 || self.is_break(place - 1);
        begins && (place == self.count() || self.is_break(place))
    }

    pub(super) fn line_start(&self, place: usize) -> usize {
        (0..place).rev().find(|it| self.is_break(*it)).map_or(0, |it| it + 1)
    }

    /// Returns the index of the line break that ends the line, or the end of the text.
    pub(super) fn line_end(&self, place: usize) -> usize {
        (place..self.count()).find(|it| self.is_break(*it)).unwrap_or(self.count())
    }

    pub(super) fn first_word_of_line(&self, place: usize) -> usize {
        let (start, end) = (self.line_start(place), self.line_end(place));
        (start..end).find(|it| self.class(*it, WordSize::Big) != GlyphClass::Blank).unwrap_or(end)
    }

    /// Returns the last index in a line at which the caret can be on a character.
    pub(super) fn last_of_line(&self, place: usize) -> usize {
        let (start, end) = (self.line_start(place), self.line_end(place));
        end.saturating_sub(1).max(start)
    }

    /// Returns the same column `count` lines away, limited to the first or last line.
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
