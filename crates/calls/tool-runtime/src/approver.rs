use std::sync::Arc;

use haft_permission::{Decision, PermissionUpdate};
use haft_tool::{BoxFuture, CallContext, DynCall, DynTool, Rendered, UserInteraction};
use haft_types::{AgentId, CallId};
use serde_json::Value;

/// Answers permission prompts. Implemented by the terminal UI (for the user) and by embedding programs.
pub trait Approver: Send + Sync {
    /// Shows the prompt and waits for the answer, without a timeout. Dropping the future withdraws the
    /// prompt.
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer>;

    /// Whether an approver can answer prompts. If not, tools that need a user
    /// ([`haft_tool::Traits::needs_user`]) are not offered to the model.
    fn is_available(&self) -> bool {
        true
    }

    /// Builds the result text the model reads when this approver denies a call of `tool` for `reason`.
    /// An embedding program can override it to send its own text unchanged.
    fn denial_text(&self, tool: &str, reason: &str) -> String {
        denial_text(tool, reason)
    }
}

/// Default result text for a denied call, read by the model.
pub(crate) fn denial_text(tool: &str, reason: &str) -> String {
    format!("{tool} was not allowed to run: {reason}")
}

/// A permission prompt: asks the approver whether a call may run.
#[derive(Clone, Debug)]
pub struct PermissionQuestion {
    /// Name of the called tool.
    pub tool: String,
    /// The `tool_use` id of the call.
    pub call_id: CallId,
    /// The agent that made the call.
    pub agent_id: AgentId,
    /// The input as the tool parsed it (canonical form), not as the model wrote it.
    pub input: Value,
    /// One line that describes the effect of the call.
    pub description: String,
    /// Whether the call destroys data that cannot be restored.
    pub is_destructive: bool,
    /// What the user should read before answering, such as the command or the diff.
    pub shown: Rendered,
    /// Why the call asks, with one reason per part, and the suggested rules that would stop it from
    /// asking again.
    pub decision: Decision,
    /// The input that only a user can supply; the answer becomes part of the call's input.
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

    /// Returns the warning to show above everything else, if the call is destructive.
    pub fn warning(&self) -> Option<&'static str> {
        self.is_destructive.then_some("what it removes or overwrites cannot be brought back")
    }
}

/// The answer to a [`PermissionQuestion`].
#[derive(Clone, Debug, PartialEq)]
pub enum PermissionAnswer {
    /// Runs the call.
    Allow {
        /// Replaces the call's input. The new input is parsed, validated and checked against the
        /// permission rules again; a deny rule still wins.
        updated_input: Option<Value>,
        /// Permission changes to apply from now on, for example a new allow rule.
        updates: Vec<PermissionUpdate>,
    },
    /// Does not run the call.
    Deny {
        /// The reason. The result text the model reads is made from it ([`Approver::denial_text`]).
        message: String,
        /// Whether to end the whole turn as well.
        interrupt: bool,
    },
    /// Denied because no approver was available. This is not a decision of a user.
    Unavailable {
        /// The reason. The result text the model reads is made from it ([`Approver::denial_text`]).
        message: String,
    },
}

impl PermissionAnswer {
    /// Allows the call unchanged.
    pub fn allow() -> Self {
        Self::Allow { updated_input: None, updates: Vec::new() }
    }

    /// Allows the call with `input` in place of its own.
    pub fn allow_with(input: Value) -> Self {
        Self::Allow { updated_input: Some(input), updates: Vec::new() }
    }

    /// Allows the call unchanged and applies `updates` to the permissions from now on.
    pub fn allow_and_keep(updates: Vec<PermissionUpdate>) -> Self {
        Self::Allow { updated_input: None, updates }
    }

    /// Denies the call; the turn goes on.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: false }
    }

    /// Denies the call because no approver was available.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into() }
    }
}

/// The approver of unattended sessions: denies every prompt at once. [`CallDecision::remedy`] tells the
/// user which rule would have allowed the call; the model is not told.
///
/// [`CallDecision::remedy`]: crate::CallDecision::way_out
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
