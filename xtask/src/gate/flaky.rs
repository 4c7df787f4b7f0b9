//! `cargo xtask flaky N`: runs the whole suite N times under CPU load.

use std::{
    collections::BTreeMap,
    hint,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::{
    build::CompiledTests,
    junit::{self, TestOutcome},
    junit_path,
};
use crate::install_tools;

const HELP: &str = "cargo xtask flaky N [FILTERSET]   N is the number of runs";

/// Fails if any test failed in any run; lists each with its number of failures.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let runs: usize = args.first().and_then(|it| it.parse().ok()).ok_or(HELP)?;
    let filter: Vec<&str> = args.get(1).map(|it| vec!["-E", it.as_str()]).unwrap_or_default();
    let mut failures: BTreeMap<String, usize> = BTreeMap::new();
    install_tools::test_programs();
    let compiled = CompiledTests::build()?;
    let report = junit_path()?;
    let load = Load::start();
    for number in 1..=runs {
        println!("\nrun {number} of {runs}");
        std::fs::remove_file(&report).ok();
        let result = compiled.run(&filter);
        let failed: Vec<String> = junit::read(&report)?
            .into_iter()
            .filter(|it| it.outcome == TestOutcome::Failed)
            .map(|it| it.name)
            .collect();
        if failed.is_empty() {
            result?;
        }
        for name in failed {
            *failures.entry(name).or_default() += 1;
        }
    }
    drop(load);
    if failures.is_empty() {
        println!("\n{runs} runs under load, no failure");
        return Ok(());
    }
    let rows: Vec<String> =
        failures.iter().map(|(name, count)| format!("{count} of {runs}: {name}")).collect();
    Err(format!("flaky:\n- {}", rows.join("\n- ")))
}

/// Keeps all CPUs busy until dropped.
struct Load {
    stop: Arc<AtomicBool>,
}

impl Load {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        Self { stop }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
