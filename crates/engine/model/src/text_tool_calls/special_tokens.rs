//! Tool calls between special tokens.

use super::{DialectRead, RecoveredCall, bare_name, json, python};
use crate::ToolSet;

/// Returns the text before the first of several markers, and the end of that marker.
fn before_any<'a>(rest: &'a str, marks: &[&str]) -> (&'a str, usize) {
    let first = marks.iter().filter_map(|mark| rest.find(mark).map(|at| (at, mark.len()))).min();
    first.map_or((rest, rest.len()), |(at, mark)| (&rest[..at], at + mark))
}

/// Llama: JSON or a function call up to the end of the message.
pub(super) fn python_tag(rest: &str, _: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = before_any(rest, &["<|eom_id|>", "<|eot_id|>"]);
    // Several objects are separated by semicolons.
    let apart = inner.replace("};", "}\n");
    let calls =
        json::calls(&apart).or_else(|| python::calls(inner)).unwrap_or_else(|| vec![json::broken(inner)]);
    Some(DialectRead { calls, length })
}

/// Mistral: a JSON list, or `name[ARGS]{…}`, or `name{…}`, each optionally after another marker.
pub(super) fn mistral(rest: &str, _: &ToolSet) -> Option<DialectRead> {
    let (inner, _) = before_any(rest, &["[TOOL_CALLS]"]);
    let trimmed = inner.trim_start();
    if trimmed.starts_with('[') {
        let read = list_at(trimmed)?;
        return Some(DialectRead { calls: read.calls, length: inner.len() - trimmed.len() + read.length });
    }
    let name_end = trimmed.find(['{', '['])?;
    let name = bare_name(&trimmed[..name_end]).to_owned();
    if !super::name_only(&name) {
        return None;
    }
    let after = &trimmed[name_end..];
    let after_mark = after.split_once("[ARGS]").map_or(after, |(_, input)| input);
    let (input, used) = object_at(after_mark.trim_start());
    let start = trimmed.len() - after_mark.trim_start().len();
    let length = inner.len() - trimmed.len() + start + used;
    Some(DialectRead { calls: vec![RecoveredCall { name, input: input.to_owned() }], length })
}

fn list_at(text: &str) -> Option<DialectRead> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    let value = values.next()?.ok()?;
    let length = values.byte_offset();
    Some(DialectRead { calls: json::calls(&value.to_string())?, length })
}

/// Returns the JSON object at the start of a text and its length; the whole text if the object is
/// malformed.
fn object_at(text: &str) -> (&str, usize) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    match values.next() {
        Some(Ok(_)) => (&text[..values.byte_offset()], values.byte_offset()),
        _ => (text, text.len()),
    }
}

/// Kimi: a section of calls.
pub(super) fn kimi(rest: &str, tools: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = before_any(rest, &["<|tool_calls_section_end|>"]);
    let calls = inner.split("<|tool_call_begin|>").skip(1).filter_map(|part| kimi_call(part, tools));
    let calls: Vec<RecoveredCall> = calls.flat_map(|read| read.calls).collect();
    (!calls.is_empty()).then_some(DialectRead { calls, length })
}

/// Kimi: `functions.name:0`, a marker, JSON.
pub(super) fn kimi_call(rest: &str, _: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = before_any(rest, &["<|tool_call_end|>"]);
    let (name, input) = inner.split_once("<|tool_call_argument_begin|>")?;
    let call = RecoveredCall { name: bare_name(name).to_owned(), input: input.trim().to_owned() };
    Some(DialectRead { calls: vec![call], length })
}

/// DeepSeek: a section of calls.
pub(super) fn deepseek(rest: &str, tools: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = before_any(rest, &["<｜tool▁calls▁end｜>"]);
    let calls = inner.split("<｜tool▁call▁begin｜>").skip(1).filter_map(|part| deepseek_call(part, tools));
    let calls: Vec<RecoveredCall> = calls.flat_map(|read| read.calls).collect();
    (!calls.is_empty()).then_some(DialectRead { calls, length })
}

/// DeepSeek: `function`, a marker, the name and JSON in a code block; or the name, a marker, JSON.
pub(super) fn deepseek_call(rest: &str, _: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = before_any(rest, &["<｜tool▁call▁end｜>"]);
    let (first, second) = inner.split_once("<｜tool▁sep｜>")?;
    let (name, input) = match first.trim() {
        "function" => second.split_once('\n')?,
        name => (name, second),
    };
    // `parse_arguments` strips the code fence around the input.
    let call = RecoveredCall { name: bare_name(name).to_owned(), input: input.trim().to_owned() };
    Some(DialectRead { calls: vec![call], length })
}

/// Harmony: `functions.name`, markers, JSON.
pub(super) fn harmony(rest: &str, _: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = before_any(rest, &["<|call|>", "<|end|>", "<|start|>"]);
    let (head, input) = inner.split_once("<|message|>")?;
    let name = head.split(|it: char| it.is_whitespace() || it == '<').next()?;
    let call = RecoveredCall { name: bare_name(name).to_owned(), input: input.trim().to_owned() };
    Some(DialectRead { calls: vec![call], length })
}
