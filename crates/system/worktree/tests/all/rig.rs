//! A repository in a directory of its own.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use haft_process::ProcessOwner;
use haft_types::EnvVars;
use haft_workspace::{ChangeOrigin, JournalLimits, Workspace, WorkspaceConfig};
use haft_worktree::{
    CreateWorktree, CreatedWorktree, WorktreeBase, WorktreeContents, WorktreeManager, WorktreeUser,
};

pub struct Repo {
    pub dir: tempfile::TempDir,
}

impl Repo {
    /// One with a commit.
    pub fn new() -> Self {
        let repo = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(repo.top()).unwrap();
        repo.git(&["init", "-q", "-b", "main"]);
        repo.git(&["config", "user.name", "A"]);
        repo.git(&["config", "user.email", "a@b.test"]);
        repo.write("a.txt", "one\n");
        repo.write("b/c.txt", "two\n");
        repo.write(".gitignore", "*.log\nbuild/\n.env\n");
        repo.git(&["add", "."]);
        repo.git(&["commit", "-q", "-m", "first"]);
        repo
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn top(&self) -> PathBuf {
        self.root().join("repo")
    }

    pub fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    pub fn write(&self, path: &str, text: &str) {
        write(&self.top().join(path), text.as_bytes());
    }

    pub fn git(&self, args: &[&str]) -> String {
        git(&self.top(), args)
    }

    pub fn keeper(&self) -> WorktreeManager {
        self.keeper_with(std::env::var_os("PATH").unwrap_or_default())
    }

    /// One that finds git where this says.
    pub fn keeper_with(&self, path: std::ffi::OsString) -> WorktreeManager {
        let variables: EnvVars = [("PATH".into(), path), ("HOME".into(), self.root().into_os_string())]
            .into_iter()
            .collect::<Vec<(std::ffi::OsString, std::ffi::OsString)>>()
            .into_iter()
            .collect();
        WorktreeManager::new(&self.state(), ProcessOwner::unrecorded("test"), &variables)
    }

    pub fn workspace(&self) -> Workspace {
        let config =
            WorkspaceConfig { state_dir: self.state(), root: self.top(), limits: JournalLimits::default() };
        Workspace::open(config).unwrap()
    }

    pub fn make(&self, keeper: &WorktreeManager, name: &str) -> CreatedWorktree {
        self.try_make(keeper, name, WorktreeBase::Head).unwrap()
    }

    pub fn try_make(
        &self,
        keeper: &WorktreeManager,
        name: &str,
        base: WorktreeBase,
    ) -> Result<CreatedWorktree, String> {
        let order = CreateWorktree {
            from: &self.top(),
            name,
            holder: holder("s1", "main", &self.top()),
            base,
            shape: WorktreeContents::default(),
        };
        keeper.make(&order, &|_| true)
    }
}

pub fn holder(session: &str, agent: &str, came_from: &Path) -> WorktreeUser {
    WorktreeUser { session: session.into(), agent: agent.into(), came_from: came_from.into() }
}

pub fn origin() -> ChangeOrigin {
    ChangeOrigin { session: None, turn: None, call: "c1".into(), tool: String::from("ExitWorktree") }
}

pub fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() || args.contains(&"merge"), "git {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Every file below a directory, but what is git's own.
pub fn files(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(path);
            } else if entry.file_name() != ".git" {
                let bytes = if kind.is_symlink() {
                    std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                } else {
                    std::fs::read(&path).unwrap()
                };
                found.insert(path.strip_prefix(top).unwrap().to_owned(), bytes);
            }
        }
    }
    found
}
