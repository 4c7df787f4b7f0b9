//! Where a fleet keeps its jobs, the logs of its runs, its blobs and its clocks.
//!
//! Four ports ([`JobQueue`], [`LogStore`], [`BlobStore`], [`ScheduleStore`]) in one
//! [`FleetStore`]; behind them one of three engines: SQLite in a file, NATS
//! JetStream, PostgreSQL.
//!
//! **Does not know** sessions, models, tools or workspaces: a job is an id, a few
//! labels and a JSON body nobody here reads.
//!
//! **Invariant:** what names a lease is checked against the owner's epoch where
//! the data is; whoever was replaced gets [`StoreError::Stale`] and has changed
//! nothing.
//!
//! **Invariant:** what was answered with `Ok` is on disk.
//!
//! **Invariant:** leases end by clocks that never jump: a worker is given up by
//! others that saw no sign of it for a whole lease on their own boot clock.

mod engine;
mod error;
mod job_requirements;
mod job_types;
mod lease;
mod ledger;
mod ports;
mod run_log;
mod schedule_types;
mod store;
mod store_address;
mod valid_name;

pub use error::StoreError;
pub use job_requirements::{JobRequirements, ResourceRequest};
pub use job_types::{
    CancelledJob, JobClass, JobCounts, JobFilter, JobHead, JobPage, JobRecord, JobState, LimitScope, NewJob,
    PageOfJobs, PauseScope, Requeue, ScopeLimits, Submitted,
};
pub use lease::{ClaimJobs, Lease, LeaseKey, LeaseRenewal, WorkerRecord};
pub use ports::{
    BlobHash, BlobStore, EngineFinding, FleetStore, JobQueue, LogStore, Revision, ScheduleStore, StoreFuture,
    StoreStream,
};
pub use run_log::{ControlEntry, LogEnd, LogLine, NewControl};
pub use schedule_types::{
    BucketDraw, CounterLimit, FiredSlot, FiringTime, MissedSlots, NewSchedule, ReserveOutcome,
    ScheduleRecord, TokenBucket,
};
pub use store::cancel_control;
pub use store_address::FleetAddress;
pub use valid_name::{FleetName, NameError, RunId};
