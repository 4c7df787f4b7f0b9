//! The commands that verify a change: `test`, `quick`, `flaky`.

mod build;
mod flaky;
mod junit;
mod quick;
mod report;
mod rustdoc;

use std::{path::PathBuf, thread};

use build::CompiledTests;
pub(crate) use flaky::run as flaky;
pub(crate) use quick::run as quick;
pub(crate) use rustdoc::{is_requested as is_rustdoc, stand_in as stand_in_for_rustdoc};

use crate::{command, install_tools, tidy};

/// `cargo xtask test`: runs all checks. Programs for tests are installed while the tests compile,
/// because the former is network-bound and the latter CPU-bound.
pub(crate) fn test() -> Result<(), String> {
    // The build replaces this program, so its path is needed in advance.
    let this = std::env::current_exe().map_err(|err| format!("the path of xtask: {err}"))?;
    let mut times = report::StageTimes::default();
    times.stage("runner", install_tools::test_runner)?;
    times.stage("format", || command::cargo(&["fmt", "--all", "--check"]))?;
    times.stage("tidy", tidy::check)?;
    let programs = thread::spawn(install_tools::test_programs);
    let compiled = times.stage("build", CompiledTests::build)?;
    let installed = times.stage("programs", || programs.join());
    installed.map_err(|_| String::from("the installation of test programs panicked"))?;
    let report = junit_path()?;
    // A report of an earlier run must not be read.
    std::fs::remove_file(&report).ok();
    let tests = times.stage("tests", || compiled.run(&[]));
    let examples = times.stage("rustdoc", || rustdoc::check(&this));
    times.print();
    report::print(&junit::read(&report)?, examples.as_ref().copied().unwrap_or_default());
    match (tests, examples) {
        (Err(tests), Err(rustdoc)) => Err(format!("{tests}\n{rustdoc}")),
        (tests, rustdoc) => tests.and(rustdoc.map(drop)),
    }
}

/// Returns the path of nextest's report (`.config/nextest.toml`).
fn junit_path() -> Result<PathBuf, String> {
    Ok(command::target_dir()?.join("nextest/default/junit.xml"))
}
