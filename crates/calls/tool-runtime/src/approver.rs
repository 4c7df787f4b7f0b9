use std::sync::Arc;

use haft_permission::{Decision, PermissionUpdate};
use haft_tool::{BoxFuture, CallContext, DynCall, DynTool, Rendered, UserInteraction};
use haft_types::{AgentId, CallId};
use serde_json::Value;

/// Answers permission questions: a user at a terminal, or the program that
/// embeds us.
pub trait Approver: Send + Sync {
    /// Shows the question and waits. Dropping the future withdraws the question.
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer>;

    /// Whether anybody answers. Tools that need a user do not exist otherwise
    /// ([`haft_tool::Traits::needs_user`]).
    fn is_available(&self) -> bool {
        true
    }

    /// What the model reads when the answer was no, for this reason. A program
    /// that answers may want its own words, and nothing else.
    fn denial_text(&self, tool: &str, reason: &str) -> String {
        denial_text(tool, reason)
    }
}

/// The usual words for a call that may not run.
pub(crate) fn denial_text(tool: &str, reason: &str) -> String {
    format!("{tool} was not allowed to run: {reason}")
}

/// Whether a call may run.
#[derive(Clone, Debug)]
pub struct PermissionQuestion {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call_id: CallId,
    /// Who called.
    pub agent_id: AgentId,
    /// Canonical input.
    pub input: Value,
    /// One line that says what would happen.
    pub description: String,
    /// Whether it loses data that cannot be brought back.
    pub is_destructive: bool,
    /// What a user should see of it before answering: the command, the change.
    pub shown: Rendered,
    /// Why it is asked, part by part, and which rules would answer it for good.
    pub decision: Decision,
    /// What only a user can answer: what they say becomes part of the input.
    pub interaction: UserInteraction,
}

impl PermissionQuestion {
    pub(crate) fn new(tool: &dyn DynTool, call: &dyn DynCall, cx: &CallContext, decision: &Decision) -> Self {
        Self {
            tool: tool.name().to_owned(),
            call_id: cx.call_id.clone(),
            agent_id: cx.agent_id.clone(),
            input: call.input().clone(),
            description: call.describe(),
            is_destructive: call.is_destructive(),
            shown: call.render(),
            decision: decision.clone(),
            interaction: call.user_interaction(),
        }
    }

    /// What a user has to know before anything else.
    pub fn warning(&self) -> Option<&'static str> {
        self.is_destructive.then_some("what it removes or overwrites cannot be brought back")
    }
}

/// The answer to a [`PermissionQuestion`].
#[derive(Clone, Debug, PartialEq)]
pub enum PermissionAnswer {
    /// Run it.
    Allow {
        /// With this input instead; it is checked like any other.
        updated_input: Option<Value>,
        /// And remember this.
        updates: Vec<PermissionUpdate>,
    },
    /// Do not run it.
    Deny {
        /// What the model is told.
        message: String,
        /// End the whole turn.
        interrupt: bool,
    },
    /// Denied because no approver was available, which is no decision of a user.
    Unavailable {
        /// What the model is told.
        message: String,
    },
}

impl PermissionAnswer {
    /// Allows the call as it is.
    pub fn allow() -> Self {
        Self::Allow { updated_input: None, updates: Vec::new() }
    }

    /// Allows the call with this input.
    pub fn allow_with(input: Value) -> Self {
        Self::Allow { updated_input: Some(input), updates: Vec::new() }
    }

    /// Allows the call as it is, and what these updates allow from now on.
    pub fn allow_and_keep(updates: Vec<PermissionUpdate>) -> Self {
        Self::Allow { updated_input: None, updates }
    }

    /// Denies the call; the turn goes on.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: false }
    }

    /// Denies the call because nobody could be asked.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into() }
    }
}

/// Nobody answers: every call that needs an answer is denied at once, and the
/// model and the log learn which rule would have allowed it.
#[derive(Clone, Copy, Debug)]
pub struct NoApprover;

impl Approver for NoApprover {
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        Box::pin(async move { PermissionAnswer::unavailable(question.decision.clone().unattended().reason) })
    }

    fn is_available(&self) -> bool {
        false
    }
}
