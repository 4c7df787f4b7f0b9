//! Parses the input of a call as the model wrote it.
//!
//! Malformed JSON is repaired only where the repair cannot change the meaning: raw control characters in
//! strings, a code fence around the JSON, JSON inside a JSON string. Anything else is returned to the
//! model as an error; guessing would run a tool with input the model did not write.

use serde_json::{Map, Value, json};

/// Why an input cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BadArguments {
    pub(crate) error: String,
    /// The part that could be parsed with certainty.
    pub(crate) salvage: Value,
}

/// Parses the input of a call.
pub(crate) fn parse_arguments(text: &str) -> Result<Value, BadArguments> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(json!({}));
    }
    let bad = |error: String| BadArguments { error, salvage: salvage(text) };
    if let Some(number) = huge_integer(text) {
        return Err(bad(format!("the number {number} is too large to be exact; send it as a string")));
    }
    let unfenced = without_fence(text);
    let value = read(text).or_else(|error| match unfenced.and_then(|inner| read(inner).ok()) {
        Some(value) => Ok(value),
        None => Err(bad(error)),
    })?;
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(json!({})),
        // JSON inside a JSON string.
        Value::String(inner) => match read(inner.trim()) {
            Ok(value @ Value::Object(_)) => Ok(value),
            _ => Err(bad("it is a string".to_owned())),
        },
        Value::Array(_) => Err(bad("it is a list".to_owned())),
        Value::Bool(_) | Value::Number(_) => Err(bad("it is a single value".to_owned())),
    }
}

/// Parses JSON, accepting raw control characters in strings.
fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).or_else(|error| {
        let escaped = escape_controls(text).ok_or_else(|| error.to_string())?;
        serde_json::from_str(&escaped).map_err(|_| error.to_string())
    })
}

/// Escapes raw control characters in strings; `None` if there are none.
fn escape_controls(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut in_string = false;
    let mut escaped = false;
    let mut changed = false;
    for it in text.chars() {
        match it {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '\0'..='\u{1f}' if in_string => {
                out.push_str(&format!("\\u{:04x}", u32::from(it)));
                changed = true;
                continue;
            }
            _ => {}
        }
        out.push(it);
    }
    changed.then_some(out)
}

/// Returns the content of a code fence that spans the whole text.
fn without_fence(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("```")?.strip_suffix("```")?;
    let (language, body) = inner.split_once('\n')?;
    let is_language = language.trim().chars().all(char::is_alphanumeric);
    is_language.then(|| body.trim())
}

/// Returns an integer that does not fit 64 bits, if there is one: as a float it would lose digits.
fn huge_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let length = bytes[at..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte))
                    .count();
                let token = &text[at..at + length];
                let is_integer = token.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
                if is_integer
                    && token.len() > 18
                    && token.parse::<i64>().is_err()
                    && token.parse::<u64>().is_err()
                {
                    return Some(token);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// Returns the index after the string that starts at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the complete fields of a truncated or malformed object.
pub(crate) fn salvage(text: &str) -> Value {
    let text = text.trim();
    let mut ends = Vec::new();
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => ends.push(at),
            _ => {}
        }
        at += 1;
    }
    let whole = read(text).ok();
    let prefixes = ends.iter().rev().filter_map(|end| read(&format!("{}}}", &text[..*end])).ok());
    let found = whole.into_iter().chain(prefixes).find(Value::is_object);
    found.unwrap_or_else(|| Value::Object(Map::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_get_only_lossless_repairs() {
        for (text, want) in [
            (r#"{"a": 1}"#, Some(json!({"a": 1}))),
            ("", Some(json!({}))),
            ("  ", Some(json!({}))),
            ("null", Some(json!({}))),
            ("{\"a\": \"x\ny\t\u{1}\"}", Some(json!({"a": "x\ny\t\u{1}"}))),
            ("```json\n{\"a\": 1}\n```", Some(json!({"a": 1}))),
            ("```\n{\"a\": \"l1\nl2\"}\n```", Some(json!({"a": "l1\nl2"}))),
            (r#""{\"a\": 1}""#, Some(json!({"a": 1}))),
            (
                r#"{"a": 18446744073709551615, "b": -9223372036854775808}"#,
                Some(json!({"a": u64::MAX, "b": i64::MIN})),
            ),
            (
                r#"{"a": 1.5e300, "b": "123456789012345678901234"}"#,
                Some(json!({"a": 1.5e300, "b": "123456789012345678901234"})),
            ),
            (r#"{"a": 123456789012345678901234}"#, None),
            (r#"{"a": 1"#, None),
            (r#"{'a': 1}"#, None),
            (r#"{"a": 1,}"#, None),
            (r#"{"a": "\d+"}"#, None),
            (r#"{"a": "say "hi" now"}"#, None),
            (r#"{"a": "\ud99c"}"#, None),
            (r#"{"a": NaN}"#, None),
            ("[1]", None),
            ("7", None),
            (r#""text""#, None),
            (r#"{"a": 1} {"b": 2}"#, None),
            ("here: {\"a\": 1}", None),
        ] {
            assert_eq!(parse_arguments(text).ok(), want, "{text}");
        }
    }

    #[test]
    fn truncated_arguments_keep_complete_fields() {
        for (text, want) in [
            (r#"{"path": "/x", "content": "hal"#, json!({"path": "/x"})),
            (
                r#"{"path": "/x", "list": [1, {"a": ","}], "content"#,
                json!({"path": "/x", "list": [1, {"a": ","}]}),
            ),
            (r#"{"path": "/x"#, json!({})),
            (r#"{"path": "/x"}"#, json!({"path": "/x"})),
            ("[1, 2", json!({})),
            ("", json!({})),
        ] {
            assert_eq!(salvage(text), want, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_arguments_parse_without_panic(text in "[\\PC\n\"{}\\[\\],:\\\\0-9e.-]{0,40}") {
            match parse_arguments(&text) {
                Ok(input) => proptest::prop_assert!(input.is_object(), "{input}"),
                Err(bad) => proptest::prop_assert!(!bad.error.is_empty() && bad.salvage.is_object(), "{bad:?}"),
            }
        }
    }
}
