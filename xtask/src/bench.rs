//! Benchmarks, as ratios to a reference measured in the same run.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{bench_mcp, command};

mod editors;
mod files;
mod fleet;
mod peers;
mod servers;
mod table;
mod view;
mod web;

/// Starts of each command. Medians of interleaved runs are stable on a noisy machine.
const STARTS: usize = 101;

/// Runs all benchmarks, or those whose name contains one of the words. `peers` and `table` run only if
/// named, because the one installs other programs and the other runs everything else.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    match words.first().map(String::as_str) {
        Some("peers") => return peers::run(&words[1..]),
        Some("table") => return table::run(&words[1..]),
        _ => {}
    }
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    if wanted("start") {
        start()?;
    }
    if wanted("mcp") {
        bench_mcp::run()?;
    }
    if wanted("overhead") {
        command::cargo(&["bench", "--quiet", "-p", "haft-tool-runtime", "--bench", "overhead"])?;
    }
    if wanted("sdk") {
        crate::bench_sdk::run()?;
    }
    if wanted("agents") {
        command::cargo(&["bench", "--quiet", "-p", "haft-session", "--bench", "agents"])?;
    }
    if wanted("turns") {
        crate::turns::run()?;
    }
    if wanted("files") {
        files::run()?;
    }
    if wanted("web") {
        web::run()?;
    }
    if wanted("terminal") {
        command::cargo(&["bench", "--quiet", "-p", "haft-tui", "--bench", "stream"])?;
    }
    if wanted("editors") {
        editors::run()?;
    }
    if wanted("view") {
        view::run()?;
    }
    if wanted("fleet") {
        fleet::run()?;
    }
    if wanted("shell") {
        crate::bench_shell::run()?;
    }
    Ok(())
}

/// Returns a number of rounds or files, reduced to a tenth if `HAFT_BENCH_SMALL` is set: checks that a
/// benchmark works, without meaningful numbers.
fn small(count: usize) -> usize {
    match std::env::var_os("HAFT_BENCH_SMALL") {
        Some(_) => (count / 10).max(1),
        None => count,
    }
}

/// Process start to exit, compared with a minimal program.
fn start() -> Result<(), String> {
    let haft = release_binary()?;
    println!("start to exit, median of {STARTS}, against /bin/true");
    for args in [&["--version"][..], &["tool", "list"][..]] {
        let (mut ours, mut base) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            ours.push(time(&haft, args)?);
            base.push(time(Path::new("/bin/true"), &[])?);
        }
        let (ours, base) = (median(ours), median(base));
        let ratio = ours.as_secs_f64() / base.as_secs_f64();
        println!(
            "  haft {:<12} {ours:>10.1?}  /bin/true {base:>10.1?}  ratio {ratio:.2} (goal 5)",
            args.join(" ")
        );
    }
    Ok(())
}

/// Builds the release binary; `HAFT_BENCH_BINARY` names another one.
pub(crate) fn release_binary() -> Result<std::path::PathBuf, String> {
    if let Some(named) = std::env::var_os("HAFT_BENCH_BINARY") {
        return Ok(named.into());
    }
    command::cargo(&["build", "--profile", "dist", "--quiet"])?;
    Ok(command::target_dir()?.join("dist/haft"))
}

fn time(program: &Path, args: &[&str]) -> Result<Duration, String> {
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|err| format!("{}: {err}", program.display()))?;
    if status.success() { Ok(started.elapsed()) } else { Err(format!("{} failed", program.display())) }
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
