//! The traits of a fleet's store, and the store that implements all of them.

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

/// Result of every operation.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Stream of a follower; ends after its first error.
pub type StoreStream<T> = Pin<Box<dyn Stream<Item = Result<T, StoreError>> + Send>>;

/// Counts the changes of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// Queue of jobs and their states.
pub trait JobQueue: Send + Sync {
    /// Queues all jobs, or none if a queue is full. Jobs whose id or deduplication key is already
    /// present are left unchanged.
    fn submit(&self, jobs: Vec<NewJob>) -> StoreFuture<'_, Vec<Submitted>>;

    /// Assigns jobs to a worker and makes it the owner of their logs, atomically. By priority class,
    /// fair among tenants, within all limits. Waits up to `room.wait`; empty if no job became available.
    fn take(&self, room: ClaimJobs) -> StoreFuture<'_, Vec<Lease>>;

    /// Renews a worker and its leases; `keys` are all leases it still works on, and the results are in
    /// the same order. A held job that is missing in three consecutive renewals (the first may have
    /// started before the job was assigned) goes back to the queue.
    fn renew(
        &self,
        worker: FleetName,
        keys: Vec<LeaseKey>,
        lease: Duration,
    ) -> StoreFuture<'_, Vec<LeaseRenewal>>;

    /// Reports the state of a run: starting, running or waiting.
    fn report(&self, key: LeaseKey, state: JobState, summary: Value) -> StoreFuture<'_, ()>;

    /// Returns a job to the queue, to be assigned again after `delay`. If its cancellation was
    /// requested, it is cancelled instead.
    fn release(&self, key: LeaseKey, delay: Duration, reason: String) -> StoreFuture<'_, ()>;

    /// Ends a job with a state: done, failed, denied or cancelled. Idempotent for the same key and
    /// state.
    fn end(
        &self,
        key: LeaseKey,
        state: JobState,
        reason: Option<String>,
        summary: Value,
    ) -> StoreFuture<'_, ()>;

    /// Sets a job aside until [`requeue`](Self::requeue).
    fn park(&self, key: LeaseKey, reason: String, summary: Value) -> StoreFuture<'_, ()>;

    /// Removes a worker that shuts down; its jobs go back to the queue at once.
    fn leave(&self, worker: FleetName) -> StoreFuture<'_, ()>;

    /// Cancels a job: at once if no worker holds it. Otherwise the worker is notified by a control entry
    /// with the id [`cancel_control`](crate::cancel_control) and by its next renewal.
    fn cancel(&self, run: RunId, reason: String) -> StoreFuture<'_, CancelledJob>;

    /// Returns an ended or parked job to the queue.
    fn requeue(&self, run: RunId, how: Requeue) -> StoreFuture<'_, ()>;

    /// Keeps jobs from starting; running ones continue.
    fn pause(&self, scope: PauseScope) -> StoreFuture<'_, ()>;

    /// Reverts [`pause`](Self::pause).
    fn resume(&self, scope: PauseScope) -> StoreFuture<'_, ()>;

    /// Replaces all limits of a scope.
    fn set_limits(&self, scope: LimitScope, limits: ScopeLimits) -> StoreFuture<'_, ()>;

    /// Returns all limits.
    fn limits(&self) -> StoreFuture<'_, Vec<(LimitScope, ScopeLimits)>>;

    /// Returns a page of jobs in order of submission.
    fn jobs(&self, filter: JobFilter, page: PageOfJobs) -> StoreFuture<'_, JobPage>;

    /// Counts jobs by state.
    fn counts(&self, filter: JobFilter) -> StoreFuture<'_, JobCounts>;

    /// Returns a job's body.
    fn body(&self, run: RunId) -> StoreFuture<'_, Value>;

    /// Returns all live workers.
    fn workers(&self) -> StoreFuture<'_, Vec<WorkerRecord>>;

    /// Waits up to `wait` until the queue has changed since a revision; returns the current one.
    fn changed(&self, since: Revision, wait: Duration) -> StoreFuture<'_, Revision>;

    /// Deletes jobs that ended before this time, with their logs. Returns their number.
    fn forget(&self, ended_before: Timestamp) -> StoreFuture<'_, u64>;
}

/// Logs of runs and control entries sent to them.
pub trait LogStore: Send + Sync {
    /// Appends lines; returns the number of lines in the log. Can be retried after [`StoreError::Gone`]:
    /// the same lines at the same position are written once.
    fn append(&self, key: LeaseKey, lines: Vec<String>) -> StoreFuture<'_, u64>;

    /// Returns up to `most` lines starting at number `from`; includes everything acknowledged before the
    /// call.
    fn read(&self, run: RunId, from: u64, most: usize) -> StoreFuture<'_, Vec<LogLine>>;

    /// Returns the end of the log, from an authoritative copy.
    fn end(&self, run: RunId) -> StoreFuture<'_, LogEnd>;

    /// Streams the lines from number `from` on, including future ones. Does not end by itself.
    fn follow(&self, run: RunId, from: u64) -> StoreStream<LogLine>;

    /// Sends a control entry to a run; returns its number.
    fn control(&self, run: RunId, entry: NewControl) -> StoreFuture<'_, u64>;

    /// Returns the control entries from a number on.
    fn controls(&self, run: RunId, from: u64) -> StoreFuture<'_, Vec<ControlEntry>>;

    /// Streams the control entries from a number on, including future ones.
    fn follow_controls(&self, run: RunId, from: u64) -> StoreStream<ControlEntry>;

    /// Broadcasts text to current followers. Not stored; may be lost.
    fn live(&self, run: RunId, text: String) -> StoreFuture<'_, ()>;

    /// Streams live text from now on.
    fn follow_live(&self, run: RunId) -> StoreStream<String>;

    /// Writes the log of a run moved here from another store. Continues an interrupted import of the
    /// same log. Rejected if the run has a different log or an owner.
    fn import(&self, run: RunId, lines: Vec<String>) -> StoreFuture<'_, u64>;
}

/// Name of a blob: the BLAKE3 hash of its content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// Hashes bytes.
    #[must_use]
    pub fn hash(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Parses 64 hexadecimal digits.
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

/// Immutable content addressed by hash, separate for each tenant.
pub trait BlobStore: Send + Sync {
    /// Stores bytes. With a lease in `by`, fails once it is lost.
    fn put(&self, tenant: FleetName, bytes: Bytes, by: Option<LeaseKey>) -> StoreFuture<'_, BlobHash>;

    /// Returns the content after verifying its hash; [`StoreError::Unknown`] if the tenant has no such
    /// blob.
    fn get(&self, tenant: FleetName, hash: BlobHash) -> StoreFuture<'_, Bytes>;

    /// Returns for each hash whether the tenant has the blob.
    fn has(&self, tenant: FleetName, hashes: Vec<BlobHash>) -> StoreFuture<'_, Vec<bool>>;
}

/// Schedules, counters and token buckets shared by all processes.
pub trait ScheduleStore: Send + Sync {
    /// Adds or replaces a schedule.
    fn schedule(&self, schedule: NewSchedule) -> StoreFuture<'_, ()>;

    /// Removes a schedule; `false` if there was none.
    fn unschedule(&self, tenant: FleetName, name: FleetName) -> StoreFuture<'_, bool>;

    /// Returns all schedules.
    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleRecord>>;

    /// Fires all due schedules. May be called by any number of processes at any rate: each slot becomes
    /// exactly one job.
    fn tick(&self) -> StoreFuture<'_, Vec<FiredSlot>>;

    /// Adds to a counter and returns its value. With a lease in `by`, fails once it is lost.
    fn count(&self, key: String, add: i64, by: Option<LeaseKey>) -> StoreFuture<'_, i64>;

    /// Returns the counters whose key has this prefix.
    fn counters(&self, prefix: String) -> StoreFuture<'_, Vec<(String, i64)>>;

    /// Adds an amount to all counters, or to none if one would exceed its limit.
    fn reserve(
        &self,
        amount: i64,
        of: Vec<CounterLimit>,
        by: Option<LeaseKey>,
    ) -> StoreFuture<'_, ReserveOutcome>;

    /// Draws up to `want` tokens from a bucket. The first draw creates the bucket; later ones may change
    /// its size.
    fn draw(&self, key: String, want: u64, bucket: TokenBucket) -> StoreFuture<'_, BucketDraw>;

    /// Corrects a draw by the actual usage: a positive amount is returned, a negative one is withdrawn
    /// and may make the bucket negative.
    fn settle(&self, key: String, amount: i64) -> StoreFuture<'_, ()>;

    /// Blocks draws from a bucket for some time. Does not shorten an existing freeze.
    fn freeze(&self, key: String, time: Duration) -> StoreFuture<'_, ()>;

    /// Returns how long a bucket is still frozen.
    fn frozen(&self, key: String) -> StoreFuture<'_, Option<Duration>>;
}

/// A finding of an engine's health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineFinding {
    /// What was checked: "version", "sync", "room", "clock", "round trip".
    pub what: &'static str,
    /// Whether it is as required.
    pub is_good: bool,
    /// What was found.
    pub said: String,
    /// What to do if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// The traits of one open store.
#[derive(Clone)]
pub struct FleetStore {
    pub queue: Arc<dyn JobQueue>,
    pub log: Arc<dyn LogStore>,
    pub blobs: Arc<dyn BlobStore>,
    pub clockwork: Arc<dyn ScheduleStore>,
    pub(crate) engine: Arc<dyn FleetEngine>,
}

impl fmt::Debug for FleetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetStore").finish_non_exhaustive()
    }
}
