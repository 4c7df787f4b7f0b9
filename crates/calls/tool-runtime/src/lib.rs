//! Runs tool calls: the tools of a session ([`Pool`]), when each call may start ([`Schedule`]), the
//! eight stages of a call ([`Pipeline`]), and storage that keeps large results out of the model's
//! context window ([`ResultStore`]).
//!
//! **Does not know** any concrete tool except the one that searches the pool, no provider, no terminal, no
//! settings file.
//!
//! **Invariant:** every `tool_use` that goes in yields exactly one [`CallReport`]. Failures are reports, never
//! `Err`.
//!
//! **Invariant:** with a [`CallLog`], a call that may change something runs only after the log has recorded it.
//!
//! **Invariant:** what a call sees of the session depends on what the model wrote, never on which neighbouring
//! call finished first.
//!
//! **Invariant:** the advertised tool list is append-only within a session: adding, losing or loading a tool
//! never changes a byte before it.

#![warn(missing_docs)]

mod approver;
mod call_log;
mod call_report;
mod call_schedule;
mod call_session;
mod excerpt;
mod executor;
mod gate;
mod hook_rewrites;
mod parsed_call;
mod pending_map;
mod pipeline;
mod result_store;
mod session_hooks;
mod timing;
mod tool_pool;
mod tool_search;
mod wire_names;

pub use approver::{Approver, NoApprover, PermissionAnswer, PermissionQuestion};
pub use call_log::{AnsweredBy, ApprovalRecord, CallDecision, CallLog, CallStart, Persisted};
pub use call_report::{AnsweredCall, CallReport};
pub use call_schedule::{Batch, Schedule, ScheduleKind, partition};
pub use call_session::{BatchObserver, CallSession, CallSessionState};
pub use executor::{BatchLimits, CallDisplay, Executor};
pub use gate::{Gate, UpdateStore};
pub use parsed_call::{CallSummary, ParsedCall};
pub use pending_map::{PendingGuard, PendingMap};
pub use pipeline::{Pipeline, SecretMask};
pub use result_store::{ResultStore, StoreLimits};
pub use session_hooks::{HookNotes, LEFT_FOR_LATER, SessionHooks};
pub use timing::{CallTiming, DenialSource};
pub use tool_pool::{AbsenceReason, Pool, PoolFeatures, PoolFilter, ToolVisibility, visible};
pub use tool_search::{SharedPool, ToolSearch};
pub use wire_names::wire_name;
