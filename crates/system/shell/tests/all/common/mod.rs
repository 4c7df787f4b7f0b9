//! A shell in a temporary directory, and helpers to observe it.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_shell::{
    output::{Mark, OutputView},
    run::{Job, JobEnd, JobSpec, Shell, ShellConfig},
};
use tempfile::TempDir;

pub struct Rig {
    pub dir: TempDir,
    pub shell: Arc<Shell>,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut ShellConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = ShellConfig::new("test", dir.path().join("state"));
        config.capture = None;
        config.memory = None;
        change(&mut config);
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        Self { shell: Shell::open(config).unwrap(), dir }
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work").canonicalize().unwrap()
    }

    pub fn spec(&self, command: &str) -> JobSpec {
        JobSpec {
            call: "call_1".into(),
            agent: "main".into(),
            command: command.to_owned(),
            cwd: self.work(),
            limit: Duration::from_secs(60),
            variables: Vec::new(),
            lifetime: haft_shell::own::Lifetime::Session,
            confinement: None,
            reading: None,
            precious: Vec::new(),
            channel: None,
            terminal: haft_shell::run::TerminalMode::None,
        }
    }

    pub fn start(&self, command: &str) -> Job {
        self.shell.start(self.spec(command)).unwrap()
    }

    pub async fn run(&self, command: &str) -> (Job, Arc<JobEnd>) {
        let job = self.start(command);
        let end = job.ended().await;
        (job, end)
    }

    /// Runs a command; returns its output.
    pub async fn text(&self, command: &str) -> String {
        let (job, _) = self.run(command).await;
        text(&job)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.shell.owner().end(Duration::from_secs(5));
    }
}

pub fn text(job: &Job) -> String {
    job.read(OutputView { limit: 30_000, from: Mark::default() }).text
}

/// Polls until the condition is true; fails the test after a deadline.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the process is alive and not a zombie.
pub fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("").starts_with(['Z', 'X']))
}

pub fn read_pid(path: &Path) -> Option<i32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
