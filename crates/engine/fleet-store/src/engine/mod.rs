//! The interface of an engine, and the three implementations.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;

use crate::{
    BlobHash, ControlEntry, EngineFinding, FleetName, LeaseKey, LogEnd, LogLine, NewControl, RunId,
    StoreError, StoreFuture, StoreStream, ledger::LedgerCommand, store::Mirror,
};

mod follow_stream;
pub(crate) mod health_check;
pub(crate) mod nats;
pub(crate) mod postgres;
pub(crate) mod sqlite;

/// A future without a result.
pub(crate) type Pause<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Waits for a notification, or until the polling interval has passed. A notification between two waits
/// ends the second one at once.
pub(crate) trait ChangeWaiter: Send {
    fn wait(&mut self) -> Pause<'_>;
}

/// A totally ordered list of commands.
pub(crate) trait CommandLog: Send + Sync {
    /// Appends commands as one entry and applies everything up to it; the mirror then has their outcomes
    /// under `id`. Must not be called concurrently.
    fn commit<'a>(
        &'a self,
        mirror: &'a Mirror,
        id: &'a str,
        commands: &'a [LedgerCommand],
    ) -> StoreFuture<'a, ()>;

    /// Applies everything that was appended before the call.
    fn catch_up<'a>(&'a self, mirror: &'a Mirror) -> StoreFuture<'a, ()>;

    /// Stores the ledger as of an entry; older entries may be deleted.
    fn save_snapshot(&self, number: u64, bytes: Vec<u8>) -> StoreFuture<'_, ()>;

    /// Returns the entry of the newest snapshot known to this process.
    fn snapshot_number(&self) -> u64;

    /// Subscribes to notifications of new entries.
    fn news(&self) -> Box<dyn ChangeWaiter>;

    /// Returns the boot id, if all workers of the engine run on one machine.
    fn boot(&self) -> Option<String> {
        None
    }
}

/// What a follower of a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunChange {
    Lines,
    Controls,
}

/// Logs of runs, fenced by epoch, and control entries, which are not.
pub(crate) trait RunLogs: Send + Sync + 'static {
    /// Makes a key the owner: lower epochs cannot write any more.
    fn own(&self, key: LeaseKey) -> StoreFuture<'_, LogEnd>;

    /// Writes lines at exactly this position. Idempotent: the same lines of the same owner are accepted
    /// again.
    fn append_at(&self, key: LeaseKey, at: u64, lines: Vec<String>) -> StoreFuture<'_, u64>;

    /// Returns up to `most` lines from a number on; includes everything acknowledged before.
    fn read(&self, run: RunId, from: u64, most: usize) -> StoreFuture<'_, Vec<LogLine>>;

    /// Returns the end of a log.
    fn end(&self, run: RunId) -> StoreFuture<'_, LogEnd>;

    /// Subscribes to new lines or control entries of a run.
    fn run_news(&self, run: &RunId, kind: RunChange) -> Box<dyn ChangeWaiter>;

    /// Streams lines from a number on.
    fn follow(self: Arc<Self>, run: RunId, from: u64) -> StoreStream<LogLine> {
        follow_stream::follow_pages(self.run_news(&run, RunChange::Lines), from, move |from| {
            let (logs, run) = (self.clone(), run.clone());
            Box::pin(async move {
                let page = logs.read(run, from, follow_stream::PAGE).await?;
                Ok(page.into_iter().map(|line| (line.number, line)).collect())
            })
        })
    }

    /// Stores a control entry, once per id.
    fn control(&self, run: RunId, entry: NewControl) -> StoreFuture<'_, u64>;

    /// Returns control entries from a number on.
    fn controls(&self, run: RunId, from: u64) -> StoreFuture<'_, Vec<ControlEntry>>;

    /// Streams control entries from a number on.
    fn follow_controls(self: Arc<Self>, run: RunId, from: u64) -> StoreStream<ControlEntry> {
        follow_stream::follow_pages(self.run_news(&run, RunChange::Controls), from, move |from| {
            let (logs, run) = (self.clone(), run.clone());
            Box::pin(async move {
                let page = logs.controls(run, from).await?;
                Ok(page.into_iter().map(|entry| (entry.number, entry)).collect())
            })
        })
    }

    /// Broadcasts live text.
    fn live(&self, run: RunId, text: String) -> StoreFuture<'_, ()>;

    /// Streams live text from now on.
    fn follow_live(self: Arc<Self>, run: RunId) -> StoreStream<String>;

    /// Deletes logs and control entries.
    fn remove(&self, runs: Vec<RunId>) -> StoreFuture<'_, ()>;
}

/// Content addressed by hash, not verified.
pub(crate) trait RawBlobs: Send + Sync {
    /// Stores bytes under their hash.
    fn put(&self, tenant: FleetName, hash: BlobHash, bytes: Bytes) -> StoreFuture<'_, ()>;

    /// Returns the bytes without verifying them.
    fn get(&self, tenant: FleetName, hash: BlobHash) -> StoreFuture<'_, Option<Bytes>>;

    /// Returns which hashes are present.
    fn has(&self, tenant: FleetName, hashes: Vec<BlobHash>) -> StoreFuture<'_, Vec<bool>>;
}

/// An open engine.
pub(crate) trait FleetEngine: CommandLog + RunLogs + RawBlobs {
    /// Checks version, settings and free space.
    fn check_health(&self) -> StoreFuture<'_, Vec<EngineFinding>>;
}

/// Returns the error for an outdated lease.
pub(crate) fn stale(key: &LeaseKey) -> StoreError {
    StoreError::Stale { run: key.run.to_string(), epoch: key.epoch }
}
