//! Answers that consist of calls only.
//!
//! Bare JSON or a bare function call is accepted whenever it names an offered tool; invalid arguments
//! are reported to the model as for any call. Wrappers that models put around calls (a code fence,
//! doubled braces, `<tools>`) are also used for examples, so a wrapped call counts only if the answer
//! contains nothing else and the arguments match the tool's schema.

use serde_json::{Map, Value};

use super::{RecoveredCall, UnreadCall, coerce, json, python, syntaxes};
use crate::ToolSet;

/// Languages of code fences that may contain calls.
const LANGUAGES: [&str; 6] = ["", "json", "xml", "tool_call", "tool_calls", "tool_code"];
/// Tags that models put around JSON calls; ignored.
const TAGS: [&str; 4] = ["<tools>", "</tools>", "<tool_call>", "</tool_call>"];
const FENCE: &str = "```";

/// Reads an answer that consists of calls only.
pub(super) fn calls(text: &str, tools: &ToolSet) -> Option<Vec<RecoveredCall>> {
    let text = text.trim();
    if let Some(calls) = json::bare(text).or_else(|| python::bare(text)) {
        let known = calls.iter().all(|call| tools.by_wire_name(&call.name).is_some());
        return known.then_some(calls);
    }
    let calls = wrapped_json(text).or_else(|| fenced(text, tools))?;
    calls.iter().all(|call| suits(call, tools)).then_some(calls)
}

/// Reads JSON calls inside code fences and tags, with nothing else around them.
fn wrapped_json(text: &str) -> Option<Vec<RecoveredCall>> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        rest = after_wrapping(rest);
        if rest.is_empty() {
            return (!out.is_empty()).then_some(out);
        }
        let (value, after) = json::loose(rest)?;
        out.extend(json::shaped(&value)?);
        rest = after;
    }
}

/// Strips the fences and tags at the start of a text.
fn after_wrapping(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let tag = TAGS.iter().find_map(|tag| rest.strip_prefix(tag));
        let fence = || {
            let after = rest.strip_prefix(FENCE)?;
            let line = after.split(['\n', '{', '[', '<']).next().unwrap_or_default();
            LANGUAGES.contains(&line.trim()).then(|| &after[line.len()..])
        };
        match tag.or_else(fence) {
            Some(after) => rest = after.trim_start(),
            None => return rest,
        }
    }
}

/// Reads one code fence around calls in another syntax.
fn fenced(text: &str, tools: &ToolSet) -> Option<Vec<RecoveredCall>> {
    let (language, body) = text.strip_prefix(FENCE)?.split_once('\n')?;
    let body = body.strip_suffix(FENCE)?.trim();
    if !LANGUAGES.contains(&language.trim()) {
        return None;
    }
    if let Some(calls) = python::bare(body) {
        return Some(calls);
    }
    let inside = syntaxes(body, tools);
    (inside.text.is_empty() && !inside.calls.is_empty()).then_some(inside.calls)
}

/// Whether an incomplete answer may still become one that [`calls`] accepts. Until that is decided, none
/// of it is displayed.
pub(super) fn may_become(text: &str, tools: &ToolSet) -> bool {
    let rest = after_wrapping(text);
    let is_open_fence = || {
        let line = rest.strip_prefix(FENCE)?;
        Some(!line.contains('\n') && LANGUAGES.iter().any(|it| it.starts_with(line.trim())))
    };
    let names_tool = |wire_name: &str| {
        let call = format!("{wire_name}(");
        rest.starts_with(&call) || call.starts_with(rest)
    };
    rest.is_empty()
        || rest.starts_with(['{', '['])
        || FENCE.starts_with(rest)
        || is_open_fence().unwrap_or(false)
        || TAGS.iter().any(|tag| tag.starts_with(rest))
        || tools.tools().iter().any(|tool| names_tool(&tool.wire_name))
}

/// Whether a call names an offered tool and its arguments match the schema.
fn suits(call: &RecoveredCall, tools: &ToolSet) -> bool {
    let Some(tool) = tools.by_wire_name(&call.name) else { return false };
    let Ok(mut input) = serde_json::from_str::<Map<String, Value>>(&call.input) else { return false };
    coerce(&mut input, &tool.schema);
    let required = tool.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_closed = tool.schema["additionalProperties"] == false;
    required.into_iter().all(|name| input.contains_key(name))
        && input.iter().all(|(name, value)| match tool.schema["properties"].get(name) {
            Some(schema) => has_type(value, &schema["type"]),
            None => !is_closed,
        })
}

/// Whether a value has one of the types a schema allows. Numbers and booleans may be strings, because
/// tools accept those.
fn has_type(value: &Value, types: &Value) -> bool {
    let fits = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean() || value.as_str().is_some_and(|it| it.parse::<bool>().is_ok()),
        "integer" | "number" => {
            value.is_number() || value.as_str().is_some_and(|it| it.parse::<f64>().is_ok())
        }
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    match types {
        Value::String(name) => fits(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(fits),
        _ => true,
    }
}

/// Finds an attempted call; see [`unread_call`](super::unread_call).
pub(super) fn attempt(text: &str, tools: &ToolSet) -> Option<UnreadCall> {
    let text = without_thought(text);
    let (at, tool) = text.match_indices("\"name\"").find_map(|(at, key)| {
        let after = text[at + key.len()..].trim_start().strip_prefix(':')?.trim_start();
        let name = after.strip_prefix('"')?.split('"').next()?;
        let has_input = json::INPUTS.iter().any(|input| text.contains(&format!("\"{input}\"")));
        tools.by_wire_name(name).filter(|_| has_input).map(|tool| (at, tool.wire_name.clone()))
    })?;
    let call = text[..at].rfind('{').and_then(|start| {
        let (value, _) = json::loose(&text[start..])?;
        let call = json::shaped(&value)?.into_iter().next().filter(|call| suits(call, tools))?;
        let input: Value = serde_json::from_str(&call.input).ok()?;
        Some(serde_json::json!({"name": call.name, "arguments": input}))
    });
    Some(UnreadCall { tool, call })
}

fn without_thought(text: &str) -> &str {
    let text = text.trim_start();
    super::THOUGHTS
        .iter()
        .find(|(open, _)| text.starts_with(open))
        .map_or(text, |(_, close)| text.split_once(close).map_or("", |(_, after)| after))
}
