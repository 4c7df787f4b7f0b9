//! Benchmark: loading ten thousand stored jobs and computing which are due, compared with only reading
//! the files. `cargo xtask bench web`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark prints, and stops when something is wrong"
)]

use std::time::{Duration, Instant};

use haft_schedule::{CronJob, CronJobId, CronSpec, CronStore, JobMode, MissedPolicy, zone_named};
use jiff::Timestamp;

const JOBS: usize = 10_000;
const ROUNDS: usize = 11;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let store = CronStore::at(dir.path());
    let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for number in 0..JOBS {
        let job = CronJob {
            id: CronJobId::numbered(number as u32),
            cron: format!("{} {} * * {}", number % 60, number % 24, number % 7),
            zone: "Europe/Berlin".into(),
            prompt: String::from("Look whether anything is new, and say so."),
            dir: dir.path().into(),
            recurring: true,
            created,
            created_by: None,
            expires: None,
            missed: MissedPolicy::Once,
            mode: JobMode::Default,
            max_turns: 20,
            max_minutes: 15,
            fleet: None,
        };
        store.add(&job).unwrap();
    }
    let resident = resident();
    let stored = store.list();
    let each = (self::resident().saturating_sub(resident) * 1024) / JOBS as u64;
    assert_eq!(stored.jobs.len(), JOBS);
    drop(stored);
    let now: Timestamp = "2026-11-17T09:30:00Z".parse().unwrap();
    let (mut ours, mut bare, mut judged) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let bytes: usize = std::fs::read_dir(dir.path().join("jobs"))
            .unwrap()
            .map(|it| std::fs::read(it.unwrap().path()).unwrap().len())
            .sum();
        bare.push(began.elapsed());
        assert!(JOBS < bytes);
        let began = Instant::now();
        let stored = store.list();
        ours.push(began.elapsed());
        assert_eq!(stored.jobs.len(), JOBS);
        let began = Instant::now();
        let soon = stored.jobs.iter().filter(|job| {
            let spec = CronSpec::parse(&job.cron).unwrap();
            spec.next_after(now, &zone_named(&job.zone)).is_some()
        });
        assert_eq!(soon.count(), JOBS);
        judged.push(began.elapsed());
    }
    let (ours, bare, judged) = (median(ours), median(bare), median(judged));
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("{JOBS} stored prompts, median of {ROUNDS}");
    println!("  read {ours:.1?}, the same files alone {bare:.1?}, ratio {ratio:.2} (goal 2; 50 ms)");
    println!("  when each is due next {judged:.1?}");
    println!(
        "  memory {each} B each, texts included (goal 300); nothing waits for them between two runs of the timer"
    );
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
