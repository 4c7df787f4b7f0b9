//! Parses malformed JSON.

use serde_json::Value;

/// Returns the JSON values in `text`, one after the other. Anything after the last complete value is
/// dropped; text that is not JSON gives an empty list.
///
/// If parsing fails, it is repeated with typical damage repaired: invalid UTF-8, lone surrogates, raw
/// control characters in strings, `NaN` and `Infinity`, excessive nesting. Zero bytes are removed first,
/// which also decodes ASCII text in UTF-16.
pub(crate) fn parse_values(text: &[u8]) -> Vec<Value> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text).trim_ascii();
    if text.iter().take(WIDE_PROBE).any(|byte| *byte == 0) {
        let narrow: Vec<u8> = text.iter().copied().filter(|byte| *byte != 0).collect();
        let marks = [b"\xFF\xFE", b"\xFE\xFF"];
        return parse_values(marks.iter().find_map(|mark| narrow.strip_prefix(*mark)).unwrap_or(&narrow));
    }
    if !matches!(text.first(), Some(b'{' | b'[')) {
        return Vec::new();
    }
    if let Ok(value) = serde_json::from_slice(text) {
        return vec![value];
    }
    let several = leading_values(text);
    if !several.is_empty() {
        return several;
    }
    if let Some(shallow) = shallow(text) {
        return parse_values(&shallow);
    }
    match repair(text) {
        Some(repaired) => leading_values(repaired.as_bytes()),
        None => Vec::new(),
    }
}

/// Like [`parse_values`], but returns nothing if other text follows the last value.
pub(crate) fn parse_whole_values(text: &[u8]) -> Vec<Value> {
    let narrow: Vec<u8> = text.iter().copied().filter(|byte| *byte != 0).collect();
    let values = serde_json::Deserializer::from_slice(narrow.trim_ascii()).into_iter();
    values.collect::<Result<Vec<Value>, _>>().unwrap_or_default()
}

/// Number of leading bytes checked for zero bytes (UTF-16).
const WIDE_PROBE: usize = 4;

fn leading_values(text: &[u8]) -> Vec<Value> {
    serde_json::Deserializer::from_slice(text).into_iter().map_while(Result::ok).collect()
}

/// Maximum nesting depth. Below the parser's own limit of 128, beyond which it would reject the whole
/// message.
const MAX_NESTING: usize = 120;

/// Replacement for a value that is nested too deep.
const TOO_DEEP: &[u8] = b"\"[nested too deep]\"";

/// Replaces values that are nested too deep, so that the rest of the message survives; `None` if there
/// are none.
fn shallow(text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut depth, mut in_string, mut escaped, mut cut) =
        (Vec::new(), 0_usize, false, false, false);
    for byte in text {
        let mut shown = depth <= MAX_NESTING;
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                depth += 1;
                if depth == MAX_NESTING + 1 {
                    out.extend_from_slice(TOO_DEEP);
                    (shown, cut) = (false, true);
                }
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => (),
        }
        if shown {
            out.push(*byte);
        }
    }
    cut.then_some(out)
}

/// Returns the text with typical damage repaired; `None` if there is none.
fn repair(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    let mut in_string = false;
    while let Some(next) = rest.chars().next() {
        let (piece, used) = match (in_string, next) {
            (true, '\\') => escape(rest),
            (true, control) if control < ' ' => (format!("\\u{:04x}", control as u32), 1),
            (false, _) if literal(rest).is_some() => (String::from("null"), literal(rest).unwrap_or(1)),
            _ => (String::from(next), next.len_utf8()),
        };
        if next == '"' {
            in_string = !in_string;
        }
        out.push_str(&piece);
        rest = &rest[used..];
    }
    (out != text || matches!(text, std::borrow::Cow::Owned(_))).then_some(out)
}

/// Matches a JavaScript literal that is not JSON.
fn literal(rest: &str) -> Option<usize> {
    ["NaN", "-Infinity", "Infinity", "undefined"].iter().find(|it| rest.starts_with(**it)).map(|it| it.len())
}

/// Returns the decoded escape sequence and its length. A lone surrogate becomes the replacement
/// character.
fn escape(rest: &str) -> (String, usize) {
    let Some(first) = code_unit(rest) else {
        let used = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
        return (rest[..used].to_owned(), used);
    };
    match first {
        0xD800..=0xDBFF => match code_unit(&rest[6..]) {
            Some(0xDC00..=0xDFFF) => (rest[..12].to_owned(), 12),
            _ => (String::from("\u{fffd}"), 6),
        },
        0xDC00..=0xDFFF => (String::from("\u{fffd}"), 6),
        _ => (rest[..6].to_owned(), 6),
    }
}

fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// Finds the id in an unreadable message, so that its request fails at once and does not wait for the
/// timeout. Searches both ends, where the id usually is.
pub(crate) fn salvage_id(head: &[u8], tail: &[u8]) -> Option<u64> {
    let head = String::from_utf8_lossy(head);
    let tail = String::from_utf8_lossy(tail);
    id_after(&head, head.find("\"id\"")).or_else(|| id_after(&tail, tail.rfind("\"id\"")))
}

fn id_after(text: &str, at: Option<usize>) -> Option<u64> {
    let value = text[at? + 4..].trim_start().strip_prefix(':')?.trim_start();
    let value = value.strip_prefix('"').unwrap_or(value);
    let digits = value.find(|it: char| !it.is_ascii_digit()).unwrap_or(value.len());
    value[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn damaged_json_is_repaired() {
        for (text, want) in [
            (&b"{\"a\":1}"[..], vec![json!({"a": 1})]),
            (b"\xEF\xBB\xBF {\"a\":1} \r", vec![json!({"a": 1})]),
            (b"{\"a\":1}{\"b\":2}", vec![json!({"a": 1}), json!({"b": 2})]),
            (b"{\"a\":1} trailing", vec![json!({"a": 1})]),
            (b"{\"a\":\"\\ud83d\"}", vec![json!({"a": "\u{fffd}"})]),
            (b"{\"a\":\"\\ud83d\\ude00\\udc00\"}", vec![json!({"a": "😀\u{fffd}"})]),
            (b"{\"a\":\"x\xff\"}", vec![json!({"a": "x\u{fffd}"})]),
            (b"{\"a\":\"x\ty\"}", vec![json!({"a": "x\ty"})]),
            (b"{\"a\":NaN,\"b\":[-Infinity,\"NaN\"]}", vec![json!({"a": null, "b": [null, "NaN"]})]),
            (b"{\"a\":\"\\\"\\ud800\"}", vec![json!({"a": "\"\u{fffd}"})]),
            (b"\0{\"a\":1}\0", vec![json!({"a": 1})]),
            (b"\xFF\xFE{\0\"\0a\0\"\0:\x001\0}\0\n", vec![json!({"a": 1})]),
            (b"\0{\0\"\0a\0\"\0:\x001\0}\0\r\0\n", vec![json!({"a": 1})]),
            (b"\0\xFF\xFE{\0\"\0a\0\"\0:\x001\0}\0\r\0\n", vec![json!({"a": 1})]),
            (b"\0\0\0\0", vec![]),
            (b"log line", vec![]),
            (b"{broken", vec![]),
            (b"", vec![]),
        ] {
            assert_eq!(parse_values(text), want, "{:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn too_deep_value_is_replaced_and_rest_kept() {
        for (open, close, levels) in
            [("[", "]", 500), ("{\"a\":", "}", 160), ("[{\"a]\\\"[\":", "}]", 20_000)]
        {
            let deep = format!("{}1{}", open.repeat(levels), close.repeat(levels));
            let text = format!("{{\"id\":7,\"result\":{{\"deep\":{deep},\"more\":[1,{{}}]}}}}");
            let values = parse_values(text.as_bytes());
            let [value] = &values[..] else { panic!("{} values", values.len()) };
            assert_eq!((&value["id"], &value["result"]["more"]), (&json!(7), &json!([1, {}])));
            assert!(value["result"]["deep"].to_string().contains("[nested too deep]"));
        }
        // Up to the parser's limit, nothing is changed.
        let fine = format!("{}1{}", "[".repeat(110), "]".repeat(110));
        assert_eq!(parse_values(fine.as_bytes())[0].to_string(), fine);
    }

    #[test]
    fn unreadable_message_still_yields_its_id() {
        for (head, tail, want) in [
            ("{\"jsonrpc\":\"2.0\",\"id\":12,\"result\":", "", Some(12)),
            ("{\"id\" : \"9\"", "", Some(9)),
            ("{\"result\":{", "},\"id\":4}", Some(4)),
            ("{\"result\":{", "}", None),
        ] {
            assert_eq!(salvage_id(head.as_bytes(), tail.as_bytes()), want, "{head} {tail}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut text = b"{\"a\":\"".to_vec();
            text.extend(&bytes);
            for text in [&text, &bytes] {
                prop_assert!(parse_values(text).first().is_none_or(|it| it.is_object() || it.is_array()));
            }
            if let Some(id) = salvage_id(&bytes, &text) {
                let digits = id.to_string();
                prop_assert!(String::from_utf8_lossy(&bytes).contains(&digits)
                    || String::from_utf8_lossy(&text).contains(&digits));
            }
        }

        #[test]
        fn valid_json_is_never_changed(text in "\\PC{0,40}") {
            let value = json!({"id": 1, "result": text});
            prop_assert_eq!(parse_values(value.to_string().as_bytes()), vec![value]);
        }
    }
}
