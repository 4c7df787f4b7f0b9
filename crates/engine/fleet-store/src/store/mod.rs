//! Implements the traits on a ledger and an engine.

mod blobs;
mod claim_jobs;
mod group_commit;
mod job_queue;
mod ledger_replica;
mod packed_values;
mod run_logs;
mod schedule_store;
mod tenant;
mod worker_watch;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::task::AbortHandle;

pub(crate) use blobs::CheckedBlobs;
pub(crate) use job_queue::LedgerQueue;
pub use job_queue::cancel_control;
pub(crate) use ledger_replica::{LedgerEntry, Mirror, wall_ms};
pub(crate) use run_logs::BigLineLogs;
pub(crate) use schedule_store::LedgerSchedules;
pub(crate) use tenant::scoped;

use crate::{LeaseKey, StoreError, engine::FleetEngine, ledger::LedgerCommand, ledger::LedgerOutcome};
use group_commit::GroupCommitter;
use packed_values::PackedValues;

/// Tasks that are aborted with their owner.
#[derive(Default)]
struct AbortOnDrop(Vec<AbortHandle>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// State shared by all traits of an open store.
pub(crate) struct StoreCore {
    engine: Arc<dyn FleetEngine>,
    mirror: Arc<Mirror>,
    committer: GroupCommitter,
    values: PackedValues,
    /// Whether this process declares silent workers dead; it does once it takes jobs itself.
    is_undertaker: Arc<AtomicBool>,
    _tasks: AbortOnDrop,
}

impl StoreCore {
    /// Starts the background tasks of a store: group commit, catching up, watching workers.
    pub(crate) async fn start(engine: Arc<dyn FleetEngine>) -> Result<Arc<Self>, StoreError> {
        let mirror = Arc::new(Mirror::default());
        engine.catch_up(&mirror).await?;
        let (committer, writing) = GroupCommitter::start(engine.clone(), mirror.clone());
        let is_undertaker = Arc::new(AtomicBool::new(false));
        let watching =
            worker_watch::start(engine.clone(), mirror.clone(), committer.clone(), is_undertaker.clone());
        let values = PackedValues::new(engine.clone());
        Ok(Arc::new(Self {
            engine,
            mirror,
            committer,
            values,
            is_undertaker,
            _tasks: AbortOnDrop(vec![writing, watching]),
        }))
    }

    async fn ask(&self, command: LedgerCommand) -> Result<LedgerOutcome, StoreError> {
        self.committer.commit(command).await
    }

    /// Submits a command without a result.
    async fn order(&self, command: LedgerCommand) -> Result<(), StoreError> {
        match self.ask(command).await? {
            LedgerOutcome::Refused(reason) => Err(StoreError::Refused(reason)),
            _ => Ok(()),
        }
    }

    /// Submits a command that requires a valid lease.
    async fn fenced(&self, key: &LeaseKey, command: LedgerCommand) -> Result<LedgerOutcome, StoreError> {
        match self.ask(command).await? {
            LedgerOutcome::Stale => Err(crate::engine::stale(key)),
            LedgerOutcome::Refused(reason) => Err(StoreError::Refused(reason)),
            outcome => Ok(outcome),
        }
    }

    /// Returns the ledger after catching up.
    async fn up_to_date(&self) -> Result<&Mirror, StoreError> {
        self.engine.catch_up(&self.mirror).await?;
        Ok(&self.mirror)
    }

    fn become_undertaker(&self) {
        self.is_undertaker.store(true, Ordering::Relaxed);
    }
}

/// Returns an error for an internal inconsistency.
fn unexpected(outcome: &LedgerOutcome) -> StoreError {
    StoreError::Corrupt { place: String::from("the ledger"), said: format!("unexpected answer {outcome:?}") }
}
