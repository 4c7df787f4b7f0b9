use std::sync::Arc;

use haft_tool::{AllowReason, Grant, Permit, ReadScope};
use serde::{Deserialize, Serialize};

use crate::PermissionUpdate;

/// What may happen to a call.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    /// It runs.
    Allow,
    /// Somebody has to say yes first.
    Ask,
    /// It does not run.
    Deny,
}

/// What a hook said before the rules were asked.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Opinion {
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
pub enum Source {
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
    /// Nobody: nothing speaks for it.
    Other,
}

/// One judged part of a call: a path, a simple command, an address.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Part {
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

/// The answer to "may this call run", with its whole explanation.
#[derive(Clone)]
pub struct Decision {
    /// What may happen.
    pub behavior: Behavior,
    /// One sentence, for the person and the model.
    pub reason: String,
    /// Who decided.
    pub source: Source,
    /// Everything that was judged.
    pub parts: Vec<Part>,
    /// Changes that would make the same call run next time.
    pub suggestions: Vec<PermissionUpdate>,
    pub(crate) allowed_by: AllowReason,
    pub(crate) grants: Vec<Grant>,
    pub(crate) scope: Arc<dyn ReadScope>,
}

impl Decision {
    /// The permit of an allowed call; the decision itself when it is not.
    #[expect(clippy::disallowed_methods, reason = "this crate is the issuer")]
    pub fn permit(self) -> Result<Permit, Self> {
        match self.behavior {
            Behavior::Allow => Ok(Permit::issue(self.allowed_by, self.grants, self.scope)),
            Behavior::Ask | Behavior::Deny => Err(self),
        }
    }

    /// The permit after the user, or the program in their place, said yes to
    /// what asked. A denied call gets none.
    #[expect(clippy::disallowed_methods, reason = "this crate is the issuer")]
    pub fn approved(self) -> Result<Permit, Self> {
        match self.behavior {
            Behavior::Allow => self.permit(),
            Behavior::Ask => Ok(Permit::issue(AllowReason::User, self.grants, self.scope)),
            Behavior::Deny => Err(self),
        }
    }
}
