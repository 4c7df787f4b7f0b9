//! `cargo xtask picture`: creates the image in the README from `haft demo`.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::{command, tidy};

const COLUMNS: &str = "100";
/// Text at which the image starts: the first sentence after the files were read.
const BEGINS: &str = "Two bugs.";

/// Runs the demo in a terminal and renders its output.
pub(crate) fn draw() -> Result<(), String> {
    command::cargo(&["build", "--quiet"])?;
    let haft = command::target_dir()?.join("debug/haft");
    let home = std::env::temp_dir().join(format!("haft-picture-{}", std::process::id()));
    fs::create_dir_all(&home).map_err(|err| err.to_string())?;
    // `script` provides a pseudo-terminal, `stty` sets its size.
    let line = format!("stty cols {COLUMNS} rows 50; exec '{}' demo", haft.display());
    let shown = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("HOME", &home)
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|err| format!("script (util-linux) could not be started: {err}"))?;
    if !shown.status.success() {
        return Err(format!("haft demo failed: {}", shown.status));
    }
    let kept = home.join("shown");
    fs::write(&kept, shown.stdout).map_err(|err| err.to_string())?;
    let drawn = Command::new(std::env::var("CARGO").unwrap_or_else(|_| String::from("cargo")))
        .args(["run", "--quiet", "--package", "haft-tui", "--example", "ansi_picture", "--"])
        .args([COLUMNS, BEGINS])
        .stdin(fs::File::open(&kept).map_err(|err| err.to_string())?)
        .output()
        .map_err(|err| err.to_string())?;
    if !drawn.status.success() {
        return Err(String::from_utf8_lossy(&drawn.stderr).into_owned());
    }
    fs::write(tidy::root().join("docs/demo.svg"), drawn.stdout).map_err(|err| err.to_string())?;
    fs::remove_dir_all(&home).map_err(|err| err.to_string())
}
