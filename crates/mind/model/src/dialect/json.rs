//! Calls as JSON objects.

use serde_json::Value;

use super::{DialectRead, TextCall, bare_name};
use crate::ToolSet;

const NAMES: [&str; 4] = ["name", "tool_name", "tool", "function"];
const INPUTS: [&str; 5] = ["arguments", "parameters", "input", "args", "tool_input"];

/// The call an object describes.
fn of_object(value: &Value) -> Option<TextCall> {
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
    Some(TextCall { name: bare_name(name).to_owned(), input })
}

fn of_value(value: &Value) -> Option<Vec<TextCall>> {
    match value {
        Value::Array(items) => items.iter().map(of_object).collect(),
        Value::Object(fields) => match fields.get("tool_calls") {
            Some(Value::Array(items)) => items.iter().map(of_object).collect(),
            _ => of_object(value).map(|call| vec![call]),
        },
        _ => None,
    }
}

/// The calls of a text that holds one JSON value, or several behind each other.
pub(super) fn calls(text: &str) -> Option<Vec<TextCall>> {
    let mut out = Vec::new();
    let values = serde_json::Deserializer::from_str(text.trim()).into_iter::<Value>();
    for value in values {
        out.extend(of_value(&value.ok()?)?);
    }
    (!out.is_empty()).then_some(out)
}

/// The calls of a text that is nothing but JSON in the shape of calls. An
/// object needs both a name and an input, or it could be anything.
pub(super) fn bare(text: &str) -> Option<Vec<TextCall>> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let is_call = |value: &Value| {
        let inner = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
        NAMES.iter().any(|key| inner[*key].is_string()) && INPUTS.iter().any(|key| inner.get(key).is_some())
    };
    let shaped = match &value {
        Value::Array(items) => !items.is_empty() && items.iter().all(is_call),
        Value::Object(fields) if fields.contains_key("tool_calls") => true,
        other => is_call(other),
    };
    shaped.then(|| of_value(&value)).flatten()
}

/// The calls up to a closing mark, or up to the end.
pub(super) fn until(rest: &str, close: &str, _: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = match rest.find(close) {
        Some(end) => (&rest[..end], end + close.len()),
        None => (rest, rest.len()),
    };
    let calls = calls(inner).unwrap_or_else(|| vec![broken(inner)]);
    Some(DialectRead { calls, length })
}

/// A list whose opening bracket is gone.
pub(super) fn list(rest: &str, _: &ToolSet) -> Option<DialectRead> {
    let text = format!("[{rest}");
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let length = values.byte_offset().checked_sub(1)?;
    Some(DialectRead { calls: of_value(&value)?, length })
}

/// A call that was meant but cannot be read: the model is told.
pub(super) fn broken(text: &str) -> TextCall {
    let name = text.split("\"name\"").nth(1).and_then(|rest| rest.split('"').nth(1)).unwrap_or("unknown");
    TextCall { name: bare_name(name).to_owned(), input: text.trim().to_owned() }
}
