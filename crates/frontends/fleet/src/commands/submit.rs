//! `haft fleet submit` and `haft fleet map`.

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use haft_console::{
    interrupt::Interrupt,
    stdout::{CliError, CommandExit, print_error, print_line, print_untrusted},
};
use haft_fleet_store::{JobFilter, JobRecord, JobRequirements, JobState, ResourceRequest, RunId};
use serde_json::{Value, json};

use super::{
    FleetContext,
    args::{FleetJobArgs, FleetMapArgs, FleetSubmitArgs},
    job_flags,
    store::OpenFleet,
    worker::InProcessWorker,
};
use crate::{
    FleetClient, StageVerdict, SubmitReport,
    job_file::{
        FileLocation, FileProblem, FileRefused, JobBody, JobPlan, PlanDefaults, PlannedJob, Share, job_id,
        size_of,
    },
};

pub(super) async fn submit(fleet: &OpenFleet, args: &FleetSubmitArgs, context: &FleetContext) -> CommandExit {
    let desk = &fleet.desk;
    let mut job = planned_job(desk, &args.job, args.key.as_deref(), context)?;
    for needed in &args.needs {
        job.needs.runs.push(desk.run(needed).await?.head.id);
    }
    let pool = job.pool.clone();
    let plan = JobPlan {
        batch: args.batch.clone().unwrap_or_default(),
        jobs: vec![job],
        budget: crate::job_file::BatchBudget::default(),
        rate: crate::job_file::BatchRate::default(),
        rollout: Vec::new(),
    };
    let report = desk.submit(&plan, &plan.jobs, Path::new("/")).await?;
    let Some(id) = report.ids.first() else { return Ok(ExitCode::FAILURE) };
    if !args.wait {
        print_line(id.as_str())?;
    }
    let own = InProcessWorker::start_unless_running(&fleet.whole, &pool, context).await?;
    if own.is_none() && !args.wait {
        return Ok(ExitCode::SUCCESS);
    }
    let record = wait_for_one(desk, id, own).await?;
    match (args.wait, record.state) {
        (true, _) => print_answer(&record, context),
        (false, JobState::Done) => {
            print_error(&format!("{id}: done; `haft fleet results {id}` shows what came of it"));
            Ok(exit_of(&record))
        }
        (false, _) => Ok(say_why(&record)),
    }
}

/// Builds the job that the command line describes.
pub(super) fn planned_job(
    desk: &FleetClient,
    args: &FleetJobArgs,
    key: Option<&str>,
    context: &FleetContext,
) -> Result<PlannedJob, CliError> {
    let mut job = job_flags::job_of(args, context)?;
    let mut head = |name: &str| {
        let taken = job.as_object_mut().and_then(|it| it.shift_remove(name));
        taken.and_then(|it| it.as_str().map(str::to_owned))
    };
    let pool = head("pool").unwrap_or_else(|| String::from("default"));
    let class = head("class").unwrap_or_else(|| String::from("normal"));
    if !["urgent", "normal", "bulk"].contains(&class.as_str()) {
        return Err(CliError::Message(format!("--class {class}: urgent, normal and bulk are known")));
    }
    let concurrency_key = head("concurrency_key");
    // Printed below in more detail.
    head("needs");
    let mut body: JobBody = serde_json::from_value(job).map_err(|err| err.to_string())?;
    body.prompt = args.prompt.clone().unwrap_or_default();
    if body.prompt.trim().is_empty() {
        return Err(CliError::Message(String::from("say what to do: -p \"…\"")));
    }
    body.check_sense().map_err(CliError::Message)?;
    let (id, dedup) = match key {
        Some(key) => {
            let dedup = format!("key/{key}");
            (job_id(desk.tenant().as_str(), &dedup), dedup)
        }
        None => {
            let id = RunId::random().to_string();
            (id.clone(), format!("id/{id}"))
        }
    };
    let needs = JobRequirements {
        machine: ResourceRequest {
            cpu: args.placement.cpu.unwrap_or_default(),
            mem: args.placement.mem.as_deref().map_or(Ok(0), size_of)?,
            gpu: args.placement.gpu.unwrap_or_default(),
        },
        runs: Vec::new(),
    };
    let (labels, place) = (BTreeMap::new(), FileLocation::default());
    Ok(PlannedJob { dedup, id, pool, class, concurrency_key, labels, needs, body, place })
}

async fn wait_for_one(
    desk: &FleetClient,
    id: &RunId,
    own: Option<InProcessWorker>,
) -> Result<JobRecord, CliError> {
    let filter = JobFilter { ids: Some(vec![id.clone()]), ..desk.filter() };
    let interrupt = Interrupt::listen();
    let waited = tokio::select! {
        waited = desk.wait(&filter, |_| ()) => waited.map(drop).map_err(CliError::from),
        () = interrupt.cancel.cancelled() => {
            Err(CliError::Message(format!("{id} stays in the queue; `haft fleet cancel {id}` ends it")))
        }
    };
    if let Some(own) = own {
        own.end().await;
    }
    waited?;
    Ok(desk.run(id.as_str()).await?)
}

fn exit_of(record: &JobRecord) -> ExitCode {
    let code = record.summary["exit_code"].as_u64().and_then(|it| u8::try_from(it).ok());
    ExitCode::from(code.unwrap_or(u8::from(record.state != JobState::Done)))
}

fn print_answer(record: &JobRecord, context: &FleetContext) -> CommandExit {
    if context.options.json {
        let mut result = record.summary["result"].clone();
        if result.is_null() {
            result = json!({"type": "result", "is_error": true, "result": record.reason});
        }
        print_line(&result.to_string())?;
    } else if let Some(text) = record.summary["result"]["result"].as_str() {
        print_untrusted(text)?;
    }
    match record.state {
        JobState::Done => Ok(exit_of(record)),
        _ => Ok(say_why(record)),
    }
}

/// Prints why a job did not succeed and returns the exit code.
fn say_why(record: &JobRecord) -> ExitCode {
    let reason = record.reason.as_deref().unwrap_or("it did not end well");
    print_error(&format!("{}: {}: {reason}", record.head.id, record.state.as_str()));
    exit_of(record)
}

pub(super) async fn map(fleet: &OpenFleet, args: &FleetMapArgs, context: &FleetContext) -> CommandExit {
    let desk = &fleet.desk;
    let defaults = PlanDefaults {
        prompt: args.job.prompt.clone(),
        batch: args.batch.clone(),
        job: Some(job_flags::job_of(&args.job, context)?),
        tenant: desk.tenant().to_string(),
    };
    let mut plan =
        JobPlan::read(&args.file, &defaults).map_err(|refused| CliError::Message(refused.to_string()))?;
    plan.budget.usd = args.budget_usd.or(plan.budget.usd);
    plan.rate.max_running = args.max_running.or(plan.rate.max_running);
    if let Some(canary) = &args.canary {
        plan.rollout = vec![Share::parse(canary)?, Share::Percent(100.0)];
    }
    check_flags(&plan, &args.file, context)?;
    if args.dry_run {
        return explain(&plan, context);
    }
    let file = std::path::absolute(&args.file)?;
    let dir = file.parent().unwrap_or(Path::new("/")).to_owned();
    let wanted = args.first.unwrap_or(plan.jobs.len()).min(plan.jobs.len());
    let ends = stage_ends(&plan.rollout, wanted);
    let pools: Vec<String> = plan.jobs.iter().map(|it| it.pool.clone()).collect();
    let waits = args.wait || 1 < ends.len();
    let mut begun = 0;
    let mut all = SubmitReport::default();
    let mut own: Option<InProcessWorker> = None;
    for end in ends.iter().copied() {
        let report = desk.submit(&plan, &plan.jobs[begun..end], &dir).await?;
        all.queued += report.queued;
        all.known += report.known;
        all.ids.extend(report.ids.iter().cloned());
        begun = end;
        if own.is_none()
            && let Some(pool) = pools.first()
        {
            own = InProcessWorker::start_unless_running(&fleet.whole, pool, context).await?;
        }
        if end < wanted {
            print_error(&format!(
                "{end} of {wanted} jobs were let go; the next follow when these have worked"
            ));
            if let StageVerdict::Stop(bad) = desk.verdict(&report.ids).await? {
                let bad: Vec<&str> = bad.iter().map(RunId::as_str).take(5).collect();
                print_error(&format!(
                    "stopped after {end} of {wanted} jobs: {} did not work",
                    bad.join(", ")
                ));
                tell(&plan, &all, context)?;
                end_worker(own).await;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    tell(&plan, &all, context)?;
    if !waits && own.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    let ended = wait_for_all(desk, &plan.batch, &all.ids, context).await;
    end_worker(own).await;
    ended
}

async fn end_worker(own: Option<InProcessWorker>) {
    if let Some(own) = own {
        own.end().await;
    }
}

/// Ends of the rollout stages as numbers of jobs, ascending; the last one is `all`.
fn stage_ends(rollout: &[Share], all: usize) -> Vec<usize> {
    let mut ends: Vec<usize> = rollout.iter().map(|share| share.of(all)).collect();
    ends.push(all);
    let mut last = 0;
    ends.retain(|end| {
        let is_more = last < *end;
        last = last.max(*end);
        is_more
    });
    ends
}

/// Checks the flags of all jobs, equal flags only once. The error lists every invalid job with its line.
fn check_flags(plan: &JobPlan, file: &Path, context: &FleetContext) -> Result<(), CliError> {
    let mut seen: Vec<&serde_json::Map<String, Value>> = Vec::new();
    let mut problems = Vec::new();
    for job in &plan.jobs {
        if seen.contains(&&job.body.flags) {
            continue;
        }
        if let Err(reason) = context.program.check_flags(&job.body.flags) {
            problems.push(FileProblem { file: file.to_owned(), place: job.place, reason });
        }
        if seen.len() < 64 {
            seen.push(&job.body.flags);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(CliError::Message(FileRefused(problems).to_string())) }
}

fn explain(plan: &JobPlan, context: &FleetContext) -> CommandExit {
    for job in &plan.jobs {
        if context.options.json {
            print_line(
                &json!({"id": job.id, "key": job.dedup, "labels": job.labels, "job": job.body}).to_string(),
            )?
        } else {
            print_line(&format!("{}  {}", job.id, haft_types::text::one_line(&job.body.prompt, 100)))?
        }
    }
    print_error(&format!("{} jobs of the batch {}; nothing was queued", plan.jobs.len(), plan.batch));
    Ok(ExitCode::SUCCESS)
}

fn tell(plan: &JobPlan, report: &SubmitReport, context: &FleetContext) -> Result<(), CliError> {
    if context.options.json {
        print_line(&json!({"batch": plan.batch, "queued": report.queued, "known": report.known}).to_string())
    } else {
        print_line(&format!(
            "{}: {} jobs queued, {} were there already",
            plan.batch, report.queued, report.known
        ))
    }
}

async fn wait_for_all(desk: &FleetClient, batch: &str, ids: &[RunId], context: &FleetContext) -> CommandExit {
    let filter = JobFilter { ids: Some(ids.to_vec()), ..desk.filter() };
    let waited = desk.wait(&filter, |_| ()).await?;
    let counts: BTreeMap<&str, u64> =
        waited.counts.by_state.iter().map(|(state, count)| (state.as_str(), *count)).collect();
    if context.options.json {
        print_line(&json!({"counts": counts}).to_string())?
    } else {
        let words: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
        print_line(&words.join(", "))?;
    }
    if !waited.all_done() {
        print_error(&format!("not all are done; `haft fleet results {batch}` says why"));
    }
    Ok(ExitCode::from(u8::from(!waited.all_done())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_grow_to_all() {
        let shares =
            |texts: &[&str]| -> Vec<Share> { texts.iter().filter_map(|it| Share::parse(it).ok()).collect() };
        for (rollout, all, want) in [
            (shares(&["1", "5%", "100%"]), 100, vec![1, 5, 100]),
            (shares(&["1", "5%", "100%"]), 10, vec![1, 10]),
            (shares(&[]), 3, vec![3]),
            (shares(&["50%"]), 1, vec![1]),
        ] {
            assert_eq!(stage_ends(&rollout, all), want);
        }
    }
}
