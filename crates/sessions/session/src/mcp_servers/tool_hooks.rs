//! Hooks that are MCP tools.

use haft_hooks::{ExternalHandler, ExternalHandlers, HandlerKind, HookCall, HookFailure};
use haft_mcp_client::WeakMcpManager;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// Runs hooks of type `mcp_tool`: calls the tool with the `input` of the definition. Holds a weak
/// reference to the servers.
pub(crate) struct HookTools {
    pub(crate) manager: WeakMcpManager,
}

type Ran<'a> = futures_util::future::BoxFuture<'a, Result<Value, HookFailure>>;

impl ExternalHandlers for HookTools {
    fn run<'a>(&'a self, handler: &'a ExternalHandler, call: &'a HookCall) -> Ran<'a> {
        Box::pin(async move {
            if handler.kind != HandlerKind::McpTool {
                let why = format!("nothing here can run {:?} hooks", handler.kind);
                return Err(HookFailure::NoHandler(why));
            }
            let gone = || HookFailure::NoHandler(String::from("the MCP servers are stopped"));
            let manager = self.manager.upgrade().ok_or_else(gone)?;
            let field = |name: &str| handler.fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let arguments = match handler.fields.get("input").map(|it| filled(it, &call.json)) {
                Some(Value::Object(arguments)) => arguments,
                _ => Map::new(),
            };
            // A caller that times out drops this future, which cancels the call.
            let stop = CancellationToken::new();
            let called = manager.call_for_user(field("server"), field("tool"), arguments, &stop);
            let result = called.await.map_err(|err| HookFailure::Callback(err.to_string()))?;
            let said = texts(&result);
            if result["isError"] == true {
                Err(HookFailure::Callback(haft_types::text::one_line(&said, 300)))
            } else {
                // Parsed like the output of a command hook: as JSON, otherwise as text.
                Ok(Value::String(said))
            }
        })
    }
}

/// The text of a result, or its structured content if there is no text.
fn texts(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let said: Vec<&str> = blocks.filter_map(|it| it["text"].as_str()).collect();
    match (said.is_empty(), result.get("structuredContent").filter(|it| it.is_object())) {
        (true, Some(structured)) => structured.to_string(),
        _ => said.join("\n"),
    }
}

/// Replaces every `${path.to.field}` in the input by that field of the event. A string that consists of
/// one placeholder takes the field's type.
fn filled(input: &Value, event: &Value) -> Value {
    match input {
        Value::String(text) => filled_text(text, event),
        Value::Array(items) => items.iter().map(|it| filled(it, event)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, it)| (name.clone(), filled(it, event))).collect(),
        other => other.clone(),
    }
}

fn filled_text(text: &str, event: &Value) -> Value {
    let whole = text.strip_prefix("${").and_then(|it| it.strip_suffix('}')).filter(|it| !it.contains("${"));
    if let Some(path) = whole {
        return field_at(event, path).cloned().unwrap_or_default();
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((path, after)) = after.split_once('}') else {
            out.push_str("${");
            rest = after;
            break;
        };
        match field_at(event, path) {
            Some(Value::String(text)) => out.push_str(text),
            Some(other) => out.push_str(&other.to_string()),
            None => (),
        }
        rest = after;
    }
    out.push_str(rest);
    Value::String(out)
}

fn field_at<'a>(event: &'a Value, path: &str) -> Option<&'a Value> {
    let step = |value: &'a Value, name: &str| match name.parse::<usize>() {
        Ok(index) if value.is_array() => value.get(index),
        _ => value.get(name),
    };
    path.trim().split('.').try_fold(event, step)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn input_is_filled_from_the_event() {
        let event = json!({"tool_name": "Edit", "tool_input": {"file_path": "/a b", "edits": [{"n": 1}]}});
        for (input, want) in [
            (json!("${tool_name}"), json!("Edit")),
            (json!("${tool_input}"), event["tool_input"].clone()),
            (json!("${tool_input.edits.0.n}"), json!(1)),
            (json!("file ${tool_input.file_path}, ${tool_input.edits.0}"), json!("file /a b, {\"n\":1}")),
            (json!("${nothing.here}"), Value::Null),
            (json!("a${nothing}b ${open"), json!("ab ${open")),
            (json!({"x": ["${tool_name}", 5, true]}), json!({"x": ["Edit", 5, true]})),
        ] {
            assert_eq!(filled(&input, &event), want, "{input}");
        }
    }
}
