//! Describes schemas and values for a model.

use haft_types::text;
use serde_json::Value;

use crate::schema::constants;

/// What a schema expects, as part of a sentence: "an integer", "one of …".
pub(super) fn expected(schema: &Value) -> String {
    if let Some(values) = constants(schema) {
        return match values.as_slice() {
            [only] => only.to_string(),
            many => format!("one of {}", list(many.iter().map(Value::to_string))),
        };
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(arms)) = schema.get(key) {
            let mut words: Vec<String> = arms.iter().map(expected).collect();
            words.dedup();
            return words.join(" or ");
        }
    }
    let types = types(schema);
    if types.is_empty() {
        return String::from("a value");
    }
    let words: Vec<String> = types.iter().map(|ty| type_words(ty, schema)).collect();
    words.join(" or ")
}

fn type_words(ty: &str, schema: &Value) -> String {
    match ty {
        "array" => match schema.get("items") {
            Some(items) if !types(items).is_empty() || constants(items).is_some() => {
                format!("an array, each item {}", expected(items))
            }
            _ => String::from("an array"),
        },
        "object" => String::from("an object"),
        "integer" => format!("an integer{}", range(schema)),
        "number" => format!("a number{}", range(schema)),
        "string" => String::from("a string"),
        "boolean" => String::from("true or false"),
        "null" => String::from("null"),
        other => other.to_owned(),
    }
}

fn range(schema: &Value) -> String {
    let bound = |key: &str| schema.get(key).filter(|it| it.is_number()).map(Value::to_string);
    match (bound("minimum"), bound("maximum")) {
        (Some(low), Some(high)) => format!(" from {low} to {high}"),
        (Some(low), None) => format!(" of at least {low}"),
        (None, Some(high)) => format!(" of at most {high}"),
        (None, None) => String::new(),
    }
}

/// What was given, as part of a sentence: `string "two"`.
pub(super) fn describe_actual(value: &Value) -> String {
    let shown = value.to_string();
    let short = text::one_line(&shown, 60);
    match value {
        Value::Null => short,
        Value::Bool(_) => format!("boolean {short}"),
        Value::Number(_) => format!("number {short}"),
        Value::String(_) => format!("string {short}"),
        Value::Array(_) => format!("array {short}"),
        Value::Object(_) => format!("object {short}"),
    }
}

/// A few names, then the number of others.
pub(super) fn list(names: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 12;
    let names: Vec<String> = names.collect();
    let mut text = names[..names.len().min(SHOWN)].join(", ");
    if SHOWN < names.len() {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// The `type` keyword as a list.
pub(super) fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(ty)) => vec![ty],
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
