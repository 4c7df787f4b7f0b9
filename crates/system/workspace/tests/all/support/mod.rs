#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};

use haft_workspace::{
    ChangeOrigin, CommitError, CommittedBatch, JournalLimits, PlannedWrite, TurnId, Workspace,
    WorkspaceConfig, text::Bytes,
};

/// A temporary directory with a tree and a state directory.
pub(crate) struct Scratch {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) state: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        // In memory if possible: these tests sync thousands of times.
        let memory = Path::new("/dev/shm");
        let dir = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, state) = (base.join("ws"), base.join("state"));
        std::fs::create_dir(&root).unwrap();
        Self { dir, root, state }
    }

    pub(crate) fn workspace(&self) -> Workspace {
        open(&self.state, &self.root)
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Names below the root.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        collect(&self.root, &self.root, &mut names);
        names.sort();
        names
    }
}

fn collect(dir: &Path, root: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        names.push(entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), root, names);
        }
    }
}

pub(crate) fn open(state: &Path, root: &Path) -> Workspace {
    let config = WorkspaceConfig {
        state_dir: state.to_owned(),
        root: root.to_owned(),
        limits: JournalLimits::default(),
    };
    Workspace::open(config).unwrap()
}

pub(crate) fn origin(call: &str) -> ChangeOrigin {
    ChangeOrigin { session: None, turn: None, call: call.into(), tool: "Test".to_owned() }
}

pub(crate) fn origin_in(turn: &str, call: &str) -> ChangeOrigin {
    ChangeOrigin { turn: Some(TurnId::new(turn)), ..origin(call) }
}

/// Replaces (or creates) a file, based on its current content.
pub(crate) fn put(workspace: &Workspace, path: &Path, content: &[u8]) -> Result<CommittedBatch, CommitError> {
    put_as(workspace, path, content, &origin("call"))
}

pub(crate) fn put_as(
    workspace: &Workspace,
    path: &Path,
    content: &[u8],
    origin: &ChangeOrigin,
) -> Result<CommittedBatch, CommitError> {
    let failed = |error| CommitError { index: 0, error };
    let locked = workspace.lock(&[path]).map_err(failed)?;
    let base = locked.read(path).map_err(failed)?;
    let change = PlannedWrite {
        path: path.to_owned(),
        base: base.as_ref().map(|it| &it.0),
        content: Some(Bytes::whole(content)),
        mode: None,
    };
    locked.commit(&[change], origin)
}

pub(crate) fn remove_as(
    workspace: &Workspace,
    path: &Path,
    origin: &ChangeOrigin,
) -> Result<CommittedBatch, CommitError> {
    let locked = workspace.lock(&[path]).unwrap();
    let base = locked.read(path).unwrap().unwrap().0;
    let change = PlannedWrite { path: path.to_owned(), base: Some(&base), content: None, mode: None };
    locked.commit(&[change], origin)
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
