//! Sessions on many machines: job files become jobs, workers run them as
//! sessions whose logs a store keeps, and whoever takes over goes on there.
//!
//! A [`job_file::JobPlan`] is what a file means. A [`FleetClient`] queues, lists,
//! follows and ends jobs. A [`FleetWorker`] takes jobs, gives each a workspace and a
//! session, and hands back what came of it. What flags mean is asked of whoever
//! embeds it ([`JobSessions`]).
//!
//! **Does not know** how an engine keeps anything (`haft-fleet-store` does). Only the
//! module `commands` (a feature) knows flags of a command line and terminals.
//!
//! **Invariant:** a call that may act runs only when the store has the line that
//! says so, under the epoch of this worker, and the lease is fresh by the boot
//! clock.
//!
//! **Invariant:** the value of a secret leaves a worker neither in a line, a blob,
//! a summary nor a result.

mod checkout;
mod checkpoint;
#[cfg(feature = "commands")]
pub mod commands;
mod fleet_client;
pub mod job_file;
mod large_results;
mod lease_clock;
mod limits;
mod move_jobs;
mod pack_tree;
mod run_log_lines;
mod secret_rules;
mod store_log;
mod where_filter;
mod worker;

pub use fleet_client::{
    FleetClient, FollowedLine, JobFailure, RunResult, StageVerdict, SubmitReport, SubmitTarget, WaitedCounts,
};
pub use limits::{KeyLimit, KeyLimits};
pub use move_jobs::MoveReport;
pub use pack_tree::{PackedTree, pack_tree};
pub use secret_rules::{SecretLocation, SecretRules, ValueMask, token_hash};
pub use where_filter::parse_where;
pub use worker::{FleetWorker, JobSession, JobSessions, WorkerEvent, WorkerSettings};
