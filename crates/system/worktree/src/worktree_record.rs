//! Stored records of worktrees: one file each, in the user's state directory.

use std::{
    fs::{DirBuilder, File},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use haft_paths::{Durability, ModeOnReplace, replace_file};
use serde::{Deserialize, Serialize};

use crate::OwnerProcess;

/// Stored information about a worktree.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorktreeRecord {
    pub name: String,
    pub path: PathBuf,
    /// The branch created for it; `None` if an existing one is used.
    pub branch: Option<String>,
    /// Start commit.
    pub base: String,
    /// Main checkout of its repository.
    pub top: PathBuf,
    /// Git directory shared by all worktrees.
    pub common_dir: PathBuf,
    /// Git directory of this worktree.
    pub admin_dir: PathBuf,
    /// Content of its `.git` file when created. A different content means tampering.
    pub link: String,
    /// Whether Haft created it; others are never removed.
    pub is_ours: bool,
    /// Whether the user wants to keep it; then it is not swept.
    pub is_kept: bool,
    /// Whether a hook created it, which then also removes it.
    pub is_of_hook: bool,
    /// The session it was created for.
    pub session: String,
    /// The agent that works in it now.
    pub holder: Option<WorktreeUser>,
    /// The process that owns it.
    pub owner: OwnerProcess,
    /// Creation time, in milliseconds since 1970.
    pub made: u64,
    /// Ignored files that were copied into it.
    pub included: Vec<IncludedFile>,
    /// Its state.
    pub state: WorktreeState,
    /// Refs that hold its changes.
    pub rescued: Vec<String>,
    /// Journal entry that restores it.
    pub undo: Option<String>,
}

/// The user of a worktree.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorktreeUser {
    pub session: String,
    /// The agent's id.
    pub agent: String,
    /// Working directory of the agent before it entered.
    pub came_from: PathBuf,
}

/// State of a worktree.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeState {
    /// Being created.
    #[default]
    Making,
    /// Ready.
    Ready,
    /// Removed.
    Removed,
}

/// State of a file at one point in time.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct IncludedFile {
    /// Path relative to the worktree.
    pub path: PathBuf,
    /// Size in bytes.
    pub len: u64,
    /// Modification time in nanoseconds since 1970.
    pub changed: i128,
}

impl WorktreeRecord {
    /// Whether the process that created it died before it was ready.
    pub fn is_cut_off(&self) -> bool {
        self.state == WorktreeState::Making && !self.owner.is_alive()
    }

    /// Whether its path exists.
    pub fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }
}

/// Directory of the records.
#[derive(Debug)]
pub(crate) struct WorktreeRegistry {
    dir: PathBuf,
}

impl WorktreeRegistry {
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn file(&self, path: &Path) -> PathBuf {
        let key = haft_workspace::ContentHash::hash(path.as_os_str().as_encoded_bytes()).to_string();
        let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let key: String = key.chars().take(16).collect();
        self.dir.join(format!("{}-{key}.json", haft_process::file_name_of_id(&name)))
    }

    /// Writes a record atomically.
    pub(crate) fn write(&self, record: &WorktreeRecord) -> Result<(), String> {
        let written = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
            let bytes = serde_json::to_vec_pretty(record).map_err(std::io::Error::other)?;
            replace_file(
                &self.file(&record.path),
                &bytes,
                ModeOnReplace::KeptOr(0o600),
                Durability::ContentAndName,
            )
        };
        written().map_err(|err| format!("the worktree could not be written down: {err}"))
    }

    /// Locks a worktree path against other processes that create or remove it, until the file is
    /// dropped. Blocks.
    pub(crate) fn lock(&self, path: &Path) -> Result<File, String> {
        let lock = self.lock_file(path)?;
        lock.lock().map_err(|err| format!("the worktree could not be locked: {err}"))?;
        Ok(lock)
    }

    /// Like [`Self::lock`], without blocking; `None` if it is locked.
    pub(crate) fn try_lock(&self, path: &Path) -> Option<File> {
        let lock = self.lock_file(path).ok()?;
        lock.try_lock().ok().map(|()| lock)
    }

    fn lock_file(&self, path: &Path) -> Result<File, String> {
        let opened = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
            let file = self.file(path).with_extension("lock");
            File::options().write(true).create(true).truncate(false).mode(0o600).open(file)
        };
        opened().map_err(|err| format!("the worktree could not be locked: {err}"))
    }

    pub(crate) fn read(&self, path: &Path) -> Option<WorktreeRecord> {
        read(&self.file(path))
    }

    pub(crate) fn forget(&self, record: &WorktreeRecord) {
        std::fs::remove_file(self.file(&record.path)).ok();
    }

    /// All readable records.
    pub(crate) fn all(&self) -> Vec<WorktreeRecord> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut all: Vec<WorktreeRecord> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "json"))
            .filter_map(|path| read(&path))
            .collect();
        all.sort_by(|a, b| (a.made, &a.path).cmp(&(b.made, &b.path)));
        all
    }
}

fn read(file: &Path) -> Option<WorktreeRecord> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}
