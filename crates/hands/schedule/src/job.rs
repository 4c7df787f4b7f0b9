use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::PathBuf,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A prompt that is to run later, and everything that decides how.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJob {
    /// Its name: eight letters and digits.
    pub id: String,
    /// When, as it was written.
    pub cron: String,
    /// In which time zone.
    pub zone: String,
    /// What is asked.
    pub prompt: String,
    /// Where it runs.
    pub dir: PathBuf,
    /// Whether it runs again and again.
    pub recurring: bool,
    /// When it was made.
    pub created: Timestamp,
    /// The session that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// What becomes of times that passed while nothing ran.
    #[serde(default)]
    pub missed: MissedPolicy,
    /// Requests to the model at most.
    pub max_turns: u32,
    /// Minutes at most.
    pub max_minutes: u64,
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

/// A new name that nobody can guess in advance.
pub fn new_job_id() -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u128(Timestamp::now().as_nanosecond().unsigned_abs());
    format!("{:08x}", hasher.finish() >> 32)
}

/// Whether a text is such a name, so that it can be part of a path.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|it| it.is_ascii_hexdigit())
}
