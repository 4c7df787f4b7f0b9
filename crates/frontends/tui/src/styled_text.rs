//! Text that is safe to paint, with its style.

use std::{borrow::Cow, sync::Arc};

pub(crate) use crate::display_width::grapheme_width;
pub use crate::display_width::width_of;

/// Text without control sequences. Can only be created by [`SafeText::new`], which escapes control
/// characters.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct SafeText(String);

impl SafeText {
    /// Converts one line of untrusted text; control and bidirectional characters are escaped.
    pub fn new(text: &str) -> Self {
        Self(cleaned(text).into_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Appends a text.
    pub fn push(&mut self, text: &Self) {
        self.0.push_str(&text.0);
    }

    /// Returns a part of the text.
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

/// Whether a character is a control, a bidirectional control or invisible. Joiners needed by emoji and
/// scripts are excluded.
fn is_obeyed(it: char) -> bool {
    it.is_control()
        || matches!(it,
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Semantic colour; the theme maps it to an actual one.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ColorRole {
    /// The terminal's default.
    #[default]
    Plain,
    /// Haft's accent: the prompt, the selection.
    Accent,
    /// Success, added.
    Good,
    /// Failure, removed.
    Bad,
    /// Warning.
    Warn,
    /// Names, paths, links.
    Info,
    /// Inline code.
    Code,
    /// Keywords in code.
    Keyword,
    /// Strings in code.
    Text,
    /// Numbers in code.
    Number,
    /// Types, keys and variables in code.
    Name,
}

/// Style of text.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct TextStyle {
    pub tone: ColorRole,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underline: bool,
    pub strike: bool,
    /// Foreground and background swapped.
    pub reverse: bool,
}

impl TextStyle {
    /// The terminal's default style.
    pub const PLAIN: Self = Self {
        tone: ColorRole::Plain,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        strike: false,
        reverse: false,
    };
    pub const DIM: Self = Self { dim: true, ..Self::PLAIN };
    /// Space between columns, which may be skipped by moving the cursor.
    pub const GAP: Self = Self::DIM;
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };

    /// Creates a style with this colour.
    pub const fn tone(tone: ColorRole) -> Self {
        Self { tone, ..Self::PLAIN }
    }

    /// Returns the style in bold.
    pub const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }
}

/// Text in one style.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StyledSpan {
    pub text: SafeText,
    pub ink: TextStyle,
    /// Target, if it is a link.
    pub link: Option<Arc<str>>,
}

impl StyledSpan {
    /// Creates a span.
    pub fn new(text: &str, ink: TextStyle) -> Self {
        Self { text: SafeText::new(text), ink, link: None }
    }

    /// Whether its spaces are invisible.
    pub(crate) fn hides_blanks(&self) -> bool {
        !self.ink.underline && !self.ink.reverse && !self.ink.strike && self.link.is_none()
    }
}

/// How a line is wrapped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WrapMode {
    /// By the terminal, so that it is copied as one line.
    #[default]
    Flow,
    /// Between words; rows after the first are indented by this much.
    Hang(u16),
    /// Truncated with a marker.
    Cut,
}

/// A line of text, which may take several rows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StyledLine {
    pub spans: Vec<StyledSpan>,
    pub fit: WrapMode,
}

impl StyledLine {
    /// Creates an empty line.
    pub fn blank() -> Self {
        Self::default()
    }

    /// Creates a line in one style.
    pub fn new(text: &str, ink: TextStyle) -> Self {
        Self { spans: vec![StyledSpan::new(text, ink)], fit: WrapMode::Flow }
    }

    /// Sets the wrap mode.
    pub fn fit(mut self, fit: WrapMode) -> Self {
        self.fit = fit;
        self
    }

    /// Appends a span.
    pub fn push(&mut self, text: &str, ink: TextStyle) -> &mut Self {
        if !text.is_empty() {
            self.spans.push(StyledSpan::new(text, ink));
        }
        self
    }

    /// Appends a span and returns the line.
    pub fn with(mut self, text: &str, ink: TextStyle) -> Self {
        self.push(text, ink);
        self
    }

    /// Returns its total width in columns.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| width_of(span.text.as_str())).sum()
    }

    /// Returns its text without styles.
    pub fn to_text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_text_has_no_control_sequences() {
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
