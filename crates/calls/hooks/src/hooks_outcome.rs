use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use crate::{
    ElicitationOverride, ErrorEffect, HookEvent, HookFailure, HookId, HookPermissionAnswer, HookSource,
};

/// What all hooks of one event said together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HooksOutcome {
    /// The strictest verdict.
    pub decision: HookDecision,
    /// PreToolUse: the input to use instead. It has not been checked: the tool
    /// must accept it like any other input.
    pub updated_input: Option<HookRewrite>,
    /// Texts for the model, in configuration order.
    pub additional_context: Vec<String>,
    /// Texts for the person, in configuration order.
    pub system_messages: Vec<String>,
    /// Set when a hook wants the turn to end.
    pub stop: Option<StopTurn>,
    /// What only some events know.
    pub extras: EventExtras,
    /// One per hook that ran, in configuration order.
    pub reports: Vec<HookReport>,
}

/// A verdict, from none to the strictest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum HookDecision {
    /// No hook has an opinion.
    #[default]
    NoOpinion,
    /// Allowed as far as hooks are concerned; rules may still say otherwise.
    Allow {
        /// The reasons of the hooks that say so, joined.
        reason: String,
    },
    /// The person must be asked.
    Ask {
        /// The reasons of the hooks that say so, joined.
        reason: String,
    },
    /// To be decided by the host that started us.
    Defer {
        /// The reasons of the hooks that say so, joined.
        reason: String,
    },
    /// Refused. At events that come after the fact, a reason for the model.
    Block {
        /// Why, for the model and the person.
        reason: String,
        /// Whether a hook said no, or none could answer.
        cause: BlockCause,
    },
}

/// Why something is blocked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BlockCause {
    /// A hook said no.
    SaidNo,
    /// A gate could not run, and gates stay closed.
    CouldNotRun,
}

/// The end of the turn, asked for by a hook.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StopTurn {
    /// Why, for the person; empty when the hook did not say.
    pub reason: String,
}

/// A rewritten input and who is answerable for it.
#[derive(Clone, Debug, PartialEq)]
pub struct HookRewrite {
    /// The whole input to use instead.
    pub input: Value,
    /// The hooks that changed something, in configuration order.
    pub by: Vec<HookId>,
    /// What it means when the tool does not accept the input: the strictest of
    /// those hooks' policies.
    pub on_error: ErrorEffect,
}

/// What only some events know. Where several hooks speak, lists are joined and
/// the last in configuration order wins a single place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventExtras {
    /// PermissionRequest: the answer instead of the person's.
    pub permission: Option<HookPermissionAnswer>,
    /// PostToolUse: what the model reads instead.
    pub updated_tool_output: Option<Value>,
    /// PostToolUse of an MCP tool: what the model reads instead.
    pub updated_mcp_tool_output: Option<Value>,
    /// PostToolUse: texts for the command classifier.
    pub classifier_context: Vec<String>,
    /// SessionStart: the first prompt.
    pub initial_user_message: Option<String>,
    /// SessionStart, UserPromptSubmit: the session's title.
    pub session_title: Option<String>,
    /// SessionStart: files whose change is an event.
    pub watch_paths: Vec<String>,
    /// SessionStart: whether to read the skills again.
    pub reload_skills: bool,
    /// UserPromptSubmit: whether the model reads the context instead of the
    /// prompt.
    pub suppress_original_prompt: bool,
    /// PermissionDenied: whether the model may try again.
    pub retry: bool,
    /// Elicitation, ElicitationResult: the answer instead of the person's.
    pub elicited: Option<ElicitationOverride>,
    /// Sequences for the person's terminal, to be checked before use.
    pub terminal_sequences: Vec<String>,
    /// Fields of events that have no type yet.
    pub other: Map<String, Value>,
}

/// What happened to one hook.
#[derive(Clone, Debug, PartialEq)]
pub struct HookReport {
    /// The hook that ran.
    pub id: HookId,
    /// At which event.
    pub event: HookEvent,
    /// What it does, in one line.
    pub label: String,
    /// Where it was defined.
    pub source: Arc<HookSource>,
    /// How long it took.
    pub duration: Duration,
    /// What came of it.
    pub happened: HookRunResult,
    /// Its exit status, if it was a command that ended by itself.
    pub status: Option<i32>,
    /// The beginning of what it wrote.
    pub stdout: String,
    /// The beginning of what it complained about.
    pub stderr: String,
}

/// What came of a hook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HookRunResult {
    /// It ran, and did not object.
    Ran,
    /// It ran, and said no.
    SaidNo,
    /// The hook could not give an answer.
    Broke {
        /// What kept it from answering.
        failure: HookFailure,
        /// How often in a row, this time included.
        in_a_row: u32,
        /// What follows from it.
        effect: ErrorEffect,
    },
    /// It goes on in the background.
    InBackground,
}

impl HookReport {
    /// A line for the person, when there is something the person should know.
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
