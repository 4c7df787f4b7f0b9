//! Arguments sent as HTTP headers too (`x-mcp-header`, revision 2026-07-28).

use std::collections::HashSet;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

/// An annotated property: path of its value and name of its header.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HeaderParam {
    path: Vec<String>,
    header: String,
}

/// Returns the annotations of a schema; an error if they are invalid. A tool with invalid ones must not
/// be called over HTTP, because an intermediary could act on a wrong value.
pub(crate) fn header_params(schema: &Value) -> Result<Vec<HeaderParam>, String> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found)?;
    let mut seen = HashSet::new();
    for param in &found {
        if !seen.insert(param.header.to_ascii_lowercase()) {
            return Err(format!("x-mcp-header `{}` is used twice", param.header));
        }
    }
    Ok(found)
}

/// Collects annotations under `properties`; anywhere else they are an error.
fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<HeaderParam>) -> Result<(), String> {
    let Value::Object(node) = schema else { return Ok(()) };
    if let Some(annotation) = node.get("x-mcp-header") {
        found.push(HeaderParam { path: path.clone(), header: checked(annotation, node, path)? });
    }
    for (key, value) in node {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    path.push(name.clone());
                    collect(property, path, found)?;
                    path.pop();
                }
            }
            ("default" | "const" | "enum" | "examples" | "x-mcp-header", _) => (),
            (_, other) if mentions(other) => {
                return Err(format!("x-mcp-header below `{key}` cannot be found in the arguments"));
            }
            _ => (),
        }
    }
    Ok(())
}

fn checked(annotation: &Value, node: &Map<String, Value>, path: &[String]) -> Result<String, String> {
    let place = path.join(".");
    if path.is_empty() {
        return Err(String::from("x-mcp-header must annotate a property"));
    }
    let Some(header) = annotation.as_str().filter(|it| !it.is_empty()) else {
        return Err(format!("x-mcp-header of `{place}` must be a non-empty string"));
    };
    if !header.chars().all(is_token) {
        return Err(format!("x-mcp-header of `{place}` is not a valid header name"));
    }
    match node.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(header.to_owned()),
        _ => Err(format!("x-mcp-header of `{place}` needs a string, an integer or a boolean")),
    }
}

/// Whether a character is valid in a header name.
fn is_token(it: char) -> bool {
    it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it)
}

fn mentions(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.contains_key("x-mcp-header") || map.values().any(mentions),
        Value::Array(list) => list.iter().any(mentions),
        _ => false,
    }
}

/// Returns the headers of one call.
pub(crate) fn headers_of(params: &[HeaderParam], arguments: &Value) -> Vec<(String, String)> {
    let header = |param: &HeaderParam| {
        let value = param.path.iter().try_fold(arguments, |value, key| value.get(key))?;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return None,
        };
        Some((format!("Mcp-Param-{}", param.header), encode(&text)))
    };
    params.iter().filter_map(header).collect()
}

/// Encodes a value for a header; text that is not plain ASCII is wrapped in an encoding.
pub(crate) fn encode(text: &str) -> String {
    let blank = |it: Option<char>| matches!(it, Some(' ' | '\t'));
    let ends_blank = blank(text.chars().next()) || blank(text.chars().next_back());
    let looks_wrapped = text.starts_with("=?base64?") && text.ends_with("?=");
    let plain = !ends_blank && !looks_wrapped && text.chars().all(|it| (' '..='~').contains(&it));
    if plain { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn header_annotations_are_collected_or_rejected() {
        let property = |schema: Value| json!({"type": "object", "properties": {"p": schema}});
        for (schema, want) in [
            (json!({"type": "object"}), Ok(0)),
            (property(json!({"type": "string", "x-mcp-header": "Region"})), Ok(1)),
            (
                property(
                    json!({"type": "object", "properties": {"q": {"type": "integer", "x-mcp-header": "N"}}}),
                ),
                Ok(1),
            ),
            (property(json!({"type": "string", "default": {"x-mcp-header": "data"}})), Ok(0)),
            (property(json!({"type": "string", "x-mcp-header": ""})), Err("non-empty")),
            (property(json!({"type": "string", "x-mcp-header": "a b"})), Err("not a valid header name")),
            (property(json!({"type": "object", "x-mcp-header": "A"})), Err("needs a string")),
            (property(json!({"type": "number", "x-mcp-header": "A"})), Err("needs a string")),
            (json!({"x-mcp-header": "A"}), Err("must annotate a property")),
            (
                property(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
                Err("below `items`"),
            ),
            (
                json!({"properties": {
                    "a": {"type": "string", "x-mcp-header": "X"},
                    "b": {"type": "string", "x-mcp-header": "x"},
                }}),
                Err("twice"),
            ),
        ] {
            match (header_params(&schema), want) {
                (Ok(found), Ok(count)) => assert_eq!(found.len(), count, "{schema}"),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
                (got, want) => panic!("{schema}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn header_values_round_trip() {
        let schema = json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "A"},
            "b": {"type": "object", "properties": {"c": {"type": "boolean", "x-mcp-header": "C"}}},
        }});
        let params = header_params(&schema).unwrap();
        let header = |name: &str, value: &str| (format!("Mcp-Param-{name}"), value.to_owned());
        for (arguments, want) in [
            (json!({"a": "us-east", "b": {"c": true}}), vec![header("A", "us-east"), header("C", "true")]),
            (json!({"a": " x"}), vec![header("A", "=?base64?IHg=?=")]),
            (json!({"a": "ü"}), vec![header("A", "=?base64?w7w=?=")]),
            (json!({"a": "=?base64?x?="}), vec![header("A", "=?base64?PT9iYXNlNjQ/eD89?=")]),
            (json!({"a": null, "b": 1}), vec![]),
        ] {
            assert_eq!(headers_of(&params, &arguments), want, "{arguments}");
        }
    }
}
