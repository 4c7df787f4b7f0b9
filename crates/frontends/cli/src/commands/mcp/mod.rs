//! `haft mcp`: manages MCP servers, and runs Haft as one.

mod add_remove;
mod login;
pub(crate) mod print_config;
mod serve;
mod status;

use std::sync::Arc;

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes},
};
use haft_session::{SessionEnvironment, SessionServers, journal_path};

use crate::{args::McpCommand, run::session_spec};

/// Shared state of the subcommands.
struct McpCommands {
    premises: Arc<SessionEnvironment>,
    servers: SessionServers,
    /// Whether to print JSON.
    json: bool,
}

pub(crate) fn run(command: McpCommand, options: &GlobalArgs) -> CommandExit {
    if let McpCommand::Serve(args) = command {
        return serve::run(&args, options);
    }
    let runtime = session_spec::runtime()?;
    let _inside = runtime.enter();
    let premises = session_spec::premises(options)?;
    let servers = session_spec::servers(&premises)?;
    let desk = McpCommands { premises, servers, json: options.json };
    match command {
        McpCommand::Add(args) => add_remove::add(&desk, args),
        McpCommand::AddJson { name, entry, scope } => add_remove::add_json(&desk, &name, &entry, scope),
        McpCommand::Remove { name, scope } => add_remove::remove(&desk, &name, scope),
        McpCommand::List => runtime.block_on(status::list(&desk)),
        McpCommand::Get { name } => runtime.block_on(status::get(&desk, &name)),
        McpCommand::Doctor { name } => runtime.block_on(status::doctor(&desk, name.as_deref())),
        McpCommand::Login { name, no_browser } => runtime.block_on(login::login(&desk, &name, no_browser)),
        McpCommand::Logout { name } => runtime.block_on(login::logout(&desk, &name)),
        McpCommand::Logs { name, lines } => logs(&desk, &name, lines),
        McpCommand::Serve(_) => Err(CliError::Message(String::from("handled above"))),
    }
}

fn logs(desk: &McpCommands, name: &str, lines: usize) -> CommandExit {
    let path = journal_path(&desk.premises.state_dir(), name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            status::find(desk, name)?;
            return Err(CliError::Message(format!("no session has used the server {name} yet")));
        }
        Err(err) => return Err(CliError::Message(format!("{}: {err}", path.display()))),
    };
    let all: Vec<&str> = text.lines().collect();
    let shown = all[all.len().saturating_sub(lines)..].join("\n");
    print_bytes(format!("{}\n", haft_console::style::clean(&shown)).as_bytes())
}
