//! Rejects flags that a command does not use, instead of ignoring them.

use clap::Args as _;
use haft_console::stdout::CliError;

use super::{Args, CliCommand, RunArgs, ToolCommand};

/// Fails if a flag that configures a model run is given to a command that runs no model.
pub(crate) fn refuse_run_flags(args: &Args, matches: &clap::ArgMatches) -> Result<(), CliError> {
    let takes_them = matches!(
        args.command,
        None | Some(CliCommand::Acp { .. } | CliCommand::Replay(_) | CliCommand::Context { .. })
    );
    if takes_them {
        return Ok(());
    }
    let flags = RunArgs::augment_args(clap::Command::new("run"));
    let given = flags.get_arguments().find(|flag| {
        let id = flag.get_id().as_str();
        matches.try_contains_id(id).unwrap_or(false)
            && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
    });
    let Some(flag) = given else { return Ok(()) };
    let name = flag.get_long().map_or_else(|| String::from("a prompt"), |long| format!("--{long}"));
    Err(CliError::Message(format!(
        "{name} is for runs with a model (haft -p); this command has no use for it"
    )))
}

/// Fails if `--host` is given to a command that does not work on a session's files.
pub(crate) fn refuse_hosts(args: &Args) -> Result<(), CliError> {
    let why = match &args.command {
        _ if args.options.host.is_empty() => return Ok(()),
        None | Some(CliCommand::Acp { .. } | CliCommand::Context { .. }) => return Ok(()),
        Some(CliCommand::Tool(ToolCommand::Call { .. } | ToolCommand::Run { .. })) => return Ok(()),
        Some(CliCommand::Undo { .. } | CliCommand::Redo | CliCommand::History) => return Ok(()),
        Some(CliCommand::Replay(_)) => {
            "a recorded run is played again without its hosts: results come from the recording"
        }
        Some(CliCommand::Mcp(_)) => {
            "MCP servers and what `haft mcp serve` offers are on this machine; start it over there"
        }
        Some(CliCommand::ToolHost(_)) => "a tool host serves its own machine",
        Some(CliCommand::Rewind(_) | CliCommand::Diff { .. }) => {
            "the record of changes is on the host: run this command there, or use haft undo --host"
        }
        Some(_) => "this command has nothing to do on another machine",
    };
    Err(CliError::Message(format!("--host: {why}")))
}
