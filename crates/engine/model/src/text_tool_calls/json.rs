//! Tool calls written as JSON objects.

use serde_json::Value;

use super::{DialectRead, RecoveredCall, bare_name};
use crate::ToolSet;

const NAMES: [&str; 4] = ["name", "tool_name", "tool", "function"];
pub(super) const INPUTS: [&str; 5] = ["arguments", "parameters", "input", "args", "tool_input"];

/// Reads an object as a call.
fn of_object(value: &Value) -> Option<RecoveredCall> {
    let fields = value.as_object()?;
    // {"type": "function", "function": {"name": …, "arguments": …}}
    if let Some(inner) = fields.get("function").filter(|inner| inner.is_object()) {
        return of_object(inner);
    }
    let name = NAMES.iter().find_map(|key| fields.get(*key)).and_then(Value::as_str)?;
    let input = INPUTS.iter().find_map(|key| fields.get(*key));
    let input = match input {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    Some(RecoveredCall { name: bare_name(name).to_owned(), input })
}

fn of_value(value: &Value) -> Option<Vec<RecoveredCall>> {
    match value {
        Value::Array(items) => items.iter().map(of_object).collect(),
        Value::Object(fields) => match fields.get("tool_calls") {
            Some(Value::Array(items)) => items.iter().map(of_object).collect(),
            _ => of_object(value).map(|call| vec![call]),
        },
        _ => None,
    }
}

/// Reads a text that consists of one or more JSON values, all of them calls.
pub(super) fn calls(text: &str) -> Option<Vec<RecoveredCall>> {
    let mut out = Vec::new();
    let values = serde_json::Deserializer::from_str(text.trim()).into_iter::<Value>();
    for value in values {
        out.extend(of_value(&value.ok()?)?);
    }
    (!out.is_empty()).then_some(out)
}

/// Reads a text that consists of JSON calls only. An object must have both a name and an input, because
/// anything else could be ordinary JSON.
pub(super) fn bare(text: &str) -> Option<Vec<RecoveredCall>> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    shaped(&serde_json::from_str(text).ok()?)
}

/// Reads a JSON value in the shape of one or more calls.
pub(super) fn shaped(value: &Value) -> Option<Vec<RecoveredCall>> {
    let is_call = |value: &Value| {
        let inner = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
        NAMES.iter().any(|key| inner[*key].is_string()) && INPUTS.iter().any(|key| inner.get(key).is_some())
    };
    let is_shaped = match value {
        Value::Array(items) => !items.is_empty() && items.iter().all(is_call),
        Value::Object(fields) if fields.contains_key("tool_calls") => true,
        other => is_call(other),
    };
    is_shaped.then(|| of_value(value)).flatten()
}

/// Parses the JSON value at the start of a text and returns the rest. Accepts doubled braces (`{{"a":
/// 1}}`, as in template examples) and skips unmatched closing braces.
pub(super) fn loose(text: &str) -> Option<(Value, &str)> {
    let (plain, rest) = undoubled(text)?;
    let value = serde_json::from_str(&plain).ok()?;
    Some((value, rest.trim_start_matches('}').trim_start()))
}

/// Returns the object or list at the start of a text with doubled braces made single, and the rest.
fn undoubled(text: &str) -> Option<(String, &str)> {
    let mut plain = String::new();
    // For each open bracket, whether it is a doubled brace.
    let mut open = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(it) = rest.chars().next() {
        rest = &rest[it.len_utf8()..];
        plain.push(it);
        match it {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '{' => {
                let after = rest.strip_prefix('{');
                open.push(after.is_some());
                rest = after.unwrap_or(rest);
            }
            '[' => open.push(false),
            '}' | ']' => {
                let is_doubled = open.pop()?;
                rest = rest.strip_prefix('}').filter(|_| is_doubled).unwrap_or(rest);
            }
            _ => {}
        }
        if open.is_empty() {
            return matches!(it, '}' | ']').then_some((plain, rest));
        }
    }
    None
}

/// Reads calls up to a closing marker, or to the end of the text.
pub(super) fn until(rest: &str, close: &str, _: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = match rest.find(close) {
        Some(end) => (&rest[..end], end + close.len()),
        None => (rest, rest.len()),
    };
    let calls = calls(inner).unwrap_or_else(|| vec![broken(inner)]);
    Some(DialectRead { calls, length })
}

/// Reads a list of calls whose opening bracket was already consumed.
pub(super) fn list(rest: &str, _: &ToolSet) -> Option<DialectRead> {
    let text = format!("[{rest}");
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let length = values.byte_offset().checked_sub(1)?;
    Some(DialectRead { calls: of_value(&value)?, length })
}

/// Wraps an unreadable call, so that the model gets an error for it.
pub(super) fn broken(text: &str) -> RecoveredCall {
    let name = text.split("\"name\"").nth(1).and_then(|rest| rest.split('"').nth(1)).unwrap_or("unknown");
    RecoveredCall { name: bare_name(name).to_owned(), input: text.trim().to_owned() }
}
