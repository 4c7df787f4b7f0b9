use haft_model::{CachePolicy, Effort, Thinking, ThinkingDisplay};
use serde::{Deserialize, Serialize};

use crate::{RunLimits, repetition_guard::RepeatLimits};

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
    /// Whether a model thinks, where nobody said anything and it can find out by
    /// itself how much.
    #[serde(default)]
    pub thinks_where_it_can: bool,
    /// How much of what it thinks comes back.
    #[serde(default)]
    pub thinking_display: Option<ThinkingDisplay>,
    /// How hard it tries.
    pub effort: Option<Effort>,
    /// How hard it tries at most, whoever asked for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_effort: Option<Effort>,
    /// How long the provider keeps the beginning of requests.
    #[serde(default)]
    pub cache: CachePolicy,
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
    /// The same in tokens, where somebody said so: the share follows from the window,
    /// which may be known only when the server was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_at_tokens: Option<u64>,
    /// What becomes of what is said while the model gives its last answer.
    pub late_input: LateInputPolicy,
}

/// What becomes of what is said while the model gives its last answer. What is
/// said while calls run always goes into the next request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum LateInputPolicy {
    /// The same prompt goes on with it.
    #[default]
    GoOn,
    /// It stays in the [`AgentInbox`](crate::AgentInbox): whoever runs the agent makes it the next
    /// prompt.
    NextPrompt,
}

/// Share of the window, in percent, that a conversation may take.
const USUAL_SHARE: u8 = 85;

impl AgentSettings {
    /// The usual, for a model.
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

    /// Makes the conversation shorter from so many tokens on, if that is less of the
    /// window than usual.
    pub fn compact_at(&mut self, tokens: u64, window: u64) {
        let share = tokens.saturating_mul(100) / window.max(1);
        self.compact_at_tokens = Some(tokens);
        self.compact_at_percent = u8::try_from(share).unwrap_or(100).clamp(1, USUAL_SHARE);
    }

    /// What is asked for: nobody gets more than the most, and a model that would
    /// try harder by itself is told so.
    pub(crate) fn effort_asked(&self) -> Option<Effort> {
        match (self.effort, self.most_effort) {
            (Some(effort), Some(most)) => Some(effort.min(most)),
            // Models of their own accord are at `high`.
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
