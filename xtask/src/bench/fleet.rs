//! `cargo xtask bench fleet`: jobs through a store and a worker, compared with the same prompts as
//! separate programs.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use super::release_binary;
use crate::turns::{Scratch, model};

/// Number of jobs, and of prompts without a fleet.
const JOBS: usize = 100;
const PLAIN: usize = 20;

/// Runs a batch of prompts that are answered immediately, on an SQLite store.
pub(super) fn run() -> Result<(), String> {
    let haft = release_binary()?;
    let scratch = Scratch::new("fleet")?;
    let (mut server, url) =
        model(&haft, &scratch, &json!({"turns": [{"times": "always", "reply": [{"text": "Done."}]}]}))?;
    let measured = measured(&haft, &scratch, &url);
    server.kill().ok();
    server.wait().ok();
    let (plain, one, four) = measured?;
    println!(
        "{JOBS} jobs of one answer in a store in a file, beside {PLAIN} runs of haft -p: {plain:.1?} each"
    );
    for (slots, took) in [(1, one), (4, four)] {
        let ratio = took.as_secs_f64() / plain.as_secs_f64();
        println!("  {slots} at a time: {took:.1?} each, ratio {ratio:.2}");
    }
    Ok(())
}

fn measured(haft: &Path, scratch: &Scratch, url: &str) -> Result<(Duration, Duration, Duration), String> {
    let started = Instant::now();
    for _ in 0..PLAIN {
        ended(asked(haft, scratch, url).args(["-p", "go"]))?;
    }
    let plain = started.elapsed() / u32::try_from(PLAIN).unwrap_or(1);
    Ok((plain, batch(haft, scratch, url, 1)?, batch(haft, scratch, url, 4)?))
}

/// Returns the time per job of a batch with one worker of this many slots.
fn batch(haft: &Path, scratch: &Scratch, url: &str, slots: usize) -> Result<Duration, String> {
    let rows: String = (0..JOBS).map(|number| format!("{{\"number\": {number}}}\n")).collect();
    let file = scratch.0.join(format!("jobs-{slots}.jsonl"));
    fs::write(&file, rows).map_err(|err| err.to_string())?;
    let store = format!("sqlite:{}", scratch.0.join(format!("fleet-{slots}.db")).display());
    let fleet = |words: &[&str]| {
        let mut command = asked(haft, scratch, url);
        command.arg("fleet").args(words).env("HAFT_FLEET", &store);
        command
    };
    ended(&mut fleet(&["up"]))?;
    let slots = slots.to_string();
    let mut worker = fleet(&["worker", "--slots", &slots]).spawn().map_err(|err| err.to_string())?;
    let started = Instant::now();
    let done = ended(fleet(&["map"]).arg(&file).args(["-p", "job {number}", "--wait"]));
    let took = started.elapsed();
    worker.kill().ok();
    worker.wait().ok();
    done?;
    Ok(took / u32::try_from(JOBS).unwrap_or(1))
}

fn asked(haft: &Path, scratch: &Scratch, url: &str) -> Command {
    let mut command = Command::new(haft);
    command
        .current_dir(scratch.ws())
        .env("HOME", scratch.home())
        .env("ANTHROPIC_BASE_URL", url)
        .env("ANTHROPIC_API_KEY", "bench")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn ended(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|err| err.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}
