//! Checks a user-written schema: a misspelt type would otherwise accept everything or nothing.

use serde_json::{Map, Value};

const TYPES: [&str; 7] = ["string", "number", "integer", "object", "array", "boolean", "null"];

/// Keywords whose value is a schema.
const SCHEMA: [&str; 10] = [
    "items",
    "additionalProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const SCHEMAS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is a non-negative number.
const COUNTS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
/// Keywords whose value is a number.
const NUMBERS: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];

/// Maximum nesting of a schema; deeper ones are treated as an attack.
const MAX_DEPTH: usize = 64;

/// The first problem of a schema with its JSON pointer; `None` if it is valid.
pub fn schema_problem(schema: &Value) -> Option<String> {
    let problem = problem_in(schema, schema, &mut String::from("#"), 0)?;
    Some(format!("the schema cannot be used: {problem}"))
}

fn problem_in(root: &Value, schema: &Value, at: &mut String, depth: usize) -> Option<String> {
    let fields = match schema {
        Value::Bool(_) => return None,
        Value::Object(fields) => fields,
        other => return Some(format!("{at} is {other}, not a schema")),
    };
    if MAX_DEPTH < depth {
        return Some(format!("{at} is nested more than {MAX_DEPTH} deep"));
    }
    type_problem(fields, at).or_else(|| value_problem(root, fields, at)).or_else(|| {
        inner_schemas(fields).find_map(|(place, inner)| match inner {
            Ok(inner) => {
                let length = at.len();
                at.push_str(&place);
                let problem = problem_in(root, inner, at, depth + 1);
                at.truncate(length);
                problem
            }
            Err(wanted) => Some(format!("{at}{place} must be {wanted}")),
        })
    })
}

fn type_problem(fields: &Map<String, Value>, at: &str) -> Option<String> {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match fields.get("type")? {
        Value::Array(types) if !types.is_empty() && types.iter().all(is_type) => None,
        one if is_type(one) => None,
        other => Some(format!("{at}/type is {other}; it must be one of {}", TYPES.join(", "))),
    }
}

/// Problems of keywords whose value is not a schema.
fn value_problem(root: &Value, fields: &Map<String, Value>, at: &str) -> Option<String> {
    let is_text = |value: &Value| value.is_string();
    let wrong = |name: &str, wanted: &str| Some(format!("{at}/{name} must be {wanted}"));
    for (name, value) in fields {
        let wanted = match name.as_str() {
            "required" if !value.as_array().is_some_and(|it| it.iter().all(is_text)) => "a list of names",
            "enum" if !value.is_array() => "a list of values",
            "pattern" if !value.is_string() => "a regular expression",
            name if COUNTS.contains(&name) && value.as_u64().is_none() => {
                "a whole number that is not negative"
            }
            name if NUMBERS.contains(&name) && !value.is_number() => "a number",
            "$ref" => match value.as_str() {
                None => "a text",
                Some(target) if !resolves(root, target) => "a reference to a part of this schema (#/…)",
                Some(_) => continue,
            },
            _ => continue,
        };
        return wrong(name, wanted);
    }
    None
}

fn resolves(root: &Value, target: &str) -> bool {
    target.strip_prefix('#').is_some_and(|pointer| root.pointer(pointer).is_some())
}

type InnerSchema<'a> = (String, Result<&'a Value, &'static str>);

fn inner_schemas(fields: &Map<String, Value>) -> impl Iterator<Item = InnerSchema<'_>> {
    fields.iter().flat_map(|(name, value)| -> Vec<InnerSchema<'_>> {
        let place = format!("/{name}");
        match (name.as_str(), value) {
            (name, value) if SCHEMA.contains(&name) => vec![(place, Ok(value))],
            (name, Value::Array(all)) if SCHEMAS.contains(&name) => {
                all.iter().enumerate().map(|(idx, inner)| (format!("{place}/{idx}"), Ok(inner))).collect()
            }
            (name, _) if SCHEMAS.contains(&name) => vec![(place, Err("a list of schemas"))],
            (name, Value::Object(all)) if NAMED.contains(&name) => {
                all.iter().map(|(key, inner)| (format!("{place}/{key}"), Ok(inner))).collect()
            }
            (name, _) if NAMED.contains(&name) => vec![(place, Err("an object of schemas"))],
            _ => Vec::new(),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schema_problem_names_misspelt_keywords() {
        for (schema, want) in [
            (
                json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}),
                None,
            ),
            (json!({"$defs": {"x": true}, "properties": {"a": {"$ref": "#/$defs/x"}}}), None),
            (json!({"type": "nope"}), Some("#/type is \"nope\"")),
            (json!({"properties": {"a": {"type": "strin"}}}), Some("#/properties/a/type")),
            (json!({"properties": []}), Some("#/properties must be an object of schemas")),
            (json!({"items": {"anyOf": [{"type": 3}]}}), Some("#/items/anyOf/0/type is 3")),
            (json!({"required": "a"}), Some("#/required must be a list of names")),
            (json!({"properties": {"a": "string"}}), Some("#/properties/a is \"string\", not a schema")),
            (json!({"$ref": "#/$defs/gone"}), Some("#/$ref must be a reference")),
            (json!({"minLength": -1}), Some("#/minLength must be a whole number")),
            (json!([1]), Some("# is [1], not a schema")),
        ] {
            let problem = schema_problem(&schema);
            match want {
                None => assert_eq!(problem, None, "{schema}"),
                Some(want) => {
                    assert!(problem.as_deref().is_some_and(|it| it.contains(want)), "{schema}: {problem:?}");
                }
            }
        }
    }
}
