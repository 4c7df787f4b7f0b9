//! Approver that calls an MCP tool (`--permission-prompt-tool mcp__server__tool`).

use std::{sync::Arc, time::Duration};

use haft_mcp_client::{McpManager, tool_prefix};
use haft_tool::BoxFuture;
use haft_tool_runtime::{Approver, PermissionAnswer, PermissionQuestion};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// Maximum time to wait for the server of the tool to start.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Answers permission questions by calling an MCP tool.
pub(crate) struct McpToolApprover {
    pub(crate) manager: McpManager,
    /// Full name of the tool (`mcp__server__tool`).
    pub(crate) name: String,
}

impl Approver for McpToolApprover {
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        let (manager, name) = (self.manager.clone(), self.name.clone());
        let request = Map::from_iter([
            (String::from("tool_name"), json!(question.tool)),
            (String::from("input"), question.input.clone()),
            (String::from("tool_use_id"), json!(question.call_id)),
        ]);
        Box::pin(async move {
            match answer(&manager, &name, request).await {
                Ok(answer) => read_permission_answer(answer),
                Err(problem) => {
                    PermissionAnswer::unavailable(format!("Tool permission request failed: Error: {problem}"))
                }
            }
        })
    }

    /// The tool's own text, unchanged.
    fn denial_text(&self, _tool: &str, reason: &str) -> String {
        reason.to_owned()
    }
}

/// The name as it is sent to models, with invalid characters replaced.
fn sanitised(name: &str) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    name.chars().map(|it| if fits(it) { it } else { '_' }).collect()
}

/// Calls the tool `name` and returns its answer as JSON.
async fn answer(manager: &McpManager, name: &str, request: Map<String, Value>) -> Result<Value, String> {
    manager.settled(TIMEOUT).await;
    let (server, tool) = find(manager, name)?;
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let result = manager.call_for_user(&server, &tool, request, &stop).await;
    let result = result.map_err(|err| err.to_string())?;
    let blocks = result["content"].as_array().into_iter().flatten();
    let text: String = blocks.filter_map(|it| it["text"].as_str()).collect();
    if result["isError"] == true {
        return Err(text);
    }
    serde_json::from_str(&text).map_err(|err| format!("{name} did not answer with JSON: {err}"))
}

/// Finds the server and tool for a full tool name.
fn find(manager: &McpManager, name: &str) -> Result<(String, String), String> {
    let mut known = Vec::new();
    for server in manager.names() {
        for def in manager.definitions(&server) {
            let found = tool_prefix(&server) + &def.name;
            if sanitised(&found) == sanitised(name) {
                return Ok((server, def.name.clone()));
            }
            known.push(found);
        }
    }
    let known = if known.is_empty() { String::from("none") } else { known.join(", ") };
    Err(format!(
        "MCP tool {name} (passed via --permission-prompt-tool) not found. Available MCP tools: {known}"
    ))
}

/// Parses the answer to a permission question (`{"behavior": "allow" | "deny", …}`). An answer with an
/// invalid part is a denial.
pub fn read_permission_answer(mut answer: Value) -> PermissionAnswer {
    let invalid = |what: &str| {
        PermissionAnswer::deny(format!(
            "The canUseTool callback returned an invalid permission result: {what}"
        ))
    };
    match answer["behavior"].as_str() {
        Some("allow") => {
            let updated_input = match answer["updatedInput"].take() {
                Value::Null => None,
                // Some hosts send an empty object to leave the input unchanged.
                Value::Object(input) if input.is_empty() => None,
                input @ Value::Object(_) => Some(input),
                _ => return invalid("updatedInput is not an object"),
            };
            let updates = match answer["updatedPermissions"].take() {
                Value::Null => Vec::new(),
                updates => match serde_json::from_value(updates) {
                    Ok(updates) => updates,
                    Err(err) => return invalid(&format!("updatedPermissions: {err}")),
                },
            };
            PermissionAnswer::Allow { updated_input, updates }
        }
        Some("deny") => denial(
            answer["message"].as_str().unwrap_or("the user said no"),
            answer["interrupt"].as_bool().unwrap_or(false),
        ),
        _ => invalid("`behavior` is neither allow nor deny"),
    }
}

fn denial(message: &str, interrupt: bool) -> PermissionAnswer {
    let message = if interrupt {
        format!("The user doesn't want to proceed with this tool use: {message}")
    } else {
        message.to_owned()
    };
    PermissionAnswer::Deny { message, interrupt }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let check = |answer: Value, allowed: bool| {
            let read = read_permission_answer(answer.clone());
            assert_eq!(matches!(read, PermissionAnswer::Allow { .. }), allowed, "{answer} {read:?}");
        };
        check(json!({"behavior": "allow"}), true);
        check(json!({"behavior": "allow", "updatedInput": null, "updatedPermissions": []}), true);
        check(json!({"behavior": "allow", "updatedInput": {"a": 1}, "toolUseID": "t", "new": 1}), true);
        check(
            json!({"behavior": "allow", "updatedPermissions": [
                {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": null}],
                 "behavior": "allow", "destination": "session"},
                {"type": "setMode", "mode": "acceptEdits", "destination": "session"}]}),
            true,
        );
        for no in [
            json!(null),
            json!({}),
            json!("allow"),
            json!([]),
            json!({"behavior": "Allow"}),
            json!({"behavior": true}),
            json!({"behavior": "allow", "updatedInput": "x"}),
            json!({"behavior": "allow", "updatedPermissions": [{"type": "nonsense"}]}),
            json!({"behavior": "deny"}),
        ] {
            check(no, false);
        }
    }
}
