use std::{path::PathBuf, sync::Arc};

use haft_tool::{AllowReason, CommandLine};

use crate::{Behavior, DecisionSource, JudgedPart, reason::ReasonDetail};

/// Strength of a partial decision. Variants are ordered by severity, so [`Ord::max`] is the strictest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum DecisionStrength {
    /// Allowed.
    Allowed,
    /// No rule matches; a rule, a hook or the mode may allow it.
    Open,
    /// A safety check asks; only a mode that bypasses prompts, or a classifier, can answer in the user's
    /// place.
    Guarded,
    /// Asks in every mode (`dontAsk` denies it).
    Firm,
    /// Denied.
    Denied,
}

impl DecisionStrength {
    pub(crate) fn behavior(self) -> Behavior {
        match self {
            Self::Allowed => Behavior::Allow,
            Self::Open | Self::Guarded | Self::Firm => Behavior::Ask,
            Self::Denied => Behavior::Deny,
        }
    }
}

/// What would have to be allowed for the same call to run next time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum NeededAllowance {
    Tool(String),
    Named { tool: String, name: String },
    Fetch(String),
    Read { forms: Vec<PathBuf> },
    Edit { forms: Vec<PathBuf>, inside: bool },
    Line(CommandLine),
}

/// Decision about one part of a call.
#[derive(Clone, Debug)]
pub(crate) struct PartialDecision {
    pub(crate) standing: DecisionStrength,
    pub(crate) why: ReasonDetail,
    /// The evaluated part; `None` for the whole call.
    pub(crate) subject: Option<String>,
    wish: Option<NeededAllowance>,
    /// Vetoes of weaker decisions that this one replaced.
    also: ClassifierVeto,
}

/// Reasons why a classifier must not answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ClassifierVeto {
    /// Only the user may decide about it.
    pub(crate) for_a_person: bool,
    /// It could not be compared with the rules.
    pub(crate) in_doubt: bool,
}

impl ClassifierVeto {
    fn and(self, other: Self) -> Self {
        Self {
            for_a_person: self.for_a_person || other.for_a_person,
            in_doubt: self.in_doubt || other.in_doubt,
        }
    }
}

impl PartialDecision {
    pub(crate) fn new(standing: DecisionStrength, why: ReasonDetail) -> Self {
        Self { standing, why, subject: None, wish: None, also: ClassifierVeto::default() }
    }

    pub(crate) fn allowed(why: ReasonDetail) -> Self {
        Self::new(DecisionStrength::Allowed, why)
    }

    pub(crate) fn firm(why: ReasonDetail) -> Self {
        Self::new(DecisionStrength::Firm, why)
    }

    pub(crate) fn denied(why: ReasonDetail) -> Self {
        Self::new(DecisionStrength::Denied, why)
    }

    pub(crate) fn about(mut self, subject: String) -> Self {
        self.subject = Some(subject);
        self
    }

    pub(crate) fn with_needed_allowance(mut self, wish: impl FnOnce() -> NeededAllowance) -> Self {
        self.wish = Some(wish());
        self
    }

    /// The stricter of two; `other` if equal.
    pub(crate) fn stricter(self, other: Self) -> Self {
        let also = self.stakes().and(other.stakes());
        let stricter = if self.standing <= other.standing { other } else { self };
        Self { also, ..stricter }
    }

    /// Classifier vetoes of this decision, unless it allows.
    fn stakes(&self) -> ClassifierVeto {
        match self.standing {
            DecisionStrength::Allowed => self.also,
            _ => self.also.and(ClassifierVeto {
                for_a_person: self.why.is_for_a_person(),
                in_doubt: self.why.is_doubt(),
            }),
        }
    }

    pub(crate) fn with_strength(
        mut self,
        standing: DecisionStrength,
        why: impl FnOnce(ReasonDetail) -> ReasonDetail,
    ) -> Self {
        self.standing = standing;
        self.why = why(self.why);
        self
    }

    fn part(&self) -> Option<JudgedPart> {
        Some(JudgedPart {
            subject: self.subject.clone()?,
            decision: self.standing.behavior(),
            reason: self.why.to_string(),
            rule: self.why.rule().map(|rule| rule.to_string()),
        })
    }
}

/// All partial decisions about one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecisionTally {
    strictest: Option<PartialDecision>,
    pub(crate) parts: Vec<JudgedPart>,
    pub(crate) wishes: Vec<NeededAllowance>,
    /// Whether anything other than the read-only classification allows it.
    pub(crate) beyond_reading: bool,
    /// Whether a command contacts a server.
    pub(crate) talks: bool,
    /// Reasons why a classifier must not answer.
    pub(crate) stakes: ClassifierVeto,
}

impl DecisionTally {
    pub(crate) fn add(&mut self, mut ruling: PartialDecision) {
        self.parts.extend(ruling.part());
        self.stakes = self.stakes.and(ruling.stakes());
        if let Some(wish) = ruling.wish.take().filter(|_| ruling.standing != DecisionStrength::Allowed)
            && !self.wishes.contains(&wish)
        {
            self.wishes.push(wish);
        }
        match &self.strictest {
            Some(strictest) if ruling.standing <= strictest.standing => (),
            _ => self.strictest = Some(ruling),
        }
    }

    /// The strictest decision, the first if equal. Allowed if there is none.
    pub(crate) fn verdict(&self) -> PartialDecision {
        self.strictest.clone().unwrap_or_else(|| PartialDecision::allowed(ReasonDetail::TouchesNothing))
    }

    /// Combines with a parent's decisions: the strictest for each part and the whole. Suggestions come
    /// from the stricter one.
    pub(crate) fn and(self, above: Self) -> Self {
        let decided_above = self.verdict().standing < above.verdict().standing;
        let (beyond_reading, talks) =
            (self.beyond_reading || above.beyond_reading, self.talks || above.talks);
        let stakes = self.stakes.and(above.stakes);
        let aligned = self.parts.len() == above.parts.len();
        let parts = match (aligned, decided_above) {
            (true, _) => {
                let pairs = self.parts.into_iter().zip(above.parts);
                pairs.map(|(own, above)| if own.decision < above.decision { above } else { own }).collect()
            }
            (false, true) => above.parts,
            (false, false) => self.parts,
        };
        let (strictest, wishes) =
            if decided_above { (above.strictest, above.wishes) } else { (self.strictest, self.wishes) };
        Self { strictest, parts, wishes, beyond_reading, talks, stakes }
    }
}

impl ReasonDetail {
    /// The rule behind the reason.
    pub(crate) fn rule(&self) -> Option<&Arc<str>> {
        match self {
            Self::Rule { rule, .. }
            | Self::BrokenRule { rule, .. }
            | Self::Incomparable(rule)
            | Self::DelegateOnly { rule, .. }
            | Self::Below { rule, .. }
            | Self::Names { rule, .. } => Some(&rule.text),
            Self::DontAsk { inner } => inner.rule(),
            _ => None,
        }
    }

    /// Whether only the user can approve it in any mode: it affects what runs later, or a rule restricts
    /// it.
    fn is_for_a_person(&self) -> bool {
        match self {
            Self::Protected { .. } | Self::Kernel(_) => true,
            Self::DontAsk { inner } => inner.is_for_a_person(),
            why => why.rule().is_some(),
        }
    }

    /// Whether it is unknown which rules apply.
    fn is_doubt(&self) -> bool {
        match self {
            Self::Doubt(_) | Self::UnknownFile(_) | Self::Path(_) | Self::Address(_) => true,
            Self::DontAsk { inner } => inner.is_doubt(),
            _ => false,
        }
    }

    /// What determined the decision.
    pub(crate) fn source(&self) -> DecisionSource {
        match self {
            Self::HookDenies(_) | Self::HookAsks(_) | Self::HookAllows => DecisionSource::Hook,
            Self::Rule { rule, .. }
            | Self::BrokenRule { rule, .. }
            | Self::Incomparable(rule)
            | Self::DelegateOnly { rule, .. }
            | Self::Below { rule, .. }
            | Self::Names { rule, .. } => DecisionSource::Rule(rule.text.to_string()),
            Self::Inside { .. }
            | Self::Plan(_)
            | Self::Bypass
            | Self::DontAsk { .. }
            | Self::Sandboxed
            | Self::CommandReads => DecisionSource::Mode,
            Self::Outside { .. } => DecisionSource::WorkingDir,
            Self::Tool(_)
            | Self::Harmless
            | Self::OnlyReads
            | Self::TouchesNothing
            | Self::Protected { .. }
            | Self::Kernel(_)
            | Self::Path(_)
            | Self::Address(_)
            | Self::Doubt(_)
            | Self::UnknownFile(_) => DecisionSource::SafetyCheck,
            Self::Classifier { .. } => DecisionSource::Classifier,
            Self::NotAmongTools { .. } | Self::NoRule(_) | Self::NearMiss { .. } => DecisionSource::Other,
        }
    }

    /// Why the call was allowed, for the audit log.
    pub(crate) fn allow_reason(&self) -> AllowReason {
        match self {
            Self::Rule { rule, .. } => AllowReason::Rule(rule.text.to_string()),
            Self::HookAllows => AllowReason::Hook,
            Self::Harmless | Self::OnlyReads | Self::TouchesNothing => AllowReason::Tool,
            _ => AllowReason::Mode,
        }
    }
}
