//! Repairs the schemas of remote tools where their meaning is clear.

use serde_json::{Map, Value, json};

use super::{schema_size::can_be_followed, visible_text::is_visible};
use crate::client::MAX_SCHEMA_BYTES as MAX_BYTES;

/// Maximum nesting depth.
const MAX_DEPTH: usize = 48;

/// Returns a schema that calls can be validated against and that providers accept, with a list of
/// repairs; or why that is impossible.
pub(super) fn usable(schema: &Value) -> Result<(Value, Vec<String>), String> {
    let size = schema.to_string().len();
    if MAX_BYTES < size {
        return Err(format!("inputSchema: it is {} KiB large; {} are allowed", size >> 10, MAX_BYTES >> 10));
    }
    can_be_followed(schema)?;
    let mut repairs = Vec::new();
    let mut usable = schema.clone();
    SchemaRepair { root: schema, notes: &mut repairs }.node(&mut usable, 0)?;
    if let Some(SchemaRefusal { keyword, wants }) = refuses_objects(schema, &usable, 0) {
        return Err(format!("{keyword}: its arguments are not an object but {wants}"));
    }
    if let Value::Object(root) = &mut usable {
        root.entry("type").or_insert_with(|| json!("object"));
    }
    repairs.sort();
    repairs.dedup();
    Ok((usable, repairs))
}

/// Whether a result schema is valid. Result schemas are not repaired, because only programs use them.
pub(super) fn is_sound(schema: &Value) -> bool {
    let (mut notes, mut copy) = (Vec::new(), schema.clone());
    can_be_followed(schema).is_ok()
        && SchemaRepair { root: schema, notes: &mut notes }.node(&mut copy, 0).is_ok()
        && notes.is_empty()
}

/// A schema that rejects objects as arguments.
struct SchemaRefusal {
    keyword: &'static str,
    /// The type it requires instead.
    wants: String,
}

/// Returns the type a schema requires if it rejects objects.
fn refuses_objects(root: &Value, schema: &Value, depth: usize) -> Option<SchemaRefusal> {
    if MAX_DEPTH < depth {
        return None;
    }
    if let Some(target) = schema["$ref"].as_str().and_then(|link| local(root, link)) {
        return refuses_objects(root, target, depth + 1);
    }
    match &schema["type"] {
        Value::String(kind) if kind != "object" => {
            return Some(SchemaRefusal { keyword: "type", wants: format!("`{kind}`") });
        }
        Value::Array(kinds) if !kinds.iter().any(|it| it == "object") => {
            return Some(SchemaRefusal { keyword: "type", wants: format!("one of {}", schema["type"]) });
        }
        _ => (),
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let arms = schema[keyword].as_array().map(Vec::as_slice).unwrap_or_default();
        let refusals = arms.iter().filter_map(|arm| refuses_objects(root, arm, depth + 1));
        let wants: Vec<String> = refusals.map(|it| it.wants).collect();
        // With `allOf` one rejecting part is enough; with alternatives all must reject.
        let refused = if keyword == "allOf" { !wants.is_empty() } else { wants.len() == arms.len() };
        if !arms.is_empty() && refused {
            return Some(SchemaRefusal { keyword, wants: wants.join(", ") });
        }
    }
    None
}

fn local<'a>(root: &'a Value, link: &str) -> Option<&'a Value> {
    root.pointer(link.strip_prefix('#')?)
}

/// Whether a value is valid for a keyword.
type Fits = fn(&Value) -> bool;

struct SchemaRepair<'a> {
    root: &'a Value,
    notes: &'a mut Vec<String>,
}

impl SchemaRepair<'_> {
    fn node(&mut self, schema: &mut Value, depth: usize) -> Result<(), String> {
        if MAX_DEPTH < depth {
            return Err(format!("inputSchema: it is nested deeper than {MAX_DEPTH} levels"));
        }
        match schema {
            Value::Bool(true) => *schema = json!({}),
            Value::Bool(false) => *schema = json!({"not": {}}),
            Value::Object(node) => {
                hide_invisible(node);
                self.keywords(node);
                self.children(node, depth)?;
            }
            other => {
                self.note(format!("`{other}` stood where a schema belongs"));
                *other = json!({});
            }
        }
        Ok(())
    }

    fn note(&mut self, text: String) {
        self.notes.push(haft_types::text::one_line(&text, 120));
    }

    fn keywords(&mut self, node: &mut Map<String, Value>) {
        self.types(node);
        self.reference(node);
        self.old_drafts(node);
        let wrong: &[(&str, Fits)] = &[
            ("properties", Value::is_object),
            ("patternProperties", Value::is_object),
            ("$defs", Value::is_object),
            ("definitions", Value::is_object),
            ("enum", |it| it.as_array().is_some_and(|it| !it.is_empty())),
            ("anyOf", |it| it.as_array().is_some_and(|it| !it.is_empty())),
            ("oneOf", |it| it.as_array().is_some_and(|it| !it.is_empty())),
            ("allOf", |it| it.as_array().is_some_and(|it| !it.is_empty())),
            ("required", |it| it.as_array().is_some_and(|it| it.iter().all(Value::is_string))),
            ("description", Value::is_string),
        ];
        for (key, fits) in wrong {
            if node.get(*key).is_some_and(|value| !fits(value)) {
                self.note(format!("`{key}` had a wrong value and is ignored"));
                node.remove(*key);
            }
        }
    }

    /// Replaces type names of other languages by those of JSON Schema.
    fn types(&mut self, node: &mut Map<String, Value>) {
        let Some(kind) = node.get_mut("type") else { return };
        let before = kind.clone();
        let known = match kind {
            Value::String(name) => match type_name(name) {
                Some(right) => {
                    *kind = json!(right);
                    true
                }
                None => false,
            },
            Value::Array(names) => {
                let right: Vec<Value> =
                    names.iter().filter_map(|it| type_name(it.as_str()?).map(|it| json!(it))).collect();
                let complete = right.len() == names.len() && !right.is_empty();
                *names = right;
                complete
            }
            _ => false,
        };
        if !known {
            node.remove("type");
        }
        if node.get("type") != Some(&before) {
            self.note(format!("`\"type\": {before}` is not a JSON type"));
        }
    }

    /// Removes references that do not point inside the same schema.
    fn reference(&mut self, node: &mut Map<String, Value>) {
        let Some(link) = node.get("$ref") else { return };
        let leads = link.as_str().is_some_and(|it| local(self.root, it).is_some());
        if !leads {
            self.note(format!("`$ref` {link} leads nowhere"));
            node.remove("$ref");
        }
    }

    /// Converts keywords of earlier JSON Schema drafts.
    fn old_drafts(&mut self, node: &mut Map<String, Value>) {
        if node.get("items").is_some_and(Value::is_array)
            && let Some(items) = node.remove("items")
        {
            node.insert(String::from("prefixItems"), items);
        }
        for (exclusive, plain) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            match node.get(exclusive) {
                Some(Value::Bool(true)) => match node.remove(plain) {
                    Some(bound) => node.insert(exclusive.to_owned(), bound),
                    None => node.remove(exclusive),
                },
                Some(Value::Bool(false)) => node.remove(exclusive),
                _ => None,
            };
        }
    }

    fn children(&mut self, node: &mut Map<String, Value>, depth: usize) -> Result<(), String> {
        for (key, value) in node.iter_mut() {
            match (key.as_str(), value) {
                (
                    "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                    Value::Object(map),
                ) => map.values_mut().try_for_each(|it| self.node(it, depth + 1))?,
                ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
                    list.iter_mut().try_for_each(|it| self.node(it, depth + 1))?;
                }
                ("items" | "not" | "if" | "then" | "else" | "contains" | "propertyNames", it) => {
                    self.node(it, depth + 1)?;
                }
                ("additionalProperties" | "unevaluatedProperties", it) if !it.is_boolean() => {
                    self.node(it, depth + 1)?;
                }
                _ => (),
            }
        }
        Ok(())
    }
}

/// Removes invisible characters from texts that the model reads.
fn hide_invisible(node: &mut Map<String, Value>) {
    for key in ["title", "description", "$comment"] {
        if let Some(Value::String(said)) = node.get_mut(key)
            && !said.chars().all(is_visible)
        {
            said.retain(is_visible);
        }
    }
}

fn type_name(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "string" | "str" | "text" | "date" | "datetime" | "uuid" => "string",
        "integer" | "int" | "int32" | "int64" | "long" => "integer",
        "number" | "float" | "double" | "decimal" => "number",
        "boolean" | "bool" => "boolean",
        "array" | "list" | "tuple" | "set" => "array",
        "object" | "dict" | "map" | "record" | "struct" => "object",
        "null" | "none" | "nil" => "null",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_repaired_or_rejected() {
        let property = |schema: Value| json!({"type": "object", "properties": {"p": schema}});
        for (schema, want) in [
            (json!({"type": "object"}), Ok((json!({"type": "object"}), 0))),
            (json!({}), Ok((json!({"type": "object"}), 0))),
            (property(json!({"type": "int"})), Ok((property(json!({"type": "integer"})), 1))),
            (property(json!({"type": "file"})), Ok((property(json!({})), 1))),
            (property(json!(true)), Ok((property(json!({})), 0))),
            (property(json!("string")), Ok((property(json!({})), 1))),
            (property(json!({"$ref": "https://example.com/x"})), Ok((property(json!({})), 1))),
            (
                property(json!({"items": [{"type": "str"}]})),
                Ok((property(json!({"prefixItems": [{"type": "string"}]})), 1)),
            ),
            (
                property(json!({"minimum": 3, "exclusiveMinimum": true})),
                Ok((property(json!({"exclusiveMinimum": 3})), 0)),
            ),
            (property(json!({"required": true, "enum": []})), Ok((property(json!({})), 2))),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}}}}),
                Ok((
                    json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}}}, "type": "object"}),
                    0,
                )),
            ),
            (
                json!({"anyOf": [{"type": "object"}, {"type": "string"}]}),
                Ok((json!({"anyOf": [{"type": "object"}, {"type": "string"}], "type": "object"}), 0)),
            ),
            (json!({"type": "string"}), Err("type: its arguments are not an object but `string`")),
            (
                json!({"anyOf": [{"type": "string"}, {"type": "array"}]}),
                Err("anyOf: its arguments are not an object but `string`, `array`"),
            ),
            (json!({"allOf": [{"type": "object"}, {"type": "array"}]}), Err("allOf: ")),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}), Err("`array`")),
        ] {
            match (usable(&schema), want) {
                (Ok((got, repairs)), Ok((want, count))) => {
                    assert_eq!(got, want);
                    assert_eq!(repairs.len(), count, "{schema}: {repairs:?}");
                }
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
                (got, want) => panic!("{schema}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn exponential_schemas_are_rejected() {
        let mut deep = json!({"type": "object"});
        for _ in 0..100 {
            deep = json!({"type": "object", "properties": {"p": deep}});
        }
        assert!(usable(&deep).is_err());
        assert!(usable(&json!({"type": "object", "description": "x".repeat(1 << 20)})).is_err());
        let circular = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
        assert!(usable(&circular).is_err());
        // A recursive tree is not an endless loop: each level is at a deeper position of the input.
        let tree = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["next"],
            "properties": {"next": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}}}});
        assert!(usable(&tree).is_ok());
        // Small as text, exponential when expanded.
        let twice = |key: &str| {
            let arms = |n: usize| json!({key: [{"$ref": format!("#/$defs/a{}", n + 1)}, {"$ref": format!("#/$defs/a{}", n + 1)}]});
            let mut defs: Map<String, Value> = (0..60).map(|n| (format!("a{n}"), arms(n))).collect();
            defs.insert(String::from("a60"), json!({"type": "object"}));
            json!({"$ref": "#/$defs/a0", "$defs": defs})
        };
        for key in ["anyOf", "allOf", "oneOf"] {
            assert!(usable(&twice(key)).is_err_and(|it| it.contains("references")), "{key}");
        }
    }
}
