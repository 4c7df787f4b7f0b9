//! The request linter: what is sent is always something the provider takes,
//! whatever the conversation holds.
//!
//! It never changes the conversation. It looks at each message once (what was
//! found is kept as long as the message lives), then at the conversation as a
//! whole, then at the settings. Each repair is told once.

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

/// What a provider takes, as far as it differs.
#[derive(Clone, Debug)]
pub struct LintRules {
    /// Pictures and documents.
    pub media: MediaRules,
    /// What thinking may go back.
    pub thinking: ThinkingRule,
    /// Whether blocks of the provider's own tools may go back.
    pub server_blocks: bool,
    /// Whether calls in the conversation need tools in the request.
    pub calls_need_tools: bool,
}

impl LintRules {
    /// Anthropic's rules, also at Bedrock, Vertex and Foundry.
    pub fn messages() -> Self {
        Self {
            media: MediaRules::default(),
            thinking: ThinkingRule::Signed,
            server_blocks: true,
            calls_need_tools: true,
        }
    }

    /// The rules of OpenAI's Chat Completions, and of all who speak it.
    pub fn chat() -> Self {
        Self {
            media: MediaRules::default(),
            thinking: ThinkingRule::None,
            server_blocks: false,
            calls_need_tools: false,
        }
    }

    /// The rules of Google's Gemini API. What was thought is not sent back, but
    /// what it was signed with is.
    pub fn gemini() -> Self {
        let media = MediaRules { gif: false, ..MediaRules::default() };
        Self { thinking: ThinkingRule::All, media, ..Self::chat() }
    }

    /// The rules of OpenAI's Responses.
    pub fn responses() -> Self {
        Self { thinking: ThinkingRule::Signed, ..Self::chat() }
    }
}

/// What thinking may go back to a provider. It always goes back only to the
/// model that wrote it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ThinkingRule {
    /// What is signed.
    Signed,
    /// All of it.
    All,
    /// None: the form has no place for it.
    None,
}

/// A request that can be sent.
#[derive(Clone, Debug)]
pub struct Linted {
    /// The request; its messages are what goes on the wire, one for one.
    pub request: Request,
    /// Wire names of deferred tools that the conversation has loaded.
    pub loaded: Vec<String>,
    /// Whether the provider follows references to deferred tools.
    pub follows_references: bool,
    /// Wire names of tools the provider refused.
    pub without_tools: Vec<String>,
    /// Fields the provider refused.
    pub without_fields: Vec<String>,
    /// Beta features the provider refused; an empty name means all.
    pub without_betas: Vec<String>,
    /// Whether a tool nobody can call has to be declared.
    pub placeholder_tool: bool,
    /// The limit of the answer the provider asked for.
    pub max_tokens: Option<u64>,
}

/// Makes requests that are taken. One per provider; it remembers what it has
/// told and what was refused.
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
    /// Messages that were looked at: for what, and at which address.
    seen: ByAddress<(u64, usize), SeenBlocks>,
    /// How many requests were looked at.
    turns: u32,
}

/// After so many requests, messages nobody holds any more are forgotten.
pub(crate) const SWEPT_EVERY: u32 = 16;

/// A message that was looked at, and what it became.
#[derive(Clone)]
struct SeenBlocks {
    original: Weak<Message>,
    /// `None` where nothing had to be done. The original itself must not be
    /// held here: it would never be seen to be gone.
    clean: Option<Arc<Message>>,
    repairs: Vec<Repair>,
}

impl Linter {
    /// A linter that replaces what is too large by words.
    pub fn new() -> Self {
        Self::default()
    }

    /// A linter that can make pictures smaller.
    pub fn with_media(port: Arc<dyn ImageShrinker>) -> Self {
        Self { port: Some(port), ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, LintState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request that is taken, and says what had to be done for it.
    /// [`Linter::news`] tells which of that nobody was told yet.
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

    /// Looks at every message, at those seen before only by their address.
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
            // Not under the lock: a picture may have to be made smaller.
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

    /// What is known of each message.
    fn known(&self, request: &Request, seen_for: u64) -> Vec<Option<SeenBlocks>> {
        let mut state = self.state();
        // By turns, and not by how many there are: few may hold much.
        state.turns = state.turns.wrapping_add(1);
        if state.turns.is_multiple_of(SWEPT_EVERY) {
            state.seen.retain(|_, seen| seen.original.strong_count() > 0);
        }
        let known = request.messages.iter().map(|message| {
            let address = Arc::as_ptr(message).addr();
            let seen = state.seen.get(&(seen_for, address))?;
            // An address may belong to another message by now.
            let same = seen.original.as_ptr().addr() == address && seen.original.strong_count() > 0;
            same.then(|| seen.clone())
        });
        known.collect()
    }

    /// The repairs nobody was told of yet. From now on they have been.
    pub fn news(&self, repairs: Vec<Repair>) -> Vec<Repair> {
        let mut state = self.state();
        repairs.into_iter().filter(|repair| state.told.insert(hash_of(repair))).collect()
    }

    /// Remembers what the provider refused, so that this and every later
    /// request goes without it. `None` if there is nothing to leave out.
    pub(crate) fn refuse(&self, linted: &Linted, cure: &RefusalFix, reason: &str) -> Option<Repair> {
        let mut state = self.state();
        let place = state.apply(linted, cure, reason)?;
        drop(state);
        Some(Repair { kind: RepairKind::Refused, place, detail: reason.to_owned() })
    }
}

impl LintState {
    /// Says what was left out.
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
            // Only the wire knows what an item is; it has been looked up.
            RefusalFix::Item(_) => None,
            RefusalFix::MaxTokens(_) | RefusalFix::Room { .. } => Some("max_tokens".to_owned()),
            // The engine remembers it of the model.
            RefusalFix::PromptTools | RefusalFix::Responses => None,
        }
    }
}

impl Linted {
    /// The tools in the order they are sent in: all of them where the provider
    /// follows references, else those that are there from the start and then
    /// those that were loaded, as they were loaded.
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

/// The picture or document that came last.
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

/// The repairs of one request, in the order they were made.
#[derive(Default)]
pub(crate) struct LintReport {
    repairs: Vec<Repair>,
}

impl LintReport {
    pub(crate) fn add(&mut self, kind: RepairKind, place: String, detail: impl Into<String>) {
        self.repairs.push(Repair { kind, place, detail: detail.into() });
    }
}
