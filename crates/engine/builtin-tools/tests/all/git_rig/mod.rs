//! A git repository, the git tool with undo, and the state on disk.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use crate::shell_rig::{self, call};

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_builtin_tools::git::Git;
use haft_command_undo::{JournalCommandUndo, SnapshotLimits};
use haft_shell::run::ShellConfig;
use haft_tool::{CallContext, DynTool, Output, ToolError, erase};
use haft_workspace::{
    ChangeOrigin, FullContextView, JournalLimits, SessionFiles, UndoTarget, Workspace, WorkspaceConfig,
};
use serde_json::Value;

pub struct Repo {
    pub rig: shell_rig::Rig,
    pub files: Arc<SessionFiles>,
    pub tool: Arc<dyn DynTool>,
    calls: AtomicUsize,
}

impl Repo {
    /// Creates a repository with two commits, and a modified, a staged and an untracked file.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Like [`Repo::new`], with a modified shell environment of the user.
    pub fn with(change: impl FnOnce(&mut ShellConfig)) -> Self {
        let repo = Self::empty_with(change);
        repo.git(&["init", "-q", "-b", "main"]);
        repo.git(&["config", "user.name", "Ann Author"]);
        repo.git(&["config", "user.email", "ann@example.test"]);
        repo.put("a.txt", "one\ntwo\nthree\n");
        repo.put("b.txt", "b\n");
        repo.git(&["add", "."]);
        repo.git(&["commit", "-qm", "First"]);
        repo.put("a.txt", "one\n2\nthree\n");
        repo.git(&["commit", "-qam", "Second"]);
        repo
    }

    pub fn empty() -> Self {
        Self::empty_with(|_| {})
    }

    fn empty_with(change: impl FnOnce(&mut ShellConfig)) -> Self {
        let rig = shell_rig::Rig::with(change);
        let state_dir = rig.work.parent().unwrap().join("journal");
        let config = WorkspaceConfig { state_dir, root: rig.work.clone(), limits: JournalLimits::default() };
        let files =
            Arc::new(SessionFiles::new(Arc::new(Workspace::open(config).unwrap()), None, FullContextView));
        let snapshots = JournalCommandUndo::new(
            Arc::clone(&files),
            None,
            SnapshotLimits::default(),
            <Git as haft_tool::Tool>::NAME,
        );
        let tool = erase(Git::new(Arc::clone(&rig.tasks)).with_snapshots(Arc::new(snapshots)));
        Self { rig, files, tool, calls: AtomicUsize::new(0) }
    }

    pub fn dir(&self) -> &Path {
        &self.rig.work
    }

    /// Runs git like the user at a terminal.
    pub fn git(&self, words: &[&str]) -> String {
        git_in(self.dir(), words)
    }

    pub fn put(&self, name: &str, text: &str) {
        let path = self.dir().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir().join(name)).unwrap()
    }

    /// Runs a call; also returns its id in the journal.
    pub async fn call(&self, input: Value) -> (String, Result<Output, ToolError>) {
        let id = format!("call_{}", self.calls.fetch_add(1, Ordering::SeqCst));
        let cx = CallContext::detached(id.as_str(), self.dir());
        let got = call(&self.tool, input, cx).await;
        (id, got)
    }

    /// Returns what the model reads, whether result or error.
    pub async fn said(&self, input: Value) -> String {
        match self.call(input).await.1 {
            Ok(output) => output.content.to_text(),
            Err(error) => format!("{}: {}", error.kind.name(), error.message),
        }
    }

    pub async fn ok(&self, input: Value) -> Output {
        let (_, got) = self.call(input.clone()).await;
        got.unwrap_or_else(|err| panic!("{input}: {}", err.message))
    }

    pub fn undo(&self, id: &str) {
        let origin =
            ChangeOrigin { session: None, turn: None, call: "undo".into(), tool: String::from("undo") };
        let report = self.files.workspace().undo(&UndoTarget::Call(id.into()), &origin).unwrap();
        assert_eq!(report.conflicts, [], "{id}");
    }

    /// Returns every file of working tree and repository except objects.
    pub fn picture(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.dir().to_owned()];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                if path.ends_with(".git/objects") {
                    continue;
                }
                if path.is_dir() && !path.is_symlink() {
                    open.push(path);
                } else {
                    let name = path.strip_prefix(self.dir()).unwrap().to_owned();
                    found.insert(name, std::fs::read(&path).unwrap_or_default());
                }
            }
        }
        found
    }
}

pub fn git_in(dir: &Path, words: &[&str]) -> String {
    let done = Command::new("git")
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(done.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
}
