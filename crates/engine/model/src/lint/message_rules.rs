//! Checks that need only a single message.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_types::{Block, Content, MediaSource, Message, MessageBlock, Role, ToolUse};
use serde_json::{Value, json};

use super::{
    LintReport, RepairKind, ThinkingRule,
    media::{self, ImageLimit, ImageProblem, ImageShrinker, MediaRules},
    text::{clean_text, clean_value},
};
use crate::tool_wire_name::{wire_id, wire_name};

/// Rules a message is checked against.
pub(crate) struct MessageRules<'a> {
    pub(crate) model: &'a str,
    pub(crate) thinking: ThinkingRule,
    pub(crate) media: &'a MediaRules,
    pub(crate) images: bool,
    pub(crate) documents: bool,
    /// Whether blocks of the provider's own (server-side) tools may be sent back.
    pub(crate) server_blocks: bool,
    pub(crate) port: Option<&'a dyn ImageShrinker>,
}

/// How a block is changed.
enum BlockFix<B> {
    Keep,
    Drop,
    Become(Vec<B>),
}

impl MessageRules<'_> {
    /// Returns the message in a form that can be sent; the same `Arc` if nothing had to be changed.
    pub(crate) fn clean(&self, message: &Arc<Message>, report: &mut LintReport) -> Arc<Message> {
        let mut changed = None;
        let mut attached = Vec::new();
        for (at, block) in message.content.iter().enumerate() {
            let fix = self.block(message.role, block, &mut attached, report);
            if !matches!(fix, BlockFix::Keep) && changed.is_none() {
                changed = Some(message.content[..at].to_vec());
            }
            if let Some(blocks) = &mut changed {
                match fix {
                    BlockFix::Keep => blocks.push(block.clone()),
                    BlockFix::Drop => {}
                    BlockFix::Become(new) => blocks.extend(new),
                }
            }
        }
        match changed {
            None => Arc::clone(message),
            Some(mut content) => {
                content.append(&mut attached);
                Arc::new(Message { role: message.role, content })
            }
        }
    }

    fn block(
        &self,
        role: Role,
        block: &MessageBlock,
        attached: &mut Vec<MessageBlock>,
        report: &mut LintReport,
    ) -> BlockFix<MessageBlock> {
        match (role, block) {
            (_, MessageBlock::Text { text }) => match self.text(text, report) {
                BlockFix::Keep => BlockFix::Keep,
                BlockFix::Drop => BlockFix::Drop,
                BlockFix::Become(texts) => {
                    BlockFix::Become(texts.into_iter().map(|text| MessageBlock::Text { text }).collect())
                }
            },
            (Role::Assistant, MessageBlock::Thinking { thinking, signature, model }) => {
                self.thinking(thinking, signature, model.as_deref(), report)
            }
            (Role::Assistant, MessageBlock::RedactedThinking { data, model }) => {
                self.thinking(data, data, model.as_deref(), report)
            }
            (Role::Assistant, MessageBlock::ToolUse(call)) => call_fix(call, report),
            (Role::User, MessageBlock::ToolResult { .. }) => self.result(block, attached, report),
            (Role::User, MessageBlock::Image { source }) => self.image(source, report).into_message(),
            (Role::User, MessageBlock::Document { source, title }) => {
                self.document(source, title.as_deref(), report).into_message()
            }
            (Role::Assistant, MessageBlock::Other(value)) => self.other(value, report),
            (role, _) => {
                let who = if role == Role::User { "user" } else { "assistant" };
                report.add(
                    RepairKind::BlockLeftOut,
                    format!("{who} message"),
                    "a block of the other side was left out",
                );
                BlockFix::Drop
            }
        }
    }

    fn text(&self, text: &str, report: &mut LintReport) -> BlockFix<String> {
        if text.trim().is_empty() {
            report.add(RepairKind::Empty, "text".to_owned(), "an empty text was left out");
            return BlockFix::Drop;
        }
        match clean_text(text) {
            Some(clean) => {
                report.add(RepairKind::Text, "text".to_owned(), "control characters were made visible");
                BlockFix::Become(vec![clean])
            }
            None => BlockFix::Keep,
        }
    }

    fn thinking(
        &self,
        text: &str,
        signature: &str,
        model: Option<&str>,
        report: &mut LintReport,
    ) -> BlockFix<MessageBlock> {
        if self.thinking == ThinkingRule::None {
            return BlockFix::Drop;
        }
        if signature.is_empty() && self.thinking == ThinkingRule::Signed {
            report.add(RepairKind::ThinkingLeftOut, "thinking".to_owned(), "it was cut before it was signed");
            return BlockFix::Drop;
        }
        // A signed block must be sent unchanged or not at all, and providers reject NUL characters.
        if text.contains('\0') || signature.contains('\0') {
            report.add(RepairKind::ThinkingLeftOut, "thinking".to_owned(), "there is a NUL in it");
            return BlockFix::Drop;
        }
        match model {
            Some(model) if model != self.model => {
                let detail = format!("{model} wrote it, {} would not take it", self.model);
                report.add(RepairKind::ThinkingLeftOut, "thinking".to_owned(), detail);
                BlockFix::Drop
            }
            _ => BlockFix::Keep,
        }
    }

    fn other(&self, value: &Value, report: &mut LintReport) -> BlockFix<MessageBlock> {
        let kind = value["type"].as_str().unwrap_or_default();
        if !self.server_blocks || !is_of_server(kind) {
            let detail = if kind.is_empty() { "a block without a type" } else { kind };
            report.add(RepairKind::BlockLeftOut, "block".to_owned(), format!("{detail} cannot be sent here"));
            return BlockFix::Drop;
        }
        let mut clean = value.clone();
        if clean_value(&mut clean) {
            BlockFix::Become(vec![MessageBlock::Other(clean)])
        } else {
            BlockFix::Keep
        }
    }

    fn result(
        &self,
        block: &MessageBlock,
        attached: &mut Vec<MessageBlock>,
        report: &mut LintReport,
    ) -> BlockFix<MessageBlock> {
        let MessageBlock::ToolResult { tool_use_id, content, is_error } = block else {
            return BlockFix::Drop;
        };
        let id = wire_id(tool_use_id);
        let mut changed = id.as_str() != tool_use_id.as_str();
        let mut inner = Vec::with_capacity(content.0.len());
        for piece in &content.0 {
            match self.inner(piece, report) {
                BlockFix::Keep => inner.push(piece.clone()),
                BlockFix::Drop => changed = true,
                BlockFix::Become(new) => {
                    changed = true;
                    inner.extend(new);
                }
            }
        }
        // An error result may contain text only; other content moves behind it.
        if *is_error && inner.iter().any(|piece| piece.as_text().is_none()) {
            let (texts, rest): (Vec<_>, Vec<_>) =
                inner.into_iter().partition(|piece| piece.as_text().is_some());
            attached.push(MessageBlock::Text { text: format!("Attached to the failed result of {id}:") });
            attached.extend(rest.into_iter().map(into_message));
            inner = texts;
            changed = true;
        }
        if *is_error && inner.is_empty() {
            inner.push(Block::text("failed without a message"));
            changed = true;
        }
        if !changed {
            return BlockFix::Keep;
        }
        let content = Content(inner);
        BlockFix::Become(vec![MessageBlock::ToolResult {
            tool_use_id: id.into(),
            content,
            is_error: *is_error,
        }])
    }

    fn inner(&self, block: &Block, report: &mut LintReport) -> BlockFix<Block> {
        match block {
            Block::Text { text } => match self.text(text, report) {
                BlockFix::Keep => BlockFix::Keep,
                BlockFix::Drop => BlockFix::Drop,
                BlockFix::Become(texts) => BlockFix::Become(texts.into_iter().map(Block::text).collect()),
            },
            Block::Image { source } => self.image(source, report),
            Block::Document { source, title } => self.document(source, title.as_deref(), report),
            Block::ToolReference { tool_name } => {
                let wire = wire_name(tool_name);
                if wire == *tool_name {
                    return BlockFix::Keep;
                }
                BlockFix::Become(vec![Block::ToolReference { tool_name: wire }])
            }
        }
    }

    fn image(&self, source: &MediaSource, report: &mut LintReport) -> BlockFix<Block> {
        let number = media::fingerprint(source);
        let place = || format!("image {number:08x}");
        if !self.images {
            report.add(RepairKind::MediaReplaced, place(), "this model reads no pictures");
            return BlockFix::Become(vec![Block::text("[image removed: this model reads no pictures]")]);
        }
        let MediaSource::Base64 { media_type, data } = source else { return BlockFix::Keep };
        let rules = self.media;
        match media::check_image(media_type, data, rules.image_side, rules.image_base64) {
            Ok(()) | Err(ImageProblem::MediaType(_)) if !rules.gif && media::is_gif(data) => {
                let why = "this provider takes no GIF";
                BlockFix::Become(vec![self.shrunk(data, rules.image_side, why, &place(), report)])
            }
            Ok(()) => BlockFix::Keep,
            Err(ImageProblem::MediaType(actual)) => {
                BlockFix::Become(vec![Block::image(actual, data.clone())])
            }
            Err(ImageProblem::NoImage(what)) => {
                report.add(RepairKind::MediaReplaced, place(), what.clone());
                BlockFix::Become(vec![Block::text(format!("[image removed: {what}]"))])
            }
            Err(ImageProblem::TooLarge { what }) => {
                BlockFix::Become(vec![self.shrunk(data, rules.image_side, &what, &place(), report)])
            }
        }
    }

    /// Scales an image down, or replaces it by text if that is impossible.
    pub(crate) fn shrunk(
        &self,
        data: &str,
        side: usize,
        why: &str,
        place: &str,
        report: &mut LintReport,
    ) -> Block {
        let limit = ImageLimit { side, bytes: self.media.image_base64 / 4 * 3 };
        let small = self.port.and_then(|port| port.shrink(&media::decoded(data), limit)).map(|small| {
            let data = media::encoded(&small.bytes);
            (small.media_type, data)
        });
        let fits = |media_type: &str, data: &str| {
            media::check_image(media_type, data, side, self.media.image_base64).is_ok()
                && (self.media.gif || !media::is_gif(data))
        };
        match small {
            Some((media_type, data)) if fits(&media_type, &data) => {
                report.add(RepairKind::ImageShrunk, place.to_owned(), why.to_owned());
                Block::image(media_type, data)
            }
            _ => {
                report.add(RepairKind::MediaReplaced, place.to_owned(), why.to_owned());
                Block::text(format!("[image removed: {why}]"))
            }
        }
    }

    fn document(
        &self,
        source: &MediaSource,
        title: Option<&str>,
        report: &mut LintReport,
    ) -> BlockFix<Block> {
        let number = media::fingerprint(source);
        let mut replaced = |why: String| {
            let words = Block::text(format!("[document removed: {why}]"));
            report.add(RepairKind::MediaReplaced, format!("document {number:08x}"), why);
            BlockFix::Become(vec![words])
        };
        if let MediaSource::Base64 { media_type, data } = source
            && media_type.starts_with("text/")
        {
            return match STANDARD.decode(data).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
                Some(text) if !text.trim().is_empty() => {
                    BlockFix::Become(vec![Block::text(clean_text(&text).unwrap_or(text))])
                }
                _ => replaced("its text cannot be read".to_owned()),
            };
        }
        if !self.documents {
            return replaced("this model reads no PDFs".to_owned());
        }
        let MediaSource::Base64 { media_type, data } = source else { return BlockFix::Keep };
        let clean_title = title.and_then(clean_text);
        let bytes = media::decoded(data);
        let pages = self.pages(&bytes);
        match pages {
            None => replaced(format!("its data is {}, not a PDF", media::sniff(&bytes))),
            Some(pages) if pages > self.media.pdf_pages => {
                let most = self.media.pdf_pages;
                replaced(format!("it has {pages} pages, the limit is {most}; read it in parts with `pages`"))
            }
            Some(_) if media_type != "application/pdf" || clean_title.is_some() => {
                let source =
                    MediaSource::Base64 { media_type: "application/pdf".to_owned(), data: data.clone() };
                let title = clean_title.or_else(|| title.map(str::to_owned));
                BlockFix::Become(vec![Block::Document { source, title }])
            }
            Some(_) => BlockFix::Keep,
        }
    }

    pub(crate) fn pages(&self, pdf: &[u8]) -> Option<usize> {
        match self.port {
            Some(port) => port.pdf_pages(pdf),
            None => media::count_pages(pdf),
        }
    }
}

/// Whether a block is produced by the provider's own tools. Unknown blocks of other kinds are corrupt
/// and would be rejected.
fn is_of_server(kind: &str) -> bool {
    let named = ["server_tool_use", "mcp_tool_use", "container_upload", "search_result", "compaction"];
    named.contains(&kind) || (kind.ends_with("_tool_result") && "_tool_result".len() < kind.len())
}

fn call_fix(call: &ToolUse, report: &mut LintReport) -> BlockFix<MessageBlock> {
    let (id, name) = (wire_id(&call.id), wire_name(&call.name));
    let mut input = call.input.clone();
    let cleaned = clean_value(&mut input);
    if cleaned {
        report.add(RepairKind::Text, format!("call {}", call.id), "control characters were made visible");
    }
    let wrapped = !input.is_object();
    if wrapped {
        input = if input.is_null() { json!({}) } else { json!({"input": input}) };
        report.add(RepairKind::CallInput, format!("call {}", call.id), "its input was no object");
    }
    if !cleaned && !wrapped && id == call.id.as_str() && name == call.name {
        return BlockFix::Keep;
    }
    BlockFix::Become(vec![MessageBlock::ToolUse(ToolUse { id: id.into(), name, input })])
}

impl BlockFix<Block> {
    fn into_message(self) -> BlockFix<MessageBlock> {
        match self {
            Self::Keep => BlockFix::Keep,
            Self::Drop => BlockFix::Drop,
            Self::Become(blocks) => BlockFix::Become(blocks.into_iter().map(into_message).collect()),
        }
    }
}

/// Converts a block of a result to a block of a message.
pub(crate) fn into_message(block: Block) -> MessageBlock {
    match block {
        Block::Text { text } => MessageBlock::Text { text },
        Block::Image { source } => MessageBlock::Image { source },
        Block::Document { source, title } => MessageBlock::Document { source, title },
        Block::ToolReference { tool_name } => {
            MessageBlock::Text { text: format!("[the tool {tool_name} was loaded]") }
        }
    }
}
