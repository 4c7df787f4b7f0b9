use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::CronJobId;

/// A stored prompt with its schedule and limits.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJob {
    pub id: CronJobId,
    /// Cron expression, as written by the user.
    pub cron: String,
    /// Time zone of the expression.
    pub zone: Arc<str>,
    /// The prompt.
    pub prompt: String,
    /// Working directory.
    pub dir: Arc<Path>,
    /// Whether it runs repeatedly or once.
    pub recurring: bool,
    /// Creation time.
    pub created: Timestamp,
    /// Id of the session that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<Arc<str>>,
    /// Time after which it no longer runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// What to do with times that passed while nothing ran.
    #[serde(default)]
    pub missed: MissedPolicy,
    /// Permissions of its runs.
    #[serde(default)]
    pub mode: JobMode,
    /// Maximum model requests per run.
    pub max_turns: u32,
    /// Maximum minutes per run.
    pub max_minutes: u64,
    /// Fleet store that schedules the job; then nothing on this machine runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Arc<str>>,
}

/// What to do with times that passed while nothing ran.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// One run replaces all missed ones.
    #[default]
    Once,
    /// Missed runs are skipped.
    Skip,
}

/// Permissions of a job's runs. No approver is available, so calls that would ask are denied. Permission
/// rules always apply.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum JobMode {
    /// Plan mode: only reads.
    Plan,
    /// Runs what the permission rules allow.
    #[default]
    Default,
    /// Also edits files in its directory.
    AcceptEdits,
}

impl JobMode {
    /// Name in flags and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
        }
    }
}
