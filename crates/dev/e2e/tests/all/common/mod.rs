//! Runs the real binary in a temporary home and project.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "test code")]

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use haft_testkit::haft_binary;
use serde_json::Value;

pub struct Haft {
    pub dir: tempfile::TempDir,
}

impl Haft {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("home")).unwrap();
        std::fs::create_dir_all(dir.path().join("ws")).unwrap();
        Self { dir }
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn ws(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("ws")
    }

    /// Writes a file in the project.
    pub fn write(&self, path: &str, text: &str) {
        write(&self.ws().join(path), text);
    }

    /// Writes a file in the home directory.
    pub fn write_home(&self, path: &str, text: &str) {
        write(&self.home().join(path), text);
    }

    /// The program in the project, with the temporary home and no other variables of this process.
    pub fn command(&self) -> Command {
        let mut command = Command::new(haft_binary());
        command
            .current_dir(self.ws())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home());
        command
    }

    /// Like `command`, for asynchronous tests.
    pub fn async_command(&self) -> tokio::process::Command {
        self.command().into()
    }

    /// Starts the program without waiting for it.
    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub fn run(&self, args: &[&str], stdin: &str) -> Output {
        let mut child = self.spawn(args);
        let mut input = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // Write in a separate thread: two full pipes would deadlock.
            scope.spawn(move || {
                // A program that does not read its input closes the pipe, which is not an error.
                input.write_all(stdin.as_bytes()).ok();
            });
            child.wait_with_output().unwrap()
        })
    }

    /// Standard output of a run; panics unless it succeeds.
    pub fn ok(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run(args, stdin);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `haft tool run` with these lines; returns the reports.
    pub fn reports(&self, args: &[&str], lines: &[Value]) -> Vec<Value> {
        let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut all = vec!["tool", "run"];
        all.extend(args);
        let output = self.run(&all, &input);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Reads a file of the permission test tables.
pub fn corpus(name: &str) -> String {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/testkit/corpora");
    std::fs::read_to_string(corpora.join(name)).unwrap()
}

/// The result text in a report.
pub fn text(report: &Value) -> &str {
    report["content"][0]["text"].as_str().unwrap_or_default()
}

/// Polls until the condition holds; panics after a timeout.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !happened() {
        assert!(std::time::Instant::now() < deadline, "it did not happen: {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
