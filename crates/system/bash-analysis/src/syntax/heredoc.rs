//! Heredoc bodies, read at the newline after their operator.

use std::{cell::OnceCell, rc::Rc};

use super::{
    Redirect, RedirectOperator, Word, WordPiece,
    cursor::{Parsed, Parser, PendingHeredoc},
    word::push_str,
};

impl Parser<'_> {
    /// Consumes a newline and the pending heredoc bodies.
    pub(super) fn newline(&mut self) -> Parsed<()> {
        if self.outer_pending {
            return self.stop("a newline while a heredoc further out is open");
        }
        self.pos += 1;
        for pending in std::mem::take(&mut self.pending) {
            self.heredoc_body(pending)?;
        }
        Ok(())
    }

    /// `<<` and `<<-` with their delimiter.
    pub(super) fn heredoc(
        &mut self,
        delimiter: Word,
        strip_tabs: bool,
        variable: Option<String>,
    ) -> Parsed<Redirect> {
        let Some(text) = delimiter.literal() else {
            return self.stop("an expansion in the delimiter of a heredoc");
        };
        if text.is_empty() || text.contains(['\n', '$', '`', '\\']) {
            return self.stop("an unusual delimiter of a heredoc");
        }
        let quoted =
            delimiter.pieces.iter().any(|piece| matches!(piece, WordPiece::Text { quoted: true, .. }));
        self.heredocs += 1;
        let body = Rc::new(OnceCell::new());
        self.pending.push(PendingHeredoc { delimiter: text, strip_tabs, quoted, body: Rc::clone(&body) });
        Ok(Redirect { operator: RedirectOperator::Heredoc, variable, target: delimiter, heredoc: Some(body) })
    }

    fn heredoc_body(&mut self, pending: PendingHeredoc) -> Parsed<()> {
        let start = self.pos;
        let mut text = String::new();
        loop {
            if self.end <= self.pos {
                return self.stop("a heredoc without its end");
            }
            let line = self.rest().split('\n').next().unwrap_or_default();
            let shown = if pending.strip_tabs { line.trim_start_matches('\t') } else { line };
            self.pos += line.len() + usize::from(self.pos + line.len() < self.end);
            if shown == pending.delimiter {
                break;
            }
            if !pending.quoted && ends_in_odd_backslashes(line) {
                return self.stop("a continued line in a heredoc");
            }
            text.push_str(shown);
            text.push('\n');
        }
        let span = self.span(start);
        let pieces = if pending.quoted { literal(&text) } else { self.heredoc_pieces(&text, start)? };
        // Set exactly once: `pending` is consumed here.
        let _ = pending.body.set(Word { pieces, span });
        Ok(())
    }

    fn heredoc_pieces(&mut self, text: &str, start: usize) -> Parsed<Vec<WordPiece>> {
        let mut inner = Parser::new(text);
        inner.depth = self.depth;
        inner.fixed = Some(self.span(start));
        let mut pieces = Vec::new();
        while let Some(byte) = inner.peek() {
            inner.quoted_step(byte, &mut pieces, b"$`\\")?;
        }
        self.notes.append(&mut inner.notes);
        Ok(pieces)
    }
}

fn literal(text: &str) -> Vec<WordPiece> {
    let mut pieces = Vec::new();
    push_str(&mut pieces, text, /*quoted*/ true);
    pieces
}

fn ends_in_odd_backslashes(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}
