//! What fills the context, for hosts and people.

use std::sync::Arc;

use haft_agent::Agent;
use haft_model::{Catalog, Request, SystemPart, ToolDef, ToolSet};
use haft_tool::Exposure;
use haft_types::Message;
use serde_json::{Value, json};

/// A look at an agent that may be working by now.
#[derive(Clone)]
pub(super) struct Snapshot {
    model: String,
    system: Vec<String>,
    memory: Vec<(String, String)>,
    tools: Vec<ToolDef>,
    messages: Vec<Arc<Message>>,
    compact_at_percent: u8,
}

/// A part of the context and its tokens, about.
struct Part {
    id: &'static str,
    name: &'static str,
    tokens: u64,
    kind: &'static str,
}

impl Snapshot {
    pub(super) fn of(agent: &Agent) -> Self {
        let pool = agent.tools.pool.get();
        let loaded = &agent.tools.state.loaded;
        let in_request =
            |name: &str, exposure| exposure != Exposure::Deferred || loaded.iter().any(|it| it == name);
        let tools = pool.tools().filter(|(name, tool)| in_request(name, tool.spec().exposure));
        let define = |(name, tool): (&str, &Arc<dyn haft_tool::DynTool>)| {
            let spec = tool.spec();
            ToolDef::new(name, spec.description.clone(), spec.input_schema.clone())
        };
        let memory = agent.prompt.memory.files.iter();
        let memory: Vec<_> = memory.map(|it| (it.path.display().to_string(), it.text.clone())).collect();
        Self {
            model: agent.settings.model.clone(),
            system: agent.prompt.parts(),
            memory,
            tools: tools.map(define).collect(),
            messages: agent.conversation.messages().to_vec(),
            compact_at_percent: agent.settings.compact_at_percent,
        }
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    fn request(&self) -> Request {
        Request::new(self.model.clone(), [])
    }

    fn tokens_of_tools(&self, is_wanted: impl Fn(&str) -> bool) -> u64 {
        let wanted: Vec<ToolDef> = self.tools.iter().filter(|it| is_wanted(&it.name)).cloned().collect();
        if wanted.is_empty() {
            return 0;
        }
        Request { tools: Arc::new(ToolSet::new(wanted)), ..self.request() }.estimate_tokens()
    }

    fn tokens_of_system(&self) -> u64 {
        let system = self.system.iter().cloned().map(SystemPart::from).collect();
        Request { system, ..self.request() }.estimate_tokens()
    }

    fn tokens_of_text(&self, text: &str) -> u64 {
        Request { system: vec![SystemPart::from(text.to_owned())], ..self.request() }.estimate_tokens()
    }

    fn parts(&self) -> (Vec<Part>, u64, u64) {
        let window = Catalog::built_in().get(&self.model).window;
        let is_mcp = |name: &str| name.starts_with("mcp__");
        let memory: u64 = self.memory.iter().map(|(_, text)| self.tokens_of_text(text)).sum();
        let messages = Request { messages: self.messages.clone(), ..self.request() };
        let used = [
            ("system_prompt", "System prompt", self.tokens_of_system().saturating_sub(memory)),
            ("system_tools", "System tools", self.tokens_of_tools(|name| !is_mcp(name))),
            ("mcp_tools", "MCP tools", self.tokens_of_tools(is_mcp)),
            ("memory_files", "Memory files", memory),
            ("messages", "Messages", if self.messages.is_empty() { 0 } else { messages.estimate_tokens() }),
        ];
        let used = used.into_iter().filter(|(_, _, tokens)| 0 < *tokens);
        let mut parts: Vec<Part> =
            used.map(|(id, name, tokens)| Part { id, name, tokens, kind: "used" }).collect();
        let total: u64 = parts.iter().map(|it| it.tokens).sum();
        let buffer = window - window * u64::from(self.compact_at_percent) / 100;
        let free = window.saturating_sub(total).saturating_sub(buffer);
        parts.push(Part {
            id: "autocompact_buffer",
            name: "Autocompact buffer",
            tokens: buffer,
            kind: "buffer",
        });
        parts.push(Part { id: "free_space", name: "Free space", tokens: free, kind: "free" });
        (parts, total, window)
    }

    /// For `get_context_usage`.
    pub(super) fn json(&self) -> Value {
        let (parts, total, window) = self.parts();
        let categories: Vec<Value> = parts
            .iter()
            .map(|it| {
                let color = if it.kind == "used" { "claude" } else { "inactive" };
                json!({"id": it.id, "name": it.name, "tokens": it.tokens, "color": color, "kind": it.kind})
            })
            .collect();
        let mcp_tools: Vec<Value> = self
            .tools
            .iter()
            .filter(|it| it.name.starts_with("mcp__"))
            .map(|it| {
                let server = it.name.split("__").nth(1).unwrap_or_default();
                json!({"name": it.name, "serverName": server, "tokens": self.tokens_of_tools(|name| name == it.name)})
            })
            .collect();
        let memory: Vec<Value> = self
            .memory
            .iter()
            .map(|(path, text)| json!({"path": path, "type": "Project", "tokens": self.tokens_of_text(text)}))
            .collect();
        json!({
            "categories": categories, "totalTokens": total, "maxTokens": window, "rawMaxTokens": window,
            "percentage": percent(total, window).round(), "gridRows": [], "model": self.model,
            "memoryFiles": memory, "mcpTools": mcp_tools, "agents": [], "isAutoCompactEnabled": true,
            "autoCompactThreshold": window * u64::from(self.compact_at_percent) / 100, "apiUsage": null,
        })
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let (parts, total, window) = self.parts();
        let mut text = format!(
            "## Context Usage\n\n**Model:** {}  \n**Tokens:** {total} / {window} ({:.0}%)\n\n\
             | Category | Tokens | Percentage |\n|---|---|---|",
            self.model,
            percent(total, window)
        );
        for part in &parts {
            let share = percent(part.tokens, window);
            text.push_str(&format!("\n| {} | {} | {share:.1}% |", part.name, part.tokens));
        }
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}
