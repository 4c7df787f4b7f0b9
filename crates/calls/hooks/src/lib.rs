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

mod answer;
mod background;
mod capture;
mod command;
mod cut;
mod definition;
mod elicited;
mod event;
mod failure;
mod group;
mod hooks;
mod http;
mod input;
mod launch;
mod matcher;
mod merge;
mod outcome;
mod output;
mod page;
mod parse;
mod ports;
mod runner;
mod running;
mod settle;
mod state;

pub use cut::TEXT_LIMIT;
pub use definition::{
    Callback, CommandHandler, ErrorEffect, ErrorPolicy, ExternalHandler, HandlerKind, HookDefinition,
    HookHandler, HookId, HookRepeat, HookRunMode, HookSource, HttpHandler,
};
pub use elicited::{ElicitationOverride, ElicitedAction};
pub use event::{BlockEffect, HookEvent, UnknownEvent};
pub use failure::HookFailure;
pub use hooks::{Hooks, RefusedRewrite};
pub use input::{
    BaseInput, BatchCall, CompactTrigger, EffortInput, Elicitation, ElicitationResult, EventInput, HookInput,
    Notification, OtherInput, PermissionDenied, PermissionRequest, PostToolBatch, PostToolUse,
    PostToolUseFailure, PreCompact, PreToolUse, SessionEnd, SessionSource, SessionStart, Stop, SubagentStart,
    SubagentStop, ToolServerInput, UserPromptSubmit,
};
pub use matcher::{HookMatcher, MatchResult};
pub use outcome::{
    BlockCause, EventExtras, HookDecision, HookReport, HookRewrite, HookRunResult, HooksOutcome, StopTurn,
};
pub use output::{
    BackgroundRequest, GeneralDecision, HookOutput, HookPermissionAnswer, OutputError, PermissionBehavior,
    PermissionDecision, SpecificOutput, StopRequest,
};
pub use page::events_page;
pub use parse::{DefinitionProblem, parse_definitions};
pub use ports::{
    CallbackAnswer, ExternalHandlers, HookCall, HookCallback, HookEnvironment, HookObserver, HookPorts,
    HookStart, HttpPolicy, RuleMatcher, TextStore,
};
