use std::sync::Arc;

use haft_types::{Block, Message, MessageBlock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{SentPrefixSlot, ToolSet};

/// A request to a model, independent of the provider.
///
/// Messages are reference-counted: requests are cheap to build and clone, and messages that were linted
/// and encoded once are not processed again.
#[derive(Clone, Debug)]
pub struct Request {
    /// The model, by any of its names.
    pub model: String,
    /// Parts of the system prompt.
    pub system: Vec<SystemPart>,
    /// The tools the model may call.
    pub tools: Arc<ToolSet>,
    /// The conversation, oldest message first.
    pub messages: Vec<Arc<Message>>,
    /// Maximum output tokens. The linter lowers it to the model's limit.
    pub max_tokens: u32,
    /// Whether and how the model thinks (reasons).
    pub thinking: Thinking,
    /// How much of the thinking is returned, if the provider supports that.
    pub thinking_display: Option<ThinkingDisplay>,
    /// Effort level, if the model supports that.
    pub effort: Option<Effort>,
    /// Token budget of the whole task, passed to models that support it.
    pub task_budget: Option<u64>,
    /// Whether the model must call a tool.
    pub tool_choice: ToolChoice,
    /// Sampling temperature, if the model accepts one.
    pub temperature: Option<f32>,
    /// Texts at which the model stops generating.
    pub stop_sequences: Vec<String>,
    /// JSON Schema that the output text must match, if the provider supports that.
    pub output_schema: Option<Value>,
    /// The provider's context editing settings, passed through unchanged.
    pub context_management: Option<Value>,
    /// Fast mode (higher price), if the provider offers it.
    pub speed: Speed,
    /// Whether and for how long the provider caches the prefix.
    pub cache: CachePolicy,
    /// Names of additional beta features.
    pub betas: Vec<String>,
    /// Opaque user id for the provider's abuse detection.
    pub user_id: Option<String>,
    /// Whether the last message is an answer that the provider paused. It is sent back unchanged, and
    /// the provider continues it.
    pub paused: bool,
    /// Additional top-level fields of the body, merged last.
    pub extra: Map<String, Value>,
    /// Receives what was sent, for the caller to inspect.
    pub sent: Option<SentPrefixSlot>,
}

impl Request {
    /// Creates a request with a model and a conversation, everything else at defaults.
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

    /// Estimates the tokens of the request. A pure function of the content, so that a replay makes the
    /// same decisions as the recorded run. For a long conversation the provider's count of an earlier
    /// request is a better base.
    pub fn estimate_tokens(&self) -> u64 {
        crate::wire::estimate_request(self)
    }

    /// Whether the request contains an image or document.
    pub(crate) fn has_media(&self) -> bool {
        self.messages.iter().flat_map(|message| &message.content).any(|block| match block {
            MessageBlock::Image { .. } | MessageBlock::Document { .. } => true,
            MessageBlock::ToolResult { content, .. } => {
                content.0.iter().any(|inner| matches!(inner, Block::Image { .. } | Block::Document { .. }))
            }
            _ => false,
        })
    }

    /// Returns the request as JSON, in the same format for all providers; recordings are matched by it.
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

/// A part of the system prompt.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SystemPart {
    /// Text of this part.
    pub text: String,
    /// Whether the prompt up to and including this part is the same in every request, so that a cache
    /// breakpoint follows it. The last part always has one.
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

/// Whether and how a model thinks (reasons). A setting the model does not support is replaced by the
/// closest one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Thinking {
    /// Not specified; the provider's default.
    #[default]
    Default,
    /// No thinking.
    Off,
    /// The model decides how much to think.
    Adaptive,
    /// Up to a number of tokens.
    Budget {
        /// Thinking tokens, at least 1024.
        tokens: u32,
    },
}

impl Thinking {
    /// Returns the setting for a budget: the default for `None`, off for 0, else at least 1024 tokens.
    pub fn of_budget(tokens: Option<u32>) -> Self {
        match tokens {
            None => Self::Default,
            Some(0) => Self::Off,
            Some(tokens) => Self::Budget { tokens: tokens.max(1024) },
        }
    }
}

/// How much of a model's thinking the provider returns.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingDisplay {
    /// A summary.
    Summarized,
    /// Only the signature.
    Omitted,
    /// Occasional headings.
    Highlights,
}

/// How much effort a model spends on an answer, in ascending order.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Least effort, fastest.
    Low,
    /// Medium effort.
    Medium,
    /// High effort.
    High,
    /// Between high and maximum.
    Xhigh,
    /// Maximum effort.
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
    /// The model decides.
    #[default]
    Auto,
    /// The model must call some tool.
    Any,
    /// The model must call this tool.
    Tool {
        /// The tool's name on the wire.
        name: String,
    },
    /// The model must not call a tool.
    None,
}

/// The provider's speed tier.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// Standard.
    #[default]
    Normal,
    /// Fast mode, at a higher price.
    Fast,
}

/// Whether, and for how long, the provider caches the prefix of a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePolicy {
    /// No caching.
    Off,
    /// The provider's default of five minutes.
    #[default]
    FiveMinutes,
    /// One hour, at a higher price.
    OneHour,
}
