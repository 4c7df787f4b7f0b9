//! Mistakes that run through a whole text: what a model copied along with it,
//! or spelt once too often.

use crate::edit_common::line_anchors::is_letters;

/// What was done to a text before it was looked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transform {
    /// Nothing.
    None,
    /// Line numbers that a listing puts in front were taken off.
    LineNumbers,
    /// Escapes such as `\n` became what they stand for.
    Unescaped,
}

impl Transform {
    /// In the order they are tried.
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::LineNumbers, Self::Unescaped];

    /// Applies it to the text that is looked for; `None` when there is nothing
    /// to do.
    pub(crate) fn of_old(self, text: &str) -> Option<String> {
        match self {
            Self::None => Some(text.to_owned()),
            Self::LineNumbers => without_line_numbers(text),
            Self::Unescaped => unescaped(text),
        }
    }

    /// Applies it to the replacement, which the same hand wrote.
    pub(crate) fn of_new(self, text: &str) -> String {
        let changed = match self {
            // New lines have no number to copy; the others do.
            Self::LineNumbers => {
                let lines = text.split('\n').map(|line| numbered(line).map_or(line, |it| it.1));
                Some(lines.collect::<Vec<_>>().join("\n"))
            }
            other => other.of_old(text),
        };
        changed.unwrap_or_else(|| text.to_owned())
    }

    /// What to call it.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::LineNumbers => Some("copied line numbers"),
            Self::Unescaped => Some("extra escaping"),
        }
    }
}

/// Takes line numbers off if every line has one and they count up.
pub(crate) fn without_line_numbers(text: &str) -> Option<String> {
    let mut expected = None;
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if line.trim().is_empty() {
            // A blank line may have lost its number with its text.
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

/// Splits `  12→text`, `12<tab>text`, `12 | text`, `12: text` and, with a mark,
/// `12:4fk0a<tab>text`.
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

/// Replaces escapes by what they stand for; `None` when there are none.
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
