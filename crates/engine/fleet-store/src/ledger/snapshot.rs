//! Serialised ledgers, so that a new process need not apply all commands since the beginning.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    JobLedger, LedgerJob, LedgerWorker,
    ledger_command::{LEDGER_VERSION, newer_ledger, version_for},
    limits::LimitTable,
    schedule_state::ScheduleState,
};
use crate::{FleetName, StoreError};

#[derive(Serialize, Deserialize)]
struct LedgerSnapshot<J> {
    version: u32,
    position: u64,
    now: i64,
    next_order: u64,
    jobs: J,
    workers: BTreeMap<FleetName, LedgerWorker>,
    paused_batches: BTreeSet<(FleetName, FleetName)>,
    limits: LimitTable,
    clocks: ScheduleState,
}

#[derive(Deserialize)]
struct SnapshotVersion {
    version: u32,
}

fn corrupt(err: &serde_json::Error) -> StoreError {
    StoreError::Corrupt { place: String::from("the snapshot of the ledger"), said: err.to_string() }
}

impl JobLedger {
    pub(crate) fn snapshot(&self) -> Result<Vec<u8>, StoreError> {
        let snapshot = LedgerSnapshot {
            version: version_for(self.jobs.values().map(|it| !it.head.needs.is_empty())),
            position: self.position,
            now: self.now,
            next_order: self.next_order,
            jobs: self.jobs.iter().collect::<Vec<(&u64, &LedgerJob)>>(),
            workers: self.workers.clone(),
            paused_batches: self.paused_batches.clone(),
            limits: self.limits.clone(),
            clocks: self.clocks.clone(),
        };
        serde_json::to_vec(&snapshot).map_err(|err| corrupt(&err))
    }

    pub(crate) fn from_snapshot(bytes: &[u8]) -> Result<Self, StoreError> {
        let snapshot: LedgerSnapshot<Vec<(u64, LedgerJob)>> = match serde_json::from_slice(bytes) {
            Ok(snapshot) => snapshot,
            Err(err) => {
                let version = serde_json::from_slice::<SnapshotVersion>(bytes).map(|it| it.version);
                let is_newer = version.as_ref().is_ok_and(|it| *it > LEDGER_VERSION);
                return Err(if is_newer { newer_ledger(version.unwrap_or_default()) } else { corrupt(&err) });
            }
        };
        if snapshot.version > LEDGER_VERSION {
            return Err(newer_ledger(snapshot.version));
        }
        let mut ledger = Self {
            position: snapshot.position,
            now: snapshot.now,
            next_order: snapshot.next_order,
            workers: snapshot.workers,
            paused_batches: snapshot.paused_batches,
            limits: snapshot.limits,
            clocks: snapshot.clocks,
            ..Self::default()
        };
        for (order, job) in snapshot.jobs {
            ledger.index(order, &job);
            ledger.jobs.insert(order, job);
        }
        Ok(ledger)
    }
}
