//! Measures the file tools against the programs they replace, as ratios within one run, so that the
//! speed of the machine does not matter.
//!
//! Run with `cargo xtask bench files`. `HAFT_BENCH_DIR` is the directory for the test trees (about 1.5
//! GB, removed afterwards), `HAFT_BENCH_ONLY` the parts to run (`trees`, `reads`, `deep`, `edits`).
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a program for a person")]

#[path = "files/rig.rs"]
mod rig;
#[path = "files/trees.rs"]
mod trees;

use std::{
    fs,
    io::{Read as _, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use haft_search::{IndexRefreshOptions, SearchRoot, SearchStop, TreeIndex, WalkFilter, WalkLimits};
use rig::Rig;
use serde_json::json;

const ROUNDS: usize = 9;

fn main() {
    let dir = match std::env::var_os("HAFT_BENCH_DIR") {
        Some(dir) => tempfile::tempdir_in(dir).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let top = dir.path().canonicalize().unwrap();
    type Part = (&'static str, fn(&Path));
    let parts: [Part; 4] = [("trees", whole_trees), ("reads", reads), ("deep", deep), ("edits", edits)];
    let only = std::env::var("HAFT_BENCH_ONLY").ok();
    for (name, part) in parts {
        if only.as_ref().is_none_or(|only| only.split(',').any(|it| it == name)) {
            part(&top);
        }
    }
}

fn whole_trees(top: &Path) {
    let (large, small) = (top.join("large"), top.join("small"));
    trees::make(&large, 50_000);
    trees::make(&small, 60);
    greps(&large, "50,000 files", 1.1);
    greps(&small, "60 files", 0.5);
    globs(&large);
    index(&large);
    fs::remove_dir_all(&large).unwrap();
}

/// Runs both alternately and prints the ratio of the medians.
fn compare(what: &str, goal: f64, mut ours: impl FnMut(), mut theirs: impl FnMut()) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        ours();
        a.push(started.elapsed());
        let started = Instant::now();
        theirs();
        b.push(started.elapsed());
    }
    let (a, b) = (median(a), median(b));
    let ratio = a.as_secs_f64() / b.as_secs_f64();
    let verdict = if ratio <= goal { "" } else { "  MISSED" };
    println!("  {ratio:6.2}x (goal {goal})  {a:>10.1?} / {b:>10.1?}  {what}{verdict}");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn shell(script: &str, dir: &Path) {
    let status = Command::new("sh").args(["-c", script]).current_dir(dir).stdin(Stdio::null()).status();
    assert!(status.is_ok(), "{script}");
}

fn rg(args: &[&str], dir: &Path) {
    let output = Command::new("rg").args(args).arg(".").current_dir(dir).stdin(Stdio::null()).output();
    drop(output.unwrap());
}

fn greps(tree: &Path, size: &str, goal: f64) {
    println!("Grep over {size}, against rg");
    let rig = Rig::new(tree);
    for pattern in ["fn main", "no such text", "TODO|FIXME", r"\bunsafe\s+impl\b", "(?i)error"] {
        for (mode, flag) in [("files_with_matches", "-l"), ("content", "-n")] {
            let input = json!({ "pattern": pattern, "output_mode": mode });
            compare(
                &format!("{pattern:?} {mode}"),
                goal,
                || drop(rig.call("Grep", &input)),
                || rg(&[flag, "-e", pattern], tree),
            );
        }
    }
}

fn globs(tree: &Path) {
    println!("Glob over 50,000 files, against rg --files | sort");
    let rig = Rig::new(tree);
    for pattern in ["**/*.rs", "**/mod_1*", "**/*"] {
        let script = format!("rg --files --hidden --no-ignore -g '{pattern}' . | sort > /dev/null");
        let input = json!({ "pattern": pattern });
        compare(pattern, 1.1, || drop(rig.call("Glob", &input)), || shell(&script, tree));
    }
}

fn index(tree: &Path) {
    let root = SearchRoot::open(tree).unwrap();
    let filter = WalkFilter::default();
    let stop = SearchStop::never();
    let mut index = TreeIndex::default();
    for what in ["built", "brought up to date", "brought up to date"] {
        let refresh = IndexRefreshOptions {
            cwd: tree,
            filter: &filter,
            limits: WalkLimits::default(),
            guess: |_| None,
            stop: &stop,
        };
        let started = Instant::now();
        refresh.run(&mut index, &root);
        println!("Search index of {} files {what} in {:.0?}", index.len(), started.elapsed());
    }
}

fn reads(top: &Path) {
    println!("Read of 200 lines, against read(2)");
    let dir = top.join("read");
    let text: String = (1..=200).map(|n| format!("    let value_{n} = compute({n}) + other;\n")).collect();
    trees::put(&dir.join("f.rs"), &text);
    let rig = Rig::new(&dir);
    let input = json!({ "file_path": "f.rs" });
    // A single edit is too short to time; with too many, the process would be preempted.
    let many = 50;
    compare(
        "50 times",
        5.0,
        || (0..many).for_each(|_| drop(rig.call("Read", &input))),
        || {
            for _ in 0..many {
                let mut bytes = Vec::new();
                fs::File::open(dir.join("f.rs")).unwrap().read_to_end(&mut bytes).unwrap();
                std::hint::black_box(bytes);
            }
        },
    );
}

fn deep(top: &Path) {
    println!("20 lines deep in 1 GB, against sed -n");
    let dir = top.join("deep");
    let lines = trees::lines(&dir.join("big.log"), 1 << 30);
    let rig = Rig::new(&dir);
    for first in [lines / 2, lines - 100] {
        let input = json!({ "file_path": "big.log", "offset": first, "limit": 20 });
        let script = format!("sed -n '{first},{last}p;{last}q' big.log > /dev/null", last = first + 19);
        compare(&format!("line {first}"), 1.0, || drop(rig.call("Read", &input)), || shell(&script, &dir));
    }
    fs::remove_dir_all(&dir).unwrap();
}

fn edits(top: &Path) {
    println!("Edit in 50 MB, against cat to a new file");
    let dir = top.join("edit");
    let lines = trees::lines(&dir.join("big.txt"), 50 << 20);
    let rig = Rig::new(&dir);
    let marker = trees::line(lines / 2);
    drop(rig.call("Read", &json!({ "file_path": "big.txt", "offset": lines / 2 - 2, "limit": 6 })));
    let mut old = marker.trim_end().to_owned();
    let mut round = 0;
    compare(
        "one line in the middle",
        2.0,
        || {
            round += 1;
            let new = format!("{} {round}", marker.trim_end());
            let input = json!({ "file_path": "big.txt", "old_string": old, "new_string": new });
            drop(rig.call("Edit", &input));
            old = new;
        },
        || shell("cat big.txt > copy.txt && sync copy.txt", &dir),
    );
    small_edits(&dir);
}

/// Edits one line of a small file. This mostly waits for the disk, so the baseline is a careful write of
/// the same size: new file, sync, rename, sync of the directory.
fn small_edits(dir: &Path) {
    println!("Edit in 200 lines, against a careful write");
    let text: String = (1..=200).map(|n| format!("    let value_{n} = compute({n}) + other;\n")).collect();
    trees::put(&dir.join("f.rs"), &text);
    let rig = Rig::new(dir);
    drop(rig.call("Read", &json!({ "file_path": "f.rs" })));
    let (many, mut round) = (20, 0);
    compare(
        "20 times",
        4.0,
        || {
            for _ in 0..many {
                let (old, new) = (format!("compute(100){}", "!".repeat(round)), "!".repeat(round + 1));
                let new = format!("compute(100){new}");
                round += 1;
                drop(rig.call("Edit", &json!({ "file_path": "f.rs", "old_string": old, "new_string": new })));
            }
        },
        || {
            for _ in 0..many {
                let file = fs::File::create(dir.join("new")).unwrap();
                (&file).write_all(text.as_bytes()).unwrap();
                file.sync_data().unwrap();
                fs::rename(dir.join("new"), dir.join("g.rs")).unwrap();
                fs::File::open(dir).unwrap().sync_all().unwrap();
            }
        },
    );
}
