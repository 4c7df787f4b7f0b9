//! Simulates many sessions with a slow model: throughput relative to the ideal, and the bottleneck.

use std::process::Command;

const USAGE: &str = "cargo xtask fleet-sim [SESSIONS…] [--engine sqlite|nats|postgres]";

/// `cargo xtask fleet-sim [SESSIONS…] [--engine E]`: by default 500 to 8,000 sessions, in an optimised
/// build.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (mut sessions, mut engine) = (Vec::new(), "");
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--engine" => engine = args.next().ok_or(USAGE)?,
            number if number.parse::<usize>().is_ok_and(|it| 4 <= it) => sessions.push(number.to_owned()),
            _ => return Err(USAGE.to_owned()),
        }
    }
    if !["", "sqlite", "nats", "postgres"].contains(&engine) {
        return Err(USAGE.to_owned());
    }
    if sessions.is_empty() {
        sessions = ["500", "1000", "2000", "4000", "8000"].map(str::to_owned).to_vec();
    }
    let line =
        ["test", "--release", "-p", "haft-fleet-store", "--test", "all", "--", "sim::as_many_as_asked"];
    let status = Command::new("cargo")
        .args(line)
        .args(["--exact", "--nocapture"])
        .env("HAFT_FLEET_SIM", sessions.join(","))
        .env("HAFT_FLEET_ENGINE", engine)
        .status()
        .map_err(|err| format!("cargo: {err}"))?;
    if status.success() { Ok(()) } else { Err(String::from("see above")) }
}
