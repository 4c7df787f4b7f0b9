use std::time::{Duration, Instant};

use haft_permission::DecisionSource;

/// Time one call spent in each phase.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CallTiming {
    /// Waiting for calls it must not overlap with, or for the message to be complete.
    pub queue: Duration,
    /// Running pre-tool hooks.
    pub hooks: Duration,
    /// Deciding permission, including the time an approver took to answer.
    pub permission: Duration,
    /// Running the tool.
    pub run: Duration,
    /// Storing a large result and running post-tool hooks.
    pub after: Duration,
}

/// What denied a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DenialSource {
    /// A hook.
    Hook,
    /// A permission rule.
    Rule,
    /// The permission mode.
    Mode,
    /// Anything else: a built-in safety check, the working-directory check, the classifier, or no rule
    /// that allows the call.
    Check,
    /// The approver, or the lack of one.
    Asked,
}

impl DenialSource {
    /// Returns a short identifier for logs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Rule => "rule",
            Self::Mode => "mode",
            Self::Check => "check",
            Self::Asked => "asked",
        }
    }
}

impl From<&DecisionSource> for DenialSource {
    fn from(source: &DecisionSource) -> Self {
        match source {
            DecisionSource::Rule(_) => Self::Rule,
            DecisionSource::Mode => Self::Mode,
            DecisionSource::Hook => Self::Hook,
            DecisionSource::SafetyCheck
            | DecisionSource::WorkingDir
            | DecisionSource::Classifier
            | DecisionSource::Other => Self::Check,
        }
    }
}

/// Measures consecutive stages.
pub(crate) struct StageTimer(Instant);

impl StageTimer {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the last call of `next`, or since the start.
    pub(crate) fn next(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}
