//! Escapes control characters that providers reject.

use serde_json::Value;

/// Whether a control character is not allowed in a request. Line breaks and tabs are allowed.
fn is_control(it: char) -> bool {
    it.is_control() && !matches!(it, '\t' | '\n' | '\r')
}

/// Returns the text with control characters escaped (`\x00`), or `None` if there are none.
pub(crate) fn clean_text(text: &str) -> Option<String> {
    // Fast path on bytes, because most text has no control characters. C1 controls are C2 80..9F.
    let suspicious = |byte: u8| {
        ((byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r'))
            | (byte == 0x7F)
            | (byte == 0xC2)
    };
    let any = |bytes: &[u8]| bytes.iter().fold(false, |any, byte| any | suspicious(*byte));
    let (pieces, rest) = text.as_bytes().as_chunks::<64>();
    if !(pieces.iter().any(|piece| any(piece)) || any(rest)) || !text.contains(is_control) {
        return None;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for it in text.chars() {
        if is_control(it) {
            out.push_str(&format!("\\x{:02x}", u32::from(it)));
        } else {
            out.push(it);
        }
    }
    Some(out)
}

/// Cleans all strings in a value, including keys. Returns whether any changed.
pub(crate) fn clean_value(value: &mut Value) -> bool {
    match value {
        Value::String(text) => match clean_text(text) {
            Some(clean) => {
                *text = clean;
                true
            }
            None => false,
        },
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| clean_value(item) | changed),
        Value::Object(fields) => {
            let mut changed = fields.values_mut().fold(false, |changed, item| clean_value(item) | changed);
            if fields.keys().any(|key| clean_text(key).is_some()) {
                let old = std::mem::take(fields);
                fields.extend(old.into_iter().map(|(key, item)| (clean_text(&key).unwrap_or(key), item)));
                changed = true;
            }
            changed
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, want) in [
            ("plain\ttext\r\n", None),
            ("größe ©", None),
            ("a\0b", Some(r"a\x00b")),
            ("\u{1b}[31mred", Some(r"\x1b[31mred")),
            ("\u{9b}x\u{7f}", Some(r"\x9bx\x7f")),
        ] {
            assert_eq!(clean_text(text).as_deref(), want, "{text:?}");
        }
        let mut value = json!({"a\0": ["x", {"b": "\u{1}"}], "ok": 1});
        assert!(clean_value(&mut value));
        assert_eq!(value, json!({"a\\x00": ["x", {"b": "\\x01"}], "ok": 1}));
        assert!(!clean_value(&mut value));
    }
}
