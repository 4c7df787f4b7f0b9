//! What happens by the clock, and what is counted together.

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
    /// Again and again, counted from a moment.
    Every {
        /// The first slot.
        from: Timestamp,
        /// From one slot to the next; at least a second.
        seconds: u64,
    },
    /// As a cron expression of five fields says.
    Cron {
        /// The expression.
        expression: String,
        /// The zone its hours are of; "" is UTC.
        zone: String,
    },
}

/// What becomes of slots nobody was there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissedSlots {
    /// They are gone; only a slot of the last minute fires.
    Skip,
    /// The newest fires.
    #[default]
    Once,
    /// Each fires, a hundred at most.
    All,
}

/// A job that is submitted again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSchedule {
    /// Its name; a second one replaces the first of the tenant.
    pub name: FleetName,
    /// When it fires.
    pub when: FiringTime,
    /// What becomes of missed slots.
    pub missed: MissedSlots,
    /// The job; each fire gets an id of its own and the dedup words `name/slot`.
    pub head: JobHead,
    /// What the worker reads.
    pub body: Value,
}

/// A schedule and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// The schedule.
    pub schedule: NewSchedule,
    /// When it fires next; `None` when it never will.
    pub next: Option<Timestamp>,
    /// The last slot that fired.
    pub last: Option<Timestamp>,
}

/// A slot that was fired by this very call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiredSlot {
    /// The schedule.
    pub name: FleetName,
    /// The slot.
    pub slot: Timestamp,
    /// The run it became.
    pub run: RunId,
}

/// A counter and how far it may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterLimit {
    /// The counter.
    pub key: String,
    /// It may be this at most.
    pub at_most: i64,
}

/// Whether an amount was added to all counters, or to none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// It was; the counters are now, in the order asked, this.
    Yes(Vec<i64>),
    /// It was not.
    No {
        /// The first counter that would be over its ceiling.
        key: String,
        /// What it is.
        is: i64,
        /// What it may be.
        at_most: i64,
    },
}

/// How a bucket fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBucket {
    /// It holds so much, and begins full.
    pub capacity: u64,
    /// So much comes in a minute.
    pub per_minute: u64,
}

/// What was drawn from a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketDraw {
    /// So much; less than asked for when there was less, 0 while frozen.
    pub granted: u64,
    /// When there will be what was missing.
    pub retry_after: Option<Duration>,
}
