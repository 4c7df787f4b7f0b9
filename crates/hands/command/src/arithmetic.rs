//! Arithmetic of the shell, as far as it is nothing but numbers.

use super::{
    field::{self, Field, Place as Where},
    state::{Binding, State},
    syntax::{Piece, Word},
};

/// Numbers, operators, and variables that are known to hold numbers.
pub(crate) fn is_plain_arithmetic(body: &Word, state: &State) -> bool {
    body.pieces.iter().all(|piece| match piece {
        Piece::Text { text, .. } => {
            let assigns = text.contains("++") || text.contains("--") || has_assignment(text);
            let plain = |c: char| c.is_ascii_alphanumeric() || "_ \t\n+-*/%<>=!&|^~()?:,".contains(c);
            !assigns && text.chars().all(plain) && identifiers(text).all(|name| holds_number(name, state))
        }
        Piece::Parameter { name, .. } => {
            matches!(&**name, "?" | "#" | "$" | "!") || holds_number(name, state)
        }
        Piece::Arithmetic { body, .. } => is_plain_arithmetic(body, state),
        _ => false,
    })
}

/// `=` that does not compare.
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

fn holds_number(name: &str, state: &State) -> bool {
    matches!(state.get(name), Some(Binding::OneOf(texts)) if texts.iter().all(|text| is_integer(text)))
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

pub(crate) fn is_number(word: &Word, state: &State) -> bool {
    field::expand(word, state, Where::Value).is_some_and(|alternatives| {
        alternatives.iter().all(|fields| match &fields[..] {
            [Field::Number] => true,
            [Field::Literal(text)] => is_integer(text),
            _ => false,
        })
    })
}
