//! Leases: jobs held by workers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FleetName, JobHead, ResourceRequest, RunId};

/// Identifies a lease; passed with every operation of a worker on a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseKey {
    pub run: RunId,
    /// Increases with every delivery; only the newest epoch is valid.
    pub epoch: u64,
}

/// A worker's request for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimJobs {
    /// Name of the worker, unique per process.
    pub worker: FleetName,
    /// Pool to take jobs from.
    pub pool: FleetName,
    /// Maximum number of jobs.
    pub most: u32,
    /// Total resources of its machine, for all jobs it holds.
    pub machine: ResourceRequest,
    /// Time without a renewal after which other processes declare the worker dead.
    pub lease: Duration,
    /// Maximum time to wait for a first job.
    pub wait: Duration,
}

/// A job held by a worker, which already owns the run's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    /// Key for all operations on the run.
    pub key: LeaseKey,
    pub head: JobHead,
    pub body: Value,
    /// Number of deliveries, including this one.
    pub deliveries: u32,
    /// Number of times its worker was declared dead.
    pub lost: u32,
    /// Consecutive takeovers, including this one, during which no log line was written.
    pub stalled: u32,
    /// Log lines before this one belong to discarded attempts.
    pub log_begin: u64,
    /// Number of lines in the log.
    pub log_end: u64,
}

/// Result of renewing a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseRenewal {
    /// The worker still holds it.
    Held {
        /// Whether a cancellation was requested.
        cancel_asked: bool,
    },
    /// Lost or ended: stop, and write nothing.
    Lost,
}

/// A live worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerRecord {
    pub worker: FleetName,
    pub pool: FleetName,
    /// Number of jobs it holds.
    pub holds: u64,
    /// Duration of its leases in milliseconds.
    pub lease_ms: u64,
}
