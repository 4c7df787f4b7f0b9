use std::{fmt, sync::Arc};

use haft_tool::{AllowReason, GrantedPath, Permit, ReadScope};
use serde::{Deserialize, Serialize};

use crate::{PermissionUpdate, evaluate::DecisionStrength};

/// What happens to a call.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    /// It runs.
    Allow,
    /// It needs approval.
    Ask,
    /// It does not run.
    Deny,
}

impl Behavior {
    /// Public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Behavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Decision of hooks before rules are evaluated.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum HookOpinion {
    /// No opinion.
    #[default]
    None,
    /// Allow, unless a rule objects.
    Allow,
    /// Ask, for this reason, in every mode.
    Ask(String),
    /// Deny, for this reason.
    Deny(String),
}

/// What determined a decision.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type", content = "value", rename_all = "camelCase")]
pub enum DecisionSource {
    /// A rule, as written.
    Rule(String),
    /// The permission mode.
    Mode,
    /// A hook.
    Hook,
    /// The tool's own check, or a general safety check.
    SafetyCheck,
    /// A path outside the workspace.
    WorkingDir,
    /// The classifier of auto mode.
    Classifier,
    /// Nothing: no rule matches.
    Other,
}

/// One evaluated part of a call: a path, a simple command, a URL.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct JudgedPart {
    /// The part.
    pub subject: String,
    /// The decision about it.
    pub decision: Behavior,
    /// The reason.
    pub reason: String,
    /// The rule that determined it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Decision of one agent in a chain.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct LevelDecision {
    /// The agent.
    pub agent: String,
    /// Its decision.
    pub decision: Behavior,
    /// The reason.
    pub reason: String,
}

/// The decision about a call, with its explanation.
#[derive(Clone, Serialize)]
pub struct Decision {
    /// What happens to the call.
    #[serde(rename = "decision")]
    pub behavior: Behavior,
    /// One sentence for the user and the model.
    pub reason: String,
    /// What determined the decision.
    #[serde(skip)]
    pub source: DecisionSource,
    /// All evaluated parts.
    pub parts: Vec<JudgedPart>,
    /// Decisions of all agents in the chain, the calling one first; empty for the main agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<LevelDecision>,
    /// Additional notes for the reader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Updates that would allow the same call next time.
    #[serde(skip)]
    pub suggestions: Vec<PermissionUpdate>,
    #[serde(skip)]
    pub(crate) standing: DecisionStrength,
    /// Whether no rule matched a call that was denied because no approver was available.
    #[serde(skip)]
    pub(crate) was_open: bool,
    #[serde(skip)]
    pub(crate) classifiable: bool,
    /// Whether a remote host asks: no answer makes the call run here.
    #[serde(skip)]
    pub(crate) is_elsewhere: bool,
    #[serde(skip)]
    pub(crate) allowed_by: AllowReason,
    #[serde(skip)]
    pub(crate) grants: Vec<GrantedPath>,
    #[serde(skip)]
    pub(crate) scope: Arc<dyn ReadScope>,
}

impl Decision {
    /// Creates an `ask` decision made by a remote tool host, for display to the local user. It never
    /// becomes a permit here.
    pub fn elsewhere(reason: String, suggestions: Vec<PermissionUpdate>) -> Self {
        Self {
            behavior: Behavior::Ask,
            reason,
            source: DecisionSource::Other,
            parts: Vec::new(),
            chain: Vec::new(),
            notes: Vec::new(),
            suggestions,
            standing: DecisionStrength::Firm,
            was_open: false,
            classifiable: false,
            is_elsewhere: true,
            allowed_by: AllowReason::User,
            grants: Vec::new(),
            scope: Arc::new(haft_tool::UnrestrictedRead),
        }
    }

    /// The permit of an allowed call; otherwise the decision itself.
    #[expect(clippy::disallowed_methods, reason = "this crate is the issuer")]
    #[expect(clippy::result_large_err, reason = "the decision goes on to be shown, logged or answered")]
    pub fn permit(self) -> Result<Permit, Self> {
        match self.behavior {
            Behavior::Allow => Ok(Permit::issue(self.allowed_by, self.grants, self.scope)),
            Behavior::Ask | Behavior::Deny => Err(self),
        }
    }

    /// The permit after the user, or a program acting for the user, approved the call. A denied call or
    /// a remote decision gets none.
    #[expect(clippy::disallowed_methods, reason = "this crate is the issuer")]
    #[expect(clippy::result_large_err, reason = "the decision goes on to be shown, logged or answered")]
    pub fn approved(self) -> Result<Permit, Self> {
        match self.behavior {
            Behavior::Allow => self.permit(),
            Behavior::Ask if !self.is_elsewhere => {
                Ok(Permit::issue(AllowReason::User, self.grants, self.scope))
            }
            Behavior::Ask | Behavior::Deny => Err(self),
        }
    }

    /// Call when the user denied the same call of another agent: a call allowed only by the mode asks,
    /// and a prompt includes `note`.
    pub fn refused_before(mut self, note: &str) -> Self {
        match (self.behavior, &self.allowed_by) {
            (Behavior::Allow, AllowReason::Mode) => {
                self.behavior = Behavior::Ask;
                note.clone_into(&mut self.reason);
            }
            (Behavior::Ask, _) => self.reason = format!("{note}; {}", self.reason),
            _ => return self,
        }
        self.classifiable = false;
        self
    }

    /// Converts `ask` to `deny` when no approver is available. The reason is for the model;
    /// [`Decision::remedy`] tells the user how to allow it.
    pub fn unattended(mut self) -> Self {
        if self.behavior == Behavior::Ask {
            self.was_open = self.standing == DecisionStrength::Open;
            let what_now = "Go on without it; if the task needs it, say so in your answer";
            self.reason = format!("nobody is there to ask, and {}. {what_now}.", self.reason);
            self.behavior = Behavior::Deny;
            self.standing = DecisionStrength::Denied;
            self.classifiable = false;
        }
        self
    }

    /// Whether a classifier may answer in the user's place.
    pub fn is_classifiable(&self) -> bool {
        self.classifiable
    }

    /// Whether it asks in every mode: an ask rule, a hook or the tool requires it.
    pub fn must_ask(&self) -> bool {
        self.standing == DecisionStrength::Firm
    }

    /// The ask rule that requires the prompt, if it is one.
    pub fn matched_ask_rule(&self) -> Option<&str> {
        match &self.source {
            DecisionSource::Rule(rule) if self.must_ask() => Some(rule),
            _ => None,
        }
    }

    /// How the user can allow a call like this, once or permanently: flags and commands to paste.
    pub fn remedy(&self) -> String {
        let rules = self.suggestions.iter().filter_map(|update| match update {
            PermissionUpdate::AddRules(list) => Some(&list.rules),
            _ => None,
        });
        let rules: Vec<String> = rules.flatten().map(|rule| quoted(&rule.text())).collect();
        let mode = self.suggestions.iter().find_map(|update| match update {
            PermissionUpdate::SetMode { mode, .. } => Some(*mode),
            _ => None,
        });
        match (&*rules, mode, self.matched_ask_rule()) {
            (_, _, Some(rule)) => {
                format!("an ask rule wants the question: haft permissions revoke {}", quoted(rule))
            }
            ([], Some(mode), _) => format!("to allow it: --permission-mode {mode}"),
            ([], None, _) if self.was_open || self.standing == DecisionStrength::Open => String::from(
                "only a rule that spells out all of it, or one for every command, allows it: --allowedTools 'Bash'",
            ),
            ([], None, _) => String::from("no rule allows this; somebody has to be there to say yes"),
            (rules, mode, _) => {
                let flags: Vec<String> = rules.iter().map(|rule| format!("--allowedTools {rule}")).collect();
                let mode = mode.map(|mode| format!(" or --permission-mode {mode}")).unwrap_or_default();
                format!(
                    "to allow it once: {}{mode}; in this project from now on: haft permissions allow {}",
                    flags.join(" "),
                    rules.join(" ")
                )
            }
        }
    }
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("behavior", &self.behavior)
            .field("reason", &self.reason)
            .field("source", &self.source)
            .field("parts", &self.parts)
            .field("suggestions", &self.suggestions)
            .finish_non_exhaustive()
    }
}
