//! Runs tool calls: who exists ([`Pool`]), when each may start ([`Schedule`]),
//! the eight stages every call goes through ([`Pipeline`]), and what keeps
//! large results out of the model's window ([`ResultStore`]).
//!
//! **Does not know** any concrete tool but the one that searches the pool, no
//! provider, no terminal, no settings file.
//!
//! **Invariant:** for every `tool_use` that goes in, exactly one [`CallReport`]
//! comes out. Failures are reports, never `Err`.
//!
//! **Invariant:** a call that may act runs only after its [`CallLog`], where
//! there is one, has written that down.
//!
//! **Invariant:** what a call sees of the session depends on what the model
//! wrote, never on which of its neighbours finished first.
//!
//! **Invariant:** the advertised tool list is byte-stable: adding, losing or
//! loading a tool never changes a byte before it.

mod ask;
mod executor;
mod gate;
mod hooks;
mod names;
mod parsed;
mod pipeline;
mod pool;
mod preview;
mod report;
mod results;
mod rewritten;
mod schedule;
mod search;
mod session;
mod timing;
mod witness;

pub use ask::{Answer, Approver, NoApprover, Question};
pub use executor::{BatchLimits, CallDisplay, Executor};
pub use gate::{ElsewhereQuestion, Gate, UpdateStore};
pub use hooks::{LEFT_FOR_LATER, SessionHooks};
pub use names::wire_name;
pub use parsed::{CallSummary, ParsedCall};
pub use pipeline::{Pipeline, SecretMask};
pub use pool::{AbsenceReason, Pool, PoolFeatures, PoolFilter, ToolVisibility, visible};
pub use report::CallReport;
pub use results::{ResultStore, StoreLimits};
pub use schedule::{Batch, Schedule, ScheduleKind, partition};
pub use search::{SharedPool, ToolSearch};
pub use session::{BatchObserver, CallSession, CallSessionState};
pub use timing::{CallTiming, DenialSource};
pub use witness::{AnsweredBy, ApprovalRecord, CallDecision, CallLog, CallStart, Persisted};
