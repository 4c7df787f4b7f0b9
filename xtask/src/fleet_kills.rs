//! Kills workers of a fleet many times; takes too long for the test suite.

use std::process::Command;

/// `cargo xtask fleet-kills N [--engine sqlite|nats|postgres]`.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let usage = "cargo xtask fleet-kills N [--engine sqlite|nats|postgres]";
    let (kills, engine) = match args {
        [kills] => (kills.as_str(), ""),
        [kills, flag, engine] if flag == "--engine" => (kills.as_str(), engine.as_str()),
        _ => return Err(usage.to_owned()),
    };
    if kills.parse::<usize>().is_err() || !["", "sqlite", "nats", "postgres"].contains(&engine) {
        return Err(usage.to_owned());
    }
    let line = ["test", "-p", "haft-fleet-store", "--test", "all", "--", "kill_rig::as_many_as_asked"];
    let status = Command::new("cargo")
        .args(line)
        .args(["--exact", "--nocapture"])
        .env("HAFT_FLEET_KILLS", kills)
        .env("HAFT_FLEET_ENGINE", engine)
        .status()
        .map_err(|err| format!("cargo: {err}"))?;
    if status.success() { Ok(()) } else { Err(String::from("something was lost or done twice; see above")) }
}
