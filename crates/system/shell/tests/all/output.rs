#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use std::{path::Path, process::Command, time::Duration};

use haft_shell::output::{Mark, OutputView, Spool, SpoolDir, SpoolLimits, SpoolQuota, binary_kind, excerpt};
use proptest::prelude::*;

fn spool(dir: &Path, cap: u64, memory: usize) -> Spool {
    let limits = SpoolLimits { memory, cap, total: u64::MAX };
    Spool::new(dir.join("x.out"), limits, SpoolQuota::new(1 << 30))
}

fn view(limit: usize) -> OutputView {
    OutputView { limit, from: Mark::default() }
}

#[derive(Debug)]
struct Digits;

impl haft_shell::output::Blank for Digits {
    fn blank(&self, text: &str) -> Option<String> {
        let is_digit = |it: char| it.is_ascii_digit();
        text.contains(is_digit).then(|| text.replace(is_digit, "*"))
    }
}

#[test]
fn stored_output_is_redacted_at_session_end() {
    let root = tempfile::tempdir().unwrap();
    let limits = SpoolLimits { memory: 4, cap: 1 << 20, total: u64::MAX };
    let dir = SpoolDir::create(root.path(), "s", limits, SpoolQuota::new(1 << 20)).unwrap();
    let dir = dir.with_redactor(Some(std::sync::Arc::new(Digits)));
    let mut spool = dir.spool("bash_1");
    spool.write(b"key=1234 \xff 56 end\n");
    let file = spool.file().unwrap().to_owned();
    spool.settle();
    assert!(std::fs::read(&file).unwrap().starts_with(b"key=1234"), "as it was while the session lives");
    drop(dir);
    assert_eq!(std::fs::read(&file).unwrap(), b"key=**** \xff ** end\n");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn spool_keeps_both_ends_and_counts_dropped_bytes(
        sizes in proptest::collection::vec(0_usize..300, 0..40),
        cap in 64_u64..2_000,
        memory in 16_usize..64,
        quota in prop_oneof![Just(1_u64 << 30), 0_u64..3_000],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.out");
        let limits = SpoolLimits { memory, cap, total: u64::MAX };
        let mut spool = Spool::new(&path, limits, SpoolQuota::new(quota));
        let mut all = Vec::new();
        for (round, size) in sizes.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..size).map(|it| if it % 37 == 0 { b'\n' } else { b'a' + (round % 26) as u8 }).collect();
            spool.write(&bytes);
            all.extend(bytes);
            prop_assert_eq!(spool.total(), all.len() as u64);
            let kept = spool.read_range(0..u64::MAX).unwrap();
            prop_assert_eq!(kept.len() as u64 + spool.dropped(), spool.total());
            let head = spool.hole().map_or(kept.len(), |hole| hole.start as usize);
            prop_assert_eq!(&kept[..head], &all[..head]);
            prop_assert_eq!(&kept[head..], &all[all.len() - (kept.len() - head)..]);
            prop_assert!(kept.len() as u64 <= cap);
            prop_assert!(spool.file().is_none() || std::fs::metadata(&path).unwrap().len() <= cap.min(quota));
        }
        prop_assert_eq!(spool.newlines(), all.iter().filter(|it| **it == b'\n').count() as u64);
        spool.settle();
        let kept = spool.read_range(0..u64::MAX).unwrap();
        prop_assert_eq!(kept.len() as u64 + spool.dropped(), spool.total());
        prop_assert!(all.ends_with(&kept[spool.hole().map_or(0, |hole| hole.start as usize)..]));
        if let Some(file) = spool.file() {
            let text = String::from_utf8(std::fs::read(file).unwrap()).unwrap();
            if 0 < spool.dropped() {
                let note = format!("\n[{} bytes are missing here]\n", spool.dropped());
                prop_assert!(text.contains(&note) || text.len() < 160, "{} {}", note, text);
            } else {
                prop_assert_eq!(text.as_bytes(), &all[..]);
            }
        }
    }

    #[test]
    fn excerpt_is_bounded_and_consistent_with_output(lines in proptest::collection::vec("[ -~]{0,40}|error: [a-z]{3}|é{1,20}", 0..300), limit in 200_usize..2_000, cap in 300_u64..20_000) {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = spool(dir.path(), cap, 128);
        let full: String = lines.iter().map(|line| format!("{line}\n")).collect();
        spool.write(full.as_bytes());
        let got = excerpt(&spool, view(limit));
        prop_assert!(got.text.chars().count() <= limit + 400, "{} of {limit}", got.text.chars().count());
        if !got.is_cut {
            prop_assert_eq!(&got.text, &full);
        }
        prop_assert_eq!(got.is_cut, limit < full.chars().count() || 0 < spool.dropped());
    }
}

#[test]
fn small_output_never_touches_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(dir.path(), 1 << 20, 1_000);
    spool.write(&[b'x'; 1_000]);
    assert!(spool.file().is_none() && std::fs::read_dir(dir.path()).unwrap().next().is_none());
    spool.write(b"y");
    assert!(spool.file().unwrap().exists());
}

#[test]
fn the_failure_in_the_middle_of_a_long_log_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(dir.path(), 64 << 20, 64 << 10);
    let mut failing = Vec::new();
    for number in 1..=120_000_u32 {
        let line = match number {
            30_000 => "test alpha ... FAILED".to_owned(),
            60_001 => "error[E0308]: mismatched types".to_owned(),
            90_002 => "thread 'x' panicked at src/lib.rs:1:1".to_owned(),
            95_000 => "test result: 0 errors".to_owned(),
            _ => format!("test case_{number} ... ok, and so it goes on"),
        };
        if [30_000, 60_001, 90_002].contains(&number) {
            failing.push(format!("{number}: {line}"));
        }
        spool.write(format!("{line}\n").as_bytes());
    }
    assert!(5_000_000 < spool.total());
    let got = excerpt(&spool, view(30_000));
    assert!(got.is_cut && got.text.chars().count() <= 30_400);
    assert!(
        got.text.starts_with("test case_1 ...")
            && got.text.trim_end().ends_with("case_120000 ... ok, and so it goes on")
    );
    for line in failing {
        assert!(got.text.contains(&line), "{line}");
    }
    assert!(!got.text.contains("95000: "));
}

#[test]
fn a_redrawn_line_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(dir.path(), 64 << 20, 64 << 10);
    spool.write(b"start\n");
    for frame in 0..10_000 {
        spool.write(format!("\r\x1b[Kprogress {frame} of 10000 {}", "#".repeat(60)).as_bytes());
    }
    spool.write(b"\ndone\n");
    let got = excerpt(&spool, view(30_000));
    assert_eq!(got.text, format!("start\nprogress 9999 of 10000 {}\ndone\n", "#".repeat(60)));
    assert!(!got.is_cut);
}

#[test]
fn one_endless_line_is_cut_at_characters() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(dir.path(), 1 << 20, 64 << 10);
    for _ in 0..2_000_000 / 4 {
        spool.write("😀".as_bytes());
    }
    let got = excerpt(&spool, view(1_000));
    assert!(got.text.starts_with("😀😀") && got.text.ends_with("😀😀"));
    assert!(got.text.chars().count() < 1_400 && !got.text.contains('\u{fffd}'));
}

#[test]
fn binary_kind_names_binary_output_only() {
    let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 1, 2, 3, 250, 251, 0x9c].repeat(200)].concat();
    for (bytes, want) in [
        (&b"hello\n"[..], None),
        (&b"\x1b[31mred\x1b[0m\r\n".repeat(50), None),
        ("日本語\n".as_bytes(), None),
        (b"caf\xe9 au lait", None),
        (&[0_u8; 5_000], Some("unknown type")),
        (&png, Some("image/png")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = spool(dir.path(), 1 << 20, 64 << 10);
        spool.write(bytes);
        assert_eq!(binary_kind(&spool).as_deref(), want);
    }
}

#[test]
fn quota_deletes_oldest_finished_output() {
    let dir = tempfile::tempdir().unwrap();
    let quota = SpoolQuota::new(1_000_000);
    let limits = SpoolLimits { memory: 100, cap: 400_000, total: u64::MAX };
    let mut spools: Vec<Spool> = Vec::new();
    for number in 0..6 {
        let mut spool = Spool::new(dir.path().join(number.to_string()), limits, quota.clone());
        spool.write(&vec![b'x'; 400_000]);
        assert!(spool.trouble().is_none() && spool.dropped() == 0, "{:?}", spool.trouble());
        spool.settle();
        spools.push(spool);
        let on_disk: u64 =
            std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).sum();
        assert!(on_disk <= 1_000_000, "{on_disk}");
    }
    assert!(spools[0].read_range(0..10).is_err(), "the oldest is gone");
    assert_eq!(spools[5].read_range(0..10).unwrap(), b"xxxxxxxxxx");
}

#[test]
fn full_disk_drops_only_the_middle_of_output() {
    let dir = tempfile::tempdir().unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(dir.path()).status();
    if !mounted.is_ok_and(|it| it.success()) {
        eprintln!("SKIPPED: no right to mount a small file system, so no full disk");
        return;
    }
    let _unmount = Unmount(dir.path());
    let mut spool = spool(dir.path(), 8 << 20, 16 << 10);
    let mut all = Vec::new();
    for number in 0..100_000 {
        let line = format!("line {number}\n");
        spool.write(line.as_bytes());
        all.extend(line.into_bytes());
    }
    assert!(spool.trouble().is_some_and(|it| it.contains("space")), "{:?}", spool.trouble());
    let kept = spool.read_range(0..u64::MAX).unwrap();
    let head = spool.hole().unwrap().start as usize;
    assert_eq!(kept[..head], all[..head]);
    assert!(all.ends_with(&kept[head..]) && 100_000 < kept.len());
    assert_eq!(kept.len() as u64 + spool.dropped(), spool.total());
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0).status().ok();
    }
}

#[test]
fn sweep_removes_outputs_of_ended_sessions_only() {
    let root = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        SpoolDir::create(root.path(), name, SpoolLimits::default(), SpoolQuota::new(1 << 20)).unwrap()
    };
    let (live, dead) = (open("live"), open("../dead"));
    for dir in [&live, &dead] {
        assert_eq!(dir.path().parent().unwrap(), root.path());
        dir.spool("task").persist().unwrap();
    }
    assert!(SpoolDir::create(root.path(), "live", SpoolLimits::default(), SpoolQuota::new(1)).is_err());
    let (live_dir, dead_dir) = (live.path().to_owned(), dead.path().to_owned());
    drop(dead);
    SpoolDir::sweep(root.path(), Duration::from_secs(3600));
    assert!(dead_dir.join("task.out").exists(), "too young to go");
    SpoolDir::sweep(root.path(), Duration::ZERO);
    assert!(!dead_dir.exists() && live_dir.join("task.out").exists());
}

/// Sessions that start concurrently sweep directories that are not locked yet; none is deleted.
#[test]
fn new_session_directory_survives_concurrent_sweep() {
    let root = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let root = root.path();
            scope.spawn(move || {
                for round in 0..60 {
                    SpoolDir::sweep(root, Duration::ZERO);
                    let name = format!("{worker}-{round}");
                    let made =
                        SpoolDir::create(root, &name, SpoolLimits::default(), SpoolQuota::new(1 << 20))
                            .unwrap();
                    assert!(made.path().join("owner.lock").is_file(), "{name}");
                }
            });
        }
    });
}
