//! Checks documentation: its examples run, and its links are valid.
//!
//! `cargo doc` would check every dependency again just to get its metadata. `cargo test --doc` passes
//! the compiled libraries to rustdoc, so this program replaces rustdoc and calls the real one twice: to
//! run the examples, and to build the pages with warnings denied.

use std::{
    env,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use super::build::lint_variables;
use crate::command;

/// Set for the rustdoc started by cargo: the directory for the pages.
const PAGES: &str = "HAFT_RUSTDOC_PAGES";

/// Runs the examples of all crates and checks their documentation, with `this` program in place of
/// rustdoc. Returns how many examples passed.
pub(super) fn check(this: &Path) -> Result<usize, String> {
    let pages = command::target_dir()?.join("rustdoc-check");
    println!("$ cargo test --workspace --doc");
    let output = Command::new(env::var("CARGO").unwrap_or_else(|_| String::from("cargo")))
        .args(["test", "--workspace", "--doc", "--quiet", "--no-fail-fast"])
        .envs(lint_variables()?)
        .env("RUSTDOC", this)
        .env(PAGES, pages)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|err| format!("cargo could not be started: {err}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{printed}\nfailed: documentation"));
    }
    Ok(printed.lines().filter_map(passed).sum())
}

/// Parses the count in `test result: ok. 3 passed; …`.
fn passed(line: &str) -> Option<usize> {
    line.strip_prefix("test result: ")?.split_once(". ")?.1.split(' ').next()?.parse().ok()
}

/// Whether cargo started this process as rustdoc.
pub(crate) fn is_requested() -> bool {
    env::var_os(PAGES).is_some()
}

/// Runs in place of rustdoc.
pub(crate) fn stand_in() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let Some(pages) = env::var_os(PAGES) else { return ExitCode::FAILURE };
    let mut page_args = page_arguments(&args);
    if page_args.len() < args.len() {
        page_args.extend(["-D", "warnings", "--document-private-items", "-o"].map(String::from));
        page_args.push(pages.to_string_lossy().into_owned());
        if !succeeds(&page_args) {
            return ExitCode::FAILURE;
        }
    }
    if succeeds(&args) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn succeeds(args: &[String]) -> bool {
    let status = Command::new("rustdoc").args(args).env_remove(PAGES).status();
    status.is_ok_and(|it| it.success())
}

/// Removes the arguments for running examples. If rustdoc was called for something else, such as its
/// version, returns them unchanged.
fn page_arguments(args: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--test" | "--no-run" => {}
            "--test-run-directory" | "--test-args" | "--test-runtool" => drop(args.next()),
            _ => kept.push(arg.clone()),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_arguments_exclude_example_arguments() {
        let args = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let given = args("--edition=2024 --test src/lib.rs --test-run-directory /d --extern a=b");
        assert_eq!(page_arguments(&given), args("--edition=2024 src/lib.rs --extern a=b"));
        assert_eq!(page_arguments(&args("-vV")), args("-vV"));
    }

    #[test]
    fn passed_examples_are_counted() {
        assert_eq!(passed("test result: ok. 12 passed; 0 failed; 0 ignored"), Some(12));
        assert_eq!(passed("running 12 tests"), None);
    }
}
