//! The binary `haft`: arguments, terminal, and the only place that wires
//! everything together.
//!
//! **Does not know** how anything works; it reads flags and settings, builds the
//! values the libraries take, and prints what they give back.
//!
//! **Invariant:** standard output holds what was asked for and nothing else;
//! everything else goes to standard error. A closed pipe ends the program, it
//! never panics.

mod args;
mod commands;
mod interactive;
mod run;

use std::{process::ExitCode, sync::Arc};

use clap::CommandFactory as _;
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, complain, print_bytes},
};
use haft_fleet::commands::FleetContext;

use crate::{
    args::{Args, CliCommand, InputFormat, LoginArgs},
    run::{diagnostic_log, fleet_job_flags::FlagSessions},
};

/// Arguments that are a mistake, or that ask for help or the version.
fn not_parsed(err: &clap::Error) -> ExitCode {
    let asks_version = err.kind() == clap::error::ErrorKind::DisplayVersion;
    if asks_version && std::env::args_os().any(|it| it == "--json") {
        return finished(commands::update::version_json());
    }
    args::parse_error::refuse(err)
}

fn main() -> ExitCode {
    // Before anything else: as the helper of the sandbox we become another program.
    haft_sandbox::run_if_helper();
    haft_console::interrupt::reset_signals();
    keep_one_heap();
    #[expect(unsafe_code, reason = "the environment is changed, and nothing else runs yet")]
    // SAFETY: no thread has been started.
    unsafe {
        forget_relative_places();
        haft_shell::env::mask(&haft_shell::env::EnvPolicy::from_env());
    }
    let (args, matches) = match Args::of_program() {
        Ok(parsed) => parsed,
        Err(err) => return not_parsed(&err),
    };
    if let Err(failure) = args::refuse_run_flags(&args, &matches) {
        return finished(Err(failure));
    }
    if let Err(failure) = args::refuse_hosts(&args) {
        return finished(Err(failure));
    }
    if let Err(problem) = diagnostic_log::start() {
        return finished(Err(CliError::Message(problem)));
    }
    let Some(command) = args.command else {
        if args.run.output.input_format == InputFormat::StreamJson {
            return run::sdk::run(&args.run, &args.options);
        }
        if !args.run.session.print && interactive::is_possible() {
            return finished(interactive::run(&args.run, &args.options));
        }
        return finished(run::print::run(&args.run, &args.options));
    };
    finished(carry_out(command, &args.run, &args.options))
}

/// Runs one of the program's commands to its end.
fn carry_out(command: CliCommand, run: &args::RunArgs, options: &GlobalArgs) -> CommandExit {
    match command {
        CliCommand::Tool(command) => commands::tool::run(command, options),
        CliCommand::Permissions(command) => commands::permissions::run(command, options),
        CliCommand::ToolHost(host) => commands::tool_host::run(&host, options),
        CliCommand::Undo { id, turn } => commands::undo::undo(id, turn, options),
        CliCommand::Cron(command) => commands::cron::run(command, options),
        CliCommand::Triggers(command) => commands::triggers::run(command, options),
        CliCommand::Redo => commands::undo::redo(options),
        CliCommand::Rewind(rewind) => commands::rewind::run(&rewind, options),
        CliCommand::History => commands::undo::history(options),
        CliCommand::Diff { id } => commands::undo::diff(id.as_deref(), options),
        CliCommand::Tasks { command } => commands::tasks::run(command, options),
        CliCommand::Agents => commands::agents::agents(options),
        CliCommand::Skills => commands::agents::skills(options),
        CliCommand::Plugins { command } => commands::plugins::run(command, options),
        CliCommand::Worktrees { command } => commands::worktrees::run(command, options),
        CliCommand::Sandbox(command) => commands::sandbox::run(command, options),
        CliCommand::Trust { yes, revoke } => commands::trust::run(yes, revoke, options),
        CliCommand::Mcp(command) => commands::mcp::run(command, options),
        CliCommand::Demo(demo) => commands::demo::run(&demo),
        CliCommand::Replay(replay) => commands::replay::run(&replay, run, options),
        CliCommand::Sessions { command } => commands::sessions::run(command, options),
        CliCommand::Context { session } => commands::context::run(session, run, options),
        CliCommand::Cost { session } => commands::cost::run(session.as_deref(), options),
        CliCommand::View(view) => commands::view::run(&view, options),
        CliCommand::Reset => haft_tui::driver::repair()
            .map(|()| ExitCode::SUCCESS)
            .map_err(|err| CliError::Message(format!("there is no terminal to repair here: {err}"))),
        CliCommand::Doctor(doctor) => commands::doctor::run(&doctor, options),
        CliCommand::Models(models) => commands::models::run(&models, options),
        CliCommand::Login(login) => commands::login::login(&login, options),
        CliCommand::Logout(logout) => commands::login::logout(&logout, options),
        CliCommand::Init(init) => commands::init::run(&init, options),
        CliCommand::Import(import) => commands::import::run(&import, options),
        CliCommand::New(new) => commands::new::run(&new, options),
        CliCommand::Bug(bug) => commands::bug::run(&bug, options),
        CliCommand::Update => commands::update::run(options),
        CliCommand::Acp { login: true } => commands::login::login(&LoginArgs::usual(), options),
        CliCommand::Acp { login: false } => run::acp::run(run, options),
        CliCommand::Fleet(command) => {
            let context = FleetContext { options: options.clone(), program: Arc::new(FlagSessions) };
            haft_fleet::commands::run(*command, &context)
        }
        CliCommand::Dev(command) => commands::dev::run(command),
        CliCommand::MediaWorker { task } => haft_builtin_tools::read::serve_media(&task)
            .map(|()| ExitCode::SUCCESS)
            .map_err(CliError::Message),
        CliCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "haft", &mut script);
            print_bytes(&script)
        }
    }
}

/// Places of `PATH` that depend on where we are do not count: a program that lies in
/// somebody's folder is not the one that was meant.
///
/// # Safety
/// Nothing else may run yet: the environment is changed.
#[expect(unsafe_code, reason = "the environment is changed")]
unsafe fn forget_relative_places() {
    let Some(path) = std::env::var_os("PATH") else { return };
    let (absolute, relative): (Vec<_>, Vec<_>) =
        std::env::split_paths(&path).partition(|place| place.is_absolute());
    if relative.is_empty() {
        return;
    }
    let kept = std::env::join_paths(absolute).ok().filter(|kept| !kept.is_empty());
    // SAFETY: the caller says that nothing else runs.
    unsafe { std::env::set_var("PATH", kept.unwrap_or_else(|| "/usr/bin:/bin".into())) };
}

/// In bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const REUSED_BLOCK: i32 = 4 << 20;

/// One heap for all threads. The C library gives each thread one of its own, which
/// grows page by page: a tenth of the time a start takes, and memory that is never
/// given back. Few of our threads work at the same time.
///
/// Blocks of up to [`REUSED_BLOCK`] stay in that heap when they are free. A request
/// grows from turn to turn, so each would be mapped anew: a page fault for every
/// four kilobytes of it.
fn keep_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the C library has no other way to be told")]
    // SAFETY: no thread has been started, and the options take any number.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, REUSED_BLOCK);
        libc::mallopt(libc::M_TRIM_THRESHOLD, REUSED_BLOCK);
    }
}

fn finished(ended: CommandExit) -> ExitCode {
    match ended {
        Ok(code) => code,
        Err(CliError::ClosedPipe) => ExitCode::from(141),
        Err(CliError::Message(message)) => {
            complain(&message);
            ExitCode::from(2)
        }
    }
}
