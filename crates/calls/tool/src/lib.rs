//! The tool contract: what authors implement ([`Tool`], or a closure with [`tool`]) and what the runtime
//! uses ([`DynTool`], [`DynCall`]).
//!
//! **Does not know** concrete tools, rules, hooks, providers or agents.
//!
//! **Invariant:** a [`DynCall`] exists only for input that passed the strict schema, and runs only with a [`Permit`]. The type system enforces both.
//!
//! **Invariant:** every default is safe. A tool that overrides nothing runs alone, counts as writing, asks before it runs, rejects unknown parameters, and has a timeout.

#![warn(missing_docs)]

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
