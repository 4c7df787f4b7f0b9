//! Jobs: the head, which the store interprets, and the body, which it does not.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FleetName, JobRequirements, RunId};

/// Priority of a job; all jobs of a class start before those of the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobClass {
    /// Before all others.
    Urgent,
    /// The default.
    #[default]
    Normal,
    /// Only when nothing else is ready.
    Bulk,
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waiting for a worker.
    Queued,
    /// Held by a worker that prepares it.
    Starting,
    /// Being run by a worker.
    Running,
    /// Held by a worker and waiting, for an answer or a limit.
    Waiting,
    /// Succeeded.
    Done,
    Failed,
    /// Ended because something was not permitted.
    Denied,
    /// Ended by request.
    Cancelled,
    /// Set aside with a reason; a person decides how to continue.
    Parked,
}

impl JobState {
    /// All states in display order.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Starting,
        Self::Running,
        Self::Waiting,
        Self::Done,
        Self::Failed,
        Self::Denied,
        Self::Cancelled,
        Self::Parked,
    ];

    /// Whether a worker holds jobs in this state.
    #[must_use]
    pub fn is_held(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Waiting)
    }

    /// Whether the state only changes by request.
    #[must_use]
    pub fn is_ended(self) -> bool {
        !self.is_held() && self != Self::Queued
    }

    /// Returns the state's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Parked => "parked",
        }
    }
}

/// Description of a job without its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobHead {
    /// Id of its run.
    pub id: RunId,
    pub tenant: FleetName,
    /// Pool of workers that may run it.
    pub pool: FleetName,
    /// Priority.
    #[serde(default)]
    pub class: JobClass,
    /// Group of jobs it was submitted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<FleetName>,
    /// Deduplication key: a second submission of the tenant with the same key returns the existing job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<String>,
    /// Two jobs of a tenant with the same key never run concurrently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    /// Labels for filtering.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What it needs before it starts.
    #[serde(default, skip_serializing_if = "JobRequirements::is_empty")]
    pub needs: JobRequirements,
}

/// A job to be submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// The part the store interprets.
    #[serde(flatten)]
    pub head: JobHead,
    /// Earliest start, by the engine's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The part only the worker interprets.
    pub body: Value,
}

/// Result of submitting a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// Queued.
    Queued,
    /// Already present, under this id.
    Known(RunId),
    /// A queue is full; no job of the call was queued.
    Full {
        /// What the limit applies to: "pool linux", "tenant a".
        scope: String,
        /// Number of jobs waiting there.
        waiting: u64,
        /// Maximum number of waiting jobs.
        bound: u64,
        /// Estimated time until there is room.
        retry_after: Duration,
    },
}

/// Result of cancelling a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelledJob {
    /// It had not started; it is cancelled now.
    AtOnce,
    /// Its worker has been asked to end it.
    Asked,
    /// It had ended before, with this state.
    Already(JobState),
}

/// How an ended or parked job is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requeue {
    /// Continues from the end of its log.
    Resume,
    /// Starts over: existing log lines belong to earlier attempts.
    Fresh,
}

/// Selects jobs; all conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// These ids.
    pub ids: Option<Vec<RunId>>,
    /// Ids with this prefix.
    pub id_prefix: Option<String>,
    pub tenant: Option<FleetName>,
    pub batch: Option<FleetName>,
    pub pool: Option<FleetName>,
    /// One of these states; empty means all.
    pub states: Vec<JobState>,
    /// All of these labels.
    pub labels: BTreeMap<String, String>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOfJobs {
    /// Start after this id.
    pub after: Option<RunId>,
    /// Maximum number of jobs.
    pub most: usize,
}

impl Default for PageOfJobs {
    fn default() -> Self {
        Self { after: None, most: 1_000 }
    }
}

/// A page of jobs in order of submission.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobPage {
    pub jobs: Vec<JobRecord>,
    /// Whether more jobs follow.
    pub more: bool,
}

/// A job and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    #[serde(flatten)]
    pub head: JobHead,
    pub state: JobState,
    /// Whether [`crate::JobQueue::pause`] keeps it from starting.
    pub paused: bool,
    /// Whether a cancellation was requested while a worker holds it.
    pub cancel_asked: bool,
    /// Epoch of the newest delivery to a worker; 0 before the first.
    pub epoch: u64,
    /// Number of deliveries to workers.
    pub deliveries: u32,
    /// Number of times its worker was declared dead.
    pub lost: u32,
    /// Current or last worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<FleetName>,
    /// Time of submission, by the engine's clock.
    pub submitted_at: Timestamp,
    /// Time of the first delivery to a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Time of the last state change.
    pub changed_at: Timestamp,
    /// Earliest start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Reason of its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Last summary reported by its worker.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub summary: Value,
}

/// Number of jobs by state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct JobCounts {
    /// By state; states without jobs are omitted.
    pub by_state: BTreeMap<JobState, u64>,
    /// Number of queued jobs that are paused.
    pub paused: u64,
    /// Jobs that ended in the last minute, by the engine's clock.
    pub ended_last_minute: u64,
}

impl JobCounts {
    /// Returns the number of jobs in a state.
    #[must_use]
    pub fn of(&self, state: JobState) -> u64 {
        self.by_state.get(&state).copied().unwrap_or_default()
    }

    /// Returns the total number of jobs.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.by_state.values().sum()
    }
}

/// What a limit applies to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitScope {
    /// All jobs of a tenant.
    Tenant(FleetName),
    /// All jobs of a pool.
    Pool(FleetName),
    /// All jobs of a tenant's batch.
    Batch(FleetName, FleetName),
}

/// Limits of a scope; `None` means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ScopeLimits {
    /// Maximum jobs running concurrently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u64>,
    /// Maximum jobs waiting; further ones are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u64>,
    /// Maximum starts per 1000 seconds (5/s is 5,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_per_1000s: Option<u64>,
}

/// What is paused or resumed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PauseScope {
    Run(RunId),
    /// A tenant's batch, including jobs submitted to it later.
    Batch(FleetName, FleetName),
}
