//! Permission questions, answered by a tool of an MCP server
//! (`--permission-prompt-tool mcp__server__tool`).

use std::time::Duration;

use haft_mcp_client::{Manager, tool_prefix};
use haft_runtime::{Answer, Ask, Question};
use haft_sdk::read_answer;
use haft_tool::BoxFuture;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// How long a server that is still starting is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks a tool.
pub(super) struct AskTool {
    pub(super) manager: Manager,
    /// Its name, as the model would know it.
    pub(super) name: String,
}

impl Ask for AskTool {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let request = Map::from_iter([
            (String::from("tool_name"), json!(question.tool)),
            (String::from("input"), question.input.clone()),
            (String::from("tool_use_id"), json!(question.call_id)),
        ]);
        Box::pin(async move {
            match self.answer(request).await {
                Ok(answer) => read_answer(answer),
                Err(problem) => Answer::no(format!("Tool permission request failed: Error: {problem}")),
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

impl AskTool {
    async fn answer(&self, request: Map<String, Value>) -> Result<Value, String> {
        self.manager.settled(PATIENCE).await;
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
