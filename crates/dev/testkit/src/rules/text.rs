//! Rejects invalid text: invalid UTF-8, lone surrogates, NUL.

use super::{MockRefusal, RuleVerdict};

/// Validates the bytes of a body before parsing.
pub(super) fn check(raw: &[u8]) -> RuleVerdict {
    let Ok(text) = std::str::from_utf8(raw) else {
        return not_json("str is not valid UTF-8: surrogates not allowed", 0);
    };
    if let Some(at) = text.find('\0') {
        return not_json("unexpected end of data", at);
    }
    escapes(text)
}

fn not_json(what: &str, at: usize) -> RuleVerdict {
    let column = at + 1;
    let message = format!("The request body is not valid JSON: {what}: line 1 column {column} (char {at})");
    Err(MockRefusal::invalid(message))
}

/// Checks all `\u` escapes. Backslashes occur only in strings, so strings need not be located.
fn escapes(text: &str) -> RuleVerdict {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        let Some(unit) = unit_at(text, at) else {
            at += 2;
            continue;
        };
        match unit {
            0 => return not_json("unexpected end of data", at),
            0xD800..=0xDBFF => match unit_at(text, at + 6) {
                Some(0xDC00..=0xDFFF) => at += 6,
                _ => return not_json("no low surrogate in string", at),
            },
            0xDC00..=0xDFFF => return not_json("invalid high surrogate in string", at),
            _ => {}
        }
        at += 6;
    }
    Ok(())
}

fn unit_at(text: &str, at: usize) -> Option<u32> {
    let escape = text.get(at..at + 6)?;
    u32::from_str_radix(escape.strip_prefix("\\u")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_text_is_rejected() {
        for (raw, want) in [
            (br#"{"a":"\ud83d\ude00 \\ud83d \u00e9"}"#.as_slice(), None),
            (br#"{"a":"\ud83d"}"#, Some("no low surrogate in string")),
            (br#"{"a":"\ud83d\u0041"}"#, Some("no low surrogate in string")),
            (br#"{"a":"\ude00"}"#, Some("invalid high surrogate in string")),
            (br#"{"a":"\u0000"}"#, Some("unexpected end of data")),
            (b"{\"a\":\"\0\"}", Some("unexpected end of data")),
            (b"{\"a\":\"\xff\"}", Some("not valid UTF-8")),
            (br#"{"a":"\\\ud83d"}"#, Some("no low surrogate in string")),
        ] {
            let got = check(raw).err().map(|refusal| refusal.message);
            match (&got, want) {
                (Some(got), Some(want)) => assert!(got.contains(want), "{got}"),
                _ => assert_eq!(got.is_some(), want.is_some(), "{}", String::from_utf8_lossy(raw)),
            }
        }
    }
}
