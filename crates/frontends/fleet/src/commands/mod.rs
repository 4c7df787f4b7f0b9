//! `haft fleet`: runs jobs (sessions) on many machines.

pub mod args;
mod follow;
mod job_flags;
mod list;
mod results;
mod schedules;
mod serve;
mod store;
mod stored_prompts;
mod submit;
mod up;
mod worker;

use std::{process::ExitCode, sync::Arc};

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_error, print_line},
};
use haft_fleet_store::{JobFilter, JobState};
use haft_session::SessionEnvironment;
use serde_json::{Map, Value};

use self::args::{FleetCommand, FleetWhere, FleetWhich};
use crate::{FleetClient, JobFailure, JobSessions, SubmitTarget, parse_where};

/// What these commands need from the program that contains them.
pub trait FleetProgram: JobSessions {
    /// Checks the flags of a job without starting it. The error says what is wrong with them.
    fn check_flags(&self, flags: &Map<String, Value>) -> Result<(), String>;

    /// Reads the directories and settings of this machine, as selected by the global flags.
    fn environment(&self, options: &GlobalArgs) -> Result<Arc<SessionEnvironment>, CliError>;
}

/// Context of every command.
pub struct FleetContext {
    /// The global flags of the command line.
    pub options: GlobalArgs,
    pub program: Arc<dyn FleetProgram>,
}

impl From<JobFailure> for CliError {
    fn from(failure: JobFailure) -> Self {
        Self::Message(failure.0)
    }
}

/// Runs a `haft fleet` command to completion. Blocks.
pub fn run(command: FleetCommand, context: &FleetContext) -> CommandExit {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    let ended = runtime.block_on(carry_out(command, context));
    // Do not wait longer for blocking tasks, such as a pending read of standard input.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    ended
}

async fn carry_out(command: FleetCommand, context: &FleetContext) -> CommandExit {
    if let FleetCommand::Up { nodes, dir, port, print } = command {
        return up::run(nodes, dir, port, print).await;
    }
    let fleet = store::open_fleet().await?;
    let desk = &fleet.desk;
    match command {
        FleetCommand::Up { .. } => Ok(ExitCode::SUCCESS),
        FleetCommand::Worker(args) => worker::run(&fleet, &args, context).await,
        FleetCommand::Submit(args) => submit::submit(&fleet, &args, context).await,
        FleetCommand::Map(args) => submit::map(&fleet, &args, context).await,
        FleetCommand::Status { name, watch, which } => {
            let filter = filter_of(desk, name.as_deref(), &which).await?;
            list::status(desk, &filter, watch, context).await
        }
        FleetCommand::Logs { id, follow, from } => follow::logs(desk, &id, follow, from, context).await,
        FleetCommand::Show { id } => list::show(desk, &id).await,
        FleetCommand::Attach { id } => follow::attach(desk, &id).await,
        FleetCommand::Say { id, text } => {
            let run = desk.run(&id).await?.head.id;
            if desk.send_or_answer(&run, &text).await? {
                print_error("that was the answer to its question");
            }
            Ok(ExitCode::SUCCESS)
        }
        FleetCommand::Cancel(which) => {
            let filter = filter_of_which(desk, &which).await?;
            for (id, what) in desk.cancel(&filter).await? {
                print_line(&format!("{id}: {what}"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        FleetCommand::Retry { which, fresh } => {
            let mut filter = filter_of_which(desk, &which).await?;
            if filter.batch.is_some() && which.which.conditions.is_none() {
                // Jobs that succeeded are retried only if the user names them.
                filter.states =
                    JobState::ALL.into_iter().filter(|it| it.is_ended() && *it != JobState::Done).collect();
            }
            let again = desk.retry(&filter, fresh).await?;
            again.iter().try_for_each(|id| print_line(id.as_str()))?;
            Ok(ExitCode::SUCCESS)
        }
        FleetCommand::Pause(which) => pause(desk, &which, true).await,
        FleetCommand::Resume(which) => pause(desk, &which, false).await,
        FleetCommand::Results { name, patches, files, csv, apply, which } => {
            let filter = filter_of(desk, Some(&name), &which).await?;
            let order = results::ResultsOptions { patches, files, csv, apply };
            results::results(desk, &filter, &order, context).await
        }
        FleetCommand::Cost { name, by, which } => {
            let filter = filter_of(desk, name.as_deref(), &which).await?;
            results::cost(desk, &filter, &by, context).await
        }
        FleetCommand::Doctor => store::doctor(&fleet, context).await,
        FleetCommand::Move { to } => {
            let report = desk.move_to(&fleet.whole, &store::open_at(&to).await?).await?;
            print_line(&format!("{} jobs were moved", report.moved))?;
            if 0 < report.stayed {
                print_error(&format!(
                    "{} stay here: they run, are paused or were set aside. `haft fleet status` shows them; workers of this \
                     store finish what runs, and what is resumed can be moved again",
                    report.stayed
                ));
            }
            Ok(ExitCode::SUCCESS)
        }
        FleetCommand::Serve { http, token_file } => {
            serve::run(desk, http, token_file.as_deref(), context).await
        }
        command @ FleetCommand::Schedule { .. } => schedules::run(desk, command, context).await,
    }
}

/// Pauses or resumes queued jobs and prints which were changed. Fails if no open job matches.
async fn pause(desk: &FleetClient, which: &FleetWhich, pauses: bool) -> CommandExit {
    let word = if pauses { "paused" } else { "may start" };
    if let (Some(name), None) = (&which.name, &which.which.conditions)
        && let SubmitTarget::Batch(batch) = desk.find(name).await?
    {
        let waiting = desk.pause_batch(&batch, pauses).await?;
        print_line(&format!("{batch}: {waiting} queued jobs, {word}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let filter = filter_of_which(desk, which).await?;
    let jobs = desk.pause_jobs(&filter, pauses).await?;
    if jobs.is_empty() {
        return Err(CliError::Message(String::from("no job that is meant is still open")));
    }
    let mut is_done = true;
    for (id, is_paused) in jobs {
        if is_paused == pauses {
            print_line(&format!("{id}: {word}"))?;
        } else {
            is_done = false;
            print_error(&format!(
                "{id}: its batch is paused; `haft fleet resume` with the batch lets it start"
            ));
        }
    }
    Ok(ExitCode::from(u8::from(!is_done)))
}

async fn filter_of(
    desk: &FleetClient,
    name: Option<&str>,
    which: &FleetWhere,
) -> Result<JobFilter, CliError> {
    let mut filter = match name {
        None => desk.filter(),
        Some(name) => match desk.find(name).await? {
            target @ SubmitTarget::Run(_) => desk.filter_of(&target),
            target @ SubmitTarget::Batch(_) => desk.filter_of(&target),
        },
    };
    if let Some(conditions) = &which.conditions {
        parse_where(conditions, &mut filter)?;
    }
    Ok(filter)
}

async fn filter_of_which(desk: &FleetClient, which: &FleetWhich) -> Result<JobFilter, CliError> {
    filter_of(desk, which.name.as_deref(), &which.which).await
}
