//! Cost of a start and of turns, counted: system calls on files, processes, bytes read, written and
//! sent, instructions, allocations. Counts do not depend on the load of the machine, so a test can fail
//! on them.
//!
//! If a count drops, lower its row. An increase by more than a tenth must be a deliberate decision.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

mod kernel;
mod processor;

use std::{path::Path, process::Stdio};

use haft_testkit::{MockModel, Script, Turn, haft_binary};
use serde_json::{Value, json};

use crate::common::Haft;

/// The tool call of turn N.
type CallOfTurn = fn(usize) -> (&'static str, Value);

fn read(turn: usize) -> (&'static str, Value) {
    ("Read", json!({"file_path": format!("f{}.txt", turn + 1)}))
}

fn edit(turn: usize) -> (&'static str, Value) {
    let (old, new) = (format!("line {}\n", turn + 50), format!("new {turn}\n"));
    ("Edit", json!({"file_path": "f0.txt", "old_string": old, "new_string": new}))
}

fn search(turn: usize) -> (&'static str, Value) {
    ("Grep", json!({"pattern": format!("line 7{}", turn % 10)}))
}

fn echo(turn: usize) -> (&'static str, Value) {
    ("Bash", json!({"command": format!("echo {turn}")}))
}

/// A measured count and its reference value.
struct Count {
    unit: &'static str,
    found: f64,
    was: f64,
}

impl Count {
    fn new(unit: &'static str, found: f64, was: f64) -> Self {
        Self { unit, found, was }
    }

    /// Panics if the count is more than 10 % above its reference.
    #[track_caller]
    fn check(&self, what: &str) {
        let Self { unit, found, was } = self;
        assert!(*found <= was * 1.1, "{what}: {found} {unit}, it was {was}");
        if *found < was * 0.8 {
            eprintln!("{what} became cheaper: {found} {unit}, not {was}: lower the row");
        }
    }
}

/// Runs `haft -p` under a counting program, with one Read and this many turns. The counter writes to
/// `counts`.
async fn run_below(
    counter: &[&str],
    turns: usize,
    call: CallOfTurn,
    counts: impl FnOnce(&Path) -> String,
) -> Vec<u8> {
    let haft = Haft::new();
    let lines: String = (0..100).map(|line| format!("line {line}\n")).collect();
    (0..80).for_each(|file| haft.write(&format!("f{file}.txt"), &lines));
    let mut script = vec![Turn::tool("Read", json!({"file_path": "f0.txt"}))];
    script.extend((0..turns).map(call).map(|(name, input)| Turn::tool(name, input)));
    script.push(Turn::text("done"));
    let model = MockModel::start(Script::from_turns(script)).await.unwrap();
    let counted = haft.home().with_file_name("counted");
    let status = tokio::process::Command::new(counter[0])
        .args(&counter[1..])
        .arg(counts(&counted))
        .arg(haft_binary())
        .args(["-p", "go", "--permission-mode", "acceptEdits", "--allow-denials"])
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("ANTHROPIC_API_KEY", "key")
        // valgrind fails when the program starts a process.
        .env("HAFT_NO_LOGIN_SHELL", "1")
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .await
        .unwrap();
    assert!(status.success() && model.requests().len() == turns + 2, "{status}");
    std::fs::read(counted).unwrap()
}

/// Whether this counting program works on this machine.
fn counts_here(program: &str, args: &[&str]) -> bool {
    let works = std::process::Command::new(program).args(args).arg("true").stderr(Stdio::null()).status();
    let works = works.is_ok_and(|status| status.success());
    if !works {
        eprintln!("SKIPPED: {program} is missing or cannot look at other programs here");
    }
    works
}

#[test]
fn a_tenth_is_the_limit() {
    Count::new("calls", 110.0, 100.0).check("within");
    let dearer = std::panic::catch_unwind(|| Count::new("calls", 111.0, 100.0).check("beyond"));
    assert!(dearer.is_err());
}
