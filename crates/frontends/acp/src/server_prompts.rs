//! Prompts of MCP servers as slash commands; reported when their server is connected and when they
//! change.

use haft_mcp_client::{McpManager, PromptCommand, ServerEvent};
use serde_json::{Value, json};
use tokio::{
    sync::{broadcast::error::RecvError, mpsc},
    task::JoinHandle,
};

/// Watches the MCP servers of a session.
pub(crate) struct ServerPrompts {
    news: mpsc::UnboundedReceiver<Vec<Value>>,
    task: JoinHandle<()>,
}

impl Drop for ServerPrompts {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ServerPrompts {
    pub(crate) fn watch(servers: &McpManager) -> Self {
        let (sender, news) = mpsc::unbounded_channel();
        let servers = servers.clone();
        let mut events = servers.events();
        let task = tokio::spawn(async move {
            let mut known: Vec<Value> = Vec::new();
            loop {
                let now: Vec<Value> = servers.prompt_commands().await.iter().map(command).collect();
                if now != known {
                    known.clone_from(&now);
                    if sender.send(now).is_err() {
                        return;
                    }
                }
                // Other events of servers do not affect prompts.
                loop {
                    match events.recv().await {
                        Err(RecvError::Closed) => return,
                        Ok(ServerEvent::State { .. } | ServerEvent::Lists { .. })
                        | Err(RecvError::Lagged(_)) => break,
                        Ok(_) => (),
                    }
                }
            }
        });
        Self { news, task }
    }

    /// Waits until the prompts have changed and returns all of them.
    pub(crate) async fn next(&mut self) -> Vec<Value> {
        match self.news.recv().await {
            Some(commands) => commands,
            None => std::future::pending().await,
        }
    }
}

fn command(it: &PromptCommand) -> Value {
    let about = it.prompt.description.clone().unwrap_or_else(|| format!("A prompt of {}", it.server));
    let mut command = json!({"name": it.command, "description": about});
    let hint: Vec<String> = it.prompt.arguments.iter().map(|it| format!("[{}]", it.name)).collect();
    if !hint.is_empty() {
        command["input"] = json!({"hint": hint.join(" ")});
    }
    command
}
