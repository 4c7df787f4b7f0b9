//! Runs user hooks and returns their answers as data.
//!
//! A hook is user code that runs at an event: a command, an HTTP request, a callback of the embedding
//! program, an MCP tool, a prompt. An event is described by a [`HookInput`], passed to all matching
//! hooks concurrently ([`Hooks::run`]), and results in one [`HooksOutcome`]: a decision, texts for model
//! and user, a rewritten input, and a report per hook.
//!
//! **Does not know** tools, permission rules, models, MCP, or where settings are stored. What it needs of them is in [`HookPorts`]; definitions come from [`parse_definitions`] or are built in code.
//!
//! **Invariant:** a failed hook is never reported as a denial ([`BlockCause`]), and the consequence of a failure is explicit ([`ErrorEffect`]). A malformed answer can restrict, never allow.
//!
//! **Invariant:** no process of a hook outlives its timeout, the future that ran it, or the [`Hooks`] it belongs to, unless it left its process group before the hook exited.
//!
//! **Invariant:** the outcome depends on the answers and the configuration order, never on timing.
//!
//! **Invariant:** an event without hooks costs one bit test.

mod apply_error_policy;
mod background_hooks;
mod command_handler;
mod elicitation_override;
mod error;
mod hook_definition;
mod hook_event;
mod hook_input;
mod hook_output;
mod hook_state;
mod hooks;
mod hooks_outcome;
#[cfg_attr(not(feature = "http"), path = "no_http_handler.rs")]
mod http_handler;
mod matcher;
mod merge_answers;
mod parse_answer;
mod parse_settings;
mod ports;
mod process_group;
mod reference_page;
mod runner;
mod running_process;
mod script_check;
mod stream_capture;
mod truncate;

pub use elicitation_override::{ElicitationOverride, ElicitedAction};
pub use error::HookFailure;
pub use hook_definition::{
    Callback, CommandHandler, ErrorEffect, ErrorPolicy, ExternalHandler, HandlerKind, HookDefinition,
    HookHandler, HookId, HookRepeat, HookRunMode, HookSource, HttpHandler,
};
pub use hook_event::{BlockEffect, HookEvent, UnknownEvent};
pub use hook_input::{
    BaseInput, BatchCall, CompactTrigger, EffortInput, Elicitation, ElicitationResult, EventInput, HookInput,
    Notification, OtherInput, PermissionDenied, PermissionRequest, PostToolBatch, PostToolUse,
    PostToolUseFailure, PreCompact, PreToolUse, SessionEnd, SessionSource, SessionStart, Stop, SubagentStart,
    SubagentStop, ToolServerInput, UserPromptSubmit,
};
pub use hook_output::{
    BackgroundRequest, GeneralDecision, HookOutput, HookPermissionAnswer, OutputError, PermissionBehavior,
    PermissionDecision, SpecificOutput, StopRequest,
};
pub use hooks::{Hooks, RefusedRewrite};
pub use hooks_outcome::{
    BlockCause, EventExtras, HookDecision, HookReport, HookRewrite, HookRunResult, HooksOutcome, StopTurn,
};
pub use matcher::{HookMatcher, MatchResult};
pub use parse_settings::{DefinitionProblem, parse_definitions};
pub use ports::{
    CallbackAnswer, ExternalHandlers, HookCall, HookCallback, HookEnvironment, HookObserver, HookPorts,
    HookStart, HttpPolicy, RuleMatcher, TextStore,
};
pub use reference_page::events_page;
pub use truncate::TEXT_LIMIT;
