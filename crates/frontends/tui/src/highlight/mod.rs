//! Syntax highlighting, line by line.
//!
//! Own implementation: grammars of editors take megabytes and 0.2 ms per line, for the sixteen colours
//! of a terminal. A table describes comments, strings and keywords of each language; a single tokenizer
//! processes all of them, keeps state across lines, and never looks beyond the end of a line.

mod languages;
mod reader;

use crate::styled_text::{ColorRole, StyledSpan, TextStyle};

use languages::{CodeLanguage, find};
pub(crate) use reader::LineState;

/// Class of a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TokenClass {
    Plain,
    Comment,
    Text,
    Keyword,
    Number,
    /// Types, keys, attributes, variables.
    Name,
    Added,
    Removed,
    Hunk,
}

impl TokenClass {
    fn ink(self) -> TextStyle {
        match self {
            Self::Plain => TextStyle::PLAIN,
            Self::Comment => TextStyle { italic: true, ..TextStyle::DIM },
            Self::Text => TextStyle::tone(ColorRole::Text),
            Self::Keyword => TextStyle::tone(ColorRole::Keyword),
            Self::Number => TextStyle::tone(ColorRole::Number),
            Self::Name => TextStyle::tone(ColorRole::Name),
            Self::Added => TextStyle::tone(ColorRole::Good),
            Self::Removed => TextStyle::tone(ColorRole::Bad),
            Self::Hunk => TextStyle::tone(ColorRole::Accent),
        }
    }
}

/// Highlights the lines of a piece of code in order.
#[derive(Clone, Debug)]
pub(crate) struct CodeHighlighter {
    language: Option<&'static CodeLanguage>,
    state: LineState,
}

impl CodeHighlighter {
    /// Creates a highlighter for a language by its name after a fence, or by file name. Unknown
    /// languages get a single colour.
    pub(crate) fn new(name: &str) -> Self {
        Self { language: find(name), state: LineState::Code }
    }

    /// Highlights the next line.
    pub(crate) fn line(&mut self, text: &str) -> Vec<StyledSpan> {
        let (spans, state) = self.look(text);
        self.state = state;
        spans
    }

    /// Highlights a line that may be incomplete, without changing the state.
    pub(crate) fn partial(&self, text: &str) -> Vec<StyledSpan> {
        self.look(text).0
    }

    fn look(&self, text: &str) -> (Vec<StyledSpan>, LineState) {
        let Some(language) = self.language else {
            return (vec![StyledSpan::new(text, TextStyle::tone(ColorRole::Code))], LineState::Code);
        };
        let mut spans: Vec<StyledSpan> = Vec::new();
        let state = reader::read_line(language, self.state, text, |piece, sort| {
            let span = StyledSpan::new(piece, sort.ink());
            // Spaces have no colour, so they are merged with the preceding token.
            match spans.last_mut().filter(|it| it.ink == span.ink || piece.trim().is_empty()) {
                Some(last) => last.text.push(&span.text),
                None => spans.push(span),
            }
        });
        (spans, state)
    }
}

#[cfg(test)]
mod tests;
