//! Tool calls in XML-like tags.

use serde_json::{Map, Value};

use super::{DialectRead, RecoveredCall, bare_name, json, name_only, typed};
use crate::ToolSet;

/// Returns the text before a marker, and the marker's end; the whole text if there is none.
fn before<'a>(rest: &'a str, close: &str) -> (&'a str, usize) {
    match rest.find(close) {
        Some(end) => (&rest[..end], end + close.len()),
        None => (rest, rest.len()),
    }
}

fn schema_of<'a>(name: &str, tools: &'a ToolSet) -> Option<&'a Value> {
    tools.by_wire_name(name).map(|tool| &tool.schema)
}

fn call(name: &str, input: Map<String, Value>) -> RecoveredCall {
    RecoveredCall { name: name.to_owned(), input: Value::Object(input).to_string() }
}

/// `<tool_call>` containing JSON, `<function=…>` or `<arg_key>`.
pub(super) fn tool_call(rest: &str, tools: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = before(rest, "</tool_call>");
    let trimmed = inner.trim();
    let calls = if let Some(after) = trimmed.strip_prefix("<function=") {
        function(after, tools)?.calls
    } else if trimmed.contains("<arg_key>") {
        vec![arg_keys(trimmed, tools)]
    } else if let Some(calls) = json::calls(trimmed) {
        calls
    } else if name_only(trimmed) {
        vec![call(bare_name(trimmed), Map::new())]
    } else {
        vec![json::broken(trimmed)]
    };
    Some(DialectRead { calls, length })
}

/// `name`, then `<arg_key>k</arg_key><arg_value>v</arg_value>` pairs.
fn arg_keys(text: &str, tools: &ToolSet) -> RecoveredCall {
    let (name, _) = before(text, "<arg_key>");
    let name = bare_name(name).to_owned();
    let schema = schema_of(&name, tools);
    let mut input = Map::new();
    for pair in text.split("<arg_key>").skip(1) {
        let (key, _) = before(pair, "</arg_key>");
        let value = pair.split_once("<arg_value>").map(|(_, after)| before(after, "</arg_value>").0);
        if let Some(value) = value {
            input.insert(key.trim().to_owned(), typed(value, key.trim(), schema));
        }
    }
    call(&name, input)
}

/// `name>`, then JSON or `<parameter=k>v</parameter>`, up to `</function>`.
pub(super) fn function(rest: &str, tools: &ToolSet) -> Option<DialectRead> {
    let (name, after) = rest.split_once('>')?;
    let name = bare_name(name).to_owned();
    if !name_only(&name) {
        return None;
    }
    let (inner, length) = before(after, "</function>");
    let length = rest.len() - after.len() + length;
    let schema = schema_of(&name, tools);
    let call = if inner.contains("<parameter=") {
        let mut input = Map::new();
        for part in inner.split("<parameter=").skip(1) {
            let Some((key, value)) = part.split_once('>') else { continue };
            let value = one_line_less(before(value, "</parameter>").0);
            input.insert(key.trim().to_owned(), typed(value, key.trim(), schema));
        }
        call(&name, input)
    } else {
        RecoveredCall { name, input: inner.trim().to_owned() }
    };
    Some(DialectRead { calls: vec![call], length })
}

/// Strips one line break at the start and end of a value, as multi-line values have them.
fn one_line_less(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

/// An opening or closing tag, with or without a namespace.
struct Tag<'a> {
    closes: bool,
    has_namespace: bool,
    name: &'a str,
    attributes: &'a str,
    length: usize,
}

impl<'a> Tag<'a> {
    /// Parses the tag at the start of a text.
    fn at(text: &'a str) -> Option<Self> {
        let inner = text.strip_prefix('<')?;
        let end = inner.find('>')?;
        let inner = &inner[..end];
        let (closes, inner) = match inner.strip_prefix('/') {
            Some(inner) => (true, inner),
            None => (false, inner),
        };
        let (full, attributes) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
        let (has_namespace, name) = match full.split_once(':') {
            Some((_, name)) => (true, name),
            None => (false, full),
        };
        name_only(name).then_some(Self { closes, has_namespace, name, attributes, length: end + 2 })
    }

    fn opens_calls(&self) -> bool {
        !self.closes && (self.name == "function_calls" || (self.has_namespace && self.name == "tool_call"))
    }

    fn attribute(&self, wanted: &str) -> Option<&'a str> {
        let (_, after) = self.attributes.split_once(&format!("{wanted}=\""))?;
        after.split('"').next()
    }
}

/// Returns the text between an opening tag and its closing tag, and the length including the closing
/// tag.
fn element<'a>(text: &'a str, tag: &Tag<'_>) -> (&'a str, usize) {
    let body = &text[tag.length..];
    let closing = body.match_indices("</").find_map(|(at, _)| {
        let close = Tag::at(&body[at..])?;
        (close.closes && close.name == tag.name).then_some((at, close.length))
    });
    match closing {
        Some((at, close)) => (&body[..at], tag.length + at + close),
        None => (body, text.len()),
    }
}

/// Finds all opening tags with a name.
fn opening<'a>(text: &'a str, name: &str) -> Vec<(usize, Tag<'a>)> {
    let tags = text.match_indices('<').filter_map(|(at, _)| Some((at, Tag::at(&text[at..])?)));
    tags.filter(|(_, tag)| !tag.closes && tag.name == name).collect()
}

/// `invoke` elements, alone or wrapped in one other element.
pub(super) fn invocations(text: &str, tools: &ToolSet) -> Option<DialectRead> {
    let tag = Tag::at(text)?;
    if tag.closes {
        return None;
    }
    if tag.name == "invoke" {
        let (inner, length) = element(text, &tag);
        return Some(DialectRead { calls: vec![invoke(&tag, inner, tools)?], length });
    }
    if !tag.opens_calls() {
        return None;
    }
    let (inner, length) = element(text, &tag);
    let calls = opening(inner, "invoke").into_iter().map(|(at, tag)| {
        let (body, _) = element(&inner[at..], &tag);
        invoke(&tag, body, tools)
    });
    let calls: Vec<RecoveredCall> = calls.collect::<Option<_>>()?;
    (!calls.is_empty()).then_some(DialectRead { calls, length })
}

/// Reads one call: the name is an attribute, the parameters are child elements.
fn invoke(tag: &Tag<'_>, inner: &str, tools: &ToolSet) -> Option<RecoveredCall> {
    let name = bare_name(tag.attribute("name")?).to_owned();
    let schema = schema_of(&name, tools);
    let mut input = Map::new();
    for (at, parameter) in opening(inner, "parameter") {
        let key = parameter.attribute("name")?;
        let (value, _) = element(&inner[at..], &parameter);
        input.insert(key.to_owned(), typed(one_line_less(value), key, schema));
    }
    Some(call(&name, input))
}

/// Whether a text starts with such an element, or may once more of it arrives.
pub(super) fn may_open(text: &str) -> bool {
    match Tag::at(text) {
        Some(tag) => tag.opens_calls() || (!tag.closes && tag.name == "invoke"),
        None => {
            let Some(inner) = text.strip_prefix('<') else { return false };
            !inner.starts_with(|it: char| !it.is_alphabetic())
                && inner.len() < 60
                && inner.chars().all(|it| it.is_alphanumeric() || "_:\"=- ".contains(it))
        }
    }
}
