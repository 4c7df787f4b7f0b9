//! Jobs in the hands of workers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FleetName, JobHead, ResourceRequest, RunId};

/// What a worker shows with everything it does to a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseKey {
    /// The run.
    pub run: RunId,
    /// Grows with every delivery; only the newest counts.
    pub epoch: u64,
}

/// What a worker has room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimJobs {
    /// The worker: a new name for every process.
    pub worker: FleetName,
    /// Jobs of this pool.
    pub pool: FleetName,
    /// At most so many.
    pub most: u32,
    /// What its machine has, for all jobs it holds.
    pub machine: ResourceRequest,
    /// How long others wait for a sign of life before they give the worker up.
    pub lease: Duration,
    /// How long to wait for a first job.
    pub wait: Duration,
}

/// A job in the hands of a worker. The run's log is owned already.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    /// What to show with everything done to the run.
    pub key: LeaseKey,
    /// The job.
    pub head: JobHead,
    /// What it is about.
    pub body: Value,
    /// How often it was given out, this time included.
    pub deliveries: u32,
    /// How often its worker was given up.
    pub lost: u32,
    /// How many takeovers in a row, this one included, found no new line.
    pub stalled: u32,
    /// Lines before this one belong to tries that were given up on purpose.
    pub log_begin: u64,
    /// So many lines the log has.
    pub log_end: u64,
}

/// What became of a lease that was to be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseRenewal {
    /// Still the worker's.
    Held {
        /// Somebody wants the run to end.
        cancel_asked: bool,
    },
    /// Another's, or ended: stop, write nothing.
    Lost,
}

/// A worker others know of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerRecord {
    /// The worker.
    pub worker: FleetName,
    /// What it takes jobs of.
    pub pool: FleetName,
    /// How many jobs it has.
    pub holds: u64,
    /// How long its leases are.
    pub lease_ms: u64,
}
