//! Undoes mistakes that affect a whole text: copied line numbers, or escapes applied once too often.

use crate::edit_common::line_anchors::is_letters;

/// A transformation applied to a text before searching for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transform {
    None,
    /// Removes line numbers copied from a listing.
    LineNumbers,
    /// Replaces escapes such as `\n` by the characters they stand for.
    Unescaped,
}

impl Transform {
    /// All transformations, in the order they are tried.
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::LineNumbers, Self::Unescaped];

    /// Applies the transformation to the searched text; `None` if it does not apply.
    pub(crate) fn of_old(self, text: &str) -> Option<String> {
        match self {
            Self::None => Some(text.to_owned()),
            Self::LineNumbers => without_line_numbers(text),
            Self::Unescaped => unescaped(text),
        }
    }

    /// Applies the transformation to the replacement, which probably has the same mistake.
    pub(crate) fn of_new(self, text: &str) -> String {
        let changed = match self {
            // New lines have no line number to copy; the others do.
            Self::LineNumbers => {
                let lines = text.split('\n').map(|line| numbered(line).map_or(line, |it| it.1));
                Some(lines.collect::<Vec<_>>().join("\n"))
            }
            other => other.of_old(text),
        };
        changed.unwrap_or_else(|| text.to_owned())
    }

    /// Returns a description for the notes.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::LineNumbers => Some("copied line numbers"),
            Self::Unescaped => Some("extra escaping"),
        }
    }
}

/// Removes line numbers if every line has one and they are consecutive.
pub(crate) fn without_line_numbers(text: &str) -> Option<String> {
    let mut expected = None;
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if line.trim().is_empty() {
            // An empty line may have lost its number with its text.
            expected = expected.map(|it: u64| it + 1);
            lines.push(line);
            continue;
        }
        let (number, rest) = numbered(line)?;
        if expected.is_some_and(|it| it != number) {
            return None;
        }
        expected = Some(number + 1);
        lines.push(rest);
    }
    expected.map(|_| lines.join("\n"))
}

/// Splits `  12→text`, `12<tab>text`, `12 | text`, `12: text` and, with a mark, `12:4fk0a<tab>text` into
/// number and text.
fn numbered(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start_matches(' ');
    let digits = line.len() - line.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let number = line[..digits].parse().ok()?;
    let rest = &line[digits..];
    if let Some((mark, text)) = rest.strip_prefix(':').and_then(|it| it.split_once('\t'))
        && is_letters(mark)
    {
        return Some((number, text));
    }
    for mark in ["→", "\t", " | ", " |", "| ", "|", ": "] {
        if let Some(rest) = rest.strip_prefix(mark) {
            return Some((number, rest));
        }
    }
    rest.is_empty().then_some((number, rest))
}

/// Replaces escapes by the characters they stand for; `None` if there are none.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut found = false;
    while let Some(character) = characters.next() {
        let meant = match (character, characters.peek()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('r')) => '\r',
            ('\\', Some(it @ ('"' | '\'' | '\\' | '`' | '$'))) => *it,
            _ => {
                out.push(character);
                continue;
            }
        };
        found = true;
        out.push(meant);
        characters.next();
    }
    found.then(|| out.replace("\r\n", "\n"))
}
