//! Encodes the conversation for Anthropic's Messages API, with cache breakpoints.

use std::io::Write as _;

use bytes::Bytes;
use haft_types::{Block, MediaSource, Message, MessageBlock};
use serde_json::{Value, json};

use super::{RequestSize, message_cache::BodyPiece};
use crate::{CachePolicy, Request};

/// Returns the `cache_control` value.
pub(crate) fn mark(cache: CachePolicy) -> Value {
    match cache {
        CachePolicy::OneHour => json!({"type": "ephemeral", "ttl": "1h"}),
        _ => json!({"type": "ephemeral"}),
    }
}

/// How many blocks before a breakpoint the provider searches for a cached prefix, minus a margin.
const LOOKBACK: usize = 18;

/// Returns the positions of the cache breakpoints: the last block and, if the last turn is longer than
/// [`LOOKBACK`], a block within that distance of the previous request's breakpoint. Blocks sent earlier
/// never get a new breakpoint, so two requests differ only from the end of the older one on.
pub(crate) fn marked_blocks(request: &Request, marks: usize) -> Vec<(usize, usize)> {
    if request.cache == CachePolicy::Off || marks == 0 {
        return Vec::new();
    }
    // A paused answer is sent back unchanged, without a breakpoint.
    let paused =
        request.paused && request.messages.last().is_some_and(|it| it.role == haft_types::Role::Assistant);
    let Some(last) = request.messages.len().checked_sub(1 + usize::from(paused)) else { return Vec::new() };
    let Some(block) = request.messages[last].content.iter().rposition(can_be_marked) else {
        return Vec::new();
    };
    let mut out = vec![(last, block)];
    let before = request.messages[..last].iter().rposition(|message| message.role == haft_types::Role::User);
    if let Some(before) = before
        && marks > 1
    {
        let new = request.messages.iter().enumerate().skip(before + 1).flat_map(|(at, message)| {
            message.content.iter().enumerate().map(move |(index, block)| ((at, index), block))
        });
        let new: Vec<_> = new.collect();
        if new.len() > LOOKBACK {
            let near = new[..LOOKBACK].iter().rev().find(|(_, block)| can_be_marked(block));
            out.extend(near.map(|(place, _)| *place).filter(|place| *place != (last, block)));
        }
    }
    out
}

fn can_be_marked(block: &MessageBlock) -> bool {
    !matches!(
        block,
        MessageBlock::Thinking { .. } | MessageBlock::RedactedThinking { .. } | MessageBlock::Other(_)
    )
}

/// Encodes a message without cache breakpoints.
pub(crate) fn encode_message(message: &Message) -> BodyPiece {
    let role = if message.role == haft_types::Role::User { "user" } else { "assistant" };
    let mut out = Vec::with_capacity(256);
    let mut media = WireMedia::default();
    let mut blocks = Vec::with_capacity(message.content.len());
    let _ = write!(out, "{{\"role\":\"{role}\",\"content\":[");
    for (at, block) in message.content.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let start = out.len();
        encode_block(&mut out, block, &mut media);
        blocks.push(start..out.len());
    }
    out.extend_from_slice(b"]}");
    let size = RequestSize { text: out.len().saturating_sub(media.bytes), media: media.tokens };
    BodyPiece { bytes: Bytes::from(out), size, blocks: blocks.into(), ..BodyPiece::default() }
}

/// Writes a message with cache breakpoints on the blocks in `marked` (ascending). Returns the number of
/// bytes the breakpoints add.
pub(crate) fn write_marked(out: &mut Vec<u8>, piece: &BodyPiece, marked: &[usize], mark: &str) -> usize {
    let mut written = 0;
    let mut added = 0;
    let ends = marked.iter().filter_map(|at| piece.blocks.get(*at)).map(|block| block.end);
    for end in ends.filter(|end| piece.bytes[..*end].ends_with(b"}")) {
        out.extend_from_slice(&piece.bytes[written..end - 1]);
        written = end - 1;
        out.extend_from_slice(mark.as_bytes());
        added += mark.len();
    }
    out.extend_from_slice(&piece.bytes[written..]);
    added
}

/// Tokens and bytes of the media in a message.
#[derive(Default)]
pub(crate) struct WireMedia {
    pub(crate) bytes: usize,
    pub(crate) tokens: u64,
}

impl WireMedia {
    /// Adds an image, which costs tokens by its dimensions (at most 1600), or a document, estimated by
    /// its length.
    pub(crate) fn add(&mut self, source: &MediaSource, is_image: bool) {
        match source {
            MediaSource::Base64 { data, .. } => {
                self.bytes += data.len();
                self.tokens += if is_image { 1600 } else { (data.len() as u64 / 40).max(1500) };
            }
            MediaSource::Url { .. } => self.tokens += 1600,
        }
    }
}

fn encode_block(out: &mut Vec<u8>, block: &MessageBlock, media: &mut WireMedia) {
    // The log stores more about thinking than the provider gets.
    let bare = match block {
        MessageBlock::Thinking { thinking, signature, .. } => {
            Some(json!({"type": "thinking", "thinking": thinking, "signature": signature}))
        }
        MessageBlock::RedactedThinking { data, .. } => {
            Some(json!({"type": "redacted_thinking", "data": data}))
        }
        MessageBlock::Image { source } => {
            media.add(source, true);
            None
        }
        MessageBlock::Document { source, .. } => {
            media.add(source, false);
            None
        }
        MessageBlock::ToolResult { content, .. } => {
            for inner in &content.0 {
                match inner {
                    Block::Image { source } => media.add(source, true),
                    Block::Document { source, .. } => media.add(source, false),
                    _ => {}
                }
            }
            None
        }
        _ => None,
    };
    let written = match bare {
        Some(bare) => serde_json::to_writer(&mut *out, &bare),
        None => serde_json::to_writer(&mut *out, block),
    };
    // Serialising plain data cannot fail; a missing block would make the body invalid.
    debug_assert!(written.is_ok());
}
