use std::{cell::OnceCell, rc::Rc};

use super::{SourceSpan, SyntaxNote, Word};

/// Maximum nesting of lists, words and expansions. Commands in practice stay below 20; each `$(…)`
/// counts three levels.
pub(crate) const MAX_DEPTH: usize = 100;

/// Why parsing failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SyntaxStop {
    /// Byte offset in the source.
    pub(crate) at: usize,
    pub(crate) why: &'static str,
}

pub(super) type Parsed<T> = Result<T, SyntaxStop>;

/// A heredoc whose body starts on the next line.
pub(super) struct PendingHeredoc {
    pub(super) delimiter: String,
    pub(super) strip_tabs: bool,
    pub(super) quoted: bool,
    pub(super) body: Rc<OnceCell<Word>>,
}

/// Parser state: position in the source and open constructs.
pub(super) struct Parser<'s> {
    pub(super) src: &'s str,
    pub(super) pos: usize,
    /// End of the input: the end of the source or a closing backquote.
    pub(super) end: usize,
    pub(super) depth: usize,
    /// Span to report for text that is not a slice of the source.
    pub(super) fixed: Option<SourceSpan>,
    /// Heredocs of the innermost open list whose bodies have not been read.
    pub(super) pending: Vec<PendingHeredoc>,
    /// Whether an outer list waits for a heredoc, which makes a newline here ambiguous.
    pub(super) outer_pending: bool,
    pub(super) notes: Vec<SyntaxNote>,
    /// Number of heredocs so far.
    pub(super) heredocs: usize,
}

impl<'s> Parser<'s> {
    pub(super) fn new(src: &'s str) -> Self {
        Self {
            src,
            pos: 0,
            end: src.len(),
            depth: 0,
            fixed: None,
            pending: Vec::new(),
            outer_pending: false,
            notes: Vec::new(),
            heredocs: 0,
        }
    }

    pub(super) fn stop<T>(&self, why: &'static str) -> Parsed<T> {
        let at = self.fixed.as_ref().map_or(self.pos, |span| span.start);
        Err(SyntaxStop { at, why })
    }

    /// Runs `read` one nesting level deeper; fails beyond `MAX_DEPTH`.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if MAX_DEPTH <= self.depth {
            return self.stop("nested too deeply");
        }
        self.depth += 1;
        let out = read(self);
        self.depth -= 1;
        out
    }

    pub(super) fn span(&self, start: usize) -> SourceSpan {
        self.fixed.clone().unwrap_or(start..self.pos)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        let at = self.pos + ahead;
        if at < self.end { self.src.as_bytes().get(at).copied() } else { None }
    }

    pub(super) fn rest(&self) -> &'s str {
        self.src.get(self.pos..self.end).unwrap_or_default()
    }

    pub(super) fn looking_at(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    /// Consumes one character.
    pub(super) fn take_char(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.pos += c.len_utf8();
        Some(c)
    }

    /// Consumes `text` if it is next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.looking_at(text);
        if found {
            self.pos += text.len();
        }
        found
    }

    /// Skips blanks, line continuations and a comment, but no newline.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.pos += 1,
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => self.pos += 2,
                Some(b'#') => {
                    self.pos += self.rest().find('\n').unwrap_or(self.rest().len());
                }
                _ => return,
            }
        }
    }

    /// Skips blanks, comments and newlines; reads pending heredoc bodies.
    pub(super) fn skip_lines(&mut self) -> Parsed<()> {
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    /// Fails if a line continuation could extend the operator.
    pub(super) fn settle_operator(&self) -> Parsed<()> {
        let mut rest = self.rest();
        let continued = rest.starts_with("\\\n");
        while let Some(after) = rest.strip_prefix("\\\n") {
            rest = after;
        }
        if continued && rest.starts_with(['&', '|', ';', '<', '>', '(', ')', '-']) {
            return self.stop("an operator is split over two lines");
        }
        Ok(())
    }
}

/// Whether the byte ends an unquoted word.
pub(super) fn is_meta(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
}

pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b == b'_' || b.is_ascii_alphabetic())
        && bytes.all(|b| b == b'_' || b.is_ascii_alphanumeric())
}
