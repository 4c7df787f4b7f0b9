//! What an engine has to do, and the three that do it.

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

/// A future without an answer.
pub(crate) type Pause<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Waits for news, or for the time to look without any. What comes between two
/// waits ends the second at once.
pub(crate) trait ChangeWaiter: Send {
    fn wait(&mut self) -> Pause<'_>;
}

/// One ordered list of commands.
pub(crate) trait CommandLog: Send + Sync {
    /// Writes commands as one entry and applies everything up to it; the mirror
    /// has kept what they came to under this id. Called by one task at a time.
    fn commit<'a>(
        &'a self,
        mirror: &'a Mirror,
        id: &'a str,
        commands: &'a [LedgerCommand],
    ) -> StoreFuture<'a, ()>;

    /// Applies everything that was written before the call began.
    fn catch_up<'a>(&'a self, mirror: &'a Mirror) -> StoreFuture<'a, ()>;

    /// Keeps what the ledger was after an entry; older entries may go.
    fn save_snapshot(&self, number: u64, bytes: Vec<u8>) -> StoreFuture<'_, ()>;

    /// The entry of the newest snapshot this process knows of.
    fn snapshot_number(&self) -> u64;

    /// Hears that somebody may have written something, from now on.
    fn news(&self) -> Box<dyn ChangeWaiter>;

    /// The boot of the one machine all workers are on, if the engine has but one.
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

/// Logs of runs, fenced; and what is said to runs, which is not.
pub(crate) trait RunLogs: Send + Sync + 'static {
    /// Makes a key the owner: lower epochs write nothing from here on.
    fn own(&self, key: LeaseKey) -> StoreFuture<'_, LogEnd>;

    /// Writes lines at exactly this place. The same lines of the same owner that
    /// are there already are there already.
    fn append_at(&self, key: LeaseKey, at: u64, lines: Vec<String>) -> StoreFuture<'_, u64>;

    /// Lines from a number on; all that were acknowledged before, up to a number.
    fn read(&self, run: RunId, from: u64, most: usize) -> StoreFuture<'_, Vec<LogLine>>;

    /// How far a log goes.
    fn end(&self, run: RunId) -> StoreFuture<'_, LogEnd>;

    /// Hears of new lines of a run and of what is said to it.
    fn run_news(&self, run: &RunId, kind: RunChange) -> Box<dyn ChangeWaiter>;

    /// Lines from a number on and those that come.
    fn follow(self: Arc<Self>, run: RunId, from: u64) -> StoreStream<LogLine> {
        follow_stream::follow_pages(self.run_news(&run, RunChange::Lines), from, move |from| {
            let (logs, run) = (self.clone(), run.clone());
            Box::pin(async move {
                let page = logs.read(run, from, follow_stream::PAGE).await?;
                Ok(page.into_iter().map(|line| (line.number, line)).collect())
            })
        })
    }

    /// Says something to a run, once.
    fn control(&self, run: RunId, entry: NewControl) -> StoreFuture<'_, u64>;

    /// What was said.
    fn controls(&self, run: RunId, from: u64) -> StoreFuture<'_, Vec<ControlEntry>>;

    /// What was said and what will be.
    fn follow_controls(self: Arc<Self>, run: RunId, from: u64) -> StoreStream<ControlEntry> {
        follow_stream::follow_pages(self.run_news(&run, RunChange::Controls), from, move |from| {
            let (logs, run) = (self.clone(), run.clone());
            Box::pin(async move {
                let page = logs.controls(run, from).await?;
                Ok(page.into_iter().map(|entry| (entry.number, entry)).collect())
            })
        })
    }

    /// Text for whoever looks.
    fn live(&self, run: RunId, text: String) -> StoreFuture<'_, ()>;

    /// Live text from now on.
    fn follow_live(self: Arc<Self>, run: RunId) -> StoreStream<String>;

    /// Removes logs and what was said.
    fn remove(&self, runs: Vec<RunId>) -> StoreFuture<'_, ()>;
}

/// Bytes by their hash.
pub(crate) trait RawBlobs: Send + Sync {
    /// Stores bytes under their hash.
    fn put(&self, tenant: FleetName, hash: BlobHash, bytes: Bytes) -> StoreFuture<'_, ()>;

    /// The bytes, unchecked.
    fn get(&self, tenant: FleetName, hash: BlobHash) -> StoreFuture<'_, Option<Bytes>>;

    /// Which are there.
    fn has(&self, tenant: FleetName, hashes: Vec<BlobHash>) -> StoreFuture<'_, Vec<bool>>;
}

/// An engine, open.
pub(crate) trait FleetEngine: CommandLog + RunLogs + RawBlobs {
    /// Version, settings, room.
    fn examine(&self) -> StoreFuture<'_, Vec<EngineFinding>>;
}

/// A line whose owner counts no more.
pub(crate) fn stale(key: &LeaseKey) -> StoreError {
    StoreError::Stale { run: key.run.to_string(), epoch: key.epoch }
}
