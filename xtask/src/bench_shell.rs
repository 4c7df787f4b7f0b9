//! `cargo xtask bench shell`: analysing, running and sandboxing commands, their output, and checking a
//! workspace before them.

use crate::command;

pub(crate) fn run() -> Result<(), String> {
    println!("commands, medians, each against the cheapest thing that does the same");
    command::cargo(&["build", "--release", "--quiet", "-p", "haft-sandbox", "--bin", "haft-sandbox-helper"])?;
    command::cargo(&["bench", "--quiet", "-p", "haft-builtin-tools", "--bench", "shell"])
}
