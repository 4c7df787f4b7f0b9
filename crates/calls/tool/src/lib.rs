//! The tool contract: what an author writes ([`Tool`], or a closure with
//! [`tool`]) and what the runtime sees ([`DynTool`], [`DynCall`]).
//!
//! **Does not know** any concrete tool, rule, hook, provider or agent.
//!
//! **Invariant:** a [`DynCall`] exists only for input that passed the strict
//! schema, and runs only against a [`Permit`]. Both are types, not conventions.
//!
//! **Invariant:** every default closes. An author who thinks of nothing gets a
//! tool that runs alone, counts as a write, asks before it runs, refuses
//! unknown parameters, and is stopped when it takes too long.

mod access;
mod closure;
mod command_line;
mod context;
mod context_change;
mod contract;
mod dyn_tool;
mod error;
mod input;
mod permit;
mod raw_tool;
mod rendering;
mod schema;
mod tool_output;
mod user_interaction;

pub use access::{Access, AccessSet};
pub use closure::tool;
pub use command_line::CommandLine;
pub use context::{CallContext, ProgressEvent, ProgressSink, ToolContext};
pub use context_change::{CallEffect, ContextChange, WorkItem};
pub use contract::{Exposure, Stage, Tool, Traits};
pub use dyn_tool::{BoxFuture, DynCall, DynTool, ToolSpec, erase};
pub use error::{ErrorKind, ToolError};
pub use haft_types::{Block, CallId, Content};
pub use input::{check as check_input, example, schema_problem};
pub use permit::{
    AllowReason, GrantedPath, PathRestrictions, Permit, ReadNetworkUse, ReadScope, RestrictedPath,
    UnrestrictedRead, Verdict,
};
pub use raw_tool::{RawTool, ToolHints};
pub use rendering::{CollapsedLines, LineStyle, Rendered, RenderedLine, Rendering};
pub use schema::{close, schema_of, wire_form};
pub use tool_output::{Outcome, Output};
pub use user_interaction::{AnswerOption, UserInteraction, UserQuestion};
