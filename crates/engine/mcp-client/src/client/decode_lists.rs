//! Decodes the lists of servers item by item: an invalid item is skipped with a reason and does not
//! affect the others.

use std::collections::HashSet;

use haft_types::text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// A tool definition of a server, normalised.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedTool {
    /// The server's name of the tool.
    pub name: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The server's description.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The server's claims about the tool.
    #[serde(default)]
    pub annotations: Annotations,
    /// The `_meta` field.
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
    /// Repairs made to the definition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
}

/// A server's claims about a tool; `None` if it makes none.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Annotations {
    /// The tool is read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it twice has the same effect as calling it once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool accesses things outside the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl Annotations {
    fn from_value(value: &Value) -> Self {
        let hint = |name: &str| match &value[name] {
            Value::Bool(hint) => Some(*hint),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        Self {
            read_only_hint: hint("readOnlyHint"),
            destructive_hint: hint("destructiveHint"),
            idempotent_hint: hint("idempotentHint"),
            open_world_hint: hint("openWorldHint"),
        }
    }

    /// Whether a call may be repeated after its connection broke.
    pub fn may_be_repeated(&self) -> bool {
        self.read_only_hint == Some(true) || self.idempotent_hint == Some(true)
    }
}

/// An item of a list that cannot be used.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SkippedOffer {
    /// Its name, or its position in the list.
    pub name: String,
    /// Why it cannot be used.
    pub reason: String,
}

impl OfferedTool {
    /// Returns a hash of name, description, schemas and claims. Acceptance by the user is bound to it.
    pub fn fingerprint(&self) -> String {
        let content = serde_json::json!([
            self.name,
            self.title,
            self.description,
            self.input_schema,
            self.output_schema,
            self.annotations,
        ]);
        haft_types::text::hex(&Sha256::digest(content.to_string()))
    }

    /// Returns a boolean field of `_meta`; false if missing.
    pub fn meta_flag(&self, name: &str) -> bool {
        self.meta.get(name) == Some(&Value::Bool(true))
    }
}

/// Returns the usable tools of a list, and the problems of the others.
pub(crate) fn tools(items: Vec<Value>) -> (Vec<OfferedTool>, Vec<SkippedOffer>) {
    let mut seen = HashSet::new();
    let (mut tools, mut skipped) = (Vec::new(), Vec::new());
    for (index, item) in items.into_iter().enumerate() {
        let name = item["name"].as_str().map(str::to_owned);
        match tool(item) {
            Ok(tool) if seen.insert(tool.name.clone()) => tools.push(tool),
            Ok(tool) => skipped.push(SkippedOffer {
                name: tool.name,
                reason: String::from("name: the server lists it twice; the first one counts"),
            }),
            Err(reason) => {
                let name = name.filter(|it| !it.is_empty()).unwrap_or_else(|| format!("#{}", index + 1));
                skipped.push(SkippedOffer { name: text::one_line(&name, 80), reason });
            }
        }
    }
    (tools, skipped)
}

/// Maximum characters of a name; the protocol suggests 128.
const MAX_NAME_CHARS: usize = 512;

/// Maximum characters kept of a description.
const MAX_KEPT_CHARS: usize = 16 << 10;

/// Maximum bytes of a schema.
pub(crate) const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Maximum bytes of `_meta`; more is dropped.
const MAX_META_BYTES: usize = 64 << 10;

fn tool(item: Value) -> Result<OfferedTool, String> {
    let Value::Object(mut item) = item else { return Err(String::from("it is not an object")) };
    let name = match item.remove("name") {
        Some(Value::String(name)) if !name.trim().is_empty() => name,
        _ => return Err(String::from("name: it has none")),
    };
    if MAX_NAME_CHARS < name.chars().count() {
        return Err(format!("name: it is longer than {MAX_NAME_CHARS} characters"));
    }
    let mut repairs = Vec::new();
    let input_schema = match item.remove("inputSchema").or_else(|| item.remove("input_schema")) {
        Some(Value::Object(schema)) => Value::Object(schema),
        // A schema as a JSON string is accepted.
        Some(Value::String(text)) if serde_json::from_str::<Map<_, _>>(&text).is_ok() => {
            repairs.push(String::from("inputSchema: it was given as text"));
            serde_json::from_str(&text).unwrap_or_default()
        }
        None | Some(Value::Null | Value::Bool(true)) => {
            repairs.push(String::from("inputSchema: it is missing; any object is accepted"));
            serde_json::json!({"type": "object"})
        }
        Some(other) => {
            let shown = text::one_line(&other.to_string(), 60);
            return Err(format!("inputSchema: `{shown}` is not a schema"));
        }
    };
    let size = input_schema.to_string().len();
    if MAX_SCHEMA_BYTES < size {
        let most = MAX_SCHEMA_BYTES >> 10;
        return Err(format!("inputSchema: it is {} KiB large; {most} are allowed", size >> 10));
    }
    let mut output_schema = item.remove("outputSchema").filter(|it| !it.is_null());
    if output_schema.as_ref().is_some_and(|it| !it.is_object()) {
        repairs.push(String::from("outputSchema: it is not a schema and is ignored"));
    } else if output_schema.as_ref().is_some_and(|it| MAX_SCHEMA_BYTES < it.to_string().len()) {
        repairs.push(String::from("outputSchema: it is too large and is ignored"));
        output_schema = None;
    }
    let annotations = item.remove("annotations").unwrap_or_default();
    let string = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let title = string(item.get("title")).or_else(|| string(annotations.get("title")));
    let meta = match item.remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    let meta = if MAX_META_BYTES < Value::from(meta.clone()).to_string().len() { Map::new() } else { meta };
    let description = string(item.get("description")).unwrap_or_default();
    Ok(OfferedTool {
        name,
        title: title.map(|it| text::one_line(&it, 200)),
        description: text::head(&description, MAX_KEPT_CHARS).to_owned(),
        input_schema,
        output_schema: output_schema.filter(Value::is_object),
        annotations: Annotations::from_value(&annotations),
        meta,
        repairs,
    })
}

/// A resource of a server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDef {
    pub uri: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// A URI template of a server's resources.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// RFC 6570 template.
    pub uri_template: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A prompt of a server, usable as a slash command.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PromptDef {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Arguments, in the order in which a slash command fills them.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PromptArgument {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub required: bool,
}

const MAX_DESCRIPTION_CHARS: usize = 2048;

fn bounded(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    Some(haft_types::text::head(text, MAX_DESCRIPTION_CHARS).to_owned())
}

pub(crate) fn resource(item: &Value) -> Option<ResourceDef> {
    let uri = item["uri"].as_str().filter(|it| !it.is_empty())?.to_owned();
    Some(ResourceDef {
        name: item["name"].as_str().unwrap_or(&uri).to_owned(),
        mime_type: item["mimeType"].as_str().map(str::to_owned),
        description: bounded(&item["description"]),
        size: item["size"].as_u64(),
        uri,
    })
}

pub(crate) fn template(item: &Value) -> Option<ResourceTemplate> {
    let uri_template = item["uriTemplate"].as_str().filter(|it| !it.is_empty())?.to_owned();
    Some(ResourceTemplate {
        name: item["name"].as_str().unwrap_or(&uri_template).to_owned(),
        mime_type: item["mimeType"].as_str().map(str::to_owned),
        description: bounded(&item["description"]),
        uri_template,
    })
}

pub(crate) fn prompt(item: &Value) -> Option<PromptDef> {
    let argument = |item: &Value| {
        Some(PromptArgument {
            name: item["name"].as_str().filter(|it| !it.is_empty())?.to_owned(),
            description: bounded(&item["description"]),
            required: item["required"].as_bool().unwrap_or(false),
        })
    };
    Some(PromptDef {
        name: item["name"].as_str().filter(|it| !it.is_empty())?.to_owned(),
        description: bounded(&item["description"]),
        arguments: item["arguments"].as_array().into_iter().flatten().filter_map(argument).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_tool_definition_does_not_affect_others() {
        let (good, skipped) = tools(vec![
            json!({"name": "a", "inputSchema": {"type": "object"}, "unknown": 1, "icons": "x"}),
            json!({"name": "null", "inputSchema": null}),
            json!({"name": "text", "inputSchema": "{\"type\":\"object\"}"}),
            json!({"name": "wrong", "inputSchema": [1]}),
            json!({"inputSchema": {}}),
            json!("tool"),
            json!({"name": "a"}),
            json!({"name": "claims", "annotations": {"readOnlyHint": "true", "destructiveHint": 3, "title": "T"}}),
            json!({"name": "out", "outputSchema": "x", "description": 7, "_meta": []}),
        ]);
        let names: Vec<&str> = good.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a", "null", "text", "claims", "out"]);
        assert_eq!(good[1].input_schema, json!({"type": "object"}));
        assert_eq!(good[3].annotations.read_only_hint, Some(true));
        assert_eq!(good[3].annotations.destructive_hint, None);
        assert_eq!(good[3].title.as_deref(), Some("T"));
        let names: Vec<&str> = skipped.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["wrong", "#5", "#6", "a"]);
    }

    #[test]
    fn definition_hash_covers_everything_accepted() {
        let (tools, _) =
            tools(vec![json!({"name": "a", "description": "x"}), json!({"name": "b", "description": "y"})]);
        let mut changed = tools[0].clone();
        assert_eq!(tools[0].fingerprint(), changed.fingerprint());
        changed.description.push('!');
        assert_ne!(tools[0].fingerprint(), changed.fingerprint());
        assert_ne!(tools[0].fingerprint(), tools[1].fingerprint());
    }
}
