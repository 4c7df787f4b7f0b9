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

mod change;
mod closure;
mod command_line;
mod context;
mod contract;
mod erased;
mod error;
mod input;
mod outcome;
mod permit;
mod raw;
mod reach;
mod render;
mod schema;

pub use change::{CallEffect, ContextChange, WorkItem};
pub use closure::tool;
pub use command_line::CommandLine;
pub use context::{CallContext, ProgressEvent, ProgressSink, ToolContext};
pub use contract::{Exposure, Stage, Tool, Traits};
pub use erased::{BoxFuture, DynCall, DynTool, ToolSpec, erase};
pub use error::{ErrorKind, ToolError};
pub use haft_types::{Block, CallId, Content};
pub use input::{check as check_input, example, schema_problem};
pub use outcome::{Outcome, Output};
pub use permit::{
    AllowReason, GrantedPath, PathRestrictions, Permit, ReadNetworkUse, ReadScope, RestrictedPath,
    UnrestrictedRead, Verdict,
};
pub use raw::{RawTool, ToolHints};
pub use reach::{Access, AccessSet};
pub use render::{CollapsedLines, LineStyle, Rendered, RenderedLine, Rendering};
pub use schema::{close, schema_of, wire_form};
