//! Code, coloured line by line.
//!
//! Written here: grammars of editors cost megabytes and a fifth of a millisecond a
//! line, for colours of which a terminal shows sixteen. A table of languages says
//! what comments, texts and words look like; one reader knows them all, keeps what
//! goes on over the end of a line, and never looks ahead of it.

mod languages;
mod reader;

use crate::text::{Ink, InkSpan, Tone};

use languages::{CodeLanguage, find};
pub(crate) use reader::LineState;

/// What a stretch of code is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CodeSort {
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

impl CodeSort {
    fn ink(self) -> Ink {
        match self {
            Self::Plain => Ink::PLAIN,
            Self::Comment => Ink { italic: true, ..Ink::DIM },
            Self::Text => Ink::tone(Tone::Text),
            Self::Keyword => Ink::tone(Tone::Keyword),
            Self::Number => Ink::tone(Tone::Number),
            Self::Name => Ink::tone(Tone::Name),
            Self::Added => Ink::tone(Tone::Good),
            Self::Removed => Ink::tone(Tone::Bad),
            Self::Hunk => Ink::tone(Tone::Accent),
        }
    }
}

/// Colours the lines of one piece of code, from its first to its last.
#[derive(Clone, Debug)]
pub(crate) struct CodeInker {
    language: Option<&'static CodeLanguage>,
    state: LineState,
}

impl CodeInker {
    /// For a language as people call it after a fence, or as a file is called. An
    /// unknown one is code in one colour.
    pub(crate) fn new(name: &str) -> Self {
        Self { language: find(name), state: LineState::Code }
    }

    /// The next line.
    pub(crate) fn line(&mut self, text: &str) -> Vec<InkSpan> {
        let (spans, state) = self.look(text);
        self.state = state;
        spans
    }

    /// A line that may not be complete yet.
    pub(crate) fn partial(&self, text: &str) -> Vec<InkSpan> {
        self.look(text).0
    }

    fn look(&self, text: &str) -> (Vec<InkSpan>, LineState) {
        let Some(language) = self.language else {
            return (vec![InkSpan::new(text, Ink::tone(Tone::Code))], LineState::Code);
        };
        let mut spans: Vec<InkSpan> = Vec::new();
        let state = reader::read_line(language, self.state, text, |piece, sort| {
            let span = InkSpan::new(piece, sort.ink());
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
