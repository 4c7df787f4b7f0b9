//! The four ports of a fleet, and the store that has them all.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::Stream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    BucketDraw, CancelledJob, ClaimJobs, ControlEntry, CounterLimit, FiredSlot, FleetName, JobCounts,
    JobFilter, JobPage, JobState, Lease, LeaseKey, LeaseRenewal, LimitScope, LogEnd, LogLine, NewControl,
    NewJob, NewSchedule, PageOfJobs, PauseScope, Requeue, ReserveOutcome, RunId, ScheduleRecord, ScopeLimits,
    StoreError, Submitted, TokenBucket, WorkerRecord, engine::FleetEngine,
};

/// What every port answers with.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// What followers read; it ends with its first error.
pub type StoreStream<T> = Pin<Box<dyn Stream<Item = Result<T, StoreError>> + Send>>;

/// How often a queue has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// Jobs: in, to a worker, and what became of them.
pub trait JobQueue: Send + Sync {
    /// Queues all jobs or, when there is no room, none. Jobs that are known by
    /// id or by dedup words are left as they are.
    fn submit(&self, jobs: Vec<NewJob>) -> StoreFuture<'_, Vec<Submitted>>;

    /// Gives jobs to a worker and makes it the owner of their logs, in one step.
    /// Urgent before normal before bulk, fair over tenants, within all limits.
    /// Empty when nothing came in time.
    fn take(&self, room: ClaimJobs) -> StoreFuture<'_, Vec<Lease>>;

    /// A worker's sign of life, with all leases it still works on: answers come
    /// in the same order. A job the worker has and did not name in two signs of
    /// life that began after it was given out goes back to the queue.
    fn renew(
        &self,
        worker: FleetName,
        keys: Vec<LeaseKey>,
        lease: Duration,
    ) -> StoreFuture<'_, Vec<LeaseRenewal>>;

    /// Says where a run is: starting, running or waiting.
    fn report(&self, key: LeaseKey, state: JobState, summary: Value) -> StoreFuture<'_, ()>;

    /// Gives a job back, to be given out again after a delay. One whose end was
    /// asked for is cancelled instead.
    fn release(&self, key: LeaseKey, delay: Duration, reason: String) -> StoreFuture<'_, ()>;

    /// The end of a job: done, failed, denied or cancelled. A second call with
    /// the same key and state changes nothing.
    fn end(
        &self,
        key: LeaseKey,
        state: JobState,
        reason: Option<String>,
        summary: Value,
    ) -> StoreFuture<'_, ()>;

    /// Sets a job aside.
    fn park(&self, key: LeaseKey, reason: String, summary: Value) -> StoreFuture<'_, ()>;

    /// A worker that goes: what it still has goes back to the queue at once.
    fn leave(&self, worker: FleetName) -> StoreFuture<'_, ()>;

    /// Ends a job: at once when no worker has it; otherwise its worker is told
    /// by a control entry with the id `cancel` and with its next renewal.
    fn cancel(&self, run: RunId, reason: String) -> StoreFuture<'_, CancelledJob>;

    /// Puts an ended or parked job back into the queue.
    fn requeue(&self, run: RunId, how: Requeue) -> StoreFuture<'_, ()>;

    /// Keeps jobs from starting. What runs, runs on.
    fn pause(&self, scope: PauseScope) -> StoreFuture<'_, ()>;

    /// The opposite.
    fn resume(&self, scope: PauseScope) -> StoreFuture<'_, ()>;

    /// Sets the limits of a scope, all of them.
    fn set_limits(&self, scope: LimitScope, limits: ScopeLimits) -> StoreFuture<'_, ()>;

    /// All limits that were set.
    fn limits(&self) -> StoreFuture<'_, Vec<(LimitScope, ScopeLimits)>>;

    /// Jobs, in the order they were submitted.
    fn jobs(&self, filter: JobFilter, page: PageOfJobs) -> StoreFuture<'_, JobPage>;

    /// How many jobs are in which state.
    fn counts(&self, filter: JobFilter) -> StoreFuture<'_, JobCounts>;

    /// What a job is about.
    fn body(&self, run: RunId) -> StoreFuture<'_, Value>;

    /// Workers that were not given up.
    fn workers(&self) -> StoreFuture<'_, Vec<WorkerRecord>>;

    /// Waits until the queue has changed since a revision, at most so long;
    /// returns the revision it has now.
    fn changed(&self, since: Revision, wait: Duration) -> StoreFuture<'_, Revision>;

    /// Removes ended jobs that have not changed since, with their logs; returns
    /// how many.
    fn forget(&self, ended_before: Timestamp) -> StoreFuture<'_, u64>;
}

/// Lines of runs, and what is said to them.
pub trait LogStore: Send + Sync {
    /// Appends lines; returns how many the log has then. Safe to call again after
    /// [`StoreError::Gone`]: the same lines at the same place are written once.
    fn append(&self, key: LeaseKey, lines: Vec<String>) -> StoreFuture<'_, u64>;

    /// Lines from a number on, at most so many; complete up to what was
    /// acknowledged before the call began.
    fn read(&self, run: RunId, from: u64, most: usize) -> StoreFuture<'_, Vec<LogLine>>;

    /// How far the log goes, as the leader knows it.
    fn end(&self, run: RunId) -> StoreFuture<'_, LogEnd>;

    /// Lines from a number on, and those that come. Never ends by itself.
    fn follow(&self, run: RunId, from: u64) -> StoreStream<LogLine>;

    /// Says something to a run; returns the number of the entry.
    fn control(&self, run: RunId, entry: NewControl) -> StoreFuture<'_, u64>;

    /// What was said to a run, from a number on.
    fn controls(&self, run: RunId, from: u64) -> StoreFuture<'_, Vec<ControlEntry>>;

    /// What was said to a run from a number on, and what comes.
    fn follow_controls(&self, run: RunId, from: u64) -> StoreStream<ControlEntry>;

    /// Text for whoever looks right now; kept nowhere, and lost without a word.
    fn live(&self, run: RunId, text: String) -> StoreFuture<'_, ()>;

    /// Live text from now on.
    fn follow_live(&self, run: RunId) -> StoreStream<String>;

    /// Writes the log of a run that was moved here from another store; the beginning
    /// of the same log may be there from a try before. Refused when the run has
    /// another log or an owner.
    fn import(&self, run: RunId, lines: Vec<String>) -> StoreFuture<'_, u64>;
}

/// The name of a blob: the BLAKE3 hash of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// The name of these bytes.
    #[must_use]
    pub fn hash(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Reads a name of 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for anything else.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let hash = blake3::Hash::from_hex(text)
            .map_err(|_| StoreError::Refused(format!("{text:?} is not the name of a blob")))?;
        Ok(Self(*hash.as_bytes()))
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<BlobHash> for String {
    fn from(hash: BlobHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for BlobHash {
    type Error = StoreError;
    fn try_from(text: String) -> Result<Self, StoreError> {
        Self::parse(&text)
    }
}

/// Bytes by their hash: immutable, each tenant's apart.
pub trait BlobStore: Send + Sync {
    /// Stores bytes; with a lease only while it is held.
    fn put(&self, tenant: FleetName, bytes: Bytes, by: Option<LeaseKey>) -> StoreFuture<'_, BlobHash>;

    /// The bytes, checked against their name; [`StoreError::Unknown`] when the
    /// tenant has none by it.
    fn get(&self, tenant: FleetName, hash: BlobHash) -> StoreFuture<'_, Bytes>;

    /// Which of these the tenant has, in the same order.
    fn has(&self, tenant: FleetName, hashes: Vec<BlobHash>) -> StoreFuture<'_, Vec<bool>>;
}

/// Schedules, counters, buckets: what is shared by time and number.
pub trait ScheduleStore: Send + Sync {
    /// Adds or replaces a schedule.
    fn schedule(&self, schedule: NewSchedule) -> StoreFuture<'_, ()>;

    /// Removes a schedule; `false` when there was none.
    fn unschedule(&self, tenant: FleetName, name: FleetName) -> StoreFuture<'_, bool>;

    /// All schedules.
    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleRecord>>;

    /// Fires what is due. Any number of processes may call it as often as they
    /// like: each slot becomes one job.
    fn tick(&self) -> StoreFuture<'_, Vec<FiredSlot>>;

    /// Adds to a counter and returns what it is then; with a lease only while it
    /// is held.
    fn count(&self, key: String, add: i64, by: Option<LeaseKey>) -> StoreFuture<'_, i64>;

    /// Counters whose key begins so.
    fn counters(&self, prefix: String) -> StoreFuture<'_, Vec<(String, i64)>>;

    /// Adds an amount to all counters if none would be over its ceiling.
    fn reserve(
        &self,
        amount: i64,
        of: Vec<CounterLimit>,
        by: Option<LeaseKey>,
    ) -> StoreFuture<'_, ReserveOutcome>;

    /// Draws from a bucket what there is of `want`. The first draw of a key makes
    /// the bucket; later ones may change its size.
    fn draw(&self, key: String, want: u64, bucket: TokenBucket) -> StoreFuture<'_, BucketDraw>;

    /// Corrects what was drawn by what was really used: positive gives back,
    /// negative takes more, below empty if need be.
    fn settle(&self, key: String, amount: i64) -> StoreFuture<'_, ()>;

    /// Nobody draws from a bucket for so long. A longer freeze stays.
    fn freeze(&self, key: String, time: Duration) -> StoreFuture<'_, ()>;

    /// How long a bucket is still frozen.
    fn frozen(&self, key: String) -> StoreFuture<'_, Option<Duration>>;
}

/// One thing a check of an engine found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineFinding {
    /// What was looked at: "version", "sync", "room", "clock", "round trip".
    pub what: &'static str,
    /// Whether it is as it should be.
    pub is_good: bool,
    /// What was found.
    pub said: String,
    /// What to do, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// All ports of one store.
#[derive(Clone)]
pub struct FleetStore {
    /// Jobs.
    pub queue: Arc<dyn JobQueue>,
    /// Logs.
    pub log: Arc<dyn LogStore>,
    /// Blobs.
    pub blobs: Arc<dyn BlobStore>,
    /// Schedules, counters, buckets.
    pub clockwork: Arc<dyn ScheduleStore>,
    pub(crate) engine: Arc<dyn FleetEngine>,
}

impl fmt::Debug for FleetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetStore").finish_non_exhaustive()
    }
}
