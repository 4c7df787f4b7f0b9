//! The request linter: whatever the conversation contains, the request that is sent is valid for the
//! provider.
//!
//! The conversation itself is never changed. The linter checks each message once (the outcome is cached
//! as long as the message lives), then the conversation as a whole, then the settings. Each repair is
//! reported once.

mod conversation_rules;
mod media;
mod message_rules;
mod model_settings;
mod pairing;
mod refusal_cause;
mod refused_blocks;
mod repair;
mod text;

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use haft_types::{Block, Message, MessageBlock};

use crate::{ModelInfo, Request, ToolLoading, ptr_map::ByAddress, tool_set::WireTool};
use conversation_rules::{References, ShrunkImages};
pub use media::{ImageLimit, ImageShrinker, MediaRules, ShrunkImage};
use message_rules::MessageRules;
pub(crate) use refusal_cause::{RefusalFix, diagnose, moved_to_responses, wants_responses};
use refused_blocks::RefusedBlocks;
pub use repair::{Repair, RepairKind};
pub(crate) use text::{clean_text, clean_value};

/// Rules in which providers differ.
#[derive(Clone, Debug)]
pub struct LintRules {
    /// Limits on images and documents.
    pub media: MediaRules,
    /// Which thinking blocks may be sent back.
    pub thinking: ThinkingRule,
    /// Whether blocks of the provider's own (server-side) tools may be sent back.
    pub server_blocks: bool,
    /// Whether calls in the conversation require that the request declares tools.
    pub calls_need_tools: bool,
}

impl LintRules {
    /// Rules of the Messages API, at Anthropic, Bedrock, Vertex and Foundry.
    pub fn messages() -> Self {
        Self {
            media: MediaRules::default(),
            thinking: ThinkingRule::Signed,
            server_blocks: true,
            calls_need_tools: true,
        }
    }

    /// Rules of the Chat Completions API.
    pub fn chat() -> Self {
        Self {
            media: MediaRules::default(),
            thinking: ThinkingRule::None,
            server_blocks: false,
            calls_need_tools: false,
        }
    }

    /// Rules of Google's Gemini API. Thinking is not sent back, but its signatures are.
    pub fn gemini() -> Self {
        let media = MediaRules { gif: false, ..MediaRules::default() };
        Self { thinking: ThinkingRule::All, media, ..Self::chat() }
    }

    /// Rules of OpenAI's Responses API.
    pub fn responses() -> Self {
        Self { thinking: ThinkingRule::Signed, ..Self::chat() }
    }
}

/// Which thinking blocks may be sent back to a provider. They are only ever sent to the model that wrote
/// them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ThinkingRule {
    /// Signed ones.
    Signed,
    /// All.
    All,
    /// None: the API has no field for them.
    None,
}

/// A request in the form in which it can be sent.
#[derive(Clone, Debug)]
pub struct Linted {
    /// The request. Its messages correspond one to one to those on the wire.
    pub request: Request,
    /// Wire names of deferred tools the conversation has loaded.
    pub loaded: Vec<String>,
    /// Whether the provider supports references to deferred tools.
    pub follows_references: bool,
    /// Wire names of tools the provider rejected.
    pub without_tools: Vec<String>,
    /// Names of fields the provider rejected.
    pub without_fields: Vec<String>,
    /// Names of beta features the provider rejected; an empty name stands for all.
    pub without_betas: Vec<String>,
    /// Whether a placeholder tool has to be declared, because the conversation has calls and the request
    /// has no tools.
    pub placeholder_tool: bool,
    /// Output limit the provider demanded in an error.
    pub max_tokens: Option<u64>,
}

/// Repairs requests so that the provider accepts them. One per provider: it stores which repairs were
/// reported and what the provider rejected.
#[derive(Default)]
pub struct Linter {
    port: Option<Arc<dyn ImageShrinker>>,
    state: Mutex<LintState>,
    shrunk: ShrunkImages,
}

#[derive(Default)]
struct LintState {
    told: HashSet<u64>,
    refused: RefusedBlocks,
    refused_tools: Vec<String>,
    refused_fields: Vec<String>,
    refused_betas: Vec<String>,
    /// Checked messages, by rules hash and address.
    seen: ByAddress<(u64, usize), SeenBlocks>,
    /// Number of requests checked.
    turns: u32,
}

/// Number of requests after which dropped messages are removed from the cache.
pub(crate) const SWEPT_EVERY: u32 = 16;

/// A checked message and its repaired form. Weak references, because strong ones would keep every
/// message of a session in memory.
#[derive(Clone)]
struct SeenBlocks {
    original: Weak<Message>,
    /// `None` if nothing had to be changed. Must not hold the original, or its strong count would never
    /// reach zero.
    clean: Option<Arc<Message>>,
    repairs: Vec<Repair>,
}

impl Linter {
    /// Creates a linter that replaces oversized images by text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a linter that scales oversized images down.
    pub fn with_media(port: Arc<dyn ImageShrinker>) -> Self {
        Self { port: Some(port), ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, LintState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repairs a request and returns all repairs. [`Linter::news`] filters those that were not reported
    /// before.
    pub fn lint(&self, request: &Request, info: &ModelInfo, rules: &LintRules) -> (Linted, Vec<Repair>) {
        let mut report = LintReport::default();
        report.repairs.extend(request.tools.repairs().iter().cloned());
        let judge = self.judge(request, info, rules);
        let mut out = request.clone();
        out.messages = self.clean(request, &judge, &mut report);
        out.messages = pairing::order(out.messages, request.paused && rules.server_blocks, &mut report);
        let state = self.state();
        refused_blocks::replace(&mut out.messages, &state.refused);
        let (without_tools, without_fields) = (state.refused_tools.clone(), state.refused_fields.clone());
        let without_betas = state.refused_betas.clone();
        drop(state);
        conversation_rules::limit_media(&mut out.messages, &judge, &self.shrunk, &mut report);
        let follows_references =
            info.tool_references && !without_fields.iter().any(|field| field == "defer_loading");
        let support = if follows_references { References::Followed } else { References::Unknown };
        let loaded = conversation_rules::references(&mut out.messages, &request.tools, support, &mut report);
        clean_system(&mut out);
        model_settings::adapt(&mut out, info, &mut report);
        let placeholder_tool = rules.calls_need_tools && out.tools.is_empty() && has_calls(&out.messages);
        let linted = Linted {
            request: out,
            loaded,
            follows_references,
            without_tools,
            without_fields,
            without_betas,
            placeholder_tool,
            max_tokens: None,
        };
        (linted, report.repairs)
    }

    fn judge<'a>(&'a self, request: &'a Request, info: &ModelInfo, rules: &'a LintRules) -> MessageRules<'a> {
        MessageRules {
            model: &request.model,
            thinking: rules.thinking,
            media: &rules.media,
            images: info.images,
            documents: info.documents,
            server_blocks: rules.server_blocks,
            port: self.port.as_deref(),
        }
    }

    /// Checks every message; messages checked before are recognised by address.
    fn clean(
        &self,
        request: &Request,
        judge: &MessageRules<'_>,
        report: &mut LintReport,
    ) -> Vec<Arc<Message>> {
        let seen_for = hash_of(&(judge.model, judge.thinking, judge.images, judge.documents));
        let known = self.known(request, seen_for);
        let mut news = Vec::new();
        let mut out = Vec::with_capacity(request.messages.len());
        for (message, known) in request.messages.iter().zip(known) {
            // Outside of the lock, because scaling an image takes time.
            let seen = known.unwrap_or_else(|| {
                let mut own = LintReport::default();
                let clean = judge.clean(message, &mut own);
                let clean = (!Arc::ptr_eq(&clean, message)).then_some(clean);
                let seen = SeenBlocks { original: Arc::downgrade(message), clean, repairs: own.repairs };
                news.push(((seen_for, Arc::as_ptr(message).addr()), seen.clone()));
                seen
            });
            report.repairs.extend(seen.repairs);
            out.push(seen.clean.unwrap_or_else(|| Arc::clone(message)));
        }
        self.state().seen.extend(news);
        out
    }

    /// Returns the cached check of each message.
    fn known(&self, request: &Request, seen_for: u64) -> Vec<Option<SeenBlocks>> {
        let mut state = self.state();
        // Swept by number of requests, not of entries: a few entries may hold much memory.
        state.turns = state.turns.wrapping_add(1);
        if state.turns.is_multiple_of(SWEPT_EVERY) {
            state.seen.retain(|_, seen| seen.original.strong_count() > 0);
        }
        let known = request.messages.iter().map(|message| {
            let address = Arc::as_ptr(message).addr();
            let seen = state.seen.get(&(seen_for, address))?;
            // The address may have been reused by another message.
            let same = seen.original.as_ptr().addr() == address && seen.original.strong_count() > 0;
            same.then(|| seen.clone())
        });
        known.collect()
    }

    /// Returns the repairs that were not reported before, and marks them as reported.
    pub fn news(&self, repairs: Vec<Repair>) -> Vec<Repair> {
        let mut state = self.state();
        repairs.into_iter().filter(|repair| state.told.insert(hash_of(repair))).collect()
    }

    /// Stores what the provider rejected, so that this and later requests leave it out. `None` if
    /// nothing can be left out.
    pub(crate) fn refuse(&self, linted: &Linted, cure: &RefusalFix, reason: &str) -> Option<Repair> {
        let mut state = self.state();
        let place = state.apply(linted, cure, reason)?;
        drop(state);
        Some(Repair { kind: RepairKind::Refused, place, detail: reason.to_owned() })
    }
}

impl LintState {
    /// Applies a fix; returns the text of the repair.
    fn apply(&mut self, linted: &Linted, cure: &RefusalFix, reason: &str) -> Option<String> {
        let messages = &linted.request.messages;
        match cure {
            RefusalFix::Thinking => {
                let before = self.refused.len();
                let blocks = messages.iter().flat_map(|message| &message.content).filter(|block| {
                    matches!(block, MessageBlock::Thinking { .. } | MessageBlock::RedactedThinking { .. })
                });
                self.refused
                    .extend(blocks.map(|block| (refused_blocks::fingerprint(block), reason.to_owned())));
                (self.refused.len() > before).then(|| "thinking".to_owned())
            }
            RefusalFix::Block { message, block, inner } => {
                let content = &messages.get(*message)?.content;
                let block = content.get(*block)?;
                let number = match (block, inner) {
                    (MessageBlock::ToolResult { content, .. }, Some(inner)) => {
                        refused_blocks::fingerprint(content.0.get(*inner)?)
                    }
                    _ => refused_blocks::fingerprint(block),
                };
                let new = self.refused.insert(number, reason.to_owned()).is_none();
                new.then(|| format!("message {message}"))
            }
            RefusalFix::Tool(index) => {
                let name = linted.sent_tools().get(*index)?.wire_name.clone();
                let new = !self.refused_tools.contains(&name);
                self.refused_tools.push(name.clone());
                new.then(|| format!("tool {name}"))
            }
            RefusalFix::Beta(name) => {
                let new = !self.refused_betas.contains(name);
                self.refused_betas.push(name.clone());
                new.then(|| format!("beta feature {name}"))
            }
            RefusalFix::Field(field) => {
                let new = !self.refused_fields.contains(field);
                self.refused_fields.push(field.clone());
                new.then(|| format!("field {field}"))
            }
            RefusalFix::LastMedia => {
                let number = last_media(messages)?;
                let new = self.refused.insert(number, reason.to_owned()).is_none();
                new.then(|| "media".to_owned())
            }
            // Only the wire format knows items; `at_origin` has already mapped it to a block.
            RefusalFix::Item(_) => None,
            RefusalFix::MaxTokens(_) | RefusalFix::Room { .. } => Some("max_tokens".to_owned()),
            // The engine stores these per model.
            RefusalFix::PromptTools | RefusalFix::Responses => None,
        }
    }
}

impl Linted {
    /// Returns the tools in sending order: all of them if the provider supports references, else the
    /// eager ones followed by the loaded ones in loading order.
    pub(crate) fn sent_tools(&self) -> Vec<&WireTool> {
        let tools = self.request.tools.tools();
        let mut out: Vec<&WireTool> = tools
            .iter()
            .map(|tool| &**tool)
            .filter(|tool| self.follows_references || !tool.is_deferred())
            .collect();
        if !self.follows_references {
            let late = tools.iter().map(|tool| &**tool).filter(|tool| tool.def.loading == ToolLoading::Late);
            out.extend(late);
            out.extend(self.loaded.iter().filter_map(|name| self.request.tools.by_wire_name(name)));
        }
        out.retain(|tool| !self.without_tools.contains(&tool.wire_name));
        out
    }
}

fn clean_system(request: &mut Request) {
    request.system.retain(|part| !part.text.trim().is_empty());
    for part in &mut request.system {
        if let Some(clean) = clean_text(&part.text) {
            part.text = clean;
        }
    }
}

/// Returns the hash of the last image or document.
fn last_media(messages: &[Arc<Message>]) -> Option<u64> {
    messages.iter().rev().flat_map(|message| message.content.iter().rev()).find_map(|block| match block {
        MessageBlock::Image { .. } | MessageBlock::Document { .. } => {
            Some(refused_blocks::fingerprint(block))
        }
        MessageBlock::ToolResult { content, .. } => {
            let inner =
                content.0.iter().rev().find(|it| matches!(it, Block::Image { .. } | Block::Document { .. }));
            inner.map(refused_blocks::fingerprint)
        }
        _ => None,
    })
}

fn has_calls(messages: &[Arc<Message>]) -> bool {
    messages
        .iter()
        .flat_map(|message| &message.content)
        .any(|block| matches!(block, MessageBlock::ToolUse(_)))
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Collects the repairs of one request in order.
#[derive(Default)]
pub(crate) struct LintReport {
    repairs: Vec<Repair>,
}

impl LintReport {
    pub(crate) fn add(&mut self, kind: RepairKind, place: String, detail: impl Into<String>) {
        self.repairs.push(Repair { kind, place, detail: detail.into() });
    }
}
