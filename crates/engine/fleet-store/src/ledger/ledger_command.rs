//! Commands that change a ledger, and their outcomes.

use serde::{Deserialize, Serialize};

use super::{StoredSchedule, StoredValue};
use crate::{
    BucketDraw, CancelledJob, CounterLimit, FiredSlot, FleetName, JobHead, JobState, LeaseKey, LeaseRenewal,
    LimitScope, PauseScope, ReserveOutcome, ResourceRequest, RunId, ScopeLimits, StoreError, Submitted,
    TokenBucket,
};

/// Newest format version of commands and snapshots. A ledger with a higher one is rejected.
pub(crate) const LEDGER_VERSION: u32 = 2;

/// Returns the format version to write: the older one unless a job has needs, so that older workers keep
/// working.
pub(crate) fn version_for(needs: impl IntoIterator<Item = bool>) -> u32 {
    if needs.into_iter().any(|it| it) { LEDGER_VERSION } else { 1 }
}

/// A job as submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubmitJob {
    pub(crate) head: JobHead,
    pub(crate) body: StoredValue,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<i64>,
}

/// A command that changes the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "commands are few at a time, and moved rarely")]
pub(crate) enum LedgerCommand {
    Submit {
        jobs: Vec<SubmitJob>,
    },
    Take {
        worker: FleetName,
        pool: FleetName,
        most: u32,
        lease_ms: u64,
        boot: Option<String>,
        /// Resources of the worker's machine.
        #[serde(default, skip_serializing_if = "ResourceRequest::is_empty")]
        machine: ResourceRequest,
    },
    Renew {
        worker: FleetName,
        keys: Vec<LeaseKey>,
        lease_ms: u64,
    },
    Report {
        key: LeaseKey,
        state: JobState,
        summary: StoredValue,
    },
    Release {
        key: LeaseKey,
        delay_ms: u64,
        reason: String,
    },
    End {
        key: LeaseKey,
        state: JobState,
        reason: Option<String>,
        summary: StoredValue,
    },
    Leave {
        worker: FleetName,
    },
    /// Declares a worker dead that has not renewed for a lease since this beat.
    Bury {
        worker: FleetName,
        beat: u64,
    },
    Cancel {
        run: RunId,
        reason: String,
    },
    Requeue {
        run: RunId,
        log_begin: Option<u64>,
    },
    Pause {
        scope: PauseScope,
    },
    Resume {
        scope: PauseScope,
    },
    SetLimits {
        scope: LimitScope,
        limits: ScopeLimits,
    },
    Forget {
        before: i64,
    },
    Schedule {
        schedule: StoredSchedule,
    },
    Unschedule {
        tenant: FleetName,
        name: FleetName,
    },
    /// Fires slots, if the schedule's next slot still is the expected one.
    Fire {
        tenant: FleetName,
        name: FleetName,
        expected: i64,
        slots: Vec<(i64, RunId)>,
        next: Option<i64>,
    },
    Count {
        key: String,
        add: i64,
        by: Option<LeaseKey>,
    },
    Reserve {
        amount: i64,
        of: Vec<CounterLimit>,
        by: Option<LeaseKey>,
    },
    Draw {
        key: String,
        want: u64,
        bucket: TokenBucket,
    },
    Settle {
        key: String,
        amount: i64,
    },
    Freeze {
        key: String,
        ms: u64,
    },
}

impl LedgerCommand {
    /// Whether an older version of Haft would decide differently after this command.
    fn does_ask_for_needs(&self) -> bool {
        match self {
            Self::Submit { jobs } => jobs.iter().any(|it| !it.head.needs.is_empty()),
            Self::Schedule { schedule } => !schedule.head.needs.is_empty(),
            _ => false,
        }
    }
}

/// Commands that are written as one entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommandBatch {
    pub(crate) version: u32,
    pub(crate) commands: Vec<LedgerCommand>,
}

impl CommandBatch {
    pub(crate) fn encode(commands: &[LedgerCommand]) -> Result<Vec<u8>, StoreError> {
        #[derive(Serialize)]
        struct Borrowed<'a> {
            version: u32,
            commands: &'a [LedgerCommand],
        }
        let version = version_for(commands.iter().map(LedgerCommand::does_ask_for_needs));
        serde_json::to_vec(&Borrowed { version, commands })
            .map_err(|err| StoreError::Refused(format!("a command cannot be written: {err}")))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<LedgerCommand>, StoreError> {
        #[derive(Deserialize)]
        struct LedgerVersion {
            version: u32,
        }
        let corrupt = |err: serde_json::Error| StoreError::Corrupt {
            place: String::from("the ledger"),
            said: err.to_string(),
        };
        match serde_json::from_slice::<Self>(bytes) {
            Ok(batch) if batch.version <= LEDGER_VERSION => Ok(batch.commands),
            Ok(batch) => Err(newer_ledger(batch.version)),
            Err(err) => {
                let version = serde_json::from_slice::<LedgerVersion>(bytes).map_err(corrupt)?.version;
                Err(if version > LEDGER_VERSION { newer_ledger(version) } else { corrupt(err) })
            }
        }
    }
}

/// Returns the error for an entry written by a newer version of Haft.
pub(crate) fn newer_ledger(found: u32) -> StoreError {
    StoreError::WrongVersion {
        what: String::from("the fleet's ledger"),
        found: found.to_string(),
        needed: LEDGER_VERSION.to_string(),
        advice: String::from("a newer haft has written to it; use that version here too"),
    }
}

/// A job that was assigned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TakenJob {
    pub(crate) key: LeaseKey,
    pub(crate) head: JobHead,
    pub(crate) body: StoredValue,
    pub(crate) deliveries: u32,
    pub(crate) lost: u32,
    pub(crate) log_begin: u64,
}

/// Outcome of a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LedgerOutcome {
    Done,
    /// The lease is outdated.
    Stale,
    /// The item does not exist.
    Unknown,
    Refused(String),
    Submitted(Vec<Submitted>),
    Taken(Vec<TakenJob>),
    Renewed(Vec<LeaseRenewal>),
    Cancelled(CancelledJob),
    Forgotten(Vec<RunId>),
    Fired(Vec<FiredSlot>),
    Flag(bool),
    Number(i64),
    Reserved(ReserveOutcome),
    Drawn(BucketDraw),
}
