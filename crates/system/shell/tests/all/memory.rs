//! Output of any size uses bounded memory and disk.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::time::{Duration, Instant};

use common::{Rig, text};
use haft_shell::{output::SpoolLimits, run::Stop};

/// Peak memory of this process in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// One test, because several would measure each other.
#[tokio::test]
async fn output_of_any_size_takes_little_memory_and_disk() {
    let rig = Rig::with(|config| {
        config.spool = SpoolLimits::with_cap(8 << 20);
        config.quota = 32 << 20;
    });
    // Warm up everything that is allocated once: threads, buffers, tables.
    text(&rig.run("head -c 3000000 /dev/zero | tr '\\0' 'x'").await.0);
    let before = peak();
    let (job, end) = rig.run("head -c 100000000 /dev/zero | tr '\\0' '\\n'").await;
    assert!(end.is_success());
    assert_eq!((job.printed().bytes, job.printed().lines), (100_000_000, 100_000_000));
    assert!(text(&job).len() < 40_000);
    let grown = peak() - before;
    assert!(grown < 24_000, "a hundred megabytes took {grown} kB");

    // Several endless commands, and one that reads their outputs.
    let outputs = rig.shell.outputs().to_owned();
    let feeder = format!("while :; do cat {}/*; done", outputs.display());
    let jobs: Vec<_> = ["yes", "yes long lines of nothing", "yes", "cat /dev/zero", &feeder]
        .iter()
        .map(|command| rig.start(command))
        .collect();
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let sizes: Vec<u64> = std::fs::read_dir(&outputs)
            .unwrap()
            .flatten()
            .filter_map(|it| it.metadata().ok())
            .map(|it| it.len())
            .collect();
        assert!(sizes.iter().all(|it| *it <= 8 << 20), "{sizes:?}");
        assert!(sizes.iter().sum::<u64>() <= 32 << 20, "{sizes:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for job in &jobs {
        job.stop(Stop::Asked);
    }
    for job in &jobs {
        let end = job.ended().await;
        assert!(matches!(end.stopped, Some(Stop::Asked | Stop::OutputLimit)), "{end:?}");
        job.gone().await;
        let (kept, (dropped, _)) = (job.raw_head(u64::MAX).len() as u64, job.loss());
        assert_eq!(kept + dropped, job.printed().bytes, "what is missing is counted exactly");
    }
    let grown = peak() - before;
    assert!(grown < 64_000, "endless output took {grown} kB");
}
