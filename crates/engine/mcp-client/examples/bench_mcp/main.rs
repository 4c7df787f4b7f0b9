//! Benchmarks the MCP client and server against others. Run by `cargo xtask bench mcp`: `bench_mcp HAFT
//! PEERS`.
//!
//! Servers are measured interleaved, round by round, and reported as medians: compare ratios, not
//! absolute values.

mod http;
mod inside;
mod stdio;

use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1).map(PathBuf::from);
    let (Some(haft), Some(peers)) = (args.next(), args.next()) else {
        return Err("usage: bench_mcp HAFT PEERS".into());
    };
    stdio::run(&haft, &peers)?;
    http::run()?;
    inside::run()
}

/// Returns the number of iterations: `count`, or a minimum with `HAFT_BENCH_QUICK`.
fn times(count: usize) -> usize {
    if std::env::var_os("HAFT_BENCH_QUICK").is_some() { count.div_ceil(500) } else { count }
}

/// Returns the path of a program next to this one.
fn neighbour(name: &str) -> Outcome<PathBuf> {
    let mut path = std::env::current_exe()?;
    path.set_file_name(name);
    Ok(path)
}

fn support(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support").join(name)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A closed pipe ends the output.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// Prints a value with its target and whether it is met.
fn goal(what: &str, value: f64, unit: &str, most: f64) {
    let mark = if value <= most { "ok" } else { "MISSED" };
    say(&format!("  {what:<58} {value:>10.2} {unit:<8} goal ≤ {most} {mark}"));
}
