//! `haft cron`: stored prompts, the one timer that runs them, and what came of
//! runs.

mod timer;

use std::process::ExitCode;

use haft_schedule::{
    CronJob, CronSpec, CronStore, DueRun, RunOutcome, RunRecord, RunWhy, ScheduleClock as _, SystemClock,
    due, zone_named,
};
use haft_types::text::one_line;
use jiff::Timestamp;
use serde_json::json;

use crate::{
    args::{CronCommand, Options},
    output::{Ended, Failure, complain, print_bytes, print_line},
    show, spec, triggers_command,
    unattended::{NotDone, UnattendedRun},
};

/// Whether a timer of ours is set up.
pub(crate) fn has_timer() -> bool {
    timer::is_installed()
}

pub(crate) fn run(command: CronCommand, options: &Options) -> Ended {
    let state = spec::premises(options)?.state_dir();
    let store = CronStore::at(state.join("cron"));
    match command {
        CronCommand::List => list(&store, options),
        CronCommand::Remove { id } => match store.remove(&id)? {
            true => print_line(&format!("removed {id}")).map(|()| ExitCode::SUCCESS),
            false => {
                Err(Failure::Message(format!("there is no stored prompt {id}; `haft cron list` shows them")))
            }
        },
        CronCommand::Logs { id } => logs(&store, id.as_deref(), options),
        CronCommand::RunDue => run_due(&store, &state, options),
        CronCommand::Install { print } => timer::install(print),
        CronCommand::Uninstall => timer::uninstall(),
    }
}

fn list(store: &CronStore, options: &Options) -> Ended {
    let (stored, now) = (store.list(), SystemClock.now());
    for job in &stored.jobs {
        let zone = zone_named(&job.zone);
        let next = CronSpec::parse(&job.cron).ok().and_then(|it| it.next_after(now, &zone));
        let next = next.map(|it| it.to_zoned(zone).strftime("%Y-%m-%d %H:%M %Z").to_string());
        if options.json {
            let mut line = json!(job);
            line["next"] = json!(next);
            print_line(&line.to_string())?;
            continue;
        }
        let kind = if job.recurring { "" } else { "  once" };
        let text = format!(
            "{}  {}{kind}  next {}\n    in {}\n    {}\n",
            job.id,
            job.cron,
            next.as_deref().unwrap_or("never"),
            job.dir.display(),
            one_line(&job.prompt, 200)
        );
        print_bytes(show::clean(&text).as_bytes())?;
    }
    for problem in &stored.problems {
        complain(problem);
    }
    if stored.jobs.is_empty() && !options.json {
        print_line("nothing is stored; the tool CronCreate stores prompts with durable: true")?;
    } else if !options.json && !timer::is_installed() {
        complain("no timer is installed, so nothing runs by itself: haft cron install");
    }
    Ok(ExitCode::SUCCESS)
}

fn logs(store: &CronStore, id: Option<&str>, options: &Options) -> Ended {
    for run in store.runs().iter().filter(|it| id.is_none_or(|id| it.job == id)) {
        let file = store.output_of(&run.job, run.slot);
        if options.json {
            let mut line = json!(run);
            line["output"] = json!(file.exists().then_some(&file));
            print_line(&line.to_string())?;
            continue;
        }
        let how = match &run.outcome {
            RunOutcome::Done => String::from("done"),
            RunOutcome::Failed(why) => format!("failed: {why}"),
            RunOutcome::NotStarted(why) => format!("not started: {why}"),
        };
        let output = if file.exists() { format!("\n    {}", file.display()) } else { String::new() };
        print_bytes(show::clean(&format!("{}  {}  {how}{output}\n", run.slot, run.job)).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs what is due, one after the other. Another process that does the same at
/// the same time gets what this one does not.
fn run_due(store: &CronStore, state: &std::path::Path, options: &Options) -> Ended {
    let mut failed = triggers_command::run_waiting(options, state)?;
    let stored = store.list();
    for problem in &stored.problems {
        complain(problem);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for job in stored.jobs {
        let now = SystemClock.now();
        if job.expires.is_some_and(|end| end < now) {
            store.remove(&job.id)?;
            continue;
        }
        let Ok(spec) = CronSpec::parse(&job.cron) else {
            complain(&format!("{}: {:?} is no cron expression", job.id, job.cron));
            continue;
        };
        let Some(DueRun { slot, why }) = due(&job, &spec, now, store.last_slot_at(&job.id, now)) else {
            continue;
        };
        // The slot is taken before the run: whatever happens, it does not run twice.
        if !store.claim(&job.id, slot)? {
            continue;
        }
        if !job.recurring {
            store.remove(&job.id)?;
        }
        let outcome = match why {
            RunWhy::Missed => RunOutcome::NotStarted(String::from("its time passed while nothing ran")),
            RunWhy::Scheduled | RunWhy::CatchUp => runtime.block_on(run_job(store, state, &job, slot, why)),
        };
        failed |= matches!(outcome, RunOutcome::Failed(_));
        let run = RunRecord { job: job.id.clone(), slot, why, began: now, ended: SystemClock.now(), outcome };
        store.record(&run)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs one prompt unattended where it was stored, with today's settings.
async fn run_job(
    store: &CronStore,
    state: &std::path::Path,
    job: &CronJob,
    slot: Timestamp,
    why: RunWhy,
) -> RunOutcome {
    let late = if why == RunWhy::CatchUp { ", late because nothing ran at that time" } else { "" };
    let origin = job.created_by.as_deref().unwrap_or("a session");
    let prompt = format!(
        "[This prompt was stored by {origin} on {} as {} and is due {slot}{late}. Nobody is watching.]\n\n{}",
        job.created, job.id, job.prompt
    );
    let run = UnattendedRun {
        id: &format!("{}-{}", job.id, slot.as_second()),
        dir: &job.dir,
        prompt: &prompt,
        mode: "default",
        max_turns: job.max_turns,
        max_minutes: job.max_minutes,
        output: store.output_of(&job.id, slot),
    };
    match run.run(state).await {
        Ok(()) => RunOutcome::Done,
        Err(NotDone::Failed(why)) => RunOutcome::Failed(why),
        Err(NotDone::NotStarted(why)) => RunOutcome::NotStarted(why),
    }
}
