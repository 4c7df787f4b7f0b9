//! `haft cron`: stored prompts, the one timer that runs them, and what came of
//! runs.

mod timer;

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::PathBuf,
    process::{ExitCode, Stdio},
    time::Duration,
};

use haft_process::{
    AfterKill, Announced, ProcessOwner, ProcessPurpose, ProcessTree, TreeIsolation, TreePlan,
};
use haft_schedule::{
    CronJob, CronSpec, CronStore, DueRun, RunOutcome, RunRecord, RunWhy, ScheduleClock as _, SystemClock,
    due, zone_named,
};
use haft_shell::run::Shell;
use haft_types::text::one_line;
use jiff::Timestamp;
use serde_json::json;

use crate::{
    args::{CronCommand, Options},
    output::{Ended, Failure, complain, print_bytes, print_line},
    show, spec,
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
        CronCommand::RunDue => run_due(&store, &state),
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
fn run_due(store: &CronStore, state: &std::path::Path) -> Ended {
    let mut failed = false;
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
        let Some(DueRun { slot, why }) = due(&job, &spec, now, store.last_slot(&job.id)) else { continue };
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

/// Runs one prompt unattended: `haft -p` where it was stored, with today's
/// settings, nobody to ask, and an end.
async fn run_job(
    store: &CronStore,
    state: &std::path::Path,
    job: &CronJob,
    slot: Timestamp,
    why: RunWhy,
) -> RunOutcome {
    let not_started = |why: String| RunOutcome::NotStarted(why);
    if !job.dir.is_dir() {
        return not_started(format!("{} is no directory any more", job.dir.display()));
    }
    let output = match output_file(store.output_of(&job.id, slot)) {
        Ok(output) => output,
        Err(err) => return not_started(format!("its output cannot be kept: {err}")),
    };
    let (Ok(program), Ok(errors)) = (std::env::current_exe(), output.try_clone()) else {
        return not_started(String::from("haft cannot start itself"));
    };
    let late = if why == RunWhy::CatchUp { ", late because nothing ran at that time" } else { "" };
    let origin = job.created_by.as_deref().unwrap_or("a session");
    let prompt = format!(
        "[This prompt was stored by {origin} on {} as {} and is due {slot}{late}. Nobody is watching.]\n\n{}",
        job.created, job.id, job.prompt
    );
    let mut command = tokio::process::Command::new(program);
    command
        .args([
            "-p",
            "--permission-mode",
            "default",
            "--max-turns",
            &job.max_turns.to_string(),
            "--",
            &prompt,
        ])
        .current_dir(&job.dir)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let registry = Shell::registries(state);
    let owner = ProcessOwner::open(&registry, &format!("cron-{}-{}", job.id, slot.as_second()))
        .unwrap_or_else(|_| ProcessOwner::unrecorded("cron"));
    let plan = TreePlan {
        about: Announced { purpose: ProcessPurpose::Command, call: &job.id, command: "haft -p", task: "" },
        isolation: TreeIsolation::OwnGroup,
        after_kill: AfterKill::NextSession,
    };
    let (tree, mut child) = match ProcessTree::spawn(&owner, plan, command) {
        Ok(started) => started,
        Err(err) => return not_started(err.to_string()),
    };
    let limit = Duration::from_secs(job.max_minutes.saturating_mul(60));
    match tokio::time::timeout(limit, child.wait()).await {
        Ok(Ok(status)) if status.success() => RunOutcome::Done,
        Ok(Ok(status)) => RunOutcome::Failed(status.to_string()),
        Ok(Err(err)) => RunOutcome::Failed(err.to_string()),
        Err(_) => {
            tree.kill();
            RunOutcome::Failed(format!("it took longer than {} minutes", job.max_minutes))
        }
    }
}

fn output_file(path: PathBuf) -> std::io::Result<fs::File> {
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
