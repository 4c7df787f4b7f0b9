use std::{path::PathBuf, sync::Arc};

use haft_tool::{AllowReason, CommandLine};

use crate::{Behavior, Part, Source, reason::Why};

/// How firmly something is decided. The order is the order of severity, so the
/// strictest wins by [`Ord::max`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Standing {
    /// It may happen.
    Allowed,
    /// Nobody speaks for it; a rule, a hook or the mode may.
    Open,
    /// A safety check wants a question; only a mode that asks nobody, or a
    /// classifier, answers in the person's place.
    Guarded,
    /// It asks in every mode.
    Firm,
    /// It must not happen.
    Denied,
}

impl Standing {
    pub(crate) fn behavior(self) -> Behavior {
        match self {
            Self::Allowed => Behavior::Allow,
            Self::Open | Self::Guarded | Self::Firm => Behavior::Ask,
            Self::Denied => Behavior::Deny,
        }
    }
}

/// What would have to be allowed for the same thing to run next time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Wish {
    Tool(String),
    Named { tool: String, name: String },
    Fetch(String),
    Read { forms: Vec<PathBuf> },
    Edit { forms: Vec<PathBuf>, inside: bool },
    Line(CommandLine),
}

/// One decided thing.
#[derive(Clone, Debug)]
pub(crate) struct Ruling {
    pub(crate) standing: Standing,
    pub(crate) why: Why,
    /// What was judged; nothing for the call as a whole.
    pub(crate) subject: Option<String>,
    wish: Option<Wish>,
}

impl Ruling {
    pub(crate) fn new(standing: Standing, why: Why) -> Self {
        Self { standing, why, subject: None, wish: None }
    }

    pub(crate) fn allowed(why: Why) -> Self {
        Self::new(Standing::Allowed, why)
    }

    pub(crate) fn firm(why: Why) -> Self {
        Self::new(Standing::Firm, why)
    }

    pub(crate) fn denied(why: Why) -> Self {
        Self::new(Standing::Denied, why)
    }

    pub(crate) fn about(mut self, subject: String) -> Self {
        self.subject = Some(subject);
        self
    }

    pub(crate) fn wishing(mut self, wish: impl FnOnce() -> Wish) -> Self {
        self.wish = Some(wish());
        self
    }

    /// The stricter of two, the other one among equals.
    pub(crate) fn stricter(self, other: Self) -> Self {
        if self.standing <= other.standing { other } else { self }
    }

    pub(crate) fn becomes(mut self, standing: Standing, why: impl FnOnce(Why) -> Why) -> Self {
        self.standing = standing;
        self.why = why(self.why);
        self
    }

    fn part(&self) -> Option<Part> {
        Some(Part {
            subject: self.subject.clone()?,
            decision: self.standing.behavior(),
            reason: self.why.to_string(),
            rule: self.why.rule().map(|rule| rule.to_string()),
        })
    }
}

/// The rulings on one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    strictest: Option<Ruling>,
    pub(crate) parts: Vec<Part>,
    pub(crate) wishes: Vec<Wish>,
    /// Whether something but the belief that it only reads lets it run.
    pub(crate) beyond_reading: bool,
    /// Whether one of the commands asks a server.
    pub(crate) talks: bool,
}

impl Tally {
    pub(crate) fn add(&mut self, mut ruling: Ruling) {
        self.parts.extend(ruling.part());
        if let Some(wish) = ruling.wish.take().filter(|_| ruling.standing != Standing::Allowed)
            && !self.wishes.contains(&wish)
        {
            self.wishes.push(wish);
        }
        match &self.strictest {
            Some(strictest) if ruling.standing <= strictest.standing => (),
            _ => self.strictest = Some(ruling),
        }
    }

    /// The strictest ruling, the first among equals. A call on which nobody
    /// ruled has nothing to rule on.
    pub(crate) fn verdict(&self) -> Ruling {
        self.strictest.clone().unwrap_or_else(|| Ruling::allowed(Why::TouchesNothing))
    }

    /// Both have to agree: the strictest of each part, and of the whole. Wishes
    /// are those of whoever decided.
    pub(crate) fn and(self, above: Self) -> Self {
        let decided_above = self.verdict().standing < above.verdict().standing;
        let (beyond_reading, talks) =
            (self.beyond_reading || above.beyond_reading, self.talks || above.talks);
        let aligned = self.parts.len() == above.parts.len();
        let parts = match (aligned, decided_above) {
            (true, _) => {
                let pairs = self.parts.into_iter().zip(above.parts);
                pairs.map(|(own, above)| if own.decision < above.decision { above } else { own }).collect()
            }
            (false, true) => above.parts,
            (false, false) => self.parts,
        };
        match decided_above {
            true => Self { strictest: above.strictest, parts, wishes: above.wishes, beyond_reading, talks },
            false => Self { strictest: self.strictest, parts, wishes: self.wishes, beyond_reading, talks },
        }
    }
}

impl Why {
    /// The rule behind the reason.
    pub(crate) fn rule(&self) -> Option<&Arc<str>> {
        match self {
            Self::Rule { rule, .. }
            | Self::BrokenRule { rule, .. }
            | Self::Incomparable(rule)
            | Self::DelegateOnly { rule, .. }
            | Self::Below { rule, .. } => Some(&rule.text),
            Self::DontAsk { inner } => inner.rule(),
            _ => None,
        }
    }

    /// Who decided.
    pub(crate) fn source(&self) -> Source {
        match self {
            Self::HookDenies(_) | Self::HookAsks(_) | Self::HookAllows => Source::Hook,
            Self::Rule { rule, .. }
            | Self::BrokenRule { rule, .. }
            | Self::Incomparable(rule)
            | Self::DelegateOnly { rule, .. }
            | Self::Below { rule, .. } => Source::Rule(rule.text.to_string()),
            Self::Inside { .. }
            | Self::Plan(_)
            | Self::Bypass
            | Self::DontAsk { .. }
            | Self::Sandboxed
            | Self::CommandReads => Source::Mode,
            Self::Outside { .. } => Source::WorkingDir,
            Self::Tool(_)
            | Self::Harmless
            | Self::OnlyReads
            | Self::TouchesNothing
            | Self::Protected { .. }
            | Self::Kernel(_)
            | Self::Path(_)
            | Self::Address(_)
            | Self::Doubt(_)
            | Self::UnknownFile(_) => Source::SafetyCheck,
            Self::Classifier { .. } => Source::Classifier,
            Self::NotAmongTools { .. } | Self::NoRule(_) | Self::NearMiss { .. } => Source::Other,
        }
    }

    /// Why the call was let through, for the audit log.
    pub(crate) fn allow_reason(&self) -> AllowReason {
        match self {
            Self::Rule { rule, .. } => AllowReason::Rule(rule.text.to_string()),
            Self::HookAllows => AllowReason::Hook,
            Self::Harmless | Self::OnlyReads | Self::TouchesNothing => AllowReason::Tool,
            _ => AllowReason::Mode,
        }
    }
}
