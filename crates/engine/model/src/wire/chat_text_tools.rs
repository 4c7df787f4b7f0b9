//! Tool calls for servers without tool support: the system prompt describes the tools, calls and results
//! are sent as text, and the decoder searches the answer for calls.
//!
//! **Invariant:** the added text depends only on the tools, so that the bytes of a session's prefix do
//! not change.

use haft_types::{Message, MessageBlock, Role};
use serde_json::{Value, json};

use super::{
    messages_content::WireMedia,
    openai::{data_url, split_result},
};
use crate::lint::Linted;

/// Instructions on how to write calls, for the model.
const HOW: &str = "# Tools\n\n\
You can call the tools below. To call one, write exactly this and nothing after it, one block for each call:\n\n\
<tool_call>\n{\"name\": \"TOOL\", \"arguments\": {…}}\n</tool_call>\n\n\
The arguments are a JSON object that follows the tool's schema. Never put a call into a code block. \
Then stop: the results come back between <tool_response> and </tool_response>. Never write a result yourself. \
When you have what you need, answer without a call.\n\n\
Tools, one JSON object per line:\n";

/// Returns the system prompt with the tools appended.
pub(crate) fn system(linted: &Linted, system: &str) -> String {
    let tools = linted.sent_tools();
    if tools.is_empty() {
        return system.to_owned();
    }
    let mut out = system.to_owned();
    if !out.is_empty() {
        out.push_str("\n\n");
    }
    out.push_str(HOW);
    for tool in tools {
        let line = json!({
            "name": tool.wire_name, "description": tool.def.description, "parameters": tool.schema,
        });
        out.push_str(&line.to_string());
        out.push('\n');
    }
    out
}

/// Converts a message with calls and results to plain text content.
pub(crate) fn message(message: &Message, media: &mut WireMedia) -> Value {
    match message.role {
        Role::Assistant => {
            let texts = message.content.iter().filter_map(|block| match block {
                MessageBlock::Text { text } => Some(text.clone()),
                MessageBlock::ToolUse(call) => {
                    let call = json!({"name": call.name, "arguments": call.input});
                    Some(format!("<tool_call>\n{call}\n</tool_call>"))
                }
                _ => None,
            });
            json!({"role": "assistant", "content": texts.collect::<Vec<_>>().join("\n")})
        }
        Role::User => user(message, media),
    }
}

fn user(message: &Message, media: &mut WireMedia) -> Value {
    let mut texts: Vec<String> = Vec::new();
    let mut pictures = Vec::new();
    for block in &message.content {
        match block {
            MessageBlock::ToolResult { content, is_error, .. } => {
                let (text, rest) = split_result(&content.0, *is_error, media);
                texts.push(format!("<tool_response>\n{text}\n</tool_response>"));
                pictures.extend(rest.into_iter().filter_map(|block| match block {
                    haft_types::Block::Image { source } => Some(data_url(source)),
                    _ => None,
                }));
            }
            MessageBlock::Text { text } => texts.push(text.clone()),
            MessageBlock::Image { source } => {
                media.add(source, true);
                pictures.push(data_url(source));
            }
            _ => {}
        }
    }
    let text = texts.join("\n\n");
    if pictures.is_empty() {
        return json!({"role": "user", "content": text});
    }
    let mut parts = vec![json!({"type": "text", "text": text})];
    parts.extend(pictures.into_iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}})));
    json!({"role": "user", "content": parts})
}
