//! Fingerprint of a request from the view of a provider's prompt cache.
//!
//! Providers cache the beginning of a request: tools, then system prompt, then conversation, separately
//! for each model and thinking setting. A [`SentPrefix`] holds a hash per tool, per system prompt part
//! and per block, but not the content, so that it is small enough to be stored and compared with the
//! next request.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::{Message, MessageBlock, Role};
use serde_json::json;

use crate::{
    Request,
    lint::Linted,
    wire::{BodyPiece, MessageCache, estimate_head, tokens_of_block},
};

/// Fingerprint of everything in a request that is part of the provider's cache key, as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SentPrefix {
    /// Model the request was sent to.
    pub model: String,
    /// Tools the model sees from the start, in order.
    pub tools: Vec<SentTool>,
    /// Hash of each part of the system prompt.
    pub system: Vec<u64>,
    /// Hash of the settings that are part of the cache key: thinking, tool choice, speed, effort.
    pub settings: u64,
    /// Blocks of the conversation.
    pub blocks: Vec<SentBlock>,
    /// Estimated tokens of tools and system prompt.
    pub head_tokens: u64,
}

/// A tool that was sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SentTool {
    /// The tool's name on the wire.
    pub name: String,
    /// Hash of its definition.
    pub print: u64,
}

/// A block of the conversation that was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SentBlock {
    /// Hash of its content and role.
    pub print: u64,
    /// Estimated tokens.
    pub tokens: u32,
}

/// Receives the fingerprint of what a provider sent. If the request was changed and sent again, the last
/// version counts. Clones share the slot.
#[derive(Clone, Debug, Default)]
pub struct SentPrefixSlot(Arc<Mutex<Option<Arc<SentPrefix>>>>);

impl SentPrefixSlot {
    pub(crate) fn fill(&self, sent: SentPrefix) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(sent));
    }

    /// Takes the fingerprint; `None` if nothing was sent or the provider does not support it.
    pub fn take(&self) -> Option<Arc<SentPrefix>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl SentPrefix {
    /// Returns one hash of all tools.
    pub fn tools_print(&self) -> u64 {
        let prints = self.tools.iter().flat_map(|tool| [print(tool.name.as_bytes()), tool.print]);
        chain(prints)
    }

    /// Returns one hash of the system prompt.
    pub fn system_print(&self) -> u64 {
        chain(self.system.iter().copied())
    }

    /// Returns one hash of the first `blocks` blocks; `None` if there are fewer.
    pub fn history_print(&self, blocks: usize) -> Option<u64> {
        self.blocks.get(..blocks).map(|all| chain(all.iter().map(|block| block.print)))
    }

    /// Returns the estimated tokens of the whole request.
    pub fn tokens(&self) -> u64 {
        self.head_tokens + self.blocks.iter().map(|block| u64::from(block.tokens)).sum::<u64>()
    }
}

/// Builds the fingerprint of a linted request.
pub(crate) fn sent_prefix(linted: &Linted, cache: &MessageCache) -> SentPrefix {
    let request = &linted.request;
    let seen = linted.sent_tools().into_iter();
    let seen = seen.filter(|tool| !(tool.is_deferred() && linted.follows_references));
    let tools = seen.map(|tool| SentTool { name: tool.def.name.clone(), print: tool.print() });
    let mut blocks = Vec::with_capacity(request.messages.len() + 8);
    cache.add_prints(&request.messages, &mut blocks);
    SentPrefix {
        model: request.model.clone(),
        tools: tools.collect(),
        system: request.system.iter().map(|part| print(part.text.as_bytes())).collect(),
        settings: settings_print(request),
        head_tokens: estimate_head(request),
        blocks,
    }
}

/// Hashes the request settings that are part of the provider's cache key: thinking, tool choice, speed,
/// effort.
fn settings_print(request: &Request) -> u64 {
    let settings = json!([request.thinking, request.tool_choice, request.speed, request.effort]);
    print(settings.to_string().as_bytes())
}

/// Hashes the blocks of a message. Uses the encoded form of the message cache where the wire format
/// encodes the block the same way.
pub(crate) fn message_prints(message: &Message, piece: Option<&BodyPiece>) -> Arc<[SentBlock]> {
    let role: &[u8] = if message.role == Role::User { b"u" } else { b"a" };
    let block_print = |(at, block): (usize, &MessageBlock)| {
        let mut hash = Fnv::default();
        hash.add(role);
        // Serialising plain data and hashing it cannot fail.
        let written = match block {
            // The log stores more about thinking than is sent.
            MessageBlock::Thinking { thinking, signature, .. } => {
                serde_json::to_writer(&mut hash, &(thinking, signature))
            }
            MessageBlock::RedactedThinking { data, .. } => serde_json::to_writer(&mut hash, data),
            block => match piece.and_then(|piece| piece.block(at)) {
                Some(written) => {
                    hash.add(written);
                    Ok(())
                }
                None => serde_json::to_writer(&mut hash, block),
            },
        };
        debug_assert!(written.is_ok());
        SentBlock { print: hash.0, tokens: u32::try_from(tokens_of_block(block)).unwrap_or(u32::MAX) }
    };
    message.content.iter().enumerate().map(block_print).collect()
}

/// Hashes bytes.
pub(crate) fn print(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.add(bytes);
    hash.0
}

/// Hashes a sequence of hashes.
fn chain(prints: impl Iterator<Item = u64>) -> u64 {
    let mut hash = Fnv::default();
    prints.for_each(|print| hash.add(&print.to_le_bytes()));
    hash.0
}

/// FNV-1a. The hashes are stored in logs, so they must be the same on every machine and in every
/// version, which the standard hasher does not guarantee.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = bytes.iter().fold(self.0, step);
    }
}

impl io::Write for Fnv {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::wire::messages_piece;

    #[test]
    fn message_hashes_equal_with_and_without_encoded_form() {
        let blocks: Vec<MessageBlock> = serde_json::from_value(json!([
            {"type": "tool_result", "tool_use_id": "a", "content": "lines\n\t\"of\" text \u{1}", "is_error": true},
            {"type": "text", "text": "größe"},
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "tool_use", "id": "b", "name": "Read", "input": {"file_path": "f"}},
            {"type": "image", "source": {"type": "url", "url": "http://x"}},
            {"type": "server_tool_use", "id": "c", "name": "n", "input": {}},
        ]))
        .unwrap();
        for role in [Role::User, Role::Assistant] {
            let message = Message { role, content: blocks.clone() };
            let piece = messages_piece(&message);
            assert_eq!(message_prints(&message, Some(&piece)), message_prints(&message, None));
            let body: Value = serde_json::from_slice(&piece.bytes).unwrap();
            for (at, block) in body["content"].as_array().unwrap().iter().enumerate() {
                assert_eq!(serde_json::from_slice::<Value>(piece.block(at).unwrap()).unwrap(), *block);
            }
        }
    }

    #[test]
    fn different_blocks_have_different_hashes() {
        let text = |text: &str| MessageBlock::Text { text: text.to_owned() };
        let one = Message { role: Role::User, content: vec![text("a"), text("b")] };
        let longer = Message { role: Role::User, content: vec![text("a"), text("b"), text("c")] };
        let other = Message { role: Role::Assistant, content: vec![text("a")] };
        let (one, longer, other) =
            (message_prints(&one, None), message_prints(&longer, None), message_prints(&other, None));
        assert_eq!(one[..], longer[..2]);
        assert_ne!(one[0].print, one[1].print);
        assert_ne!(one[0].print, other[0].print);
        // Hashes are stored in logs and must not change between versions.
        assert_eq!(print(b"haft"), 0x2e11_b4cc_73f5_6288);
    }
}
