//! Builds lints and tests together.
//!
//! `cargo clippy` would check every dependency again just to get its metadata. clippy's driver is a
//! complete compiler, so it compiles the tests, and lints fail the build. Plain `cargo test` has its own
//! artifacts.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{command, tidy};

/// Environment variables for cargo. Not set for tests, because some of them run cargo themselves.
pub(super) fn lint_variables() -> Result<Vec<(&'static str, String)>, String> {
    let sysroot = command::output("rustc", &["--print", "sysroot"])?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    if !driver.is_file() {
        return Err(format!("{} is missing: rustup component add clippy", driver.display()));
    }
    Ok(vec![
        ("RUSTC_WORKSPACE_WRAPPER", driver.to_string_lossy().into_owned()),
        // The encoding in which `cargo clippy -- -D warnings` passes its arguments on.
        ("CLIPPY_ARGS", String::from("-Dwarnings__CLIPPY_HACKERY__")),
        ("CLIPPY_CONF_DIR", tidy::root().to_string_lossy().into_owned()),
    ])
}

/// Builds the program that the end-to-end tests start. The tests named beside it are
/// compiled already; without a test cargo would leave the features of
/// dev-dependencies out and compile some crates once more for the program.
const HAFT: [&str; 7] = ["build", "--workspace", "--quiet", "--bin", "haft", "--test", "all"];

/// Compiled tests, for `cargo nextest run`.
pub(super) struct CompiledTests {
    binaries: PathBuf,
    metadata: PathBuf,
    /// The program under test.
    haft: String,
}

impl CompiledTests {
    /// Compiles all targets of the workspace; warnings and lints are errors.
    pub(super) fn build() -> Result<Self, String> {
        let variables = lint_variables()?;
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        // By default cargo builds examples as programs, which some tests start; with `--all-targets` it
        // would build them as tests.
        for targets in [&[][..], &["--benches"]] {
            let build = [&["test", "--workspace", "--no-run", "--quiet"], targets].concat();
            command::cargo_with(&build, &variables)?;
        }
        command::cargo_with(&HAFT, &variables)?;
        let target = command::target_dir()?;
        let directory = target.join("nextest");
        std::fs::create_dir_all(&directory).map_err(|err| format!("{}: {err}", directory.display()))?;
        let compiled = Self {
            binaries: directory.join("binaries.json"),
            metadata: directory.join("metadata.json"),
            haft: target.join("debug/haft").to_string_lossy().into_owned(),
        };
        let list = ["nextest", "list", "--workspace", "--lib", "--bins", "--tests"];
        let list: Vec<&str> =
            list.into_iter().chain(["--list-type", "binaries-only", "--message-format", "json"]).collect();
        write_output(&list, &variables, &compiled.binaries)?;
        write_output(&["metadata", "--format-version", "1", "--locked"], &[], &compiled.metadata)?;
        Ok(compiled)
    }

    /// Runs tests, more concurrently than there are CPUs, because many wait for processes, servers and
    /// timeouts.
    pub(super) fn run(&self, args: &[&str]) -> Result<(), String> {
        let threads = test_threads();
        let (binaries, metadata) = (self.binaries.to_string_lossy(), self.metadata.to_string_lossy());
        let mut words = vec!["nextest", "run", "--no-fail-fast", "--test-threads", &threads];
        words.extend(["--binaries-metadata", &binaries, "--cargo-metadata", &metadata]);
        words.extend(args);
        command::cargo_with(&words, &[("HAFT_BIN", &self.haft)])
    }
}

fn test_threads() -> String {
    (std::thread::available_parallelism().map_or(2, usize::from) * 3).to_string()
}

/// Writes cargo's output to a file.
fn write_output(args: &[&str], variables: &[(&str, &str)], file: &Path) -> Result<(), String> {
    let output = Command::new(env::var("CARGO").unwrap_or_else(|_| String::from("cargo")))
        .args(args)
        .envs(variables.iter().copied())
        .current_dir(tidy::root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|err| format!("cargo could not be started: {err}"))?;
    if !output.status.success() {
        return Err(format!("failed: cargo {}", args.join(" ")));
    }
    std::fs::write(file, output.stdout).map_err(|err| format!("{}: {err}", file.display()))
}
