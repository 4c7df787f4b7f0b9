//! `haft mcp`: servers for Haft, and Haft as a server.

mod args;
mod change;
mod login;
mod serve;
mod status;

pub(crate) use args::McpCommand;

use crate::{
    args::Options,
    output::{Ended, Failure, print_bytes},
    wiring::{Setup, journal_path, runtime},
};

pub(crate) fn run(command: McpCommand, options: &Options) -> Ended {
    if let McpCommand::Serve(args) = command {
        return serve::run(&args, options);
    }
    let setup = Setup::new(options)?;
    match command {
        McpCommand::Add(args) => change::add(&setup, args),
        McpCommand::AddJson { name, entry, scope } => change::add_json(&setup, &name, &entry, scope),
        McpCommand::Remove { name, scope } => change::remove(&setup, &name, scope),
        McpCommand::List => runtime()?.block_on(status::list(&setup)),
        McpCommand::Get { name } => runtime()?.block_on(status::get(&setup, &name)),
        McpCommand::Doctor { name } => runtime()?.block_on(status::doctor(&setup, name.as_deref())),
        McpCommand::Login { name, no_browser } => {
            runtime()?.block_on(login::login(&setup, &name, no_browser))
        }
        McpCommand::Logout { name } => runtime()?.block_on(login::logout(&setup, &name)),
        McpCommand::Logs { name, lines } => logs(&setup, &name, lines),
        McpCommand::Serve(_) => Err(Failure::Message(String::from("handled above"))),
    }
}

fn logs(setup: &Setup, name: &str, lines: usize) -> Ended {
    let path = journal_path(&setup.state_dir(), name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            status::find(setup, name)?;
            return Err(Failure::Message(format!("no session has used the server {name} yet")));
        }
        Err(err) => return Err(Failure::Message(format!("{}: {err}", path.display()))),
    };
    let all: Vec<&str> = text.lines().collect();
    let shown = all[all.len().saturating_sub(lines)..].join("\n");
    print_bytes(format!("{}\n", crate::show::clean(&shown)).as_bytes())
}
