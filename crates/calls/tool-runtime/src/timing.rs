use std::time::{Duration, Instant};

use haft_permission::DecisionSource;

/// How long a call spent where.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CallTiming {
    /// Waiting for calls it must not overlap with.
    pub queue: Duration,
    /// In hooks before it.
    pub hooks: Duration,
    /// Until somebody allowed or denied it.
    pub permission: Duration,
    /// In the tool itself.
    pub run: Duration,
    /// In what follows: a large result is stored, hooks look at it.
    pub after: Duration,
}

/// Who said no.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DenialSource {
    /// A hook.
    Hook,
    /// A rule.
    Rule,
    /// The permission mode.
    Mode,
    /// A check that no rule can switch off.
    Check,
    /// Whoever was asked, or nobody being there to ask.
    Asked,
}

impl DenialSource {
    /// One word for logs.
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

/// Measures one stage after the other.
pub(crate) struct StageTimer(Instant);

impl StageTimer {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the last lap.
    pub(crate) fn next(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}
