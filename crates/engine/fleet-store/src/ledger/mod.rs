//! The queue as a value: commands in one order make one state, everywhere.
//!
//! Engines keep an ordered list of commands, each with the moment it was written;
//! [`JobLedger::apply`] is the only thing that changes a ledger and depends on
//! nothing but its arguments, so every process that has applied the same commands
//! knows the same jobs, and the answer to a command is the same for all.
//!
//! **Does not know** engines, clocks or other processes.

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

/// Commands of one entry are told apart by the low bits of their place.
pub(crate) const PLACE_BITS: u32 = 12;

/// A JSON value that may lie elsewhere because it is long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum StoredValue {
    /// Here.
    #[serde(rename = "v")]
    Inline(Value),
    /// A part of a blob of the tenant: its first byte and its length.
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

/// A job and everything that was decided about it. Moments are milliseconds of
/// the engine's clock.
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
    /// Signs of life of its worker, one after another, that did not name it.
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

/// A worker that was not given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LedgerWorker {
    pub(crate) pool: FleetName,
    pub(crate) lease_ms: u64,
    /// The command of its last sign of life.
    pub(crate) beat: u64,
    /// The boot of its machine, where the engine is of one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot: Option<String>,
    /// What its machine has.
    #[serde(default, skip_serializing_if = "ResourceRequest::is_empty")]
    pub(crate) machine: ResourceRequest,
    /// Jobs it has, by their order.
    #[serde(skip)]
    pub(crate) holds: BTreeSet<u64>,
}

/// All jobs of a fleet, and what is decided about them.
#[derive(Debug, Default)]
pub(crate) struct JobLedger {
    /// The last command that was applied.
    pub(crate) position: u64,
    /// The moment of that command.
    pub(crate) now: i64,
    next_order: u64,
    jobs: BTreeMap<u64, LedgerJob>,
    order_of: HashMap<RunId, u64>,
    known: HashMap<(FleetName, String), u64>,
    workers: BTreeMap<FleetName, LedgerWorker>,
    paused_batches: BTreeSet<(FleetName, FleetName)>,
    ready: ReadyJobs,
    /// Queued jobs whose time has not come.
    delayed: BTreeSet<(i64, u64)>,
    /// Queued jobs that wait for others, by those.
    blocked: BTreeMap<RunId, BTreeSet<u64>>,
    limits: LimitTable,
    clocks: ScheduleState,
}

impl JobLedger {
    /// Applies the command at a place in the order, written at a moment.
    pub(crate) fn apply(&mut self, place: u64, now: i64, command: &LedgerCommand) -> LedgerOutcome {
        self.position = place;
        self.now = now;
        self.ready_what_is_due();
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
            LedgerCommand::Bury { worker, beat } => self.bury(worker, *beat),
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
