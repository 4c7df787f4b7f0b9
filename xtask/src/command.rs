use std::{path::PathBuf, process::Command};

use crate::tidy;

/// Runs cargo; fails with the command line if it fails.
pub(crate) fn cargo(args: &[&str]) -> Result<(), String> {
    command(&std::env::var("CARGO").unwrap_or_else(|_| String::from("cargo")), args)
}

/// Like [`cargo`], with environment variables.
pub(crate) fn cargo_with(args: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| String::from("cargo"));
    println!("$ cargo {}", args.join(" "));
    let status = Command::new(&program).args(args).envs(variables.iter().copied()).status();
    let status = status.map_err(|err| format!("cargo could not be started: {err}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: cargo {}", args.join(" "))) }
}

/// Runs a command with inherited output.
pub(crate) fn command(program: &str, args: &[&str]) -> Result<(), String> {
    println!("$ {program} {}", args.join(" "));
    let status = Command::new(program).args(args).status();
    let status = status.map_err(|err| format!("{program} could not be started: {err}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: {program} {}", args.join(" "))) }
}

/// Returns the output of a command.
pub(crate) fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|err| format!("{program} could not be started: {err}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("failed: {program} {}\n{stderr}", args.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns cargo's target directory.
pub(crate) fn target_dir() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|err| err.to_string())?;
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => Ok(here.join(dir)),
        None => Ok(tidy::root().join("target")),
    }
}

/// Returns the CPU time of all terminated children in seconds.
pub(crate) fn children_cpu_seconds() -> f64 {
    // `cutime` and `cstime` of proc(5), in ticks of 10 ms. The process name may contain spaces.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |it| it.1);
    let fields: Vec<f64> = after_name.split(' ').map(|it| it.parse().unwrap_or_default()).collect();
    fields.get(13..15).map_or(0.0, |it| it.iter().sum::<f64>() / 100.0)
}
