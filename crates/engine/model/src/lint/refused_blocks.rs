//! Blocks that the provider rejected although the linter's rules allow them. They are replaced by text
//! in this and all later requests.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use haft_types::{Block, Content, Message, MessageBlock, ToolUse};
use serde_json::json;

/// Reason of the rejection, by content hash of the block.
pub(crate) type RefusedBlocks = HashMap<u64, String>;

/// Hashes a block's content.
pub(crate) fn fingerprint(block: &impl serde::Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(block).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn replace(messages: &mut [Arc<Message>], refused: &RefusedBlocks) {
    if refused.is_empty() {
        return;
    }
    for message in messages {
        if message.content.iter().any(|block| is_refused(block, refused)) {
            let content = message.content.iter().filter_map(|block| replaced(block, refused)).collect();
            *message = Arc::new(Message { role: message.role, content });
        }
    }
}

fn is_refused(block: &MessageBlock, refused: &RefusedBlocks) -> bool {
    let inner = match block {
        MessageBlock::ToolResult { content, .. } => content.0.as_slice(),
        _ => &[],
    };
    refused.contains_key(&fingerprint(block))
        || inner.iter().any(|inner| refused.contains_key(&fingerprint(inner)))
}

/// Returns the replacement of a block; `None` removes it (thinking).
fn replaced(block: &MessageBlock, refused: &RefusedBlocks) -> Option<MessageBlock> {
    if let Some(reason) = refused.get(&fingerprint(block)) {
        return without(block, reason);
    }
    let MessageBlock::ToolResult { tool_use_id, content, is_error } = block else {
        return Some(block.clone());
    };
    let inner = content.0.iter().map(|inner| match refused.get(&fingerprint(inner)) {
        Some(reason) => Block::text(words(word_of(inner), reason)),
        None => inner.clone(),
    });
    Some(MessageBlock::ToolResult {
        tool_use_id: tool_use_id.clone(),
        content: Content(inner.collect()),
        is_error: *is_error,
    })
}

fn words(what: &str, reason: &str) -> String {
    format!("[{what} removed: API refused it: {reason}]")
}

fn word_of(block: &Block) -> &'static str {
    match block {
        Block::Text { .. } => "text",
        Block::Image { .. } => "image",
        Block::Document { .. } => "document",
        Block::ToolReference { .. } => "tool reference",
    }
}

/// Returns a replacement that keeps the ids of calls and results, so that they stay paired.
fn without(block: &MessageBlock, reason: &str) -> Option<MessageBlock> {
    let text = |what: &str| Some(MessageBlock::Text { text: words(what, reason) });
    match block {
        MessageBlock::Thinking { .. } | MessageBlock::RedactedThinking { .. } => None,
        MessageBlock::ToolUse(call) => Some(MessageBlock::ToolUse(ToolUse {
            id: call.id.clone(),
            name: call.name.clone(),
            input: json!({"removed": words("input", reason)}),
        })),
        MessageBlock::ToolResult { tool_use_id, is_error, .. } => Some(MessageBlock::ToolResult {
            tool_use_id: tool_use_id.clone(),
            content: Content::text(words("result", reason)),
            is_error: *is_error,
        }),
        MessageBlock::Image { .. } => text("image"),
        MessageBlock::Document { .. } => text("document"),
        MessageBlock::Text { .. } => text("text"),
        MessageBlock::Other(_) => text("block"),
    }
}
