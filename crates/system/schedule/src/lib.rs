//! When stored prompts are due.
//!
//! [`CronSpec`] is a cron expression of five fields; [`CronSpec::next_after`]
//! says when it fires next in a time zone, also where clocks are changed. A
//! [`CronJob`] is a prompt that is to run later, [`CronStore`] keeps jobs on
//! disk, and [`fn@due`] says what is to run now.
//!
//! **Does not know** who runs prompts, sessions or tools, nor what time it is:
//! every function takes the moment, and [`ScheduleClock`] is the one port that
//! tells it.
//!
//! **Invariant:** a slot of a job is claimed on disk before it runs, and only
//! one process gets it.
//!
//! **Invariant:** jobs live in the person's own state directory. Nothing of a
//! project becomes a job.

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
