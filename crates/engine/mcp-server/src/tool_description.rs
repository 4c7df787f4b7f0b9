//! Tool definitions for clients.

use std::{path::Path, sync::Arc};

use haft_tool::{Access, CallContext, DynTool, Exposure, example};
use haft_tool_runtime::Pool;
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::{StructuredResults, portable_schema::portable};

/// Returns the definitions of a pool's tools, in its order.
pub(super) fn tools(pool: &Pool, structured: StructuredResults) -> Vec<Tool> {
    pool.tools().map(|(name, tool)| describe(name, tool, structured)).collect()
}

fn describe(name: &str, tool: &Arc<dyn DynTool>, structured: StructuredResults) -> Tool {
    let spec = tool.spec();
    let mut input_schema = object(&spec.input_schema);
    portable(&mut input_schema);
    let mut listed = Tool::new(name.to_owned(), spec.description.clone(), Arc::new(input_schema));
    if structured != StructuredResults::LeftOut {
        listed.output_schema = output_schema(tool.as_ref()).map(Arc::new);
    }
    listed.annotations = Some(annotations(tool));
    let mut meta = Map::new();
    if let Some(chars) = spec.max_result_chars {
        meta.insert(String::from("anthropic/maxResultSizeChars"), json!(chars));
    }
    if spec.exposure == Exposure::Always {
        meta.insert(String::from("anthropic/alwaysLoad"), json!(true));
    }
    if !meta.is_empty() {
        listed.meta = Some(MetaObject(meta));
    }
    listed
}

/// Returns the output schema of a tool. Legacy clients support only results that are objects, with an
/// explicit type.
fn output_schema(tool: &dyn DynTool) -> Option<JsonObject> {
    let mut schema = object(&tool.output_schema()?);
    let is_object = |it: &Value| it["type"] == "object";
    let arms = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    if !schema.contains_key("type") && arms.is_some_and(|arms| arms.iter().all(is_object)) {
        schema.insert(String::from("type"), json!("object"));
    }
    portable(&mut schema);
    (schema.get("type") == Some(&json!("object"))).then_some(schema)
}

fn object(schema: &Value) -> JsonObject {
    schema.as_object().cloned().unwrap_or_default()
}

/// Returns the tool's annotations; none if it panics when asked.
fn annotations(tool: &Arc<dyn DynTool>) -> ToolAnnotations {
    let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answered(tool)));
    asked.unwrap_or_else(|_| ToolAnnotations::new())
}

/// Derives annotations by asking the tool about many sample inputs: a claim is made only if it holds for
/// all of them. So annotations cannot contradict the tool.
fn answered(tool: &Arc<dyn DynTool>) -> ToolAnnotations {
    let cx = CallContext::detached("annotations", Path::new("/"));
    let inputs = probes(&tool.spec().input_schema);
    let calls: Vec<_> =
        inputs.into_iter().filter_map(|input| Arc::clone(tool).parse(input, &cx).ok()).collect();
    let read_only = !calls.is_empty() && calls.iter().all(|call| call.is_read_only());
    let destructive = calls.iter().any(|call| call.is_destructive());
    let fetches = |it: &Access| matches!(it, Access::Fetch(_) | Access::Command(_));
    let open_world = calls.iter().any(|call| call.reach(&cx).accesses().iter().any(fetches));
    let mut annotations = ToolAnnotations::new().read_only(read_only).open_world(open_world);
    if read_only {
        annotations = annotations.idempotent(true);
    } else if destructive {
        // `false` would promise that nothing is ever overwritten, which is not known.
        annotations = annotations.destructive(true);
    }
    annotations
}

const MAX_PROBES: usize = 64;

/// Texts that tools treat differently: plain text, a destructive command, a path, a URL.
const TEXTS: &[&str] = &["x", "rm -rf x", "/tmp/x", "https://example.com/x"];

/// Returns sample inputs that differ from a minimal one in one parameter each: every constant, both
/// booleans, several texts.
fn probes(schema: &Value) -> Vec<Value> {
    let minimal = example(schema);
    let mut probes = vec![minimal.clone()];
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        for value in variants(property) {
            let mut probe = minimal.clone();
            probe[name] = value;
            probes.push(probe);
        }
    }
    probes.truncate(MAX_PROBES);
    probes
}

fn variants(property: &Value) -> Vec<Value> {
    if let Some(values) = property["enum"].as_array() {
        return values.clone();
    }
    match property["type"].as_str() {
        Some("boolean") => vec![json!(true), json!(false)],
        Some("string") => TEXTS.iter().map(|text| json!(text)).collect(),
        Some("integer" | "number") => vec![json!(1), json!(1000)],
        Some(_) => Vec::new(),
        // Without a type, any value may make a difference.
        None => vec![json!("x"), json!(true), json!(1)],
    }
}
