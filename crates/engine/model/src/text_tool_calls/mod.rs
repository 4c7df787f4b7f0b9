//! Recovers tool calls that a model writes as text.
//!
//! Local models are trained on many call syntaxes, and not every server parses the one of its model.
//! Text in a code block with other text around it, in inline code, or in the model's thinking is never a
//! call. Bare JSON, a bare function call or a code block counts only if the answer contains nothing else
//! and it names an offered tool ([`whole`]).
//!
//! Only used for models with [`ModelInfo::dialects`](crate::ModelInfo).

mod json;
mod python;
mod special_tokens;
mod whole;
mod xml;

use serde_json::{Map, Value};

use crate::ToolSet;

/// A call found in a text. `input` should be JSON but may be invalid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecoveredCall {
    pub(crate) name: String,
    pub(crate) input: String,
}

/// A text without the calls that were in it, and the calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RecoveredText {
    pub(crate) text: String,
    pub(crate) calls: Vec<RecoveredCall>,
}

/// A syntax for calls: its opening marker and its parser. The parser gets the text after the marker and
/// returns how much of it belongs to the calls.
struct DialectSyntax {
    opening: &'static str,
    read: fn(&str, &ToolSet) -> Option<DialectRead>,
}

/// Calls, and the number of bytes they occupy.
pub(crate) struct DialectRead {
    pub(crate) calls: Vec<RecoveredCall>,
    pub(crate) length: usize,
}

/// A marker must come before its own prefixes.
const SYNTAXES: [DialectSyntax; 16] = [
    DialectSyntax { opening: "<tool_call>", read: xml::tool_call },
    DialectSyntax { opening: "<tool_calls>", read: |rest, tools| json::until(rest, "</tool_calls>", tools) },
    DialectSyntax { opening: "<function=", read: xml::function },
    DialectSyntax { opening: "<|python_tag|>", read: special_tokens::python_tag },
    DialectSyntax {
        opening: "<|python_start|>",
        read: |rest, tools| python::until(rest, "<|python_end|>", tools),
    },
    DialectSyntax {
        opening: "<|tool_call_start|>",
        read: |rest, tools| python::until(rest, "<|tool_call_end|>", tools),
    },
    DialectSyntax {
        opening: "<|tool_call|>",
        read: |rest, tools| json::until(rest, "<|/tool_call|>", tools),
    },
    DialectSyntax {
        opening: "<|START_ACTION|>",
        read: |rest, tools| json::until(rest, "<|END_ACTION|>", tools),
    },
    DialectSyntax {
        opening: "<|action_start|><|plugin|>",
        read: |rest, tools| json::until(rest, "<|action_end|>", tools),
    },
    DialectSyntax { opening: "<|tool_calls_section_begin|>", read: special_tokens::kimi },
    DialectSyntax { opening: "<|tool_call_begin|>", read: special_tokens::kimi_call },
    DialectSyntax { opening: "<｜tool▁calls▁begin｜>", read: special_tokens::deepseek },
    DialectSyntax { opening: "<｜tool▁call▁begin｜>", read: special_tokens::deepseek_call },
    DialectSyntax { opening: "<|channel|>commentary to=", read: special_tokens::harmony },
    DialectSyntax { opening: "[TOOL_CALLS]", read: special_tokens::mistral },
    DialectSyntax { opening: "functools[", read: |rest, tools| json::list(rest, tools) },
];

/// Languages of code fences that mark a call.
const CALL_FENCES: [&str; 2] = ["tool_call", "tool_code"];
/// Tags around thinking, in which no calls are recognised.
const THOUGHTS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// Extracts the calls from a text.
pub(crate) fn recover(text: &str, tools: &ToolSet) -> RecoveredText {
    match whole::calls(text, tools) {
        Some(calls) => RecoveredText { text: String::new(), calls },
        None => syntaxes(text, tools),
    }
}

/// A call in a syntax that is not accepted as one.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadCall {
    /// The offered tool it names.
    pub tool: String,
    /// `{"name": …, "arguments": …}`, if it can be parsed and matches the tool's schema.
    pub call: Option<Value>,
}

/// Finds an attempted call in a text without calls: it must name an offered tool and have arguments.
/// Thinking is ignored.
pub fn unread_call(text: &str, tools: &ToolSet) -> Option<UnreadCall> {
    whole::attempt(text, tools)
}

/// Extracts the calls that are written in one of the [`SYNTAXES`].
fn syntaxes(text: &str, tools: &ToolSet) -> RecoveredText {
    let mut out = RecoveredText::default();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if let Some((read, opening)) = syntax_at(rest, tools) {
            out.calls.extend(read.calls);
            at += opening + read.length;
            continue;
        }
        let step = skipped(rest);
        out.text.push_str(&rest[..step]);
        at += step;
    }
    if !out.calls.is_empty() {
        out.text = out.text.trim().to_owned();
    }
    out
}

fn syntax_at(rest: &str, tools: &ToolSet) -> Option<(DialectRead, usize)> {
    if !rest.starts_with(['<', '[', 'f', '`', 'A']) {
        return None;
    }
    let found = fenced_call(rest).or_else(|| action(rest)).or_else(|| xml::invocations(rest, tools));
    if let Some(found) = found {
        return Some((found, 0));
    }
    let syntax = SYNTAXES.iter().find(|syntax| rest.starts_with(syntax.opening))?;
    let read = (syntax.read)(&rest[syntax.opening.len()..], tools)?;
    Some((read, syntax.opening.len()))
}

/// Reads a code block whose language marks it as a call.
fn fenced_call(rest: &str) -> Option<DialectRead> {
    let inner = rest.strip_prefix("```")?;
    let (language, body) = inner.split_once('\n')?;
    if !CALL_FENCES.contains(&language.trim()) {
        return None;
    }
    let end = body.find("```").unwrap_or(body.len());
    let calls = json::calls(&body[..end]).or_else(|| python::calls(&body[..end]))?;
    let length = (rest.len() - body.len() + end + 3).min(rest.len());
    Some(DialectRead { calls, length })
}

/// Cohere: `Action:` followed by a code block with a list.
fn action(rest: &str) -> Option<DialectRead> {
    let after = rest.strip_prefix("Action:")?;
    let body = after.trim_start().strip_prefix("```json")?;
    let end = body.find("```")?;
    let calls = json::calls(&body[..end])?;
    Some(DialectRead { calls, length: rest.len() - body.len() + end + 3 })
}

/// Returns the length of the prefix that cannot start a call: a code block, thinking, inline code, or
/// one character.
fn skipped(rest: &str) -> usize {
    if let Some(after) = rest.strip_prefix("```") {
        return after.find("```").map_or(rest.len(), |end| end + 6);
    }
    if let Some(after) = rest.strip_prefix('`') {
        let line = after.find('\n').unwrap_or(after.len());
        return after[..line].find('`').map_or(1, |end| end + 2);
    }
    for (open, close) in THOUGHTS {
        if let Some(after) = rest.strip_prefix(open) {
            return after.find(close).map_or(rest.len(), |end| open.len() + end + close.len());
        }
    }
    rest.chars().next().map_or(rest.len(), char::len_utf8)
}

/// Returns how many bytes of a growing text can be displayed: up to where a call may start. The first
/// `shown` bytes were checked before.
pub(crate) fn showable(text: &str, shown: usize, tools: &ToolSet) -> usize {
    if shown == 0 && whole::may_become(text, tools) {
        return 0;
    }
    let openings: Vec<&str> =
        SYNTAXES.iter().map(|syntax| syntax.opening).chain(["```tool_", "Action:"]).collect();
    let may_open = |rest: &str| {
        openings.iter().any(|opening| rest.starts_with(opening) || opening.starts_with(rest))
            || xml::may_open(rest)
    };
    let starts = text[shown..].char_indices().filter(|(_, it)| matches!(it, '<' | '[' | 'f' | '`' | 'A'));
    starts.map(|(at, _)| shown + at).find(|at| may_open(&text[*at..])).unwrap_or(text.len())
}

/// Strips what some models add to tool names: `functions.` in front and a number at the end.
pub(crate) fn bare_name(name: &str) -> &str {
    let name = name.trim().trim_matches('"');
    let name = name.strip_prefix("functions.").unwrap_or(name);
    match name.rsplit_once(':') {
        Some((before, number)) if !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()) => {
            before
        }
        _ => name,
    }
}

/// Parses strings as arrays or objects where the tool's schema allows only those and the string is valid
/// JSON of that type.
pub(crate) fn coerce(input: &mut Map<String, Value>, schema: &Value) {
    for (name, value) in input {
        let Value::String(text) = value else { continue };
        let wanted = &schema["properties"][name]["type"];
        let fits = |parsed: &Value| {
            (wanted == "array" && parsed.is_array()) || (wanted == "object" && parsed.is_object())
        };
        if let Some(parsed) = serde_json::from_str::<Value>(text).ok().filter(fits) {
            *value = parsed;
        }
    }
}

/// Converts a parameter written as text: to a string if the schema allows one, else to JSON if it is
/// valid JSON, else to a string.
pub(crate) fn typed(text: &str, name: &str, schema: Option<&Value>) -> Value {
    let kind = schema.map(|schema| &schema["properties"][name]["type"]);
    let plain = || Value::String(text.to_owned());
    match kind {
        Some(Value::String(kind)) if kind == "string" => plain(),
        _ => serde_json::from_str(text.trim()).unwrap_or_else(|_| plain()),
    }
}

/// Whether a text consists of an identifier only.
pub(crate) fn name_only(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_alphanumeric() || "_-.:".contains(it))
}

#[cfg(test)]
mod tests;
