use std::{fmt, sync::Arc};

use haft_tool::{AllowReason, GrantedPath, Permit, ReadScope};
use serde::{Deserialize, Serialize};

use crate::{PermissionUpdate, evaluate::DecisionStrength};

/// What may happen to a call.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    /// It runs.
    Allow,
    /// Somebody has to say yes first.
    Ask,
    /// It does not run.
    Deny,
}

impl Behavior {
    /// The public name.
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

/// What a hook said before the rules were asked.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum HookOpinion {
    /// Nothing.
    #[default]
    None,
    /// Let it run, as far as the hook is concerned.
    Allow,
    /// Ask, for this reason, in every mode.
    Ask(String),
    /// Do not run it, for this reason.
    Deny(String),
}

/// Who decided.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type", content = "value", rename_all = "camelCase")]
pub enum DecisionSource {
    /// This rule, as written.
    Rule(String),
    /// The permission mode.
    Mode,
    /// A hook.
    Hook,
    /// The tool's own check, or a check every call goes through.
    SafetyCheck,
    /// A path outside the workspace.
    WorkingDir,
    /// The classifier of auto mode.
    Classifier,
    /// Nobody: nothing speaks for it.
    Other,
}

/// One judged part of a call: a path, a simple command, an address.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct JudgedPart {
    /// What was judged.
    pub subject: String,
    /// What may happen to it.
    pub decision: Behavior,
    /// Why.
    pub reason: String,
    /// The rule that decided, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// What one level of a chain of agents said.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct LevelDecision {
    /// Whose rights these are.
    pub agent: String,
    /// What they say.
    pub decision: Behavior,
    /// Why.
    pub reason: String,
}

/// The answer to "may this call run", with its whole explanation.
#[derive(Clone, Serialize)]
pub struct Decision {
    /// What may happen.
    #[serde(rename = "decision")]
    pub behavior: Behavior,
    /// One sentence, for the person and the model.
    pub reason: String,
    /// Who decided.
    #[serde(skip)]
    pub source: DecisionSource,
    /// Everything that was judged.
    pub parts: Vec<JudgedPart>,
    /// What each agent of the chain said, the calling one first; empty when
    /// there is only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<LevelDecision>,
    /// What a reader should know besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Changes that would make the same call run next time.
    #[serde(skip)]
    pub suggestions: Vec<PermissionUpdate>,
    #[serde(skip)]
    pub(crate) standing: DecisionStrength,
    /// Whether nobody spoke about it, when nobody could be asked.
    #[serde(skip)]
    pub(crate) was_open: bool,
    #[serde(skip)]
    pub(crate) classifiable: bool,
    /// Whether the question is another machine's: no answer to it lets anything
    /// run here.
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
    /// A question of another machine's rules, to be shown to a person here. It
    /// never becomes a permit.
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

    /// The permit of an allowed call; the decision itself when it is not.
    #[expect(clippy::disallowed_methods, reason = "this crate is the issuer")]
    #[expect(clippy::result_large_err, reason = "the decision goes on to be shown, logged or answered")]
    pub fn permit(self) -> Result<Permit, Self> {
        match self.behavior {
            Behavior::Allow => Ok(Permit::issue(self.allowed_by, self.grants, self.scope)),
            Behavior::Ask | Behavior::Deny => Err(self),
        }
    }

    /// The permit after the user, or the program in their place, said yes to
    /// what asked. A denied call gets none.
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

    /// The person said no to the same call of another agent: what only a mode
    /// allows is asked about, and a question says so.
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

    /// What becomes of a question when nobody is there to answer it: a no, in
    /// words for the model. What the person can do about it is [`Decision::way_out`].
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

    /// Whether a classifier may answer in the person's place.
    pub fn is_classifiable(&self) -> bool {
        self.classifiable
    }

    /// Whether it asks in every mode: an ask rule, a hook or the tool insists.
    pub fn insists(&self) -> bool {
        self.standing == DecisionStrength::Firm
    }

    /// The ask rule that wants the question, if it is one.
    pub fn matched_ask_rule(&self) -> Option<&str> {
        match &self.source {
            DecisionSource::Rule(rule) if self.insists() => Some(rule),
            _ => None,
        }
    }

    /// How a person lets a call like this one run next time, for one run and for
    /// good: flags and commands that can be pasted as they are.
    pub fn way_out(&self) -> String {
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

/// A word for a shell.
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
