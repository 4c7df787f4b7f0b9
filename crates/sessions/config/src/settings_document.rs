use std::sync::Arc;

use serde_json::{Map, Value};

use crate::json_spans;

/// A parsed settings text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettingsDocument {
    /// The text without a byte order mark.
    pub(crate) text: Arc<str>,
    pub(crate) value: Map<String, Value>,
}

/// Why a text cannot be parsed, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ParseError {
    pub(crate) position: (usize, usize),
    pub(crate) message: String,
}

/// Some editors write it at the start of UTF-8 files.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

impl SettingsDocument {
    /// Parses the bytes of a settings file.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
            Err(error) => {
                let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let position = json_spans::line_and_column(&valid, valid.len());
                return Err(ParseError { position, message: "this is not UTF-8 text".to_owned() });
            }
        };
        if text.trim().is_empty() {
            let message = "the file is empty; an empty settings file is {}".to_owned();
            return Err(ParseError { position: (1, 1), message });
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(value)) => Ok(Self { text: text.into(), value }),
            Ok(_) => {
                Err(ParseError { position: (1, 1), message: "the file must hold a JSON object".to_owned() })
            }
            Err(error) => {
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
                Err(ParseError { position: (error.line().max(1), error.column().max(1)), message })
            }
        }
    }

    /// Returns line and column of the value at a JSON pointer.
    pub(crate) fn position(&self, pointer: &str) -> Option<(usize, usize)> {
        let node = json_spans::scan(&self.text)?;
        node.at(pointer).map(|found| json_spans::line_and_column(&self.text, found.range.start))
    }

    /// Returns the duplicate keys with the position of the occurrence that takes effect.
    pub(crate) fn repeated_keys(&self) -> Vec<(String, (usize, usize))> {
        let Some(root) = json_spans::scan(&self.text) else { return Vec::new() };
        let place = |member: &json_spans::ObjectMember| {
            json_spans::line_and_column(&self.text, member.key_range.start)
        };
        root.repeated_keys().into_iter().map(|member| (member.key.clone(), place(member))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_error_has_position() {
        for (bytes, position, words) in [
            (&b"{\n  \"a\": 1,\n}"[..], (3, 1), "trailing comma"),
            (b"{\n  \"a\" 1\n}", (2, 7), "expected `:`"),
            (b"", (1, 1), "empty"),
            (b" \n", (1, 1), "empty"),
            (b"[]", (1, 1), "must hold a JSON object"),
            (b"{\n\xff}", (2, 1), "not UTF-8"),
            (b"{\"a\": 1} x", (1, 10), "trailing characters"),
            (b"{\"a\": 1", (1, 7), "EOF"),
        ] {
            let broken = SettingsDocument::parse(bytes).unwrap_err();
            assert_eq!(broken.position, position, "{broken:?}");
            assert!(broken.message.contains(words), "{broken:?}");
        }
        let deep = "[".repeat(200);
        SettingsDocument::parse(format!("{{\"a\": {deep}").as_bytes()).unwrap_err();
        assert!(SettingsDocument::parse("\u{feff}{}".as_bytes()).is_ok());
    }
}
