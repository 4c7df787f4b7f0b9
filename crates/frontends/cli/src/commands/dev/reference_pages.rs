//! Pages about the command line, written by the parser that reads it.

use std::path::Path;

use clap::{Command, CommandFactory as _};
use haft_console::stdout::CliError;

use crate::args::Args;

/// Every command with its help, as it is printed.
pub(crate) fn flags_page() -> String {
    let mut page = String::from(
        "# The command line\n\nEvery command, as `--help` prints it. Written by `cargo xtask docs`; do not edit.\n",
    );
    let mut root = Args::command().term_width(100);
    root.build();
    section(&mut root, "haft", &mut page);
    page
}

fn section(command: &mut Command, name: &str, page: &mut String) {
    let help = command.render_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    let is_shown = |it: &&mut Command| !it.is_hide_set() && it.get_name() != "help";
    for inner in command.get_subcommands_mut().filter(is_shown) {
        let name = format!("{name} {}", inner.get_name());
        section(inner, &name, page);
    }
}

/// Writes a manual page for every command.
pub(crate) fn manual(dir: &Path) -> Result<(), CliError> {
    let failed = |err: std::io::Error| CliError::Message(format!("{}: {err}", dir.display()));
    clap_mangen::generate_to(Args::command(), dir).map_err(failed)
}
