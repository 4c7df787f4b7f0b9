//! What turns cost, counted: calls of the kernel about files, and processes.
//! Counts are the same on a fast and on a busy machine, so they can fail.
//!
//! A row that became cheaper is lowered; one that became dearer by more than a
//! tenth is a decision, not an accident.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{collections::HashMap, process::Stdio};

use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};

use crate::common::Haft;

const ABOUT_FILES: &[&str] = &[
    "close",
    "fcntl",
    "fdatasync",
    "flock",
    "fstat",
    "fsync",
    "ftruncate",
    "getdents64",
    "linkat",
    "lseek",
    "mkdir",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pread64",
    "preadv2",
    "readlink",
    "readlinkat",
    "rename",
    "renameat2",
    "stat",
    "statx",
    "unlink",
    "unlinkat",
    "utimensat",
];
const ABOUT_PROCESSES: &[&str] = &["clone", "clone3", "execve", "fork", "vfork"];

/// What a run asked of the kernel.
struct Counted {
    files: f64,
    processes: f64,
}

fn have_strace() -> bool {
    let works = std::process::Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).status();
    works.is_ok_and(|status| status.success())
}

/// Runs `haft -p` through so many turns and counts.
async fn counted(turns: usize, call: fn(usize) -> (&'static str, Value)) -> Counted {
    let haft = Haft::new();
    let lines: String = (0..100).map(|line| format!("line {line}\n")).collect();
    (0..80).for_each(|file| haft.write(&format!("f{file}.txt"), &lines));
    let mut script = vec![Turn::tool("Read", json!({"file_path": "f0.txt"}))];
    script.extend((0..turns).map(call).map(|(name, input)| Turn::tool(name, input)));
    script.push(Turn::text("done"));
    let model = MockModel::start(Script::of(script)).await.unwrap();
    let trace = haft.home().join("trace");
    let status = tokio::process::Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_haft"))
        .args(["-p", "go", "--permission-mode", "acceptEdits"])
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("ANTHROPIC_API_KEY", "key")
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .await
        .unwrap();
    assert!(status.success() && model.requests().len() == turns + 2, "{status}");
    let trace = String::from_utf8_lossy(&std::fs::read(trace).unwrap()).into_owned();
    let mut calls: HashMap<&str, u32> = HashMap::new();
    for line in trace.lines() {
        // `12345 statx(…`; what is resumed was counted when it began.
        let said = line.split_once(' ').map_or("", |(_, said)| said.trim_start());
        if let Some((name, _)) = said.split_once('(').filter(|_| !said.starts_with('<')) {
            *calls.entry(name).or_default() += 1;
        }
    }
    let sum = |names: &[&str]| names.iter().filter_map(|it| calls.get(it)).sum::<u32>().into();
    Counted { files: sum(ABOUT_FILES), processes: sum(ABOUT_PROCESSES) }
}

async fn check(what: &str, call: fn(usize) -> (&'static str, Value), files: f64, processes: f64) {
    if !have_strace() {
        return eprintln!("SKIPPED: strace is missing or may not trace");
    }
    let (few, many) = (counted(10, call).await, counted(30, call).await);
    let per_turn = |few: f64, many: f64| (many - few) / 20.0;
    let (found_files, found_processes) =
        (per_turn(few.files, many.files), per_turn(few.processes, many.processes));
    assert!(found_files <= files * 1.1, "{what}: {found_files} calls about files a turn, it was {files}");
    // Threads that wait for work come and go; a process more in each turn does not.
    assert!(
        found_processes <= processes * 1.1 + 0.5,
        "{what}: {found_processes} processes a turn, it was {processes}"
    );
    if found_files < files * 0.8 {
        eprintln!("{what} became cheaper: {found_files}, not {files}; lower the row");
    }
}

#[tokio::test]
async fn a_turn_that_reads() {
    check("Read", |turn| ("Read", json!({"file_path": format!("f{}.txt", turn + 1)})), 28.0, 0.0).await;
}

#[tokio::test]
async fn a_turn_that_edits() {
    let edit = |turn: usize| {
        let (old, new) = (format!("line {}\n", turn + 50), format!("new {turn}\n"));
        ("Edit", json!({"file_path": "f0.txt", "old_string": old, "new_string": new}))
    };
    check("Edit", edit, 113.0, 0.0).await;
}

#[tokio::test]
async fn a_turn_that_searches_eighty_files() {
    check("Grep", |turn| ("Grep", json!({"pattern": format!("line 7{}", turn % 10)})), 236.0, 1.0).await;
}

#[tokio::test]
async fn a_turn_that_runs_a_command() {
    check("Bash", |turn| ("Bash", json!({"command": format!("echo {turn}")})), 130.0, 2.0).await;
}

#[tokio::test]
async fn a_start() {
    if !have_strace() {
        return eprintln!("SKIPPED: strace is missing or may not trace");
    }
    let found = counted(0, |_| ("Read", Value::Null)).await.files;
    assert!(found <= 672.0 * 1.1, "start and one Read: {found} calls about files, it was 672");
}
