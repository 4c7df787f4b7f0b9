//! What is written down about worktrees: one file each, in the person's own
//! state directory.

use std::{
    fs::{DirBuilder, File},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use haft_paths::{Durability, ModeOnReplace, replace_file};
use serde::{Deserialize, Serialize};

use crate::OwnerProcess;

/// A worktree, as it is written down.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorktreeRecord {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// The branch that was made for it; nothing for one that was there before.
    pub branch: Option<String>,
    /// The commit it begins at.
    pub base: String,
    /// The main checkout of its repository.
    pub top: PathBuf,
    /// Git's own directory of all worktrees.
    pub common_dir: PathBuf,
    /// Git's own directory of this one.
    pub admin_dir: PathBuf,
    /// What its file `.git` says. One that says something else was tampered with.
    pub link: String,
    /// Whether Haft made it: others are never removed.
    pub is_ours: bool,
    /// Whether somebody wants to keep it: then it is not cleared away.
    pub is_kept: bool,
    /// Whether a hook made it, which then also removes it.
    pub is_of_hook: bool,
    /// The session it was made for.
    pub session: String,
    /// Who works in it now.
    pub holder: Option<WorktreeUser>,
    /// The process that has it.
    pub owner: OwnerProcess,
    /// When it was made, in milliseconds since 1970.
    pub made: u64,
    /// Ignored files that were copied into it.
    pub included: Vec<IncludedFile>,
    /// How far it is.
    pub state: WorktreeState,
    /// Names under which its changes were kept.
    pub rescued: Vec<String>,
    /// The entry of the journal that brings it back.
    pub undo: Option<String>,
}

/// Who works in a worktree.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorktreeUser {
    /// The session.
    pub session: String,
    /// The agent of it.
    pub agent: String,
    /// Where that agent was before.
    pub came_from: PathBuf,
}

/// How far a worktree is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeState {
    /// Git was about to make it.
    #[default]
    Making,
    /// It is there.
    Ready,
    /// It was removed.
    Removed,
}

/// A file of a worktree, as it was at a moment.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct IncludedFile {
    /// Where, from the top.
    pub path: PathBuf,
    /// Its size.
    pub len: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub changed: i128,
}

impl WorktreeRecord {
    /// Whether the process that made it died before it was done.
    pub fn is_cut_off(&self) -> bool {
        self.state == WorktreeState::Making && !self.owner.is_alive()
    }

    /// Whether there is something at its place.
    pub fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }
}

/// Where worktrees are written down.
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

    /// Writes a worktree down, whole and at once.
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

    /// Waits until nobody else makes or clears away what is at a path, and keeps
    /// them away until the file is dropped.
    pub(crate) fn lock(&self, path: &Path) -> Result<File, String> {
        let lock = self.lock_file(path)?;
        lock.lock().map_err(|err| format!("the worktree could not be locked: {err}"))?;
        Ok(lock)
    }

    /// The same without waiting; nothing where somebody is at it.
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

    /// All that can be read.
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
