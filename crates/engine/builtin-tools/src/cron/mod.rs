//! Scheduled prompts: run in this session while it is open, or stored and run by the user's timer.

mod create;
mod delete;
mod list;
mod schedule_wakeup;
mod session_jobs;

use std::sync::Arc;

use haft_schedule::{CronSpec, CronStore, ScheduleClock, SystemClock};
use haft_shell::run::TaskRegistry;
use haft_tool::{DynTool, erase};
use jiff::{Timestamp, tz::TimeZone};

pub use create::CronCreate;
pub use delete::CronDelete;
pub use list::{CronList, ListedJob};
pub use schedule_wakeup::ScheduleWakeup;

use session_jobs::SessionJobs;

/// Maximum number of scheduled prompts per session.
const MAX_IN_SESSION: usize = 50;
/// Maximum characters of a prompt.
const MAX_PROMPT: usize = 8_000;

/// What the scheduling tools need.
#[derive(Clone)]
pub struct CronServices {
    /// Stores jobs that outlive the session.
    pub store: Arc<CronStore>,
    pub clock: Arc<dyn ScheduleClock>,
    /// Id of the session that creates jobs.
    pub session: Option<String>,
}

impl CronServices {
    /// Creates services that store jobs below a state directory and use the system clock.
    pub fn at(state: &std::path::Path, session: Option<String>) -> Self {
        Self { store: Arc::new(CronStore::at(state.join("cron"))), clock: Arc::new(SystemClock), session }
    }
}

/// Returns the scheduling tools of one session, which share its jobs.
pub fn tools(services: &CronServices, tasks: Arc<TaskRegistry>) -> Vec<Arc<dyn DynTool>> {
    let jobs = Arc::new(SessionJobs::new(tasks, Arc::clone(&services.clock)));
    let schedule = || services.clone();
    vec![
        erase(CronCreate::new(schedule(), Arc::clone(&jobs))),
        erase(CronDelete::new(schedule(), Arc::clone(&jobs))),
        erase(CronList::new(schedule(), Arc::clone(&jobs))),
        erase(ScheduleWakeup::new(schedule(), jobs)),
    ]
}

/// Formats a time for the user.
fn shown(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}

/// Describes a cron expression; quotes it if there is no simple description.
fn in_words(spec: &CronSpec) -> String {
    let fields: Vec<&str> = spec.text().split(' ').collect();
    match fields[..] {
        ["*", "*", "*", "*", "*"] => String::from("every minute"),
        [minute, "*", "*", "*", "*"] if minute.starts_with("*/") => format!("every {} minutes", &minute[2..]),
        [minute, "*", "*", "*", "*"] if is_number(minute) => format!("every hour at :{minute:0>2}"),
        [minute, hour, "*", "*", days] if is_number(minute) && is_number(hour) => {
            let days = match days {
                "*" => String::from("every day"),
                "1-5" => String::from("on weekdays"),
                other => format!("on days of the week {other}"),
            };
            format!("{days} at {hour:0>2}:{minute:0>2}")
        }
        _ => format!("by {}", spec.text()),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}
