//! Joins UTF-16 surrogate pairs that a server split over two events.
//!
//! A server that counts in UTF-16 units may split an emoji and send each surrogate as an escape in an
//! event of its own. Rust strings cannot hold lone surrogates, so one is represented by a private-use
//! character until the other half arrives.

use serde_json::Value;

/// Start of the private-use range that represents lone surrogates: 2048 characters of the last plane.
const BASE: u32 = 0x0010_E000;

/// Parses an event that may contain lone surrogates.
pub(crate) fn parse(data: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(data).or_else(|error| {
        let marked = mark(data);
        if marked == data { Err(error) } else { serde_json::from_str(&marked) }
    })
}

/// Replaces escapes of lone surrogates by private-use characters.
fn mark(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => {
                out.push_str(&rest[..12]);
                rest = &rest[12..];
            }
            (Some(half @ 0xD800..=0xDFFF), _) => {
                out.extend(char::from_u32(BASE + half - 0xD800));
                rest = &rest[6..];
            }
            _ => {
                // A backslash and the character it escapes stay together.
                let width = rest.chars().take(2).map(char::len_utf8).sum();
                out.push_str(&rest[..width]);
                rest = &rest[width..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.get(..6)?.strip_prefix("\\u")?, 16).ok()
}

fn half_of(it: char) -> Option<u16> {
    let code = u32::from(it).checked_sub(BASE).filter(|code| *code < 0x800)?;
    u16::try_from(code + 0xD800).ok()
}

/// Joins surrogates across the fragments of a text.
#[derive(Debug, Default)]
pub(crate) struct SurrogateJoiner {
    high: Option<u16>,
}

impl SurrogateJoiner {
    /// Returns the next fragment with complete characters only; a trailing high surrogate is held back.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.high.is_none() && !piece.contains(|it| half_of(it).is_some()) {
            return piece.to_owned();
        }
        let mut out = String::with_capacity(piece.len());
        for it in piece.chars() {
            match (self.high.take(), half_of(it)) {
                (Some(high), Some(low @ 0xDC00..)) => out.push(join(high, low)),
                (before, half) => {
                    out.extend(before.map(|_| char::REPLACEMENT_CHARACTER));
                    match half {
                        None => out.push(it),
                        Some(0xDC00..) => out.push(char::REPLACEMENT_CHARACTER),
                        Some(high) => self.high = Some(high),
                    }
                }
            }
        }
        out
    }

    /// Returns what is left at the end of the text.
    pub(crate) fn finish(&mut self) -> Option<char> {
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER)
    }
}

fn join(high: u16, low: u16) -> char {
    char::decode_utf16([high, low]).next().and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&str]) -> String {
        let mut joiner = SurrogateJoiner::default();
        let mut out = String::new();
        for piece in pieces {
            let value = parse(&format!("\"{piece}\"")).unwrap();
            out.push_str(&joiner.push(value.as_str().unwrap()));
        }
        out.extend(joiner.finish());
        out
    }

    #[test]
    fn split_surrogates_are_joined() {
        for (pieces, want) in [
            (vec![r"a\ud83d\ude00b"], "a😀b"),
            (vec![r"a\ud83d", r"\ude00b"], "a😀b"),
            (vec![r"\ud83d"], "\u{fffd}"),
            (vec![r"\ud83d", "x"], "\u{fffd}x"),
            (vec![r"\ude00x"], "\u{fffd}x"),
            (vec![r"\ud83d\ud83d", r"\ude00"], "\u{fffd}😀"),
            (vec![r"\\ud83d"], r"\ud83d"),
            (vec![r"\\\ud83d", r"\ude00"], "\\😀"),
            (vec!["plain"], "plain"),
        ] {
            assert_eq!(joined(&pieces), want, "{pieces:?}");
        }
        assert!(parse("{").is_err());
        assert!(parse(r#"{"a":"\ud83d"#).is_err());
    }
}
