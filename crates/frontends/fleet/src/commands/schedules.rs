//! `haft fleet schedule`: jobs that the store starts at certain times.

use std::process::ExitCode;

use haft_console::{
    stdout::{CliError, CommandExit, print_line},
    style,
};
use haft_fleet_store::{FiringTime, FleetName, JobClass, JobHead, MissedSlots, NewSchedule, RunId};
use haft_types::text::one_line;
use jiff::Timestamp;
use serde_json::json;

use super::{
    FleetContext,
    args::{FleetCommand, FleetMissed},
    stored_prompts,
    submit::planned_job,
};
use crate::{
    FleetClient,
    job_file::{PlannedJob, duration_of},
};

pub(super) async fn run(desk: &FleetClient, command: FleetCommand, context: &FleetContext) -> CommandExit {
    let FleetCommand::Schedule { name, cron, zone, every, missed, from_cron, remove, job } = command else {
        return Ok(ExitCode::SUCCESS);
    };
    let clockwork = &desk.store().clockwork;
    if from_cron {
        for (name, cron) in stored_prompts::hand_over(desk, context).await? {
            print_line(&format!("{name}  {cron}"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = name else { return list(desk, context).await };
    let name = FleetName::parse(&name).map_err(|err| err.to_string())?;
    if remove {
        let removed =
            clockwork.unschedule(desk.tenant().clone(), name.clone()).await.map_err(|err| err.to_string())?;
        return if removed {
            Ok(ExitCode::SUCCESS)
        } else {
            Err(CliError::Message(format!("there is no schedule {name}")))
        };
    }
    let when = match (cron, every) {
        (Some(expression), _) => FiringTime::Cron { expression, zone },
        (None, Some(every)) => {
            FiringTime::Every { from: Timestamp::now(), seconds: duration_of(&every)?.as_secs().max(1) }
        }
        (None, None) => {
            return Err(CliError::Message(String::from("say when: --cron EXPRESSION or --every TIME")));
        }
    };
    let job = planned_job(desk, &job, None, context)?;
    let schedule = schedule_of(desk, name, when, missed, &job)?;
    clockwork.schedule(schedule).await.map_err(|err| err.to_string())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn schedule_of(
    desk: &FleetClient,
    name: FleetName,
    when: FiringTime,
    missed: FleetMissed,
    job: &PlannedJob,
) -> Result<NewSchedule, CliError> {
    let missed = match missed {
        FleetMissed::Skip => MissedSlots::Skip,
        FleetMissed::Once => MissedSlots::Once,
        FleetMissed::All => MissedSlots::All,
    };
    let class = match job.class.as_str() {
        "urgent" => JobClass::Urgent,
        "bulk" => JobClass::Bulk,
        _ => JobClass::Normal,
    };
    let head = JobHead {
        id: RunId::random(),
        tenant: desk.tenant().clone(),
        pool: FleetName::parse(&job.pool).map_err(|err| err.to_string())?,
        class,
        batch: None,
        dedup: None,
        concurrency_key: job.concurrency_key.clone(),
        labels: [(String::from("schedule"), name.to_string())].into_iter().collect(),
        needs: job.needs.clone(),
    };
    let body = json!({"v": 1, "haft": env!("CARGO_PKG_VERSION"), "job": job.body});
    Ok(NewSchedule { name, when, missed, head, body })
}

async fn list(desk: &FleetClient, context: &FleetContext) -> CommandExit {
    let all = desk.store().clockwork.schedules().await.map_err(|err| err.to_string())?;
    if all.is_empty() && !context.options.json {
        print_line("no schedules; `haft fleet schedule NAME --cron \"0 7 * * *\" -p \"…\"` sets one up")?;
    }
    for it in all {
        let prompt = it.schedule.body["job"]["prompt"].as_str().unwrap_or_default();
        if context.options.json {
            print_line(
                &json!({
                    "name": it.schedule.name, "when": it.schedule.when, "missed": it.schedule.missed,
                    "next": it.next, "last": it.last, "prompt": prompt,
                })
                .to_string(),
            )?
        } else {
            let next = it.next.map_or_else(|| String::from("never"), |it| it.to_string());
            let text = format!("{}  next {next}  {}", it.schedule.name, one_line(prompt, 100));
            print_line(&style::clean(&text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
