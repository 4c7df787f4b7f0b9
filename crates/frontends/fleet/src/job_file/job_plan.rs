//! What a job file comes to.

use std::collections::BTreeMap;

use haft_fleet_store::JobRequirements;
use serde::Deserialize;
use serde_json::Value;

use super::{FileLocation, JobBody, Share, StartRate};

/// What a job file means.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// The name of all of them.
    pub batch: String,
    /// The jobs, in the order of the file.
    pub jobs: Vec<PlannedJob>,
    /// What all of them may cost.
    pub budget: BatchBudget,
    /// How many may run and start.
    pub rate: BatchRate,
    /// In which stages they are let loose.
    pub rollout: Vec<Share>,
}

/// One job of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedJob {
    /// Names it among all jobs of all times: the same one is queued once.
    pub dedup: String,
    /// Its id, made from that.
    pub id: String,
    /// Who works on it.
    pub pool: String,
    /// `urgent`, `normal` or `bulk`.
    pub class: String,
    /// Two jobs with the same one never run at the same time.
    pub concurrency_key: Option<String>,
    /// What its row said.
    pub labels: BTreeMap<String, String>,
    /// What it needs before it starts.
    pub needs: JobRequirements,
    /// The job.
    pub body: JobBody,
    /// Where it stands in the file.
    pub place: FileLocation,
}

/// What all jobs of a batch may cost.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct BatchBudget {
    /// Dollars.
    pub usd: Option<f64>,
}

/// How many jobs of a batch may run and start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchRate {
    /// So many at the same time.
    pub max_running: Option<u32>,
    /// So many in a time.
    pub start: Option<StartRate>,
}

/// What the command line says about all jobs.
#[derive(Clone, Debug, Default)]
pub struct PlanDefaults {
    /// The prompt.
    pub prompt: Option<String>,
    /// The name of the batch.
    pub batch: Option<String>,
    /// Fields of jobs, weaker than those of the file.
    pub job: Option<Value>,
    /// The tenant, which names jobs too.
    pub tenant: String,
}
