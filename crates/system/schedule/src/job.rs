use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::CronJobId;

/// A prompt that is to run later, and everything that decides how.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJob {
    /// Its name.
    pub id: CronJobId,
    /// When, as it was written.
    pub cron: String,
    /// In which time zone.
    pub zone: Arc<str>,
    /// What is asked.
    pub prompt: String,
    /// Where it runs.
    pub dir: Arc<Path>,
    /// Whether it runs again and again.
    pub recurring: bool,
    /// When it was made.
    pub created: Timestamp,
    /// The session that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<Arc<str>>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// What becomes of times that passed while nothing ran.
    #[serde(default)]
    pub missed: MissedPolicy,
    /// How much it may do by itself.
    #[serde(default)]
    pub mode: JobMode,
    /// Requests to the model at most.
    pub max_turns: u32,
    /// Minutes at most.
    pub max_minutes: u64,
    /// The store of the fleet whose clock it goes by; nothing here runs it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Arc<str>>,
}

/// What becomes of times that passed while nothing ran.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// One run makes up for all.
    #[default]
    Once,
    /// They are left out.
    Skip,
}

/// How much a job may do by itself. Nobody is asked, so that what would be asked
/// is refused; no job ever skips the rules.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum JobMode {
    /// It only looks.
    Plan,
    /// What rules allow.
    #[default]
    Default,
    /// It also edits files of its directory.
    AcceptEdits,
}

impl JobMode {
    /// As flags and settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
        }
    }
}
