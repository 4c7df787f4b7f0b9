//! JSON Schemas: derived from types, closed, simplified, and converted to the form that providers
//! accept.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The simplified schema of a type's serialised form; fields that may be omitted are not required. For
/// [`crate::Tool::output_schema`].
pub fn schema_of<T: JsonSchema>() -> Value {
    tidied::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// The simplified schema of what a type can be deserialised from.
fn schema_for_reading<T: JsonSchema>() -> Value {
    tidied::<T>(SchemaSettings::draft2020_12())
}

fn tidied<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|it| it.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    walk(&mut schema, &mut tidy);
    schema
}

/// Schema and description of an input type.
pub(crate) struct InputSchema {
    /// The strict schema for checking input.
    ///
    /// Unknown fields are rejected even without `#[serde(deny_unknown_fields)]`, because a forgotten
    /// attribute must not open the schema.
    pub(crate) checked: Value,
    /// The doc comment of the type.
    pub(crate) doc: String,
}

pub(crate) fn input_schema<T: JsonSchema>() -> InputSchema {
    let mut schema = schema_for_reading::<T>();
    let doc = match schema.as_object_mut().and_then(|root| root.shift_remove("description")) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    if schema.get("type") == Some(&json!("null")) {
        // `()` and unit structs: a tool without parameters.
        schema = json!({"type": "object", "properties": {}});
    }
    close(&mut schema);
    InputSchema { checked: schema, doc }
}

/// The doc comment of a type.
pub(crate) fn doc_of<T: JsonSchema>() -> String {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let schema = T::json_schema(&mut generator);
    schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Sets `additionalProperties: false` on every object with listed properties that does not specify it.
pub fn close(schema: &mut Value) {
    walk(schema, &mut |object| {
        let lists_properties = object.contains_key("properties");
        let says_itself =
            object.contains_key("additionalProperties") || object.contains_key("unevaluatedProperties");
        if !lists_properties || says_itself {
            return;
        }
        let combined = ["allOf", "anyOf", "oneOf"].iter().any(|key| object.contains_key(*key));
        let key = if combined { "unevaluatedProperties" } else { "additionalProperties" };
        object.insert(key.to_owned(), Value::Bool(false));
        if combined {
            open_arms(object);
        }
    });
}

/// Combinators beside `properties` describe the same object, so one arm must not reject properties of
/// another.
fn open_arms(object: &mut Map<String, Value>) {
    for key in ["allOf", "anyOf", "oneOf"] {
        for arm in object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(arm) = arm
                && arm.get("additionalProperties") == Some(&Value::Bool(false))
            {
                arm.remove("additionalProperties");
            }
        }
    }
}

/// Converts a schema to the form that providers accept: an object at the root, without a combinator
/// there. A root union becomes one object with the properties of all arms and their common requirements;
/// calls are still checked against the original.
pub fn wire_form(schema: &Value) -> Value {
    let Value::Object(root) = schema else {
        return json!({"type": "object", "properties": {}});
    };
    let mut merged = flatten(schema, root, /*depth*/ 0);
    for key in
        ["$schema", "$id", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "unevaluatedProperties"]
    {
        merged.remove(key);
    }
    let mut wire = Map::new();
    wire.insert("type".to_owned(), json!("object"));
    merged.remove("type");
    let properties = merged.remove("properties").unwrap_or_else(|| json!({}));
    wire.insert("properties".to_owned(), properties);
    wire.extend(merged);
    if wire.get("required").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        wire.remove("required");
    }
    Value::Object(wire)
}

const MAX_FLATTEN_DEPTH: usize = 16;

/// One object with all properties of `node` and its combinators.
fn flatten(root: &Value, node: &Map<String, Value>, depth: usize) -> Map<String, Value> {
    let mut out = node.clone();
    if MAX_FLATTEN_DEPTH < depth {
        return out;
    }
    if let Some(target) = node.get("$ref").and_then(Value::as_str).and_then(|link| resolve(root, link)) {
        out.remove("$ref");
        merge_all(&mut out, &flatten(root, target, depth + 1));
    }
    for arm in arms(node, "allOf") {
        merge_all(&mut out, &flatten(root, arm, depth + 1));
    }
    for key in ["anyOf", "oneOf"] {
        let arms: Vec<_> = arms(node, key).map(|arm| flatten(root, arm, depth + 1)).collect();
        if !arms.is_empty() {
            merge_any(&mut out, &arms);
        }
    }
    if node.get("unevaluatedProperties") == Some(&Value::Bool(false)) {
        out.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    out
}

fn arms<'a>(node: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Map<String, Value>> {
    node.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// Resolves a reference within the schema.
pub(crate) fn resolve<'a>(root: &'a Value, link: &str) -> Option<&'a Map<String, Value>> {
    root.pointer(link.strip_prefix('#')?)?.as_object()
}

fn merge_all(out: &mut Map<String, Value>, part: &Map<String, Value>) {
    merge_properties(out, part);
    for name in required(part) {
        add_required(out, name);
    }
    for (key, value) in part {
        if !["properties", "required", "type"].contains(&key.as_str()) {
            out.entry(key).or_insert_with(|| value.clone());
        }
    }
}

fn merge_any(out: &mut Map<String, Value>, arms: &[Map<String, Value>]) {
    for arm in arms {
        merge_properties(out, arm);
    }
    if let Some((first, rest)) = arms.split_first() {
        for name in required(first) {
            if rest.iter().all(|arm| required(arm).any(|it| it == name)) {
                add_required(out, name);
            }
        }
    }
    let closed = |arm: &Map<String, Value>| arm.get("additionalProperties") == Some(&Value::Bool(false));
    if arms.iter().all(closed) {
        out.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

fn required(node: &Map<String, Value>) -> impl Iterator<Item = &str> {
    node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn add_required(out: &mut Map<String, Value>, name: &str) {
    let list = out.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(list) = list
        && !list.iter().any(|it| it == name)
    {
        list.push(json!(name));
    }
}

fn merge_properties(out: &mut Map<String, Value>, part: &Map<String, Value>) {
    let Some(Value::Object(from)) = part.get("properties") else { return };
    let into = out.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(into) = into else { return };
    for (name, schema) in from {
        match into.get_mut(name) {
            None => {
                into.insert(name.clone(), schema.clone());
            }
            Some(present) if present != schema => *present = either(present, schema),
            Some(_) => (),
        }
    }
}

/// A schema that accepts either. Two lists of constants are joined: the discriminator of a tagged union.
fn either(a: &Value, b: &Value) -> Value {
    if let (Some(mut values), Some(more)) = (constants(a), constants(b)) {
        values.extend(more.into_iter().filter(|it| !values.contains(it)).collect::<Vec<_>>());
        let mut merged = json!({"enum": values});
        if values_are_strings(&merged) {
            merged = json!({"type": "string", "enum": merged["enum"]});
        }
        return merged;
    }
    let mut arms: Vec<Value> = Vec::new();
    for schema in [a, b] {
        match schema.get("anyOf").and_then(Value::as_array) {
            Some(inner) if schema.as_object().is_some_and(|it| it.len() == 1) => {
                arms.extend(inner.iter().cloned())
            }
            _ => arms.push(schema.clone()),
        }
    }
    arms.dedup();
    json!({"anyOf": arms})
}

fn values_are_strings(schema: &Value) -> bool {
    schema["enum"].as_array().is_some_and(|values| values.iter().all(Value::is_string))
}

/// The values accepted by a `const` or `enum` schema.
pub(crate) fn constants(schema: &Value) -> Option<Vec<Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    }
}

/// Visits every subschema, innermost first.
fn walk(schema: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    let Value::Object(object) = schema else { return };
    for (key, value) in object.iter_mut() {
        match (key.as_str(), value) {
            (
                "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(map),
            ) => {
                map.values_mut().for_each(|it| walk(it, visit));
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(list)) => {
                list.iter_mut().for_each(|it| walk(it, visit));
            }
            (
                "items"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames",
                it,
            ) => walk(it, visit),
            _ => (),
        }
    }
    visit(object);
}

/// Removes what is useless to a model: titles, Rust number formats, the dialect, and `null` for optional
/// parameters.
fn tidy(object: &mut Map<String, Value>) {
    object.remove("$schema");
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = unwrapped(text);
    }
    if object.get("title").is_some_and(Value::is_string) {
        object.remove("title");
    }
    let rust_format = |it: &Value| {
        it.as_str().is_some_and(|it| {
            it.trim_start_matches(['u', 'i', 'n', 't', 'f', 'l', 'o', 'a', 'd', 'b', 'e'])
                .parse::<u8>()
                .is_ok()
                || matches!(it, "uint" | "int" | "float" | "double")
        })
    };
    if object.get("format").is_some_and(rust_format) {
        object.remove("format");
    }
    let required: Vec<String> = required(object).map(str::to_owned).collect();
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            if let Value::Object(property) = property
                && !required.contains(name)
            {
                drop_null(property);
            }
        }
    }
}

/// Joins wrapped source lines; keeps breaks between paragraphs and before list items.
fn unwrapped(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let begins_anew = out.is_empty() || out.ends_with('\n');
        let is_item = line.trim_start().starts_with("- ");
        match (line.trim().is_empty(), begins_anew, is_item) {
            (true, _, _) => {
                while out.ends_with('\n') {
                    out.pop();
                }
                out.push('\n');
            }
            (false, true, _) => out.push_str(line),
            (false, false, true) => out.push_str(&format!("\n{line}")),
            (false, false, false) => out.push_str(&format!(" {}", line.trim_start())),
        }
    }
    out
}

fn drop_null(property: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            property.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|it| !it.is_null());
    }
    if property.get("default").is_some_and(Value::is_null) {
        property.remove("default");
    }
    for key in ["anyOf", "oneOf"] {
        let Some(Value::Array(arms)) = property.get_mut(key) else { continue };
        arms.retain(|arm| arm.get("type") != Some(&json!("null")) && arm.get("const") != Some(&Value::Null));
        if let [Value::Object(only)] = arms.as_slice() {
            let only = only.clone();
            property.remove(key);
            for (key, value) in only {
                property.entry(key).or_insert(value);
            }
        }
    }
}
