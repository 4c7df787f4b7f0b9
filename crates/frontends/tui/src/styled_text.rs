//! Text that may be drawn, and how it is inked.

use std::{borrow::Cow, sync::Arc};

pub(crate) use crate::display_width::grapheme_width;
pub use crate::display_width::width_of;

/// Text without anything a terminal would obey. The only way to make one is
/// [`SafeText::new`], which spells control characters out.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct SafeText(String);

impl SafeText {
    /// One line of foreign text, with everything a terminal or the reading
    /// direction would obey spelt out.
    pub fn new(text: &str) -> Self {
        Self(cleaned(text).into_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes this text behind its own.
    pub fn push(&mut self, text: &Self) {
        self.0.push_str(&text.0);
    }

    /// A part of a safe text, which is safe as well.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self(self.0.get(range).unwrap_or_default().to_owned())
    }
}

fn cleaned(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for it in text.chars() {
        match it {
            '\t' => out.push_str("    "),
            '\u{1b}' => out.push('␛'),
            it if is_obeyed(it) && it.is_ascii() => out.extend(it.escape_default()),
            it if is_obeyed(it) => out.extend(it.escape_unicode()),
            it => out.push(it),
        }
    }
    Cow::Owned(out)
}

/// Controls, bidirectional controls, and characters nobody sees. The joiners that
/// emoji and scripts need are left.
fn is_obeyed(it: char) -> bool {
    it.is_control()
        || matches!(it,
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// What a colour means; the look decides which it is.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ColorRole {
    /// The terminal's own.
    #[default]
    Plain,
    /// Ours: the prompt, what is selected.
    Accent,
    /// Went well, was added.
    Good,
    /// Went wrong, was removed.
    Bad,
    /// Wants attention.
    Warn,
    /// Names, places, links.
    Info,
    /// Code within text.
    Code,
    /// Words of a language.
    Keyword,
    /// Texts in code.
    Text,
    /// Numbers in code.
    Number,
    /// Types, keys and variables in code.
    Name,
}

/// How text is drawn.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct TextStyle {
    /// Colour, by its meaning.
    pub tone: ColorRole,
    /// Stronger.
    pub bold: bool,
    /// Weaker.
    pub dim: bool,
    /// Slanted.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// Struck through.
    pub strike: bool,
    /// Foreground and background exchanged.
    pub reverse: bool,
}

impl TextStyle {
    /// As the terminal writes by itself.
    pub const PLAIN: Self = Self {
        tone: ColorRole::Plain,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        strike: false,
        reverse: false,
    };
    /// Weaker.
    pub const DIM: Self = Self { dim: true, ..Self::PLAIN };
    /// Of blanks between columns: the cursor may go over them instead.
    pub const GAP: Self = Self::DIM;
    /// Stronger.
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };

    /// In this colour.
    pub const fn tone(tone: ColorRole) -> Self {
        Self { tone, ..Self::PLAIN }
    }

    /// The same, stronger.
    pub const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }
}

/// A stretch of text in one ink.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StyledSpan {
    /// The text.
    pub text: SafeText,
    /// Its ink.
    pub ink: TextStyle,
    /// Where it leads, if it is a link.
    pub link: Option<Arc<str>>,
}

impl StyledSpan {
    /// A stretch.
    pub fn new(text: &str, ink: TextStyle) -> Self {
        Self { text: SafeText::new(text), ink, link: None }
    }

    /// Whether nothing is seen of the blanks in it.
    pub(crate) fn hides_blanks(&self) -> bool {
        !self.ink.underline && !self.ink.reverse && !self.ink.strike && self.link.is_none()
    }
}

/// How a line meets the right margin.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WrapMode {
    /// It flows on in the next row, as the terminal wraps it: copied, it is one
    /// line again.
    #[default]
    Flow,
    /// It is broken between words; rows after the first are indented.
    Hang(u16),
    /// It ends there, with a mark.
    Cut,
}

/// One line of text, however many rows it takes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StyledLine {
    /// Its stretches.
    pub spans: Vec<StyledSpan>,
    /// What happens at the margin.
    pub fit: WrapMode,
}

impl StyledLine {
    /// An empty line.
    pub fn blank() -> Self {
        Self::default()
    }

    /// A line in one ink.
    pub fn new(text: &str, ink: TextStyle) -> Self {
        Self { spans: vec![StyledSpan::new(text, ink)], fit: WrapMode::Flow }
    }

    /// The same, with another fit.
    pub fn fit(mut self, fit: WrapMode) -> Self {
        self.fit = fit;
        self
    }

    /// Adds a stretch.
    pub fn push(&mut self, text: &str, ink: TextStyle) -> &mut Self {
        if !text.is_empty() {
            self.spans.push(StyledSpan::new(text, ink));
        }
        self
    }

    /// The same with a stretch more.
    pub fn with(mut self, text: &str, ink: TextStyle) -> Self {
        self.push(text, ink);
        self
    }

    /// Its columns in all.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| width_of(span.text.as_str())).sum()
    }

    /// Its words, without ink.
    pub fn to_text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_obeys_is_left() {
        for (given, want) in [
            ("plain ünïcode 漢", "plain ünïcode 漢"),
            ("a\tb", "a    b"),
            ("\u{1b}[2Jx", "␛[2Jx"),
            ("a\rb\0\u{7}", "a\\rb\\u{0}\\u{7}"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("safe\u{202e}txt.exe", "safe\\u{202e}txt.exe"),
            ("👩\u{200d}👧", "👩\u{200d}👧"),
        ] {
            assert_eq!(SafeText::new(given).as_str(), want);
        }
    }
}
