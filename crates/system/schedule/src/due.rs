use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

use crate::{CronJob, CronSpec, MissedPolicy, zone_named};

/// A run that is due.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DueJob {
    /// The time it was to run at; one run for each.
    pub slot: Timestamp,
    /// Why it runs now.
    pub why: RunReason,
}

/// Why a run happens.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunReason {
    /// Its time has come.
    Scheduled,
    /// Its time passed while nothing ran.
    CatchUp,
    /// Its time passed and is left out.
    Missed,
}

/// A run this late still counts as on time: timers tick once a minute.
const ON_TIME: SignedDuration = SignedDuration::from_secs(90);
/// What is due of a job at `now`. `last` is the slot that was claimed last; a
/// clock that was set back runs nothing twice. However many times passed, one
/// run is due, for the newest; a job that runs once is due for its first time,
/// and never after a slot of it was claimed.
pub fn due(job: &CronJob, spec: &CronSpec, now: Timestamp, last: Option<Timestamp>) -> Option<DueJob> {
    let zone = zone_named(&job.zone);
    let ran_once = !job.recurring && last.is_some();
    if ran_once || job.expires.is_some_and(|end| end < now) {
        return None;
    }
    let since = last.unwrap_or(job.created).max(job.created);
    let slot = if job.recurring {
        newest(spec, since, now, &zone)?
    } else {
        spec.next_after(since, &zone).filter(|it| *it <= now)?
    };
    let on_time = now.duration_since(slot) <= ON_TIME;
    Some(DueJob { slot, why: if on_time { RunReason::Scheduled } else { late(job) } })
}

/// The newest time after `since` that has come, found by halves: after the
/// middle of what is left, there is one or there is none.
fn newest(spec: &CronSpec, since: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let passed = |after: Timestamp| spec.next_after(after, zone).filter(|it| *it <= now);
    let mut found = passed(since)?;
    let mut none_after = now;
    while found < none_after {
        let half = none_after.duration_since(found) / 2;
        let middle = found.checked_add(half).unwrap_or(found);
        match passed(middle) {
            Some(later) => found = later,
            None if middle == found => break,
            None => none_after = middle,
        }
    }
    Some(found)
}

fn late(job: &CronJob) -> RunReason {
    match job.missed {
        MissedPolicy::Once => RunReason::CatchUp,
        MissedPolicy::Skip => RunReason::Missed,
    }
}
