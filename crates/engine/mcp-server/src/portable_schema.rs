//! Rewrites schemas in a form that all clients understand.
//!
//! A bare `true` and a list of types are valid JSON Schema, but programs that convert schemas to a
//! simpler model often fail on both. The meaning stays the same.

use serde_json::{Map, Value, json};

/// Keywords that contain a schema, a list of schemas, or schemas by name.
const SINGLE: [&str; 6] = ["items", "not", "if", "then", "else", "contains"];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const NAMED: [&str; 4] = ["properties", "$defs", "definitions", "patternProperties"];

/// Annotation keywords, which do not constrain values.
const WORDS: [&str; 7] =
    ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// Rewrites a schema.
pub(super) fn portable(schema: &mut Map<String, Value>) {
    for key in SINGLE {
        schema.get_mut(key).into_iter().for_each(node);
    }
    for key in LISTS {
        schema.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().for_each(node);
    }
    for key in NAMED {
        schema.get_mut(key).and_then(Value::as_object_mut).into_iter().for_each(|it| {
            it.values_mut().for_each(node);
        });
    }
    if let Some(rest) = schema.get_mut("additionalProperties").filter(|it| it.is_object()) {
        node(rest);
    }
    split_types(schema);
}

fn node(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = anything(&Map::new()),
        Value::Object(fields) if fields.keys().all(|it| WORDS.contains(&it.as_str())) => {
            *schema = anything(fields);
        }
        Value::Object(fields) => portable(fields),
        _ => (),
    }
}

/// Returns an `anyOf` of all types.
fn anything(words: &Map<String, Value>) -> Value {
    let mut schema = words.clone();
    let kinds = json!([
        {"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}, {"type": "array"},
        {"type": "object", "additionalProperties": true},
    ]);
    schema.insert(String::from("anyOf"), kinds);
    Value::Object(schema)
}

/// Rewrites `"type": ["a", "b"]` as `anyOf`.
fn split_types(schema: &mut Map<String, Value>) {
    let Some(Value::Array(kinds)) = schema.get("type").filter(|_| !schema.contains_key("anyOf")) else {
        return;
    };
    let kinds = kinds.clone();
    let mut said = Map::new();
    for word in WORDS {
        if let Some(value) = schema.shift_remove(word) {
            said.insert(word.to_owned(), value);
        }
    }
    let arm = |kind: &Value| {
        if kind == "null" {
            return json!({"type": "null"});
        }
        let mut arm = schema.clone();
        arm.insert(String::from("type"), kind.clone());
        Value::Object(arm)
    };
    let arms: Vec<Value> = kinds.iter().map(arm).collect();
    said.insert(String::from("anyOf"), Value::Array(arms));
    *schema = said;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_schema_keeps_meaning() {
        let any = || anything(&Map::new());
        for (schema, want) in [
            (
                json!({"type": "object", "properties": {"a": true}}),
                json!({"type": "object", "properties": {"a": any()}}),
            ),
            (
                json!({"properties": {"a": {"description": "d"}}}),
                json!({"properties": {"a": anything(json!({"description": "d"}).as_object().unwrap_or(&Map::new()))}}),
            ),
            (
                json!({"items": {"type": ["string", "null"], "description": "d", "minLength": 1}}),
                json!({"items": {"description": "d", "anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}}),
            ),
            (
                json!({"oneOf": [{"properties": {"a": {"items": true}}}], "additionalProperties": true}),
                json!({"oneOf": [{"properties": {"a": {"items": any()}}}], "additionalProperties": true}),
            ),
            (
                json!({"type": "object", "not": {"type": "string"}}),
                json!({"type": "object", "not": {"type": "string"}}),
            ),
        ] {
            let mut portable_schema = schema.as_object().cloned().unwrap_or_default();
            portable(&mut portable_schema);
            assert_eq!(Value::Object(portable_schema), want, "{schema}");
        }
    }
}
