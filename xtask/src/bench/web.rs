//! Pages, deliveries, stored prompts and the state of a repository, each beside the
//! least that could be done for the same.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{median, release_binary, small};
use crate::run;

/// Files of the repository.
const FILES: usize = 20_000;
/// Calls of one process, so that its start does not count.
const CALLS: usize = 20;
const ROUNDS: usize = 9;

pub(super) fn run() -> Result<(), String> {
    run::cargo(&["bench", "--quiet", "-p", "haft-tools", "--bench", "web"])?;
    run::cargo(&["bench", "--quiet", "-p", "haft-schedule", "--bench", "load"])?;
    run::cargo(&["bench", "--quiet", "-p", "haft-triggers", "--bench", "verify"])?;
    git_status()?;
    super::servers::run()
}

/// The tool Git against git itself, in a repository of twenty thousand files.
fn git_status() -> Result<(), String> {
    let haft = release_binary()?;
    let dir = std::env::temp_dir().join(format!("haft-bench-git-{}", std::process::id()));
    let made = repository(&dir);
    let measured = made.and_then(|()| {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..small(ROUNDS) {
            let one = calls(&haft, &dir, 1)?;
            ours.push(calls(&haft, &dir, CALLS + 1)?.saturating_sub(one) / CALLS as u32);
            let began = Instant::now();
            for _ in 0..CALLS {
                git(&dir, &["status", "--porcelain=v2", "-z"])?;
            }
            bare.push(began.elapsed() / CALLS as u32);
        }
        Ok((median(ours), median(bare)))
    });
    std::fs::remove_dir_all(&dir).ok();
    let (ours, bare) = measured?;
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("git status in {FILES} files, median of {ROUNDS}");
    println!("  Git {ours:.1?}, git status --porcelain=v2 -z {bare:.1?}, ratio {ratio:.2} (goal 1.2)");
    Ok(())
}

pub(super) fn repository(dir: &Path) -> Result<(), String> {
    let failed = |err: std::io::Error| format!("{}: {err}", dir.display());
    for number in 0..small(FILES) {
        let path = dir.join(format!("d{}/f{number}.txt", number % 200));
        std::fs::create_dir_all(path.parent().unwrap_or(dir)).map_err(failed)?;
        std::fs::write(path, format!("{number}\n")).map_err(failed)?;
    }
    let who = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
    git(dir, &["init", "-q"])?;
    git(dir, &["add", "-A"])?;
    git(dir, &[&who[..], &["commit", "-q", "-m", "all"]].concat())?;
    std::fs::write(dir.join("d1/f1.txt"), "changed\n").map_err(failed)
}

pub(super) fn git(dir: &Path, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|err| format!("git: {err}"))?;
    if status.success() { Ok(()) } else { Err(format!("git {} failed", args.join(" "))) }
}

/// One process that makes so many calls, one after the other.
fn calls(haft: &Path, dir: &Path, count: usize) -> Result<Duration, String> {
    let lines: String = (0..count)
        .map(|number| {
            let call = serde_json::json!({"id": format!("c{number}"), "name": "Git", "input": {"operation": "status"}});
            format!("{call}\n")
        })
        .collect();
    let file = dir.with_extension("calls");
    std::fs::write(&file, lines).map_err(|err| err.to_string())?;
    let input = std::fs::File::open(&file).map_err(|err| err.to_string())?;
    let began = Instant::now();
    let mut command = Command::new(haft);
    command.args(["tool", "run"]).current_dir(dir).stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|err| err.to_string())?;
    let took = began.elapsed();
    std::fs::remove_file(&file).ok();
    if status.success() { Ok(took) } else { Err(String::from("haft tool run failed")) }
}
