//! Generates a minimal valid input for a schema.

use serde_json::{Map, Value, json};

use crate::schema::{constants, resolve};

/// The smallest input that the schema accepts, as far as supported keywords tell: required parameters
/// with recognisable placeholder values.
pub fn example(schema: &Value) -> Value {
    let value = make(schema, schema, "", 0);
    if value.is_object() { value } else { json!({}) }
}

/// Maximum depth of an example in which every level has one child.
const MAX_DEPTH: usize = 16;

/// Depth of children with this many siblings; wide schemas get fewer levels, so that examples stay
/// small.
fn deeper(depth: usize, siblings: usize) -> usize {
    depth + 1 + siblings.checked_ilog2().and_then(|it| usize::try_from(it).ok()).unwrap_or(0)
}

fn make(root: &Value, schema: &Value, name: &str, depth: usize) -> Value {
    if MAX_DEPTH < depth {
        return Value::Null;
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|link| resolve(root, link)) {
        return make(root, &Value::Object(target.clone()), name, depth + 1);
    }
    if let Some(value) = constants(schema).and_then(|values| values.into_iter().next()) {
        return value;
    }
    if let Some(value) = schema.pointer("/examples/0").or_else(|| schema.get("default"))
        && !value.is_null()
    {
        return value.clone();
    }
    let mut value = match kind(schema) {
        Some("object") => object(root, schema, depth),
        Some("array") => array(root, schema, name, depth),
        Some("string") => Value::String(string(schema, name)),
        Some("integer") => integer(schema),
        Some("number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        _ => Value::Null,
    };
    for key in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(arms)) = schema.get(key) else { continue };
        let chosen = if key == "allOf" { arms.len() } else { 1 };
        for arm in arms.iter().take(chosen) {
            combine(&mut value, make(root, arm, name, deeper(depth, chosen)));
        }
    }
    value
}

fn combine(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(value), Value::Object(more)) => value.extend(more),
        (value @ Value::Null, more) => *value = more,
        _ => (),
    }
}

fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(ty)) => Some(ty),
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).find(|ty| *ty != "null"),
        _ if schema.get("properties").is_some() => Some("object"),
        _ => None,
    }
}

fn object(root: &Value, schema: &Value, depth: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut out = Map::new();
    for name in required.iter().filter_map(Value::as_str) {
        let property = schema.get("properties").and_then(|it| it.get(name)).unwrap_or(&Value::Null);
        let value = make(root, property, name, deeper(depth, required.len()));
        out.insert(name.to_owned(), if value.is_null() && property.is_null() { json!("…") } else { value });
    }
    Value::Object(out)
}

fn array(root: &Value, schema: &Value, name: &str, depth: usize) -> Value {
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    let wanted = limit("minItems").unwrap_or(0).min(8);
    let fixed = schema.get("prefixItems").and_then(Value::as_array);
    let count = wanted.max(fixed.map_or(0, |it| it.len() as u64));
    let below = deeper(depth, usize::try_from(count).unwrap_or(usize::MAX));
    let item = |idx: u64| {
        let at = usize::try_from(idx).unwrap_or(usize::MAX);
        let schema = fixed.and_then(|it| it.get(at)).or_else(|| schema.get("items"));
        make(root, schema.unwrap_or(&Value::Null), name, below)
    };
    if count == 0 && limit("maxItems") != Some(0) {
        // An empty list may be valid, but some tools treat it as "clear all", so a copied example must
        // not contain it.
        let one = item(0);
        return Value::Array(if holds_null(&one) { Vec::new() } else { vec![one] });
    }
    Value::Array((0..count).map(item).collect())
}

/// Whether part of the example could not be generated.
fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(fields) => fields.values().any(holds_null),
        _ => false,
    }
}

fn string(schema: &Value, name: &str) -> String {
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("uri" | "url") => String::from("https://example.com"),
        Some("date") => String::from("2026-01-31"),
        Some("date-time") => String::from("2026-01-31T12:00:00Z"),
        _ if name.ends_with("path") => String::from("/path/to/file"),
        _ => String::from("…"),
    };
    let length = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
    let at_least = length("minLength").unwrap_or(0).min(200);
    let at_most = length("maxLength").unwrap_or(usize::MAX);
    let missing = at_least.saturating_sub(text.chars().count());
    let padded = text + &"x".repeat(missing);
    padded.chars().take(at_most).collect()
}

fn integer(schema: &Value) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_i64);
    let low = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|it| it + 1));
    let high = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|it| it - 1));
    let step = bound("multipleOf").filter(|it| 0 < *it).unwrap_or(1);
    let value = 1_i64.clamp(low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX).max(low.unwrap_or(i64::MIN)));
    json!((value + step - 1).div_euclid(step) * step)
}
