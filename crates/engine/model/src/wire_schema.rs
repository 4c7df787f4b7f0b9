//! Input schemas that every provider accepts.
//!
//! The schema on the wire only informs the model; calls are validated against the original schema
//! elsewhere. So a keyword that providers reject is dropped with a note, while a schema whose root is
//! not an object is an error.

use serde_json::{Map, Value, json};

/// Maximum nesting depth; deeper schemas are rejected.
const MAX_DEPTH: usize = 64;
const TYPES: [&str; 7] = ["string", "number", "integer", "object", "array", "boolean", "null"];
/// Keywords that providers reject at the root.
const ROOT_ONLY: [&str; 7] = ["not", "enum", "const", "if", "then", "else", "dependentSchemas"];
/// Keywords that compose schemas.
const COMBINED: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];

/// A schema that providers accept.
#[derive(Clone, Debug, PartialEq)]
pub struct WireSchema {
    /// The schema as the provider takes it.
    pub schema: Value,
    /// What was changed, one short line each.
    pub notes: Vec<String>,
}

/// Converts a schema to the form sent on the wire. Returns the reason if that is impossible.
pub fn wire_schema(schema: &Value) -> Result<WireSchema, String> {
    let mut notes = Vec::new();
    let any_object;
    let root = match schema {
        Value::Null | Value::Bool(true) => {
            notes.push("no schema: any object is taken".to_owned());
            any_object = json!({"type": "object", "properties": {}});
            &any_object
        }
        Value::Object(_) => schema,
        other => return Err(format!("the schema is {}, not an object", kind_of(other))),
    };
    let merged = merge_root(root, root, &mut notes, 0)?;
    let Value::Object(mut fields) = merged else { return Err("the schema is not an object".to_owned()) };
    root_type(&mut fields, &mut notes)?;
    for key in ROOT_ONLY {
        if fields.shift_remove(key).is_some() {
            notes.push(format!("{key}: left out at the root"));
        }
    }
    let mut schema = Value::Object(fields);
    clean(&mut schema, "", &mut notes, 0)?;
    property_names(&schema)?;
    Ok(WireSchema { schema, notes })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn root_type(fields: &mut Map<String, Value>, notes: &mut Vec<String>) -> Result<(), String> {
    match fields.get("type") {
        Some(Value::String(kind)) if kind == "object" => return Ok(()),
        None => notes.push("type: object was missing at the root".to_owned()),
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "object") => {
            notes.push("type: the root is always an object".to_owned());
        }
        Some(other) => return Err(format!("type: the root is {other}, not \"object\"")),
    }
    fields.insert("type".to_owned(), json!("object"));
    Ok(())
}

/// Resolves a local `$ref` and merges unions at the root into a single object schema.
fn merge_root(root: &Value, here: &Value, notes: &mut Vec<String>, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("$ref: goes in circles at the root".to_owned());
    }
    let Value::Object(fields) = here else { return Ok(here.clone()) };
    let mut fields = fields.clone();
    if !COMBINED.iter().any(|key| fields.contains_key(*key)) {
        return Ok(Value::Object(fields));
    }
    if let Some(Value::String(target)) = fields.shift_remove("$ref") {
        let found = pointed(root, &target).ok_or_else(|| format!("$ref: {target} is not in the schema"))?;
        notes.push(format!("$ref: {target} was put in place"));
        let merged = merge_root(root, found, notes, depth + 1)?;
        return Ok(join(&Value::Object(fields), &merged, SchemaJoin::All));
    }
    let mut base = fields;
    for key in ["allOf", "anyOf", "oneOf"] {
        let Some(arms) = base.shift_remove(key) else { continue };
        let arms = object_arms(root, key, &arms, notes, depth)?;
        let how = if key == "allOf" { SchemaJoin::All } else { SchemaJoin::Any };
        let mut joined =
            arms.iter().skip(1).fold(arms.first().cloned(), |sum, arm| sum.map(|sum| join(&sum, arm, how)));
        if let Some(joined) = joined.take() {
            let Value::Object(both) = join(&Value::Object(base), &joined, SchemaJoin::All) else {
                return Err(format!("{key}: cannot be merged"));
            };
            base = both;
        }
        notes.push(format!("{key}: merged into one object at the root"));
    }
    Ok(Value::Object(base))
}

fn object_arms(
    root: &Value,
    key: &str,
    arms: &Value,
    notes: &mut Vec<String>,
    depth: usize,
) -> Result<Vec<Value>, String> {
    let Value::Array(arms) = arms else { return Err(format!("{key}: is {}, not a list", kind_of(arms))) };
    let mut out = Vec::new();
    for arm in arms {
        let arm = merge_root(root, arm, notes, depth + 1)?;
        match (&arm, &arm["type"]) {
            (Value::Bool(true), _) => {}
            (_, Value::String(kind)) if kind == "null" => {}
            (Value::Object(_), Value::Null) => out.push(arm),
            (Value::Object(_), Value::String(kind)) if kind == "object" => out.push(arm),
            _ => return Err(format!("{key}: an arm is {}, not an object", arm["type"])),
        }
    }
    Ok(out)
}

/// How two object schemas are merged.
#[derive(Clone, Copy, PartialEq)]
enum SchemaJoin {
    /// `allOf`: both apply.
    All,
    /// `anyOf`/`oneOf`: one of them applies.
    Any,
}

fn join(left: &Value, right: &Value, how: SchemaJoin) -> Value {
    let (Value::Object(left), Value::Object(right)) = (left, right) else { return left.clone() };
    let mut out = left.clone();
    for (key, value) in right {
        match (key.as_str(), left.get(key)) {
            ("properties" | "$defs" | "definitions", Some(Value::Object(mine))) => {
                out.insert(key.clone(), join_properties(mine, value, how));
            }
            ("required", _) => {}
            // If one branch allows additional properties, the union does.
            ("additionalProperties", mine) if how == SchemaJoin::Any && mine != Some(value) => {
                out.shift_remove(key);
            }
            (_, Some(_)) => {}
            (_, None) => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    if how == SchemaJoin::Any && !right.contains_key("additionalProperties") {
        out.shift_remove("additionalProperties");
    }
    let required = join_required(left.get("required"), right.get("required"), how);
    out.shift_remove("required");
    if !required.is_empty() {
        out.insert("required".to_owned(), json!(required));
    }
    Value::Object(out)
}

fn join_properties(mine: &Map<String, Value>, theirs: &Value, how: SchemaJoin) -> Value {
    let mut out = mine.clone();
    for (name, schema) in theirs.as_object().into_iter().flatten() {
        match mine.get(name) {
            None => {
                out.insert(name.clone(), schema.clone());
            }
            Some(same) if same == schema => {}
            Some(other) => {
                let key = if how == SchemaJoin::All { "allOf" } else { "anyOf" };
                let mut arms = match other.get(key) {
                    Some(Value::Array(arms)) => arms.clone(),
                    _ => vec![other.clone()],
                };
                if !arms.contains(schema) {
                    arms.push(schema.clone());
                }
                out.insert(name.clone(), json!({key: arms}));
            }
        }
    }
    Value::Object(out)
}

fn join_required(left: Option<&Value>, right: Option<&Value>, how: SchemaJoin) -> Vec<String> {
    let names = |list: Option<&Value>| -> Vec<String> {
        let list = list.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (mut both, right) = (names(left), names(right));
    match how {
        SchemaJoin::Any => both.retain(|name| right.contains(name)),
        SchemaJoin::All => {
            for name in right {
                if !both.contains(&name) {
                    both.push(name);
                }
            }
        }
    }
    both
}

/// Resolves a local `$ref`.
fn pointed<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    root.pointer(target.strip_prefix('#')?)
}

/// Removes keywords whose values violate the JSON Schema draft.
fn clean(schema: &mut Value, path: &str, notes: &mut Vec<String>, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("{path}: nested too deeply"));
    }
    let fields = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(fields) => fields,
        other => {
            notes.push(format!("{path}: {} is no schema; anything is taken", kind_of(other)));
            *other = json!({});
            return Ok(());
        }
    };
    if let Some(kind) = fields.get_mut("type") {
        match known_type(kind) {
            Some(fixed) if fixed == *kind => {}
            Some(fixed) => {
                notes.push(format!("{path}/type: {kind} is written {fixed}"));
                *kind = fixed;
            }
            None => {
                notes.push(format!("{path}/type: {kind} is unknown and left out"));
                fields.shift_remove("type");
            }
        }
    }
    let wrong: Vec<String> =
        fields.iter().filter(|(key, value)| !keyword_fits(key, value)).map(|(key, _)| key.clone()).collect();
    for key in wrong {
        notes.push(format!("{path}/{key}: has the wrong form and is left out"));
        fields.shift_remove(&key);
    }
    for (key, value) in fields.iter_mut() {
        let path = format!("{path}/{key}");
        match key.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                for (name, inner) in value.as_object_mut().into_iter().flatten() {
                    clean(inner, &format!("{path}/{name}"), notes, depth + 1)?;
                }
            }
            "items"
            | "additionalProperties"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames" => {
                clean(value, &path, notes, depth + 1)?;
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                for inner in value.as_array_mut().into_iter().flatten() {
                    clean(inner, &path, notes, depth + 1)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the `type` keyword in the draft's spelling.
fn known_type(kind: &Value) -> Option<Value> {
    let one = |name: &str| -> Option<&'static str> {
        let lower = name.to_ascii_lowercase();
        let meant = match lower.as_str() {
            "int" | "int32" | "int64" | "long" | "uint" => "integer",
            "float" | "double" | "decimal" => "number",
            "str" | "text" => "string",
            "bool" => "boolean",
            "list" | "tuple" => "array",
            "dict" | "map" => "object",
            "none" => "null",
            other => other,
        };
        TYPES.into_iter().find(|known| *known == meant)
    };
    match kind {
        Value::String(name) => one(name).map(|name| json!(name)),
        Value::Array(names) => {
            let known: Vec<&str> = names.iter().filter_map(Value::as_str).filter_map(one).collect();
            (!known.is_empty()).then(|| json!(known))
        }
        _ => None,
    }
}

fn keyword_fits(key: &str, value: &Value) -> bool {
    match key {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            value.is_object()
        }
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => value.as_array().is_some_and(|arms| !arms.is_empty()),
        "required" => value.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
        "enum" | "examples" => value.is_array(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => value.is_number(),
        "title" | "description" | "pattern" | "format" | "$schema" | "$id" | "$comment" => value.is_string(),
        // Providers do not fetch remote references.
        "$ref" => value.as_str().is_some_and(|target| target.starts_with('#')),
        _ => true,
    }
}

fn property_names(schema: &Value) -> Result<(), String> {
    let fits = |name: &str| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name);
    match names.into_iter().find(|name| !fits(name)) {
        Some(name) => Err(format!(
            "properties: {name:?} is not a name providers take (letters, digits, _ . -, at most 64)"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: Value, want: Result<Value, &str>) {
        match (wire_schema(&schema), want) {
            (Ok(got), Ok(want)) => {
                assert_eq!(got.schema, want, "{:?}", got.notes);
                assert_eq!(got.notes.is_empty(), got.schema == schema, "{:?}", got.notes);
            }
            (Err(got), Err(want)) => assert!(got.contains(want), "{got}"),
            (got, want) => panic!("{got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn schema_becomes_object_schema_or_error() {
        let plain = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        check(plain.clone(), Ok(plain.clone()));
        check(Value::Null, Ok(json!({"type": "object", "properties": {}})));
        check(json!({"properties": {"a": true}}), Ok(json!({"properties": {"a": true}, "type": "object"})));
        check(json!({"type": "string"}), Err("type: the root is \"string\""));
        check(json!([]), Err("a list"));
        check(
            json!({"type": "object", "properties": {"n": {"type": "int"}, "x": {"type": "weird"}, "y": 7}}),
            Ok(json!({"type": "object", "properties": {"n": {"type": "integer"}, "x": {}, "y": {}}})),
        );
        check(
            json!({"anyOf": [
                {"type": "object", "properties": {"a": {"type": "string"}, "k": {"type": "string"}}, "required": ["a", "k"]},
                {"type": "object", "properties": {"b": {"type": "string"}, "k": {"type": "integer"}}, "required": ["b", "k"]},
            ]}),
            Ok(json!({"type": "object", "properties": {
                "a": {"type": "string"}, "k": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "b": {"type": "string"},
            }, "required": ["k"]})),
        );
        check(
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                   "allOf": [{"required": ["b"], "properties": {"b": {"type": "integer"}}}],
                   "if": {"required": ["b"]}, "then": {"required": ["c"]}}),
            Ok(json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                      "required": ["a", "b"]})),
        );
        check(json!({"anyOf": [{"type": "string"}, {"type": "object"}]}), Err("anyOf: an arm is \"string\""));
        check(
            json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
                   "properties": {"next": {"$ref": "#/$defs/node"}}}}}),
            Ok(
                json!({"$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
                      "type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}),
            ),
        );
        check(json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}), Err("circles"));
        check(json!({"$ref": "https://x/y"}), Err("not in the schema"));
        check(json!({"type": "object", "properties": {"a b": {}}}), Err("a b"));
        check(
            json!({"type": "object", "properties": {"a": {"type": "number", "exclusiveMinimum": true}}}),
            Ok(json!({"type": "object", "properties": {"a": {"type": "number"}}})),
        );
    }
}
