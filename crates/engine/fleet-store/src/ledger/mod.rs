//! The queue as a deterministic state machine.
//!
//! Engines store an ordered list of commands, each with the time it was written. Only
//! [`JobLedger::apply`] changes a ledger, and it depends on nothing but its arguments. So all processes
//! that have applied the same commands have the same state and outcomes.
//!
//! **Out of scope**: engines, clocks, other processes.

mod assign;
mod blocked_jobs;
mod jobs;
mod ledger_command;
mod limits;
mod queries;
mod ready;
mod schedule_state;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use ledger_command::{CommandBatch, LedgerCommand, LedgerOutcome, SubmitJob, TakenJob};
pub(crate) use queries::PoolReadiness;
pub(crate) use schedule_state::StoredSchedule;

use crate::{BlobHash, FleetName, JobHead, JobState, ResourceRequest, RunId};
use limits::LimitTable;
use ready::ReadyJobs;
use schedule_state::ScheduleState;

/// Low bits of a command's position, which number the commands of one entry.
pub(crate) const PLACE_BITS: u32 = 12;

/// A JSON value that is stored elsewhere if it is long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum StoredValue {
    /// Stored here.
    #[serde(rename = "v")]
    Inline(Value),
    /// A range of a blob of the tenant: offset and length in bytes.
    #[serde(rename = "p")]
    Packed(BlobHash, u64, u64),
}

impl Default for StoredValue {
    fn default() -> Self {
        Self::Inline(Value::Null)
    }
}

impl StoredValue {
    fn is_null(&self) -> bool {
        matches!(self, Self::Inline(Value::Null))
    }
}

/// A job and its state. Times are milliseconds of the engine's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LedgerJob {
    pub(crate) head: JobHead,
    pub(crate) body: StoredValue,
    pub(crate) state: JobState,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_paused: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_cancel_asked: bool,
    #[serde(default)]
    pub(crate) epoch: u64,
    #[serde(default)]
    pub(crate) deliveries: u32,
    #[serde(default)]
    pub(crate) lost: u32,
    /// Consecutive renewals of its worker without this job.
    #[serde(default)]
    pub(crate) unnamed: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<FleetName>,
    pub(crate) submitted_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<i64>,
    pub(crate) changed_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(default, skip_serializing_if = "StoredValue::is_null")]
    pub(crate) summary: StoredValue,
    #[serde(default)]
    pub(crate) log_begin: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_false(it: &bool) -> bool {
    !it
}

/// A live worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LedgerWorker {
    pub(crate) pool: FleetName,
    pub(crate) lease_ms: u64,
    /// Position of its last renewal.
    pub(crate) beat: u64,
    /// Boot id of its machine, for engines on a single machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot: Option<String>,
    /// Resources of its machine.
    #[serde(default, skip_serializing_if = "ResourceRequest::is_empty")]
    pub(crate) machine: ResourceRequest,
    /// Jobs it holds, by order.
    #[serde(skip)]
    pub(crate) holds: BTreeSet<u64>,
}

/// State of all jobs of a fleet.
#[derive(Debug, Default)]
pub(crate) struct JobLedger {
    /// Position of the last applied command.
    pub(crate) position: u64,
    /// Time of that command.
    pub(crate) now: i64,
    next_order: u64,
    jobs: BTreeMap<u64, LedgerJob>,
    order_of: HashMap<RunId, u64>,
    known: HashMap<(FleetName, String), u64>,
    workers: BTreeMap<FleetName, LedgerWorker>,
    paused_batches: BTreeSet<(FleetName, FleetName)>,
    ready: ReadyJobs,
    /// Queued jobs with a later start time.
    delayed: BTreeSet<(i64, u64)>,
    /// Queued jobs that depend on others, by dependency.
    blocked: BTreeMap<RunId, BTreeSet<u64>>,
    limits: LimitTable,
    clocks: ScheduleState,
}

impl JobLedger {
    /// Applies the command at a position, written at time `now`.
    pub(crate) fn apply(&mut self, place: u64, now: i64, command: &LedgerCommand) -> LedgerOutcome {
        self.position = place;
        self.now = now;
        self.release_due_jobs();
        match command {
            LedgerCommand::Submit { jobs } => self.submit(jobs),
            LedgerCommand::Take { worker, pool, most, lease_ms, boot, machine } => {
                self.greet(worker, pool, *lease_ms, boot.as_ref(), *machine);
                self.take(worker, pool, *most)
            }
            LedgerCommand::Renew { worker, keys, lease_ms } => self.renew(worker, keys, *lease_ms),
            LedgerCommand::Report { key, state, summary } => self.report(key, *state, summary),
            LedgerCommand::Release { key, delay_ms, reason } => self.release(key, *delay_ms, reason),
            LedgerCommand::End { key, state, reason, summary } => {
                self.end(key, *state, reason.as_deref(), summary)
            }
            LedgerCommand::Leave { worker } => self.leave(worker),
            LedgerCommand::Bury { worker, beat } => self.expire_worker(worker, *beat),
            LedgerCommand::Cancel { run, reason } => self.cancel(run, reason),
            LedgerCommand::Requeue { run, log_begin } => self.requeue(run, *log_begin),
            LedgerCommand::Pause { scope } => self.pause(scope, true),
            LedgerCommand::Resume { scope } => self.pause(scope, false),
            LedgerCommand::SetLimits { scope, limits } => {
                self.limits.set(scope, *limits);
                LedgerOutcome::Done
            }
            LedgerCommand::Forget { before } => self.forget(*before),
            LedgerCommand::Fire { tenant, name, expected, slots, next } => {
                self.fire(tenant, name, *expected, slots, *next)
            }
            LedgerCommand::Count { by: Some(key), .. } | LedgerCommand::Reserve { by: Some(key), .. }
                if !self.is_held(key) =>
            {
                LedgerOutcome::Stale
            }
            LedgerCommand::Schedule { .. }
            | LedgerCommand::Unschedule { .. }
            | LedgerCommand::Count { .. }
            | LedgerCommand::Reserve { .. }
            | LedgerCommand::Draw { .. }
            | LedgerCommand::Settle { .. }
            | LedgerCommand::Freeze { .. } => self.clocks.apply(now, command),
        }
    }
}
