//! Runs user hooks and returns their answers as data.
//!
//! A hook is user code around what the agent does: a command, a server, a
//! callback of the embedder, an MCP tool, a prompt. An event is described by a
//! [`HookInput`], goes to every matching hook at the same time
//! ([`Hooks::run`]), and comes back as one [`HooksOutcome`]: a decision, texts for
//! the model and the person, a rewritten input, and a report per hook.
//!
//! **Does not know** tools, permission rules, models, MCP, or where settings
//! live. What it needs of them is in [`HookPorts`]; definitions come in through
//! [`parse_definitions`] or are built by hand.
//!
//! **Invariant:** a hook that broke is never mistaken for one that said no
//! ([`BlockCause`]), and what follows from it is written down ([`ErrorEffect`]): a
//! gate stays closed, an observer stays out of the way. A broken answer can
//! tighten, it can never loosen.
//!
//! **Invariant:** no process of a hook outlives its timeout, the future that
//! ran it, or the [`Hooks`] it belongs to.
//!
//! **Invariant:** the outcome depends on the answers and on configuration
//! order, never on which hook was faster.
//!
//! **Invariant:** without hooks for an event, the event costs one bit test.

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
