//! Permission questions, answered by a tool of an MCP server
//! (`--permission-prompt-tool mcp__server__tool`).

use std::time::Duration;

use haft_mcp_client::{McpManager, tool_prefix};
use haft_tool::BoxFuture;
use haft_tool_runtime::{Answer, Approver, Question};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// How long a server that is still starting is waited for.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Asks a tool.
pub(crate) struct McpToolApprover {
    pub(crate) manager: McpManager,
    /// Its name, as the model would know it.
    pub(crate) name: String,
}

impl Approver for McpToolApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let request = Map::from_iter([
            (String::from("tool_name"), json!(question.tool)),
            (String::from("input"), question.input.clone()),
            (String::from("tool_use_id"), json!(question.call_id)),
        ]);
        Box::pin(async move {
            match self.answer(request).await {
                Ok(answer) => read_permission_answer(answer),
                Err(problem) => Answer::unasked(format!("Tool permission request failed: Error: {problem}")),
            }
        })
    }

    /// The tool's own words.
    fn refusal(&self, _tool: &str, reason: &str) -> String {
        reason.to_owned()
    }
}

/// A name as the wire spells it.
fn sanitised(name: &str) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    name.chars().map(|it| if fits(it) { it } else { '_' }).collect()
}

impl McpToolApprover {
    async fn answer(&self, request: Map<String, Value>) -> Result<Value, String> {
        self.manager.settled(TIMEOUT).await;
        let (server, tool) = self.find()?;
        let stop = CancellationToken::new();
        let _guard = stop.clone().drop_guard();
        let result = self.manager.call_for_user(&server, &tool, request, &stop).await;
        let result = result.map_err(|err| err.to_string())?;
        let blocks = result["content"].as_array().into_iter().flatten();
        let text: String = blocks.filter_map(|it| it["text"].as_str()).collect();
        if result["isError"] == true {
            return Err(text);
        }
        serde_json::from_str(&text).map_err(|err| format!("{} did not answer with JSON: {err}", self.name))
    }

    /// The server and the tool of this name.
    fn find(&self) -> Result<(String, String), String> {
        let mut known = Vec::new();
        for server in self.manager.names() {
            for def in self.manager.definitions(&server) {
                let name = tool_prefix(&server) + &def.name;
                if sanitised(&name) == sanitised(&self.name) {
                    return Ok((server, def.name.clone()));
                }
                known.push(name);
            }
        }
        let known = if known.is_empty() { String::from("none") } else { known.join(", ") };
        Err(format!(
            "MCP tool {} (passed via --permission-prompt-tool) not found. Available MCP tools: {known}",
            self.name
        ))
    }
}

/// What a program's answer to a permission question says
/// (`{"behavior": "allow" | "deny", …}`). One that cannot be understood in every
/// part is no yes.
pub fn read_permission_answer(mut answer: Value) -> Answer {
    let invalid = |what: &str| {
        Answer::no(format!("The canUseTool callback returned an invalid permission result: {what}"))
    };
    match answer["behavior"].as_str() {
        Some("allow") => {
            let updated_input = match answer["updatedInput"].take() {
                Value::Null => None,
                // Hosts that change nothing may say so with nothing in it.
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
            Answer::Allow { updated_input, updates }
        }
        Some("deny") => denial(
            answer["message"].as_str().unwrap_or("the user said no"),
            answer["interrupt"].as_bool().unwrap_or(false),
        ),
        _ => invalid("`behavior` is neither allow nor deny"),
    }
}

fn denial(message: &str, interrupt: bool) -> Answer {
    let message = if interrupt {
        format!("The user doesn't want to proceed with this tool use: {message}")
    } else {
        message.to_owned()
    };
    Answer::Deny { message, interrupt }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let check = |answer: Value, allowed: bool| {
            let read = read_permission_answer(answer.clone());
            assert_eq!(matches!(read, Answer::Allow { .. }), allowed, "{answer} {read:?}");
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
