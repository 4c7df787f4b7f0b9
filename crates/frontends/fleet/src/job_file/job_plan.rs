//! The parsed content of a job file.

use std::collections::BTreeMap;

use haft_fleet_store::JobRequirements;
use serde::Deserialize;
use serde_json::Value;

use super::{FileLocation, JobBody, Share, StartRate};

#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Name of the batch.
    pub batch: String,
    /// Jobs in the order of the file.
    pub jobs: Vec<PlannedJob>,
    /// Budget of all jobs together.
    pub budget: BatchBudget,
    /// Limits on running jobs and starts.
    pub rate: BatchRate,
    /// Rollout stages.
    pub rollout: Vec<Share>,
}

/// A job of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedJob {
    /// Deduplication key: the same key is queued only once, ever.
    pub dedup: String,
    /// Id derived from `dedup`.
    pub id: String,
    pub pool: String,
    /// `urgent`, `normal` or `bulk`.
    pub class: String,
    /// Jobs with the same key never run concurrently.
    pub concurrency_key: Option<String>,
    /// Labels from its row.
    pub labels: BTreeMap<String, String>,
    /// What it needs before it starts.
    pub needs: JobRequirements,
    pub body: JobBody,
    /// Location in the file.
    pub place: FileLocation,
}

/// Budget of a batch.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct BatchBudget {
    /// US dollars.
    pub usd: Option<f64>,
}

/// Limits on running jobs and starts of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchRate {
    /// Maximum jobs running concurrently.
    pub max_running: Option<u32>,
    /// Maximum start rate.
    pub start: Option<StartRate>,
}

/// Values from the command line for all jobs.
#[derive(Clone, Debug, Default)]
pub struct PlanDefaults {
    pub prompt: Option<String>,
    pub batch: Option<String>,
    /// Job fields; those of the file take precedence.
    pub job: Option<Value>,
    /// Tenant; part of the jobs' ids.
    pub tenant: String,
}
