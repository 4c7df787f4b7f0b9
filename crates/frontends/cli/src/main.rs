//! The `haft` binary: parses the command line, picks a command and wires the libraries together.
//!
//! This crate holds no logic of sessions, tools or permissions. It turns flags and settings into the
//! values the libraries take, and prints what they return.
//!
//! **Invariant:** standard output carries only the result of the command; diagnostics go to
//! standard error. A closed pipe ends the program with an exit code and never panics.
#![cfg_attr(
    not(all(feature = "acp", feature = "fleet", feature = "view")),
    allow(dead_code, reason = "parts of commands that this build lacks")
)]

mod args;
mod commands;
mod interactive;
mod run;

use std::process::ExitCode;

use clap::CommandFactory as _;
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes, print_error},
};

use crate::{
    args::{Args, CliCommand, InputFormat, LoginArgs},
    run::diagnostic_log,
};

/// Prints a usage error, the help or the version, and returns the exit code of the program.
fn not_parsed(err: &clap::Error) -> ExitCode {
    let asks_version = err.kind() == clap::error::ErrorKind::DisplayVersion;
    if asks_version && std::env::args_os().any(|it| it == "--json") {
        return finished(commands::update::version_json());
    }
    args::parse_error::refuse(err)
}

fn main() -> ExitCode {
    // First of all: if this process was started as the sandbox helper, it execs the sandboxed program
    // and does not return.
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

/// Runs one subcommand and returns its exit code.
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
        #[cfg(feature = "fleet")]
        CliCommand::Fleet(command) => run::fleet_job_flags::run_command(*command, options),
        #[cfg(not(feature = "fleet"))]
        CliCommand::Fleet { .. } => commands::absent::absent("haft fleet", "fleet"),
        CliCommand::Dev(command) => commands::dev::run(command),
        CliCommand::MediaWorker { task } => {
            haft_media::serve(&task).map(|()| ExitCode::SUCCESS).map_err(CliError::Message)
        }
        CliCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "haft", &mut script);
            print_bytes(&script)
        }
    }
}

/// Removes relative entries from `PATH`, so that a program in the working directory is never started by
/// accident. If none is left, sets `PATH` to `/usr/bin:/bin`.
///
/// # Safety
/// No other thread may run: this changes the environment.
#[expect(unsafe_code, reason = "the environment is changed")]
unsafe fn forget_relative_places() {
    let Some(path) = std::env::var_os("PATH") else { return };
    let (absolute, relative): (Vec<_>, Vec<_>) =
        std::env::split_paths(&path).partition(|place| place.is_absolute());
    if relative.is_empty() {
        return;
    }
    let kept = std::env::join_paths(absolute).ok().filter(|kept| !kept.is_empty());
    // SAFETY: the caller guarantees that no other thread runs.
    unsafe { std::env::set_var("PATH", kept.unwrap_or_else(|| "/usr/bin:/bin".into())) };
}

/// Bytes. Larger allocations are mapped separately and unmapped when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const REUSED_BLOCK: i32 = 4 << 20;

/// Limits glibc's malloc to one arena shared by all threads. By default each thread gets an arena of its
/// own: creating them takes about a tenth of the startup time, and their memory is never returned.
/// Contention is low because few threads are busy at the same time.
///
/// Freed blocks of up to [`REUSED_BLOCK`] stay in the heap. A request body grows from turn to turn;
/// without this each one would be mapped again, with a page fault per 4 KiB.
fn keep_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the C library has no other way to be told")]
    // SAFETY: no other thread has been started, and `mallopt` accepts any integer for these options.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, REUSED_BLOCK);
        libc::mallopt(libc::M_TRIM_THRESHOLD, REUSED_BLOCK);
    }
}

fn finished(ended: CommandExit) -> ExitCode {
    match ended {
        Ok(code) => code,
        Err(CliError::ClosedPipe) => ExitCode::from(haft_types::exit_codes::CLOSED_PIPE),
        Err(CliError::Message(message)) => {
            print_error(&message);
            ExitCode::from(haft_types::exit_codes::USAGE)
        }
    }
}
