use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use crate::{
    ElicitationOverride, ErrorEffect, HookEvent, HookFailure, HookId, HookPermissionAnswer, HookSource,
};

/// Merged outcome of all hooks of one event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HooksOutcome {
    /// The strictest decision.
    pub decision: HookDecision,
    /// `PreToolUse`: input to use instead. Not validated: the tool must accept it like any input.
    pub updated_input: Option<HookRewrite>,
    /// Texts for the model, in configuration order.
    pub additional_context: Vec<String>,
    /// Texts for the user, in configuration order.
    pub system_messages: Vec<String>,
    /// Set if a hook ends the turn.
    pub stop: Option<StopTurn>,
    /// Event-specific results.
    pub extras: EventExtras,
    /// One report per hook that ran, in configuration order.
    pub reports: Vec<HookReport>,
}

/// A decision, from the mildest to the strictest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum HookDecision {
    /// No hook has an opinion.
    #[default]
    NoOpinion,
    /// Allowed by hooks; rules may still object.
    Allow { reason: String },
    /// The user must be asked.
    Ask { reason: String },
    /// The embedding program decides.
    Defer { reason: String },
    /// Denied. At events after the fact, a message for the model.
    Block {
        /// Reason, for the model and the user.
        reason: String,
        /// Whether a hook denied or could not run.
        cause: BlockCause,
    },
}

/// Why an operation is blocked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BlockCause {
    /// A hook denied it.
    SaidNo,
    /// A gate failed, and its policy is to block.
    CouldNotRun,
}

/// A hook's request to end the turn.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StopTurn {
    /// Reason, for the user; may be empty.
    pub reason: String,
}

/// A rewritten input.
#[derive(Clone, Debug, PartialEq)]
pub struct HookRewrite {
    /// The complete input to use instead.
    pub input: Value,
    /// The hooks that changed it, in configuration order.
    pub by: Vec<HookId>,
    /// Effect if the tool rejects the input: the strictest policy of these hooks.
    pub on_error: ErrorEffect,
}

/// Event-specific results. Lists of several hooks are joined; for single values the last hook in
/// configuration order wins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventExtras {
    /// `PermissionRequest`: answer in place of the user.
    pub permission: Option<HookPermissionAnswer>,
    /// `PostToolUse`: content for the model instead of the result.
    pub updated_tool_output: Option<Value>,
    /// `PostToolUse` of an MCP tool: content for the model instead of the result.
    pub updated_mcp_tool_output: Option<Value>,
    /// `PostToolUse`: texts for the command classifier.
    pub classifier_context: Vec<String>,
    /// `SessionStart`: first prompt.
    pub initial_user_message: Option<String>,
    /// `SessionStart`, `UserPromptSubmit`: title of the session.
    pub session_title: Option<String>,
    /// `SessionStart`: files to watch for `FileChanged`.
    pub watch_paths: Vec<String>,
    /// `SessionStart`: whether to reload the skills.
    pub reload_skills: bool,
    /// `UserPromptSubmit`: whether to send the context instead of the prompt.
    pub suppress_original_prompt: bool,
    /// `PermissionDenied`: whether the model may try again.
    pub retry: bool,
    /// `Elicitation`, `ElicitationResult`: answer in place of the user.
    pub elicited: Option<ElicitationOverride>,
    /// Escape sequences for the user's terminal; validate them before use.
    pub terminal_sequences: Vec<String>,
    /// Other fields.
    pub other: Map<String, Value>,
}

/// Report about one hook.
#[derive(Clone, Debug, PartialEq)]
pub struct HookReport {
    pub id: HookId,
    pub event: HookEvent,
    /// One line that describes it.
    pub label: String,
    /// Where it was defined.
    pub source: Arc<HookSource>,
    /// Run time.
    pub duration: Duration,
    /// Result.
    pub happened: HookRunResult,
    /// Exit status of a command that exited normally.
    pub status: Option<i32>,
    /// Beginning of its standard output.
    pub stdout: String,
    /// Beginning of its standard error.
    pub stderr: String,
}

/// Result of a hook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HookRunResult {
    /// It ran and did not object.
    Ran,
    /// It ran and denied.
    SaidNo,
    /// It failed.
    Broke {
        /// The failure.
        failure: HookFailure,
        /// Number of consecutive failures, including this one.
        in_a_row: u32,
        /// The consequence.
        effect: ErrorEffect,
    },
    /// It continues in the background.
    InBackground,
}

impl HookReport {
    /// A line for the user, if there is something to report.
    pub fn notice(&self) -> Option<String> {
        match &self.happened {
            HookRunResult::Broke { failure, effect: ErrorEffect::Open, .. } => {
                Some(format!("hook {} ({}) was skipped: {failure}", self.id, self.label))
            }
            HookRunResult::Broke { failure, effect: ErrorEffect::Closed, .. } => {
                Some(format!("hook {} ({}) could not run: {failure}", self.id, self.label))
            }
            HookRunResult::Ran | HookRunResult::SaidNo | HookRunResult::InBackground => None,
        }
    }
}

impl fmt::Display for BlockCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SaidNo => "a hook said no",
            Self::CouldNotRun => "a gate could not run",
        })
    }
}
