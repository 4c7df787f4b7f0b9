use std::sync::Arc;

use haft_types::{Block, Message, MessageBlock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{SentPrefixSlot, ToolSet};

/// One question to a model, in no provider's form.
///
/// Messages are shared, so that a request is cheap to build and to clone, and
/// so that what was checked and encoded once is not checked and encoded again.
#[derive(Clone, Debug)]
pub struct Request {
    /// The model that is to answer, by any of its names.
    pub model: String,
    /// The system prompt, in parts.
    pub system: Vec<SystemPart>,
    /// What the model may call.
    pub tools: Arc<ToolSet>,
    /// The conversation, oldest message first.
    pub messages: Vec<Arc<Message>>,
    /// Most tokens of the answer; the linter lowers it to what fits.
    pub max_tokens: u32,
    /// Whether and how the model thinks.
    pub thinking: Thinking,
    /// How much of what it thinks comes back, where the provider offers that.
    pub thinking_display: Option<ThinkingDisplay>,
    /// How hard it tries, where the model offers that.
    pub effort: Option<Effort>,
    /// Tokens the whole task may take, where the model heeds that.
    pub task_budget: Option<u64>,
    /// Whether it must call a tool.
    pub tool_choice: ToolChoice,
    /// Sampling temperature, where the model takes one.
    pub temperature: Option<f32>,
    /// Texts that end the answer.
    pub stop_sequences: Vec<String>,
    /// JSON Schema the answer's text must follow, where the provider offers that.
    pub output_schema: Option<Value>,
    /// Context editing on the provider's side, as it wants it.
    pub context_management: Option<Value>,
    /// Faster for more money, where offered.
    pub speed: Speed,
    /// Whether the provider caches the prefix.
    pub cache: CachePolicy,
    /// Beta features to ask for, by name.
    pub betas: Vec<String>,
    /// An opaque id of the user, for the provider's abuse checks.
    pub user_id: Option<String>,
    /// Whether the last message is an answer the provider paused: it goes back as it
    /// came, and the provider goes on with it.
    pub paused: bool,
    /// Fields put into the body as they are, last.
    pub extra: Map<String, Value>,
    /// Where to leave word of what was sent, for the caller.
    pub sent: Option<SentPrefixSlot>,
}

impl Request {
    /// A request with nothing but a model and a conversation.
    pub fn new(model: impl Into<String>, messages: impl IntoIterator<Item = Message>) -> Self {
        Self {
            model: model.into(),
            system: Vec::new(),
            tools: Arc::new(ToolSet::default()),
            messages: messages.into_iter().map(Arc::new).collect(),
            max_tokens: 4096,
            thinking: Thinking::Default,
            thinking_display: None,
            effort: None,
            task_budget: None,
            tool_choice: ToolChoice::Auto,
            temperature: None,
            stop_sequences: Vec::new(),
            output_schema: None,
            context_management: None,
            speed: Speed::Normal,
            cache: CachePolicy::FiveMinutes,
            betas: Vec::new(),
            user_id: None,
            paused: false,
            extra: Map::new(),
            sent: None,
        }
    }

    /// How many tokens the request has, about: a pure function of what it
    /// says, so that a replay decides as the run did. What a provider counted
    /// for an earlier request is the better base for a long conversation.
    pub fn estimate_tokens(&self) -> u64 {
        crate::wire::estimate_request(self)
    }

    /// Whether a picture or a document is in it.
    pub(crate) fn has_media(&self) -> bool {
        self.messages.iter().flat_map(|message| &message.content).any(|block| match block {
            MessageBlock::Image { .. } | MessageBlock::Document { .. } => true,
            MessageBlock::ToolResult { content, .. } => {
                content.0.iter().any(|inner| matches!(inner, Block::Image { .. } | Block::Document { .. }))
            }
            _ => false,
        })
    }

    /// The request as plain data, the same for every provider: what recordings
    /// are matched by.
    pub fn to_json(&self) -> Value {
        let mut out = json!({
            "model": self.model,
            "system": self.system,
            "tools": self.tools.definitions(),
            "messages": self.messages,
            "max_tokens": self.max_tokens,
            "thinking": self.thinking,
            "tool_choice": self.tool_choice,
        });
        let optional = [
            ("effort", serde_json::to_value(self.effort).unwrap_or_default()),
            ("thinking_display", serde_json::to_value(self.thinking_display).unwrap_or_default()),
            ("task_budget", json!(self.task_budget)),
            ("temperature", json!(self.temperature)),
            ("output_schema", self.output_schema.clone().unwrap_or_default()),
            ("context_management", self.context_management.clone().unwrap_or_default()),
        ];
        for (name, value) in optional {
            if !value.is_null() {
                out[name] = value;
            }
        }
        if !self.stop_sequences.is_empty() {
            out["stop_sequences"] = json!(self.stop_sequences);
        }
        if self.paused {
            out["paused"] = json!(true);
        }
        if !self.extra.is_empty() {
            out["extra"] = Value::Object(self.extra.clone());
        }
        out
    }
}

/// One part of the system prompt.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SystemPart {
    /// What the model is told in this part.
    pub text: String,
    /// Whether what comes up to here stays the same from request to request,
    /// so that a cache breakpoint belongs after it. The last part always has
    /// one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub breakpoint: bool,
}

impl From<&str> for SystemPart {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), breakpoint: false }
    }
}

impl From<String> for SystemPart {
    fn from(text: String) -> Self {
        Self { text, breakpoint: false }
    }
}

/// Whether and how a model thinks. What the model cannot do becomes the nearest
/// it can.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Thinking {
    /// Nothing is said; the provider's default.
    #[default]
    Default,
    /// Not at all.
    Off,
    /// As much as the model finds right.
    Adaptive,
    /// Up to so many tokens.
    Budget {
        /// Tokens, at least 1024.
        tokens: u32,
    },
}

impl Thinking {
    /// Thinking with so many tokens; the model's default without a number.
    pub fn of_budget(tokens: Option<u32>) -> Self {
        match tokens {
            None => Self::Default,
            Some(0) => Self::Off,
            Some(tokens) => Self::Budget { tokens: tokens.max(1024) },
        }
    }
}

/// How much of what a model thinks comes back.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingDisplay {
    /// A summary.
    Summarized,
    /// Nothing but the signature.
    Omitted,
    /// A title here and there.
    Highlights,
}

/// How hard a model tries, from the least.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Quick.
    Low,
    /// In between.
    Medium,
    /// Thorough.
    High,
    /// More thorough.
    Xhigh,
    /// Everything it has.
    Max,
}

impl Effort {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// Whether a model must call a tool.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// One of them.
    Any,
    /// The model has to call this tool.
    Tool {
        /// The tool's name on the wire.
        name: String,
    },
    /// The model must not call a tool.
    None,
}

/// How fast the provider answers.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// As usual.
    #[default]
    Normal,
    /// Faster, at the price of fast mode.
    Fast,
}

/// Whether, and for how long, the provider caches the prefix of a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePolicy {
    /// Not at all.
    Off,
    /// The usual time.
    #[default]
    FiveMinutes,
    /// Longer, for more money.
    OneHour,
}
