//! Runs sessions on many machines: job files become jobs, workers run them as sessions whose logs are
//! kept in a store, and another worker can take over at any time.
//!
//! [`job_file::JobPlan`] is a parsed job file. [`FleetClient`] submits, lists, follows and cancels jobs.
//! [`FleetWorker`] takes jobs, runs each in a workspace with a session, and returns the results. The
//! embedding program interprets the job's flags ([`JobSessions`]).
//!
//! **Out of scope**: the storage engines (`haft-fleet-store`). Only the module `commands` (a feature)
//! knows command line flags and terminals.
//!
//! **Invariant:** a tool call with side effects starts only after the store has acknowledged its
//! `started` line under this worker's epoch, and while the lease is fresh by the boot clock.
//!
//! **Invariant:** the value of a secret leaves a worker in no line, blob, summary or result.

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
