//! Storage of a fleet: jobs, logs of runs, blobs, schedules and counters.
//!
//! Four traits ([`JobQueue`], [`LogStore`], [`BlobStore`], [`ScheduleStore`]) combined in a
//! [`FleetStore`], implemented on three engines: SQLite in a file, NATS JetStream, PostgreSQL.
//!
//! **Out of scope**: sessions, models, tools, workspaces. A job is an id, some labels and a JSON body
//! that is not interpreted.
//!
//! **Invariant:** operations that name a lease are checked against the owner's epoch where the data is
//! stored; a replaced owner gets [`StoreError::Stale`] and has changed nothing.
//!
//! **Invariant:** an operation that returned `Ok` is on disk.
//!
//! **Invariant:** leases expire by monotonic clocks: a worker is declared dead by processes that
//! received no renewal for a whole lease according to their own clock.

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
