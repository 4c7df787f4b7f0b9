//! `haft cron`: stored prompts, the system timer that runs them, and the results of their runs.

mod system_timer;

use std::process::ExitCode;

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes, print_error, print_line},
    style,
};
use haft_schedule::{
    CronJob, CronSpec, CronStore, DueJob, JobMode, RunOutcome, RunReason, RunRecord, ScheduleClock as _,
    SystemClock, due, zone_named,
};
use haft_types::text::one_line;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    args::CronCommand,
    commands::triggers,
    run::{
        session_spec,
        unattended::{UnattendedError, UnattendedRun},
    },
};

/// Age after which a one-time job that ran, but could not be removed then, is removed.
const HOUR: SignedDuration = SignedDuration::from_hours(1);

pub(crate) fn has_timer() -> bool {
    system_timer::is_installed()
}

pub(crate) fn run(command: CronCommand, options: &GlobalArgs) -> CommandExit {
    let state = session_spec::premises(options)?.state_dir();
    let store = CronStore::at(state.join("cron"));
    match command {
        CronCommand::List => list(&store, options),
        CronCommand::Remove { id } => {
            if store.remove(&id)? {
                print_line(&format!("removed {id}")).map(|()| ExitCode::SUCCESS)
            } else {
                Err(CliError::Message(format!("there is no stored prompt {id}; `haft cron list` shows them")))
            }
        }
        CronCommand::Logs { id } => logs(&store, id.as_deref(), options),
        CronCommand::RunDue => run_due(&store, &state, options),
        CronCommand::Install { print } => system_timer::install(print),
        CronCommand::Uninstall => system_timer::uninstall(),
    }
}

fn list(store: &CronStore, options: &GlobalArgs) -> CommandExit {
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
        let mut kind = String::from(if job.recurring { "" } else { "  once" });
        if let Some(fleet) = &job.fleet {
            kind.push_str(&format!("  by the clock of {fleet}"));
        }
        let mode =
            if job.mode == JobMode::Default { String::new() } else { format!("  mode {}", job.mode.name()) };
        let text = format!(
            "{}  {}{kind}{mode}  next {}\n    in {}\n    {}\n",
            job.id,
            job.cron,
            next.as_deref().unwrap_or("never"),
            job.dir.display(),
            one_line(&job.prompt, 200)
        );
        print_bytes(style::clean(&text).as_bytes())?;
    }
    for problem in &stored.problems {
        print_error(problem);
    }
    if stored.jobs.is_empty() && !options.json {
        print_line("nothing is stored; the tool CronCreate stores prompts with durable: true")?;
    } else if !options.json && !system_timer::is_installed() {
        print_error("no timer is installed, so nothing runs by itself: haft cron install");
    }
    Ok(ExitCode::SUCCESS)
}

fn logs(store: &CronStore, id: Option<&str>, options: &GlobalArgs) -> CommandExit {
    let all = store.runs();
    let runs: Vec<_> = all.iter().filter(|it| id.is_none_or(|id| it.job == id)).collect();
    if runs.is_empty() {
        let of = id.map(|it| format!(" of {it}")).unwrap_or_default();
        print_error(&format!(
            "nothing is written about a run{of} yet; `haft cron list` shows what is stored"
        ));
    }
    for run in runs {
        let file = store.output_of(&run.job, run.slot);
        if options.json {
            let mut line = json!(run);
            line["output"] = json!(file.exists().then(|| file.to_string_lossy()));
            print_line(&line.to_string())?;
            continue;
        }
        let how = match &run.outcome {
            RunOutcome::Began => String::from("began, and nothing says yet how it ended"),
            RunOutcome::Done => String::from("done"),
            RunOutcome::Failed(why) => format!("failed: {why}"),
            RunOutcome::NotStarted(why) => format!("not started: {why}"),
        };
        let output = if file.exists() { format!("\n    {}", file.display()) } else { String::new() };
        print_bytes(style::clean(&format!("{}  {}  {how}{output}\n", run.slot, run.job)).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs all due jobs one after the other; blocks. Safe to run in several processes at once: each slot is
/// claimed by one of them. A failed job is reported and does not stop the others; the exit code is 1 if
/// any failed.
fn run_due(store: &CronStore, state: &std::path::Path, options: &GlobalArgs) -> CommandExit {
    let mut failed = match triggers::run_waiting(options, state) {
        Ok(failed) => failed,
        Err(err) => {
            print_error(&format!("deliveries that wait: {}", err.words()));
            true
        }
    };
    let stored = store.list();
    for problem in &stored.problems {
        print_error(problem);
    }
    store.forget_gone(SystemClock.now());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Jobs that were handed over to a fleet run there.
    for job in stored.jobs.into_iter().filter(|it| it.fleet.is_none()) {
        match run_if_due(store, state, &job, &runtime) {
            Ok(went_well) => failed |= !went_well,
            Err(err) => {
                print_error(&format!("{}: {}", job.id, err.words()));
                failed = true;
            }
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs one job if it is due. Returns false if the run failed. The slot is claimed and the start
/// recorded before the run, so after a crash the job neither runs twice nor disappears. If the start
/// cannot be recorded, the slot is released. An expired job is removed.
fn run_if_due(
    store: &CronStore,
    state: &std::path::Path,
    job: &CronJob,
    runtime: &tokio::runtime::Runtime,
) -> Result<bool, CliError> {
    let now = SystemClock.now();
    if job.expires.is_some_and(|end| end < now) {
        store.remove(&job.id)?;
        return Ok(true);
    }
    let spec = CronSpec::parse(&job.cron)
        .map_err(|_| CliError::Message(format!("{:?} is no cron expression", job.cron)))?;
    let last = store.last_slot_at(&job.id, now);
    let Some(DueJob { slot, why }) = due(job, &spec, now, last) else {
        // A one-time job that ran, but could not be removed then.
        if !job.recurring && last.is_some_and(|it| HOUR < now.duration_since(it)) {
            store.remove(&job.id)?;
        }
        return Ok(true);
    };
    if !store.claim(&job.id, slot)? {
        return Ok(true);
    }
    let record =
        |ended, outcome| RunRecord { job: job.id.to_string(), slot, why, began: now, ended, outcome };
    if let Err(err) = store.record(&record(now, RunOutcome::Began)) {
        store.release(&job.id, slot)?;
        return Err(CliError::Message(format!(
            "it is not begun, because that cannot be written down: {err}"
        )));
    }
    if !job.recurring {
        store.remove(&job.id)?;
    }
    let outcome = match why {
        RunReason::Missed => RunOutcome::NotStarted(String::from("its time passed while nothing ran")),
        RunReason::Scheduled | RunReason::CatchUp => runtime.block_on(run_job(store, state, job, slot, why)),
    };
    let went_well = !matches!(outcome, RunOutcome::Failed(_));
    store.record(&record(SystemClock.now(), outcome))?;
    Ok(went_well)
}

/// The mode the job was stored with, or a stricter one if the current settings have
/// `permissions.defaultMode` plan or default.
fn todays_mode(job: &CronJob) -> JobMode {
    let options = GlobalArgs { cwd: Some(job.dir.to_path_buf()), ..GlobalArgs::default() };
    let wanted = session_spec::premises(&options).ok().and_then(|premises| {
        let loaded = premises.loaded();
        loaded.settings.get("permissions.defaultMode")?.value.as_str().map(str::to_owned)
    });
    match wanted.as_deref() {
        Some("plan") => JobMode::Plan,
        Some("default") => job.mode.min(JobMode::Default),
        _ => job.mode,
    }
}

/// Runs one prompt in its directory, with the current settings and no approver.
async fn run_job(
    store: &CronStore,
    state: &std::path::Path,
    job: &CronJob,
    slot: Timestamp,
    why: RunReason,
) -> RunOutcome {
    let late = if why == RunReason::CatchUp { ", late because nothing ran at that time" } else { "" };
    let origin = job.created_by.as_deref().unwrap_or("a session");
    let prompt = format!(
        "[This prompt was stored by {origin} on {} as {} and is due {slot}{late}. Nobody is watching.]\n\n{}",
        job.created, job.id, job.prompt
    );
    let run = UnattendedRun {
        id: &format!("{}-{}", job.id, slot.as_second()),
        dir: &job.dir,
        prompt,
        mode: todays_mode(job).name(),
        max_turns: job.max_turns,
        max_minutes: job.max_minutes,
        // A model wrote the prompt: its `@file` references would be read without a permission prompt.
        is_verbatim: true,
        output: store.output_of(&job.id, slot),
    };
    match run.run(state).await {
        Ok(()) => RunOutcome::Done,
        Err(UnattendedError::Failed(why)) => RunOutcome::Failed(why),
        Err(UnattendedError::NotStarted(why)) => RunOutcome::NotStarted(why),
    }
}
