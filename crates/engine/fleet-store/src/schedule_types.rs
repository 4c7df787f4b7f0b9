//! Types of schedules, counters and token buckets.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FleetName, JobHead, RunId};

/// When a schedule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FiringTime {
    /// Once.
    At(Timestamp),
    /// At a fixed interval.
    Every {
        /// The first slot.
        from: Timestamp,
        /// Seconds between slots, at least 1.
        seconds: u64,
    },
    /// By a cron expression with five fields.
    Cron {
        expression: String,
        /// Time zone of the expression; "" is UTC.
        zone: String,
    },
}

/// What happens with slots that were missed because no process was running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissedSlots {
    /// They are skipped; only a slot of the last minute fires.
    Skip,
    /// The newest one fires.
    #[default]
    Once,
    /// All fire, at most the newest 100.
    All,
}

/// A job that is submitted repeatedly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSchedule {
    /// Name; replaces an existing schedule of the tenant.
    pub name: FleetName,
    pub when: FiringTime,
    /// Handling of missed slots.
    pub missed: MissedSlots,
    /// The job; each firing gets a new id and the deduplication key `name/slot`.
    pub head: JobHead,
    /// Body of the job.
    pub body: Value,
}

/// A schedule and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRecord {
    pub schedule: NewSchedule,
    /// Next slot; `None` if it will never fire again.
    pub next: Option<Timestamp>,
    /// Last slot that fired.
    pub last: Option<Timestamp>,
}

/// A slot that was fired by this call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiredSlot {
    /// Name of the schedule.
    pub name: FleetName,
    pub slot: Timestamp,
    /// The run that was submitted.
    pub run: RunId,
}

/// A counter and its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterLimit {
    pub key: String,
    /// Maximum value.
    pub at_most: i64,
}

/// Whether an amount was added to all counters or to none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// Added; the values of the counters, in the order of the request.
    Yes(Vec<i64>),
    /// Not added.
    No {
        /// The first counter that would exceed its limit.
        key: String,
        /// Its value.
        is: i64,
        /// Its limit.
        at_most: i64,
    },
}

/// Size and fill rate of a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBucket {
    /// Capacity; a new bucket is full.
    pub capacity: u64,
    /// Tokens added per minute.
    pub per_minute: u64,
}

/// Result of a draw from a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketDraw {
    /// Tokens granted; may be fewer than requested, and 0 while frozen.
    pub granted: u64,
    /// Time until the missing tokens are available.
    pub retry_after: Option<Duration>,
}
