//! The binary `haft`: arguments, terminal, and the only place that wires
//! everything together.
//!
//! **Does not know** how anything works; it reads flags and settings, builds the
//! values the libraries take, and prints what they give back.
//!
//! **Invariant:** standard output holds what was asked for and nothing else;
//! everything else goes to standard error. A closed pipe ends the program, it
//! never panics.
#![cfg_attr(
    not(all(feature = "acp", feature = "fleet", feature = "view")),
    allow(dead_code, reason = "parts of commands that this build lacks")
)]

#[cfg(not(all(feature = "acp", feature = "fleet", feature = "view")))]
mod absent_commands;
#[cfg(feature = "acp")]
mod acp_command;
mod agent_tree;
mod agents_command;
mod args;
mod ask_server;
mod ask_terminal;
mod bug_command;
mod command_args;
mod context_command;
mod cost_command;
mod cron_command;
mod demo_command;
mod dev_command;
mod diagnostic_log;
mod doctor_command;
mod first_files;
mod fleet_args;
#[cfg(feature = "fleet")]
mod fleet_command;
mod help_width;
mod ide_bridge;
mod import_command;
mod init_command;
mod interactive;
mod interrupt;
mod listing;
mod live_tail;
mod local_servers;
mod login_command;
mod mcp_command;
mod mock_model_command;
mod models_command;
mod new_command;
mod newer_flags;
mod output;
mod permissions_command;
mod person;
mod piped_input;
mod plugins_command;
mod print_command;
mod reference_pages;
mod replay_command;
mod rewind_command;
mod sandbox_command;
mod sdk_args;
mod sdk_command;
mod sessions_command;
mod setup_args;
mod show;
mod spec;
mod tasks_command;
mod terminal_answers;
mod thread_limit;
mod tool_command;
mod tool_host_command;
mod triggers_command;
mod trust_command;
mod unattended;
mod undo_command;
mod update_command;
#[cfg(feature = "view")]
mod view_command;
mod watch;
mod webhook;
mod whole_file;
mod word_lists;
mod worktrees_command;

use std::process::ExitCode;

use clap::CommandFactory as _;

#[cfg(not(feature = "acp"))]
use crate::absent_commands::acp_command;
#[cfg(not(feature = "fleet"))]
use crate::absent_commands::fleet_command;
#[cfg(not(feature = "view"))]
use crate::absent_commands::view_command;

use crate::{
    args::{Args, CliCommand},
    output::CliError,
};

/// Arguments that are a mistake, or that ask for help or the version.
fn not_parsed(err: &clap::Error) -> ExitCode {
    let asks_version = err.kind() == clap::error::ErrorKind::DisplayVersion;
    if asks_version && std::env::args_os().any(|it| it == "--json") {
        return finished(update_command::version_json());
    }
    sdk_args::refuse(err)
}

fn main() -> ExitCode {
    // Before anything else: as the helper of the sandbox we become another program.
    haft_sandbox::run_if_helper();
    interrupt::reset_signals();
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
        if args.run.sdk.input_format == sdk_args::InputFormat::StreamJson {
            return sdk_command::run(&args.run, &args.options);
        }
        if !args.run.print && interactive::is_possible() {
            return finished(interactive::run(&args.run, &args.options));
        }
        return finished(print_command::run(&args.run, &args.options));
    };
    finished(carry_out(command, &args.run, &args.options))
}

/// Runs one of the program's commands to its end.
fn carry_out(command: CliCommand, run: &args::RunArgs, options: &args::GlobalArgs) -> output::CommandExit {
    match command {
        CliCommand::Tool(command) => tool_command::run(command, options),
        CliCommand::Permissions(command) => permissions_command::run(command, options),
        CliCommand::ToolHost(host) => tool_host_command::run(&host, options),
        CliCommand::Undo { id, turn } => undo_command::undo(id, turn, options),
        CliCommand::Cron(command) => cron_command::run(command, options),
        CliCommand::Triggers(command) => triggers_command::run(command, options),
        CliCommand::Redo => undo_command::redo(options),
        CliCommand::Rewind(rewind) => rewind_command::run(&rewind, options),
        CliCommand::History => undo_command::history(options),
        CliCommand::Diff { id } => undo_command::diff(id.as_deref(), options),
        CliCommand::Tasks { command } => tasks_command::run(command, options),
        CliCommand::Agents => agents_command::agents(options),
        CliCommand::Skills => agents_command::skills(options),
        CliCommand::Plugins { command } => plugins_command::run(command, options),
        CliCommand::Worktrees { command } => worktrees_command::run(command, options),
        CliCommand::Sandbox(command) => sandbox_command::run(command, options),
        CliCommand::Trust { yes, revoke } => trust_command::run(yes, revoke, options),
        CliCommand::Mcp(command) => mcp_command::run(command, options),
        CliCommand::Demo(demo) => demo_command::run(&demo),
        CliCommand::Replay(replay) => replay_command::run(&replay, run, options),
        CliCommand::Sessions { command } => sessions_command::run(command, options),
        CliCommand::Context { session } => context_command::run(session, run, options),
        CliCommand::Cost { session } => cost_command::run(session.as_deref(), options),
        CliCommand::View(view) => view_command::run(&view, options),
        CliCommand::Reset => haft_tui::driver::repair()
            .map(|()| ExitCode::SUCCESS)
            .map_err(|err| CliError::Message(format!("there is no terminal to repair here: {err}"))),
        CliCommand::Doctor(doctor) => doctor_command::run(&doctor, options),
        CliCommand::Models(models) => models_command::run(&models, options),
        CliCommand::Login(login) => login_command::login(&login, options),
        CliCommand::Logout(logout) => login_command::logout(&logout, options),
        CliCommand::Init(init) => init_command::run(&init, options),
        CliCommand::Import(import) => import_command::run(&import, options),
        CliCommand::New(new) => new_command::run(&new, options),
        CliCommand::Bug(bug) => bug_command::run(&bug, options),
        CliCommand::Update => update_command::run(options),
        CliCommand::Acp { login: true } => login_command::login(&setup_args::LoginArgs::usual(), options),
        CliCommand::Acp { login: false } => acp_command::run(run, options),
        CliCommand::Fleet(command) => fleet_command::run(*command, options),
        CliCommand::Dev(command) => dev_command::run(command),
        CliCommand::MediaWorker { task } => {
            haft_media::serve(&task).map(|()| ExitCode::SUCCESS).map_err(CliError::Message)
        }
        CliCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "haft", &mut script);
            output::print_bytes(&script)
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

fn finished(ended: output::CommandExit) -> ExitCode {
    match ended {
        Ok(code) => code,
        Err(CliError::ClosedPipe) => ExitCode::from(haft_types::exit_codes::CLOSED_PIPE),
        Err(CliError::Message(message)) => {
            output::complain(&message);
            ExitCode::from(haft_types::exit_codes::USAGE)
        }
    }
}
