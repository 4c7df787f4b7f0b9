use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{CronJob, CronSpec, MissedPolicy, zone_named};

/// A run that is due.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DueRun {
    /// The time it was to run at; one run for each.
    pub slot: Timestamp,
    /// Why it runs now.
    pub why: RunWhy,
}

/// Why a run happens.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunWhy {
    /// Its time has come.
    Scheduled,
    /// Its time passed while nothing ran.
    CatchUp,
    /// Its time passed and is left out.
    Missed,
}

/// A run this late still counts as on time: timers tick once a minute.
const ON_TIME: SignedDuration = SignedDuration::from_secs(90);
/// Times before this are not looked at one by one.
const LOOKED_BACK: SignedDuration = SignedDuration::from_hours(24 * 8);

/// What is due of a job at `now`. `last` is the slot that was claimed last; a
/// clock that was set back runs nothing twice. However many times passed, one
/// run is due, for the newest.
pub fn due(job: &CronJob, spec: &CronSpec, now: Timestamp, last: Option<Timestamp>) -> Option<DueRun> {
    let zone = zone_named(&job.zone);
    let since = last.unwrap_or(job.created).max(job.created);
    let mut at = since.max(now.checked_sub(LOOKED_BACK).unwrap_or(since));
    if at != since
        && last.is_none_or(|last| last < at)
        && spec.next_after(since, &zone).is_some_and(|it| it <= at)
    {
        // Something passed before the times that are looked at: it still counts as one.
        if spec.next_after(at, &zone).is_none_or(|next| now < next) {
            let slot = spec.next_after(since, &zone)?;
            return Some(DueRun { slot, why: late(job) });
        }
    }
    let mut newest = None;
    while let Some(next) = spec.next_after(at, &zone).filter(|it| *it <= now) {
        newest = Some(next);
        if !job.recurring {
            break;
        }
        at = next;
    }
    let slot = newest?;
    if job.expires.is_some_and(|end| end < slot) {
        return None;
    }
    let on_time = now.duration_since(slot) <= ON_TIME;
    Some(DueRun { slot, why: if on_time { RunWhy::Scheduled } else { late(job) } })
}

fn late(job: &CronJob) -> RunWhy {
    match job.missed {
        MissedPolicy::Once => RunWhy::CatchUp,
        MissedPolicy::Skip => RunWhy::Missed,
    }
}
