//! The commands that decide whether a change is good: `test`, `quick`, `flaky`.

mod flaky;
mod junit;
mod quick;
mod report;
mod rustdoc;

use std::{path::PathBuf, thread, time::Instant};

pub(crate) use flaky::run as flaky;
pub(crate) use quick::run as quick;
pub(crate) use rustdoc::{is_requested as is_rustdoc, stand_in as stand_in_for_rustdoc};

use crate::{run, setup, tidy};

/// Lints are errors everywhere.
const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];

/// `cargo xtask test`: everything. The programs that tests talk to are installed
/// while the tests are compiled, because one waits for the network and the other
/// for the processor.
pub(crate) fn test() -> Result<(), String> {
    let mut times = report::StageTimes::default();
    times.stage("runner", setup::test_runner)?;
    times.stage("format", || run::cargo(&["fmt", "--all", "--check"]))?;
    times.stage("tidy", tidy::check)?;
    let peers = thread::spawn(|| {
        let started = Instant::now();
        setup::test_programs();
        started.elapsed()
    });
    times.stage("clippy", || run::cargo(CLIPPY))?;
    times.stage("build", || run::cargo(&["nextest", "run", "--workspace", "--no-run", "--cargo-quiet"]))?;
    times.stage("peers", || peers.join().map(drop).map_err(|_| String::from("the installation panicked")))?;
    let tests = times.stage("tests", || nextest(&["--workspace"]));
    let documents = times.stage("rustdoc", rustdoc::check);
    times.print();
    let cases = junit::read(&junit_path()?)?;
    report::print(&cases, documents.as_ref().copied().unwrap_or_default());
    tests.and(documents.map(drop))
}

/// Runs tests with the options of the gate. Many tests wait for processes and
/// servers, so more of them run at once than there are processors.
fn nextest(args: &[&str]) -> Result<(), String> {
    let threads = test_threads();
    let mut words = vec!["nextest", "run", "--no-fail-fast", "--test-threads", &threads];
    words.extend(args);
    run::cargo(&words)
}

fn test_threads() -> String {
    (thread::available_parallelism().map_or(2, usize::from) * 2).to_string()
}

fn junit_path() -> Result<PathBuf, String> {
    Ok(run::target_dir()?.join("nextest/default/junit.xml"))
}
