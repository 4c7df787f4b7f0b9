use super::{SourceToken, TokenKind};

/// The tokens of a file with its text.
#[derive(Clone, Copy)]
pub(crate) struct SymbolView<'a> {
    pub(crate) source: &'a [u8],
    pub(crate) tokens: &'a [SourceToken],
}

impl<'a> SymbolView<'a> {
    /// The word at an index; empty if the token is not a word.
    pub(crate) fn word(&self, at: usize) -> &'a [u8] {
        match self.tokens.get(at) {
            Some(token) if token.kind == TokenKind::Word => {
                &self.source[token.start as usize..token.end as usize]
            }
            _ => b"",
        }
    }

    /// The word before an index.
    pub(crate) fn word_before(&self, at: usize) -> &'a [u8] {
        at.checked_sub(1).map_or(b"", |at| self.word(at))
    }

    /// The mark at an index; 0 if there is none.
    pub(crate) fn mark(&self, at: usize) -> u8 {
        match self.tokens.get(at).map(|token| token.kind) {
            Some(TokenKind::Mark(mark)) => mark,
            _ => 0,
        }
    }

    /// The mark before an index.
    pub(crate) fn mark_before(&self, at: usize) -> u8 {
        at.checked_sub(1).map_or(0, |at| self.mark(at))
    }

    /// Whether these marks follow each other without a gap.
    pub(crate) fn marks(&self, at: usize, marks: &[u8]) -> bool {
        let adjoin =
            |index: usize| index == 0 || self.tokens[at + index - 1].end == self.tokens[at + index].start;
        marks.iter().enumerate().all(|(index, mark)| self.mark(at + index) == *mark && adjoin(index))
    }

    pub(crate) fn is_word(&self, at: usize) -> bool {
        !self.word(at).is_empty()
    }

    /// Whether a token is the first of its line.
    pub(crate) fn is_first(&self, at: usize) -> bool {
        match (at.checked_sub(1).and_then(|before| self.tokens.get(before)), self.tokens.get(at)) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(token)) => before.line < token.line,
        }
    }

    /// Index after the bracket that closes the one at `at`; `None` if it is not closed within `REACH`
    /// tokens.
    pub(crate) fn behind(&self, at: usize, open: u8, close: u8) -> Option<usize> {
        /// Maximum distance of a closing bracket in tokens.
        const REACH: usize = 4000;
        let mut depth = 0_usize;
        for (index, token) in self.tokens.iter().enumerate().skip(at).take(REACH) {
            match token.kind {
                TokenKind::Mark(mark) if mark == open => depth += 1,
                TokenKind::Mark(mark) if mark == close => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => (),
            }
        }
        None
    }

    /// Index after `<…>` at `at`, or `at` if there is none. Arrows do not close it.
    pub(crate) fn behind_generics(&self, at: usize) -> usize {
        const REACH: usize = 400;
        if self.mark(at) != b'<' {
            return at;
        }
        let mut depth = 0_usize;
        for index in at..(at + REACH).min(self.tokens.len()) {
            match self.mark(index) {
                b'<' => depth += 1,
                b'>' if matches!(self.mark_before(index), b'-' | b'=') => (),
                b'>' => {
                    depth -= 1;
                    if depth == 0 {
                        return index + 1;
                    }
                }
                b'{' | b';' => return at,
                _ => (),
            }
        }
        at
    }
}
