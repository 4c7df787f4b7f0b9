//! Shell arithmetic that certainly contains only numbers.

use super::{
    expansion::{self, Field, WordContext as Where},
    shell_state::{ShellState, VariableBinding},
    syntax::{Word, WordPiece},
};

/// Whether `body` contains only numbers, operators and variables known to hold numbers. Anything else
/// could run code in the shell.
pub(crate) fn is_plain_arithmetic(body: &Word, state: &ShellState) -> bool {
    body.pieces.iter().all(|piece| match piece {
        WordPiece::Text { text, .. } => {
            let assigns = text.contains("++") || text.contains("--") || has_assignment(text);
            let plain = |c: char| c.is_ascii_alphanumeric() || "_ \t\n+-*/%<>=!&|^~()?:,".contains(c);
            !assigns && text.chars().all(plain) && identifiers(text).all(|name| holds_number(name, state))
        }
        WordPiece::Parameter { name, .. } => {
            matches!(&**name, "?" | "#" | "$" | "!") || holds_number(name, state)
        }
        WordPiece::Arithmetic { body, .. } => is_plain_arithmetic(body, state),
        _ => false,
    })
}

/// Whether there is a `=` that is not part of a comparison.
fn has_assignment(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(idx, byte)| {
        let before = idx.checked_sub(1).map(|idx| bytes[idx]);
        let after = bytes.get(idx + 1);
        *byte == b'=' && after != Some(&b'=') && !matches!(before, Some(b'=' | b'!' | b'<' | b'>'))
    })
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c == '_' || c.is_ascii_alphanumeric() || !c.is_ascii()))
        .filter(|name| !name.is_empty() && !name.bytes().all(|b| b.is_ascii_digit()))
}

fn holds_number(name: &str, state: &ShellState) -> bool {
    matches!(state.get(name), Some(VariableBinding::OneOf(texts)) if texts.iter().all(|text| is_integer(text)))
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

pub(crate) fn is_number(word: &Word, state: &ShellState) -> bool {
    expansion::expand(word, state, Where::Value).is_some_and(|alternatives| {
        alternatives.iter().all(|fields| match &fields[..] {
            [Field::Number] => true,
            [Field::Literal(text)] => is_integer(text),
            _ => false,
        })
    })
}
