//! Pages about the command line, written by the parser that reads it.

use std::path::Path;

use clap::{Command, CommandFactory as _};
use haft_console::stdout::CliError;

use crate::args::{
    Args,
    help::{self, HelpDetail},
};

/// Every command with its help, as it is printed.
pub(crate) fn flags_page() -> String {
    let mut page = String::from(
        "# The command line\n\nEvery command, as `--help` prints it. Written by `cargo xtask docs`; do not edit.\n",
    );
    let mut root = Args::command();
    root.build();
    section(&root, &[], &mut page);
    page
}

fn section(command: &Command, path: &[String], page: &mut String) {
    let help = help::text(path, HelpDetail::Complete, help::COLUMNS).to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let name = [&[String::from("haft")], path].concat().join(" ");
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    let is_shown = |it: &&Command| !it.is_hide_set() && it.get_name() != "help";
    for inner in command.get_subcommands().filter(is_shown) {
        section(inner, &[path, &[inner.get_name().to_owned()]].concat(), page);
    }
}

/// Writes a manual page for every command.
pub(crate) fn manual(dir: &Path) -> Result<(), CliError> {
    let failed = |err: std::io::Error| CliError::Message(format!("{}: {err}", dir.display()));
    clap_mangen::generate_to(Args::command(), dir).map_err(failed)
}
