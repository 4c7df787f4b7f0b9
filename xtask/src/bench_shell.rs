//! `cargo xtask bench shell`: judging, running and confining commands, their
//! output, and looking at a workspace before them.

use crate::run;

pub(crate) fn run() -> Result<(), String> {
    println!("commands, medians, each against the cheapest thing that does the same");
    run::cargo(&["build", "--release", "--quiet", "-p", "haft-sandbox", "--bin", "haft-sandbox-helper"])?;
    run::cargo(&["bench", "--quiet", "-p", "haft-builtin-tools", "--bench", "shell"])
}
