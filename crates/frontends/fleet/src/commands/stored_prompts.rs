//! Runs the prompts stored by CronCreate as schedules of a fleet instead of this machine's timer.

use std::{collections::BTreeSet, time::Duration};

use haft_console::stdout::{CliError, print_error};
use haft_fleet_store::{FiringTime, FleetName, JobRequirements, MissedSlots, NewSchedule, ScheduleRecord};
use haft_schedule::{CronJob, CronSpec, CronStore, MissedPolicy, zone_named};
use serde_json::{Map, json};

use super::{FleetContext, args::FleetMissed, schedules::schedule_of, store};
use crate::{
    FleetClient,
    job_file::{CheckoutSpec, FileLocation, JobBody, JobLimits, PlannedJob},
};

/// Label of a schedule that names the machine it comes from.
const MACHINE: &str = "machine";

/// Copies all stored prompts of this machine into the fleet as schedules, removes schedules whose prompt
/// no longer exists, and returns the active ones. A job runs in the directory its prompt names, so the
/// pool's workers need these directories.
///
/// A prompt is marked as handed over before the fleet has its schedule, so that no time slot runs twice.
/// After a crash in between, the next call completes the work.
pub(super) async fn hand_over(
    desk: &FleetClient,
    context: &FleetContext,
) -> Result<Vec<(FleetName, String)>, CliError> {
    let prompts = CronStore::at(context.program.environment(&context.options)?.state_dir().join("cron"));
    let stored = prompts.list();
    stored.problems.iter().for_each(|problem| print_error(problem));
    let (address, machine) = (store::address()?.to_string(), machine());
    let known = desk.store().clockwork.schedules().await.map_err(|err| err.to_string())?;
    let mut there = BTreeSet::new();
    let mut handed = Vec::new();
    for job in &stored.jobs {
        let name = FleetName::parse(&format!("cron-{}", job.id)).map_err(|err| err.to_string())?;
        let before = known.iter().find(|it| it.schedule.name == name);
        let is_over = !job.recurring && before.is_some_and(|it| it.last.is_some());
        if is_over || job.expires.is_some_and(|end| end < jiff::Timestamp::now()) {
            prompts.remove(&job.id)?;
            continue;
        }
        if job.fleet.as_deref().is_some_and(|it| it != address) {
            print_error(&format!("{} goes by the clock of another store; it is left there", job.id));
            continue;
        }
        if job.fleet.is_none() {
            prompts.add(&CronJob { fleet: Some(address.as_str().into()), ..job.clone() })?;
        }
        there.insert(name.clone());
        let Some(schedule) = schedule(desk, name.clone(), job, &machine)? else {
            print_error(&format!("{}: {:?} never fires", job.id, job.cron));
            continue;
        };
        if before.is_none_or(|it| it.schedule.when != schedule.when || it.schedule.body != schedule.body) {
            desk.store().clockwork.schedule(schedule).await.map_err(|err| err.to_string())?;
        }
        handed.push((name, job.cron.clone()));
    }
    for gone in known.iter().filter(|it| is_ours(it, &machine) && !there.contains(&it.schedule.name)) {
        let name = gone.schedule.name.clone();
        desk.store()
            .clockwork
            .unschedule(desk.tenant().clone(), name)
            .await
            .map_err(|err| err.to_string())?;
    }
    Ok(handed)
}

fn is_ours(record: &ScheduleRecord, machine: &str) -> bool {
    record.schedule.head.labels.get(MACHINE).is_some_and(|it| it == machine)
}

/// Identifies this machine among those that share the store.
fn machine() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let home = std::env::var("HOME").unwrap_or_default();
    let hash = crate::token_hash(&format!("{}/{}/{home}", id.trim(), host.trim()));
    hash.iter().take(8).map(|it| format!("{it:02x}")).collect()
}

/// The schedule of a stored prompt; `None` if it will never fire again.
fn schedule(
    desk: &FleetClient,
    name: FleetName,
    job: &CronJob,
    machine: &str,
) -> Result<Option<NewSchedule>, CliError> {
    let when = if job.recurring {
        FiringTime::Cron { expression: job.cron.clone(), zone: job.zone.to_string() }
    } else {
        let next =
            CronSpec::parse(&job.cron).ok().and_then(|it| it.next_after(job.created, &zone_named(&job.zone)));
        let Some(next) = next else { return Ok(None) };
        FiringTime::At(next)
    };
    let flags = Map::from_iter([
        (String::from("permission-mode"), json!(job.mode.name())),
        (String::from("max-turns"), json!(job.max_turns)),
    ]);
    let time = Some(Duration::from_secs(job.max_minutes.saturating_mul(60)));
    let dir = job.dir.display().to_string();
    let planned = PlannedJob {
        dedup: String::new(),
        id: String::new(),
        pool: String::from("default"),
        class: String::from("normal"),
        concurrency_key: Some(dir.clone()),
        labels: std::collections::BTreeMap::new(),
        needs: JobRequirements::default(),
        body: JobBody {
            prompt: job.prompt.clone(),
            workspace: CheckoutSpec { dir: Some(dir), ..CheckoutSpec::default() },
            flags,
            limits: JobLimits { time, ..JobLimits::default() },
            ..JobBody::default()
        },
        place: FileLocation::default(),
    };
    let mut schedule = schedule_of(desk, name, when, FleetMissed::Once, &planned)?;
    schedule.missed = match job.missed {
        MissedPolicy::Once => MissedSlots::Once,
        MissedPolicy::Skip => MissedSlots::Skip,
    };
    schedule.head.labels.insert(MACHINE.to_owned(), machine.to_owned());
    Ok(Some(schedule))
}
