//! Reports what the context window contains.

use std::{collections::BTreeMap, sync::Arc};

use haft_model::{Request, ToolSet};
use haft_types::{CallId, Message, MessageBlock, Role, text};
use serde::Serialize;

use crate::Agent;

/// Estimated contents of the next request, in tokens.
#[derive(Clone, Debug, Serialize)]
pub struct WindowUsage {
    /// Name of the model.
    pub model: String,
    /// Size of the context window.
    pub window: u64,
    /// Tokens reserved for the answer.
    pub answer: u64,
    /// Threshold of compaction.
    pub compact_at: u64,
    /// Sum of all parts.
    pub total: u64,
    /// The parts, in the order of the request.
    pub parts: Vec<WindowPart>,
    /// The largest tool results.
    pub largest: Vec<WindowPart>,
    /// Names of deferred tools that were loaded.
    #[serde(skip)]
    pub loaded: Vec<String>,
}

/// A part of a request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct WindowPart {
    pub name: String,
    /// Number of items.
    pub count: usize,
    /// Estimated tokens.
    pub tokens: u64,
}

/// Maximum number of largest results listed.
const LARGEST: usize = 5;

impl Agent {
    /// Estimates what the next request contains.
    pub fn window_fill(&mut self) -> WindowUsage {
        let request = self.request();
        let mut parts = Vec::new();
        for (idx, part) in request.system.iter().enumerate() {
            let alone = Request { system: vec![part.clone()], ..Request::new("", []) };
            let first = part.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let name = if idx == 0 {
                String::from("system prompt")
            } else {
                format!("system: {}", text::one_line(first.trim_start_matches('#').trim(), 40))
            };
            parts.push(WindowPart { name, count: 1, tokens: alone.estimate_tokens() });
        }
        parts.push(tools_part(&request.tools));
        let (said, largest) = conversation_parts(&request.messages);
        parts.extend(said);
        WindowUsage {
            loaded: self.tools.state.loaded.clone(),
            window: self.window(),
            answer: u64::from(request.max_tokens),
            compact_at: self.measure().enough,
            total: self.provider.estimate_tokens(&request),
            model: request.model,
            parts,
            largest,
        }
    }
}

fn tools_part(tools: &Arc<ToolSet>) -> WindowPart {
    let alone = Request { tools: Arc::clone(tools), ..Request::new("", []) };
    WindowPart {
        name: String::from("tools"),
        count: tools.definitions().len(),
        tokens: alone.estimate_tokens(),
    }
}

fn conversation_parts(messages: &[Arc<Message>]) -> (Vec<WindowPart>, Vec<WindowPart>) {
    let mut names: BTreeMap<&CallId, &str> = BTreeMap::new();
    let mut sums: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    let mut largest = Vec::new();
    for (role, block) in messages.iter().flat_map(|it| it.content.iter().map(|block| (it.role, block))) {
        let alone = Request::new("", [Message { role, content: vec![block.clone()] }]);
        let tokens = alone.estimate_tokens();
        let name = match block {
            MessageBlock::ToolUse(call) => {
                names.insert(&call.id, &call.name);
                String::from("calls")
            }
            MessageBlock::ToolResult { tool_use_id, content, .. } => {
                let tool = names.get(tool_use_id).copied().unwrap_or("unknown");
                let first = text::one_line(&content.to_text(), 50);
                largest.push(WindowPart { name: format!("{tool}: {first}"), count: 1, tokens });
                format!("results of {tool}")
            }
            MessageBlock::Thinking { .. } | MessageBlock::RedactedThinking { .. } => String::from("thinking"),
            MessageBlock::Image { .. } | MessageBlock::Document { .. } => {
                String::from("pictures and documents")
            }
            _ if role == Role::User => String::from("what you said"),
            _ => String::from("what the model said"),
        };
        let sum = sums.entry(name).or_default();
        *sum = (sum.0 + 1, sum.1 + tokens);
    }
    let mut parts: Vec<WindowPart> =
        sums.into_iter().map(|(name, (count, tokens))| WindowPart { name, count, tokens }).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
    largest.sort_by_key(|part| std::cmp::Reverse(part.tokens));
    largest.truncate(LARGEST);
    (parts, largest)
}
