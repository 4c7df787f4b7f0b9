//! Checks that need the whole conversation: number of images, number of PDF pages, references to tools.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::{Block, MediaSource, Message, MessageBlock};

use super::{
    LintReport, RepairKind, media,
    message_rules::{MessageRules, into_message},
};
use crate::{ToolLoading, ToolSet, tool_set::WireTool, tool_wire_name::wire_name};

/// Images that were scaled down because the conversation has many; by content hash and target size.
pub(crate) type ShrunkImages = Mutex<HashMap<(u64, usize), Block>>;

/// Position of an image or document.
#[derive(Clone, Copy)]
struct BlockPosition {
    message: usize,
    block: usize,
    inner: Option<usize>,
}

/// An image or document, by message and position; the data is not copied.
struct MediaBlock {
    message: Arc<Message>,
    place: BlockPosition,
    is_image: bool,
}

impl MediaBlock {
    fn source(&self) -> Option<&MediaSource> {
        match (self.message.content.get(self.place.block)?, self.place.inner) {
            (MessageBlock::Image { source } | MessageBlock::Document { source, .. }, None) => Some(source),
            (MessageBlock::ToolResult { content, .. }, Some(inner)) => match content.0.get(inner)? {
                Block::Image { source } | Block::Document { source, .. } => Some(source),
                Block::Text { .. } | Block::ToolReference { .. } => None,
            },
            _ => None,
        }
    }

    fn data(&self) -> Option<&str> {
        match self.source()? {
            MediaSource::Base64 { data, .. } => Some(data),
            MediaSource::Url { .. } => None,
        }
    }

    fn fingerprint(&self) -> u64 {
        self.source().map_or(0, media::fingerprint)
    }
}

fn all(messages: &[Arc<Message>]) -> Vec<MediaBlock> {
    let mut out = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let mut push = |block: usize, inner: Option<usize>, is_image: bool| {
            let place = BlockPosition { message: at, block, inner };
            out.push(MediaBlock { message: Arc::clone(message), place, is_image });
        };
        for (block, it) in message.content.iter().enumerate() {
            match it {
                MessageBlock::Image { .. } => push(block, None, true),
                MessageBlock::Document { .. } => push(block, None, false),
                MessageBlock::ToolResult { content, .. } => {
                    for (inner, it) in content.0.iter().enumerate() {
                        match it {
                            Block::Image { .. } => push(block, Some(inner), true),
                            Block::Document { .. } => push(block, Some(inner), false),
                            Block::Text { .. } | Block::ToolReference { .. } => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }
    out
}

fn has_media(messages: &[Arc<Message>]) -> bool {
    messages.iter().flat_map(|message| &message.content).any(|block| match block {
        MessageBlock::Image { .. } | MessageBlock::Document { .. } => true,
        MessageBlock::ToolResult { content, .. } => {
            content.0.iter().any(|inner| matches!(inner, Block::Image { .. } | Block::Document { .. }))
        }
        _ => false,
    })
}

/// Replaces the block at a position.
fn put(messages: &mut [Arc<Message>], place: BlockPosition, new: Block) {
    let block = &mut Arc::make_mut(&mut messages[place.message]).content[place.block];
    match (block, place.inner) {
        (MessageBlock::ToolResult { content, .. }, Some(inner)) => content.0[inner] = new,
        (block, _) => *block = into_message(new),
    }
}

/// Enforces the provider's limits on media; the oldest media are replaced first.
pub(crate) fn limit_media(
    messages: &mut [Arc<Message>],
    judge: &MessageRules<'_>,
    shrunk: &ShrunkImages,
    report: &mut LintReport,
) {
    if !has_media(messages) {
        return;
    }
    let rules = judge.media;
    let mut media = all(messages);
    drop_oldest(messages, &mut media, report, rules.images, "there are too many pictures", |it| {
        usize::from(it.is_image)
    });
    let pages = |it: &MediaBlock| match it.data() {
        Some(data) if !it.is_image => judge.pages(&media::decoded(data)).unwrap_or(1),
        _ => 0,
    };
    drop_oldest(messages, &mut media, report, rules.pdf_pages, "there are too many PDF pages", pages);
    let bytes = |it: &MediaBlock| it.data().map_or(0, str::len);
    drop_oldest(messages, &mut media, report, rules.total_base64, "there is too much data", bytes);
    if media.iter().filter(|it| it.is_image).count() > rules.many {
        for it in media.iter().filter(|it| it.is_image) {
            shrink_one_of_many(messages, it, judge, shrunk, report);
        }
    }
}

/// Replaces the oldest media by text until the total is within `limit`.
fn drop_oldest(
    messages: &mut [Arc<Message>],
    media: &mut Vec<MediaBlock>,
    report: &mut LintReport,
    limit: usize,
    why: &str,
    weight: impl Fn(&MediaBlock) -> usize,
) {
    let weights: Vec<usize> = media.iter().map(&weight).collect();
    let mut sum: usize = weights.iter().sum();
    let mut weights = weights.into_iter();
    media.retain(|it| {
        let weight = weights.next().unwrap_or(0);
        if sum <= limit || weight == 0 {
            return true;
        }
        sum -= weight;
        let word = if it.is_image { "image" } else { "document" };
        put(messages, it.place, Block::text(format!("[{word} removed: {why}]")));
        let place = format!("{word} {:08x}", it.fingerprint());
        report.add(RepairKind::MediaReplaced, place, why.to_owned());
        false
    });
}

fn shrink_one_of_many(
    messages: &mut [Arc<Message>],
    it: &MediaBlock,
    judge: &MessageRules<'_>,
    shrunk: &ShrunkImages,
    report: &mut LintReport,
) {
    let Some(data) = it.data() else { return };
    let limit = judge.media.many_side;
    let Some(side) = media::image_side(data).filter(|side| *side > limit) else { return };
    let number = it.fingerprint();
    let known = shrunk.lock().unwrap_or_else(PoisonError::into_inner).get(&(number, limit)).cloned();
    let new = known.unwrap_or_else(|| {
        let why = format!("it is {side} px, the limit with so many pictures is {limit} px");
        let new = judge.shrunk(data, limit, &why, &format!("image {number:08x}"), report);
        shrunk.lock().unwrap_or_else(PoisonError::into_inner).insert((number, limit), new.clone());
        new
    });
    put(messages, it.place, new);
}

/// Whether the provider supports references to deferred tools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum References {
    Followed,
    Unknown,
}

/// Keeps references to tools that are offered and replaces the others by text. Returns the deferred
/// tools the conversation has loaded, in order.
pub(crate) fn references(
    messages: &mut [Arc<Message>],
    tools: &ToolSet,
    support: References,
    report: &mut LintReport,
) -> Vec<String> {
    let mut loaded = Vec::new();
    for message in messages {
        let has = message.content.iter().any(|block| {
            matches!(block, MessageBlock::ToolResult { content, .. }
                if content.0.iter().any(|inner| matches!(inner, Block::ToolReference { .. })))
        });
        if !has {
            continue;
        }
        let mut changed = None;
        for (at, block) in message.content.iter().enumerate() {
            let MessageBlock::ToolResult { content, .. } = block else { continue };
            for (inner, piece) in content.0.iter().enumerate() {
                let Block::ToolReference { tool_name } = piece else { continue };
                let name = wire_name(tool_name);
                let offered = tools.by_wire_name(&name);
                let waits = |tool: &WireTool| tool.def.loading == ToolLoading::Deferred;
                if offered.is_some_and(waits) && !loaded.contains(&name) {
                    loaded.push(name.clone());
                }
                let words = match (offered, support) {
                    (Some(tool), References::Followed) if tool.is_deferred() => continue,
                    // An eager tool cannot be loaded again.
                    (Some(_), _) => format!("{name} is loaded and can be called now."),
                    (None, _) => {
                        report.add(
                            RepairKind::ToolReference,
                            format!("tool {name}"),
                            "it is not offered any more",
                        );
                        format!("{name} is not available any more.")
                    }
                };
                let message = changed.get_or_insert_with(|| (**message).clone());
                if let MessageBlock::ToolResult { content, .. } = &mut message.content[at] {
                    content.0[inner] = Block::text(words);
                }
            }
        }
        if let Some(changed) = changed {
            *message = Arc::new(changed);
        }
    }
    loaded
}
