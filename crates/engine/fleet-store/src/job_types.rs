//! Jobs as a store sees them: heads it reads, bodies it does not.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FleetName, JobRequirements, RunId};

/// How urgent a job is; every urgent one starts before every normal one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobClass {
    /// Before all others.
    Urgent,
    /// The usual.
    #[default]
    Normal,
    /// When nothing else waits.
    Bulk,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for a worker.
    Queued,
    /// A worker has it and prepares.
    Starting,
    /// A worker runs it.
    Running,
    /// A worker has it, and it waits for somebody: an answer, a limit.
    Waiting,
    /// Ended well.
    Done,
    /// Ended badly.
    Failed,
    /// Ended because something was not allowed.
    Denied,
    /// Ended because somebody said so.
    Cancelled,
    /// Set aside with a reason; a person decides.
    Parked,
}

impl JobState {
    /// Every state, in the order they are shown.
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

    /// Whether a worker holds jobs of this state.
    #[must_use]
    pub fn is_held(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Waiting)
    }

    /// Whether nothing happens any more unless somebody asks for it.
    #[must_use]
    pub fn is_ended(self) -> bool {
        !self.is_held() && self != Self::Queued
    }

    /// The word for it.
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

/// What is known of a job without reading its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobHead {
    /// Its run.
    pub id: RunId,
    /// Whose it is.
    pub tenant: FleetName,
    /// The workers that may have it.
    pub pool: FleetName,
    /// How urgent it is.
    #[serde(default)]
    pub class: JobClass,
    /// What it was submitted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<FleetName>,
    /// A second submit of this tenant with the same words is this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<String>,
    /// Two jobs of a tenant with the same words never run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    /// What people look for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What it needs before it starts.
    #[serde(default, skip_serializing_if = "JobRequirements::is_empty")]
    pub needs: JobRequirements,
}

/// A job to be queued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// What the store reads.
    #[serde(flatten)]
    pub head: JobHead,
    /// Not before this moment of the engine's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// What the worker reads.
    pub body: Value,
}

/// What became of a submitted job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// It waits for a worker.
    Queued,
    /// It was there already, under this id.
    Known(RunId),
    /// Nothing of the call was queued: too many wait.
    Full {
        /// What the bound belongs to: "pool linux", "tenant a".
        scope: String,
        /// How many wait there.
        waiting: u64,
        /// How many may.
        bound: u64,
        /// When there is probably room.
        retry_after: Duration,
    },
}

/// What became of a cancelled job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelledJob {
    /// It had not begun and never will.
    AtOnce,
    /// Its worker was told.
    Asked,
    /// It had ended before, like this.
    Already(JobState),
}

/// How an ended or parked job goes back to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requeue {
    /// From where its log ends.
    Resume,
    /// From the beginning: lines of the log so far belong to earlier tries.
    Fresh,
}

/// Which jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only these.
    pub ids: Option<Vec<RunId>>,
    /// Only ids that begin like this.
    pub id_prefix: Option<String>,
    /// Only of this tenant.
    pub tenant: Option<FleetName>,
    /// Only of this batch.
    pub batch: Option<FleetName>,
    /// Only of this pool.
    pub pool: Option<FleetName>,
    /// Only in one of these states; none named means all.
    pub states: Vec<JobState>,
    /// Only with all of these labels.
    pub labels: BTreeMap<String, String>,
}

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOfJobs {
    /// Only after this one.
    pub after: Option<RunId>,
    /// At most so many.
    pub most: usize,
}

impl Default for PageOfJobs {
    fn default() -> Self {
        Self { after: None, most: 1_000 }
    }
}

/// A part of a list, in the order of submission.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobRecord>,
    /// Whether there are more.
    pub more: bool,
}

/// A job and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    #[serde(flatten)]
    pub head: JobHead,
    /// Where it is.
    pub state: JobState,
    /// Whether it is kept from starting by [`crate::JobQueue::pause`].
    pub paused: bool,
    /// Whether its end was asked for while a worker has it.
    pub cancel_asked: bool,
    /// The newest epoch it was given out with; 0 before the first.
    pub epoch: u64,
    /// How often it was given to a worker.
    pub deliveries: u32,
    /// How often its worker was given up.
    pub lost: u32,
    /// Who has it, or had it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<FleetName>,
    /// When it was submitted, by the engine's clock.
    pub submitted_at: Timestamp,
    /// When it was first given to a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When its state last changed.
    pub changed_at: Timestamp,
    /// It does not start before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Why it is where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What its worker said last.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub summary: Value,
}

/// How many jobs are in which state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct JobCounts {
    /// By state; states without jobs are left out.
    pub by_state: BTreeMap<JobState, u64>,
    /// Queued ones that are paused.
    pub paused: u64,
    /// Jobs that ended in the last minute of the engine's clock.
    pub ended_last_minute: u64,
}

impl JobCounts {
    /// How many jobs are in a state.
    #[must_use]
    pub fn of(&self, state: JobState) -> u64 {
        self.by_state.get(&state).copied().unwrap_or_default()
    }

    /// How many jobs there are.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.by_state.values().sum()
    }
}

/// What a limit holds for.
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

/// Bounds of a scope; what is `None` is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ScopeLimits {
    /// So many run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u64>,
    /// So many may wait; more are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u64>,
    /// So many start in a thousand seconds (5/s is 5,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_per_1000s: Option<u64>,
}

/// What is paused and resumed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PauseScope {
    /// One job.
    Run(RunId),
    /// A tenant's batch, also what is submitted to it later.
    Batch(FleetName, FleetName),
}
