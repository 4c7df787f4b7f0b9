//! Code, coloured line by line.
//!
//! Written here: grammars of editors cost megabytes and a fifth of a millisecond a
//! line, for colours of which a terminal shows sixteen. A table of languages says
//! what comments, texts and words look like; one reader knows them all, keeps what
//! goes on over the end of a line, and never looks ahead of it.

mod languages;
mod reader;

use crate::styled_text::{ColorRole, StyledSpan, TextStyle};

use languages::{CodeLanguage, find};
pub(crate) use reader::LineState;

/// What a stretch of code is.
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

/// Colours the lines of one piece of code, from its first to its last.
#[derive(Clone, Debug)]
pub(crate) struct CodeHighlighter {
    language: Option<&'static CodeLanguage>,
    state: LineState,
}

impl CodeHighlighter {
    /// For a language as people call it after a fence, or as a file is called. An
    /// unknown one is code in one colour.
    pub(crate) fn new(name: &str) -> Self {
        Self { language: find(name), state: LineState::Code }
    }

    /// The next line.
    pub(crate) fn line(&mut self, text: &str) -> Vec<StyledSpan> {
        let (spans, state) = self.look(text);
        self.state = state;
        spans
    }

    /// A line that may not be complete yet.
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
            // Blanks have no colour, so they go with what stands before them.
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
