use haft_model::{Thinking, ThinkingDisplay};
use serde::{Deserialize, Serialize};

use crate::{RunLimits, repeats::RepeatLimits};

/// How an agent asks.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AgentSettings {
    /// Which model.
    pub model: String,
    /// Which model when that one cannot answer.
    pub fallback_model: Option<String>,
    /// Most tokens of an answer; `None` for what the model can.
    pub max_tokens: Option<u32>,
    /// Whether and how it thinks.
    pub thinking: Thinking,
    /// How much of what it thinks comes back.
    #[serde(default)]
    pub thinking_display: Option<ThinkingDisplay>,
    /// How hard it tries.
    pub effort: Option<haft_model::Effort>,
    /// Tokens the whole task may take, as the model is told.
    #[serde(default)]
    pub task_budget: Option<u64>,
    /// Beta features to ask for.
    pub betas: Vec<String>,
    /// What bounds a run.
    pub limits: RunLimits,
    /// When repetition counts as futile.
    pub repeats: RepeatLimits,
    /// Share of the window, in percent, from which on the conversation is made
    /// shorter.
    pub compact_at_percent: u8,
    /// What becomes of what is said while the model gives its last answer.
    pub late_input: LateInput,
}

/// What becomes of what is said while the model gives its last answer. What is
/// said while calls run always goes into the next request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum LateInput {
    /// The same prompt goes on with it.
    #[default]
    GoOn,
    /// It stays in the [`Inbox`]: whoever runs the agent makes it the next
    /// prompt.
    NextPrompt,
}

impl AgentSettings {
    /// The usual, for a model.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            fallback_model: None,
            max_tokens: None,
            thinking: Thinking::Default,
            thinking_display: None,
            effort: None,
            task_budget: None,
            betas: Vec::new(),
            limits: RunLimits::default(),
            repeats: RepeatLimits::default(),
            compact_at_percent: 85,
            late_input: LateInput::GoOn,
        }
    }
}
