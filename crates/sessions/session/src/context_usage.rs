//! Context usage of an agent.

use std::{path::PathBuf, sync::Arc};

use haft_agent::Agent;
use haft_model::{Catalog, Request, SystemPart, ToolDef, ToolSet};
use haft_tool::{DynTool, Exposure};
use haft_types::Message;

/// Snapshot of an agent's context usage. Token counts are estimated when requested.
#[derive(Clone, Default)]
pub struct ContextUsage {
    /// Name of the model.
    pub model: String,
    /// Size of the context window in tokens.
    pub window: u64,
    /// Share of the window, in percent, at which the conversation is compacted.
    pub compact_at_percent: u8,
    system: Vec<String>,
    memory: Vec<(PathBuf, String)>,
    tools: Vec<(String, Arc<dyn DynTool>)>,
    messages: Vec<Arc<Message>>,
}

/// A part of the context.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ContextPart {
    /// Identifier for programs.
    pub id: &'static str,
    /// Label for users.
    pub name: &'static str,
    /// Estimated tokens.
    pub tokens: u64,
    /// `used`, `buffer` or `free`.
    pub share: &'static str,
}

impl ContextUsage {
    pub(crate) fn measure(agent: &Agent, catalog: &Catalog) -> Self {
        let pool = agent.tools.pool.get();
        let loaded = &agent.tools.state.loaded;
        let in_request =
            |name: &str, exposure| exposure != Exposure::Deferred || loaded.iter().any(|it| it == name);
        let tools = pool.tools().filter(|(name, tool)| in_request(name, tool.exposure()));
        let memory = agent.prompt.memory.files.iter().map(|it| (it.path.clone(), it.text.clone()));
        Self {
            window: catalog.get(&agent.settings.model).window,
            model: agent.settings.model.clone(),
            compact_at_percent: agent.settings.compact_at_percent,
            system: agent.prompt.parts(),
            memory: memory.collect(),
            tools: tools.map(|(name, tool)| (name.to_owned(), Arc::clone(tool))).collect(),
            messages: agent.conversation.messages().to_vec(),
        }
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.messages.iter().map(|it| Message::clone(it)).collect()
    }

    fn request(&self) -> Request {
        Request::new(self.model.clone(), [])
    }

    fn tokens_of_tools(&self, is_wanted: impl Fn(&str) -> bool) -> u64 {
        let wanted = self.tools.iter().filter(|(name, _)| is_wanted(name)).map(|(name, tool)| {
            let spec = tool.spec();
            ToolDef::new(name, spec.description.clone(), Arc::clone(&spec.input_schema))
        });
        let wanted: Vec<ToolDef> = wanted.collect();
        if wanted.is_empty() {
            return 0;
        }
        Request { tools: Arc::new(ToolSet::new(wanted)), ..self.request() }.estimate_tokens()
    }

    fn tokens_of_text(&self, text: &str) -> u64 {
        Request { system: vec![SystemPart::from(text.to_owned())], ..self.request() }.estimate_tokens()
    }

    /// Memory files and their tokens.
    pub fn memory(&self) -> Vec<(PathBuf, u64)> {
        self.memory.iter().map(|(path, text)| (path.clone(), self.tokens_of_text(text))).collect()
    }

    /// MCP tools in the request, and their tokens.
    pub fn mcp_tools(&self) -> Vec<(String, u64)> {
        let tools = self.tools.iter().map(|(name, _)| name).filter(|name| is_mcp(name));
        tools.map(|tool| (tool.clone(), self.tokens_of_tools(|name| name == tool))).collect()
    }

    /// The parts, and the number of used tokens.
    pub fn parts(&self) -> (Vec<ContextPart>, u64) {
        let memory: u64 = self.memory().iter().map(|(_, tokens)| tokens).sum();
        let system = self.system.iter().cloned().map(SystemPart::from).collect();
        let system = Request { system, ..self.request() }.estimate_tokens();
        let messages = Request { messages: self.messages.clone(), ..self.request() };
        let used = [
            ("system_prompt", "System prompt", system.saturating_sub(memory)),
            ("system_tools", "System tools", self.tokens_of_tools(|name| !is_mcp(name))),
            ("mcp_tools", "MCP tools", self.tokens_of_tools(is_mcp)),
            ("memory_files", "Memory files", memory),
            ("messages", "Messages", if self.messages.is_empty() { 0 } else { messages.estimate_tokens() }),
        ];
        let part = |(id, name, tokens), share| ContextPart { id, name, tokens, share };
        let used = used.into_iter().filter(|(_, _, tokens)| 0 < *tokens);
        let mut parts: Vec<ContextPart> = used.map(|it| part(it, "used")).collect();
        let total: u64 = parts.iter().map(|it| it.tokens).sum();
        let buffer = self.window - self.window * u64::from(self.compact_at_percent) / 100;
        let free = self.window.saturating_sub(total).saturating_sub(buffer);
        parts.push(part(("autocompact_buffer", "Autocompact buffer", buffer), "buffer"));
        parts.push(part(("free_space", "Free space", free), "free"));
        (parts, total)
    }

    /// The usage as a text for users.
    pub fn text(&self) -> String {
        let (parts, total) = self.parts();
        let window = self.window;
        let mut text = format!(
            "## Context Usage\n\n**Model:** {}  \n**Tokens:** {total} / {window} ({:.0}%)\n\n\
             | Category | Tokens | Percentage |\n|---|---|---|",
            self.model,
            self.percent(total)
        );
        for part in &parts {
            let share = self.percent(part.tokens);
            text.push_str(&format!("\n| {} | {} | {share:.1}% |", part.name, part.tokens));
        }
        text
    }

    /// A number of tokens as a percentage of the window.
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn percent(&self, tokens: u64) -> f64 {
        100.0 * tokens as f64 / self.window.max(1) as f64
    }
}

fn is_mcp(name: &str) -> bool {
    name.starts_with("mcp__")
}
