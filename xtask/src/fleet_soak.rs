//! Kills workers of a fleet repeatedly for a long time.

use std::process::Command;

/// Runs with this many kills.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let kills = args.first().map_or(Ok(200), |it| it.parse::<u32>());
    let kills = kills.map_err(|_| String::from("cargo xtask fleet-soak [KILLS]"))?;
    let mut line = Command::new("cargo");
    line.args(["nextest", "run", "--workspace", "--no-capture", "-E"]);
    line.arg("test(no_call_runs_twice_however_often_workers_are_killed)");
    line.env("HAFT_FLEET_KILLS", kills.to_string());
    let status = line.status().map_err(|err| format!("cargo: {err}"))?;
    if status.success() { Ok(()) } else { Err(format!("after {kills} kills: see above")) }
}
