//! Sessions on many machines: job files become jobs, workers run them as
//! sessions whose logs a store keeps, and whoever takes over goes on there.
//!
//! A [`jobs::JobPlan`] is what a file means. A [`FleetClient`] queues, lists,
//! follows and ends jobs. A [`FleetWorker`] takes jobs, gives each a workspace and a
//! session, and hands back what came of it. What flags mean is asked of whoever
//! embeds it ([`JobSessions`]).
//!
//! **Does not know** how an engine keeps anything (`haft-fleet-store` does), flags
//! of a command line, or terminals.
//!
//! **Invariant:** a call that may act runs only when the store has the line that
//! says so, under the epoch of this worker, and the lease is fresh by the boot
//! clock.
//!
//! **Invariant:** the value of a secret leaves a worker neither in a line, a blob,
//! a summary nor a result.

mod boot_clock;
mod checkpoint;
mod client;
mod fence;
pub mod jobs;
mod kept_results;
mod limits;
mod moving;
mod pack;
mod run_lines;
mod secrets;
mod where_words;
mod worker;
mod workspace;

pub use client::{
    FleetClient, FollowedLine, JobFailure, RunResult, StageVerdict, SubmitReport, SubmitTarget, WaitedCounts,
};
pub use limits::{KeyLimit, KeyLimits};
pub use moving::MoveReport;
pub use pack::{PackedTree, pack_tree};
pub use secrets::{SecretLocation, SecretRules, ValueMask, token_hash};
pub use where_words::parse_where;
pub use worker::{FleetWorker, JobSession, JobSessions, WorkerEvent, WorkerSettings};
