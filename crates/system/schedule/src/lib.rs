//! Stored prompts and when they are due.
//!
//! [`CronSpec`] is a cron expression with five fields; [`CronSpec::next_after`] computes when it fires
//! next in a time zone, also across clock changes. A [`CronJob`] is a prompt to run later, [`CronStore`]
//! stores jobs on disk, and [`fn@due`] decides what to run now.
//!
//! **Does not know** sessions, tools or who runs prompts. It reads no clock: functions take the current time, and [`ScheduleClock`] is the only source of it.
//!
//! **Invariant:** a slot of a job is claimed on disk before it runs, and only one process can claim it.
//!
//! **Invariant:** jobs are stored in the user's own state directory. Nothing in a project becomes a job.

mod clock;
mod cron;
mod due;
mod job;
mod job_id;
mod mask;
mod store;

pub use clock::{ScheduleClock, SystemClock, zone_name, zone_named};
pub use cron::{CronError, CronSpec};
pub use due::{DueJob, RunReason, due};
pub use job::{CronJob, JobMode, MissedPolicy};
pub use job_id::CronJobId;
pub use store::{CronJobList, CronStore, RunOutcome, RunRecord};
