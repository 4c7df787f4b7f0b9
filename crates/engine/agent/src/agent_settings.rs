use haft_model::{CachePolicy, Effort, Thinking, ThinkingDisplay};
use serde::{Deserialize, Serialize};

use crate::{RunLimits, repetition_guard::RepeatLimits};

/// Settings of an agent and its model requests.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AgentSettings {
    /// Name of the model.
    pub model: String,
    /// Model to use when `model` cannot answer.
    pub fallback_model: Option<String>,
    /// Maximum output tokens of an answer; `None` for the model's maximum.
    pub max_tokens: Option<u32>,
    /// Thinking setting.
    pub thinking: Thinking,
    /// Whether to enable thinking by default for models that choose the amount themselves.
    #[serde(default)]
    pub thinks_where_it_can: bool,
    /// How much of the thinking the provider returns.
    #[serde(default)]
    pub thinking_display: Option<ThinkingDisplay>,
    /// Effort level; `None` for the model's default.
    pub effort: Option<Effort>,
    /// Maximum effort level, also for explicit requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_effort: Option<Effort>,
    /// How long the provider caches the beginning of requests.
    #[serde(default)]
    pub cache: CachePolicy,
    /// Token budget of the whole task, which the model is told.
    #[serde(default)]
    pub task_budget: Option<u64>,
    /// Beta features to request.
    pub betas: Vec<String>,
    /// Limits of a run.
    pub limits: RunLimits,
    /// When repeated calls are refused.
    pub repeats: RepeatLimits,
    /// Share of the context window, in percent, at which the conversation is compacted.
    pub compact_at_percent: u8,
    /// The same threshold in tokens, if set. The share is derived from it once the window is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_at_tokens: Option<u64>,
    /// Handling of input that arrives while the model writes its last answer.
    pub late_input: LateInputPolicy,
}

/// Handling of input that arrives while the model writes its last answer. Input that arrives while calls
/// run always goes into the next request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum LateInputPolicy {
    /// The running prompt continues with it.
    #[default]
    GoOn,
    /// It stays in the [`AgentInbox`](crate::AgentInbox); the caller sends it as the next prompt.
    NextPrompt,
}

/// Default share of the context window, in percent, that a conversation may use.
const USUAL_SHARE: u8 = 85;

impl AgentSettings {
    /// Default settings for a model.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            fallback_model: None,
            max_tokens: None,
            thinking: Thinking::Default,
            thinks_where_it_can: false,
            thinking_display: None,
            effort: None,
            most_effort: None,
            cache: CachePolicy::default(),
            task_budget: None,
            betas: Vec::new(),
            limits: RunLimits::default(),
            repeats: RepeatLimits::default(),
            compact_at_percent: USUAL_SHARE,
            compact_at_tokens: None,
            late_input: LateInputPolicy::GoOn,
        }
    }

    /// Compacts at `tokens`, if that is less than the current share of `window`.
    pub fn compact_at(&mut self, tokens: u64, window: u64) {
        let share = tokens.saturating_mul(100) / window.max(1);
        self.compact_at_tokens = Some(tokens);
        self.compact_at_percent = u8::try_from(share).unwrap_or(100).clamp(1, USUAL_SHARE);
    }

    /// The effort to request, limited to the maximum. A model whose own default is higher is told the
    /// maximum.
    pub(crate) fn effort_asked(&self) -> Option<Effort> {
        match (self.effort, self.most_effort) {
            (Some(effort), Some(most)) => Some(effort.min(most)),
            // The default of models is `high`.
            (None, Some(most)) if most < Effort::High => Some(most),
            (effort, _) => effort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_more_than_the_most() {
        for (effort, most, want) in [
            (None, None, None),
            (Some(Effort::Max), None, Some(Effort::Max)),
            (Some(Effort::Max), Some(Effort::High), Some(Effort::High)),
            (Some(Effort::Low), Some(Effort::High), Some(Effort::Low)),
            (None, Some(Effort::Medium), Some(Effort::Medium)),
            (None, Some(Effort::High), None),
        ] {
            let settings = AgentSettings { effort, most_effort: most, ..AgentSettings::new("m") };
            assert_eq!(settings.effort_asked(), want, "{effort:?} {most:?}");
        }
    }
}
