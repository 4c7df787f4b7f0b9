//! The summary of the gate: time per stage, skipped tests with reasons, counts.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::junit::{TestCase, TestOutcome};
use crate::command;

/// Number of slowest tests listed.
const SLOWEST: usize = 10;

/// Wall and CPU time of each stage, in order.
#[derive(Default)]
pub(super) struct StageTimes(Vec<StageTime>);

struct StageTime {
    name: &'static str,
    wall: Duration,
    cpu_seconds: f64,
}

impl StageTimes {
    pub(super) fn stage<T>(&mut self, name: &'static str, run: impl FnOnce() -> T) -> T {
        let (started, cpu) = (Instant::now(), command::children_cpu_seconds());
        let result = run();
        self.0.push(StageTime {
            name,
            wall: started.elapsed(),
            cpu_seconds: command::children_cpu_seconds() - cpu,
        });
        result
    }

    pub(super) fn print(&self) {
        println!("\nstage        wall s    CPU s");
        for StageTime { name, wall, cpu_seconds } in &self.0 {
            println!("{name:<10} {:>8.0} {cpu_seconds:>8.0}", wall.as_secs_f64());
        }
        let wall: f64 = self.0.iter().map(|it| it.wall.as_secs_f64()).sum();
        let cpu: f64 = self.0.iter().map(|it| it.cpu_seconds).sum();
        println!("{:<10} {wall:>8.0} {cpu:>8.0}", "all");
    }
}

/// Prints the summary; its last line is `tests: N passed, N failed, N skipped`.
pub(super) fn print(cases: &[TestCase], passed_examples: usize) {
    let mut slowest: Vec<&TestCase> = cases.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    println!("\nslowest tests");
    for case in slowest.iter().take(SLOWEST) {
        println!("{:>8.1} s  {}", case.seconds, case.name);
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut passed, mut failed, mut skipped) = (passed_examples, 0, 0);
    for case in cases {
        match &case.outcome {
            TestOutcome::Passed => passed += 1,
            TestOutcome::Failed => {
                failed += 1;
                println!("FAILED: {}", case.name);
            }
            TestOutcome::Skipped(reason) => {
                skipped += 1;
                reasons.entry(reason).or_default().push(&case.name);
            }
        }
    }
    if !reasons.is_empty() {
        println!("\nskipped tests");
    }
    for (reason, names) in &reasons {
        println!("{:>4}  {reason} ({})", names.len(), names[0]);
    }
    println!("\ntests: {passed} passed, {failed} failed, {skipped} skipped");
}
