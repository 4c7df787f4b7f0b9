//! Measures the client and the server beside others. Run by `cargo xtask bench
//! mcp`: `bench_mcp HAFT PEERS`.
//!
//! Servers are measured interleaved, round by round, and shown as medians:
//! trust the ratios.

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

/// How often something is done: as often as given, or with `HAFT_BENCH_QUICK`
/// just often enough to see that it works.
fn times(count: usize) -> usize {
    if std::env::var_os("HAFT_BENCH_QUICK").is_some() { count.div_ceil(500) } else { count }
}

/// A program beside this one.
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
    // Whoever closed the pipe has seen enough.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// A number, what it should be, and whether it is.
fn goal(what: &str, value: f64, unit: &str, most: f64) {
    let mark = if value <= most { "ok" } else { "MISSED" };
    say(&format!("  {what:<58} {value:>10.2} {unit:<8} goal ≤ {most} {mark}"));
}
