//! Runs one stored prompt without a user: starts `haft -p` in a directory, with the current settings, no
//! approver and a time limit.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use haft_process::{
    OnParentKilled, ProcessOwner, ProcessPurpose, ProcessTree, ProcessTreeOptions, SpawnIntent, TreeIsolation,
};
use haft_shell::run::Shell;

/// One unattended run.
pub(crate) struct UnattendedRun<'a> {
    /// Id of the run, for its records.
    pub(crate) id: &'a str,
    /// Working directory.
    pub(crate) dir: &'a Path,
    pub(crate) prompt: String,
    /// Permission mode.
    pub(crate) mode: &'a str,
    /// Maximum number of model requests.
    pub(crate) max_turns: u32,
    /// Maximum run time in minutes; the process is stopped after that.
    pub(crate) max_minutes: u64,
    /// Whether the prompt contains text from outside. Slash commands and `@file` references in it are
    /// then not expanded.
    pub(crate) is_verbatim: bool,
    /// File that receives standard output and standard error.
    pub(crate) output: PathBuf,
}

pub(crate) enum UnattendedError {
    /// The run started and failed.
    Failed(String),
    /// The run could not be started.
    NotStarted(String),
}

impl UnattendedRun<'_> {
    /// Runs the prompt as a child process and waits for its end. Output goes to `self.output`.
    pub(crate) async fn run(self, state: &Path) -> Result<(), UnattendedError> {
        let not_started = UnattendedError::NotStarted;
        if !self.dir.is_dir() {
            return Err(not_started(format!("{} is no directory any more", self.dir.display())));
        }
        let output = output_file(&self.output)
            .map_err(|err| not_started(format!("its output cannot be kept: {err}")))?;
        let (Ok(program), Ok(errors)) = (std::env::current_exe(), output.try_clone()) else {
            return Err(not_started(String::from("haft cannot start itself")));
        };
        let turns = self.max_turns.to_string();
        let mut command = tokio::process::Command::new(program);
        command
            .args(["-p", "--permission-mode", self.mode, "--max-turns", &turns])
            .args(self.is_verbatim.then_some("--disable-slash-commands"))
            .args(["--", &self.prompt])
            .current_dir(self.dir)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        let owner = ProcessOwner::open(&Shell::registries(state), &format!("run-{}", self.id))
            .unwrap_or_else(|_| ProcessOwner::unrecorded("run"));
        let plan = ProcessTreeOptions {
            about: SpawnIntent {
                purpose: ProcessPurpose::Command,
                call: self.id,
                command: "haft -p",
                task: "",
            },
            isolation: TreeIsolation::NoTerminal,
            after_kill: OnParentKilled::NextSession,
        };
        let (tree, mut child) =
            ProcessTree::spawn(&owner, plan, command).map_err(|err| not_started(err.to_string()))?;
        let limit = Duration::from_secs(self.max_minutes.saturating_mul(60));
        match tokio::time::timeout(limit, child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(UnattendedError::Failed(status.to_string())),
            Ok(Err(err)) => Err(UnattendedError::Failed(err.to_string())),
            Err(_) => {
                tree.kill();
                Err(UnattendedError::Failed(format!("it took longer than {} minutes", self.max_minutes)))
            }
        }
    }
}

fn output_file(path: &Path) -> std::io::Result<fs::File> {
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
