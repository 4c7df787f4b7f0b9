use haft_permission::{Decision, PermissionUpdate};
use haft_tool::{BoxFuture, Rendered};
use haft_types::{AgentId, CallId};
use serde_json::Value;

/// Somebody who can say yes: a person at a terminal, or the program that
/// embeds us.
pub trait Approver: Send + Sync {
    /// Shows the question and waits. Dropping the future takes the question
    /// back.
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer>;

    /// Whether there is somebody at all: tools that only speak with a person are
    /// not there otherwise.
    fn is_somebody(&self) -> bool {
        true
    }

    /// What the model reads when the answer was no, for this reason. Programs
    /// that answer may want their own words, and nothing else.
    fn refusal(&self, tool: &str, reason: &str) -> String {
        refusal(tool, reason)
    }
}

/// The usual words for a call that may not run.
pub(crate) fn refusal(tool: &str, reason: &str) -> String {
    format!("{tool} was not allowed to run: {reason}")
}

/// What is asked.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The call.
    pub call_id: &'a CallId,
    /// Who called.
    pub agent_id: &'a AgentId,
    /// Canonical input.
    pub input: &'a Value,
    /// One line that says what would happen.
    pub description: &'a str,
    /// Whether it loses data that cannot be brought back.
    pub is_destructive: bool,
    /// What a person should see of it before answering: the command, the change.
    pub shown: &'a Rendered,
    /// Why it is asked, part by part, and which rules would answer it for good.
    pub decision: &'a Decision,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
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
    /// Nobody could be asked, which is a no that no person said.
    Unasked {
        /// What the model is told.
        message: String,
    },
}

impl Answer {
    /// A plain yes.
    pub fn yes() -> Self {
        Self::Allow { updated_input: None, updates: Vec::new() }
    }

    /// A plain no.
    pub fn no(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: false }
    }

    /// A no because nobody could be asked.
    pub fn unasked(message: impl Into<String>) -> Self {
        Self::Unasked { message: message.into() }
    }
}

/// Nobody is there: whatever would ask is denied, at once, and the model and
/// the log learn which rule would have allowed it.
#[derive(Clone, Copy, Debug)]
pub struct NoApprover;

impl Approver for NoApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let message = question.decision.clone().unattended().reason;
        Box::pin(async { Answer::unasked(message) })
    }

    fn is_somebody(&self) -> bool {
        false
    }
}
