//! Validates input schemas: the service's rules, and JSON Schema draft 2020-12.

use serde_json::Value;

use super::{RuleVerdict, refuse};

const TYPES: [&str; 7] = ["string", "number", "integer", "object", "array", "boolean", "null"];

/// Validates the schema of a tool's input.
pub(super) fn check(path: &str, schema: &Value) -> RuleVerdict {
    let Some(fields) = schema.as_object() else {
        return refuse(path, "Input should be a valid dictionary");
    };
    if ["oneOf", "allOf", "anyOf"].iter().any(|key| fields.contains_key(*key)) {
        return refuse(path, "input_schema does not support oneOf, allOf, or anyOf at the top level");
    }
    match fields.get("type") {
        None => return refuse(&format!("{path}.type"), "Field required"),
        Some(kind) if kind != "object" => {
            return refuse(&format!("{path}.type"), "Input should be 'object'");
        }
        Some(_) => {}
    }
    if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
        let fits = |key: &String| {
            (1..=64).contains(&key.len())
                && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
        };
        if !properties.keys().all(fits) {
            let what = "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'";
            return refuse(&format!("{path}.properties"), what);
        }
    }
    if !is_valid(schema) {
        let what = "JSON schema is invalid. It must match JSON Schema draft 2020-12.";
        return refuse(path, what);
    }
    Ok(())
}

/// Whether a value is a valid schema.
fn is_valid(schema: &Value) -> bool {
    let fields = match schema {
        Value::Bool(_) => return true,
        Value::Object(fields) => fields,
        _ => return false,
    };
    fields.iter().all(|(key, value)| match key.as_str() {
        "type" => match value {
            Value::String(name) => TYPES.contains(&name.as_str()),
            Value::Array(names) => {
                !names.is_empty()
                    && names.iter().all(|name| name.as_str().is_some_and(|it| TYPES.contains(&it)))
            }
            _ => false,
        },
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            value.as_object().is_some_and(|fields| fields.values().all(is_valid))
        }
        "items" | "additionalProperties" | "not" | "if" | "then" | "else" | "contains" | "propertyNames" => {
            is_valid(value)
        }
        "oneOf" | "anyOf" | "allOf" | "prefixItems" => {
            value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is_valid))
        }
        "required" => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        "enum" => value.is_array(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => value.is_number(),
        "title" | "description" | "pattern" | "format" | "$ref" | "$schema" => value.is_string(),
        _ => true,
    })
}
