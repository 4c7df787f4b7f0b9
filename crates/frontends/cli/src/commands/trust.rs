//! `haft trust`: shows what a project's settings would run or allow, and trusts it.

use std::{
    io::{BufRead as _, IsTerminal as _},
    process::ExitCode,
};

use haft_config::{ItemKind, PendingTrust, UpdateError};
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes, print_line},
    style,
};
use haft_session::SessionEnvironment;

use crate::run::session_spec;

pub(crate) fn run(yes: bool, revoke: bool, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    if revoke {
        premises.store.revoke_trust().map_err(|err| err.to_string())?;
        print_line("Nothing of this project is trusted any more.")?;
        return Ok(ExitCode::SUCCESS);
    }
    let loaded = premises.loaded();
    let Some(pending) = &loaded.pending_trust else {
        print_line("Nothing of this project waits for your trust.")?;
        return Ok(ExitCode::SUCCESS);
    };
    print_bytes(listing(pending).as_bytes())?;
    if !yes && !confirmed()? {
        print_line("Not trusted; it stays without effect.")?;
        return Ok(ExitCode::FAILURE);
    }
    premises.store.trust(pending).map_err(|err| store_error_text(&premises, &err))?;
    print_line("Trusted, exactly as shown. What changes later waits again.")?;
    Ok(ExitCode::SUCCESS)
}

/// The error for a file of Haft's own that cannot be written. For a read-only home it recommends
/// `HAFT_CONFIG_DIR`.
pub(crate) fn store_error_text(premises: &SessionEnvironment, err: &UpdateError) -> String {
    use std::io::ErrorKind;
    match err {
        UpdateError::Io { path, error }
            if path.starts_with(premises.state_dir())
                && matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            format!("{err}; set HAFT_CONFIG_DIR to a directory that can be written")
        }
        other => other.to_string(),
    }
}

fn listing(pending: &PendingTrust) -> String {
    let mut out = format!("{} wants to:\n", pending.folder.display());
    for item in &pending.items {
        let what = match item.item.kind {
            ItemKind::Hook => "run a hook",
            ItemKind::McpServer => "start an MCP server",
            ItemKind::Environment => "set variables",
            ItemKind::AllowRule => "allow calls without a question",
            ItemKind::Directory => "work in another directory",
            ItemKind::Setting => "change a setting",
        };
        out.push_str(&format!("  {what}: {} {} ({})\n", item.item.name, item.item.text, item.origin));
        if let Some(before) = &item.before {
            out.push_str(&format!("    was: {}\n", before.text));
        }
        for file in &item.item.files {
            out.push_str(&format!("    with the file {}\n", file.path.display()));
        }
    }
    style::clean(&out)
}

fn confirmed() -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::Message(String::from(
            "nobody is there to ask; use --yes to agree to what is listed",
        )));
    }
    print_line("Agree? [y]es, [n]o")?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
