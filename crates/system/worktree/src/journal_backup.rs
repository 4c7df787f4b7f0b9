//! Saves files in the undo journal before they are deleted.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use haft_workspace::{ChangeOrigin, FileChange, FileState, OpenFile, Workspace};

/// Maximum number of files saved.
const MAX_FILES: usize = 50_000;
/// Maximum bytes saved.
const MAX_BYTES: u64 = 512 << 20;

/// Files that are about to be deleted.
#[derive(Debug, Default)]
pub(crate) struct JournalBackup {
    files: Vec<PathBuf>,
    /// Parents before children.
    dirs: Vec<PathBuf>,
    bytes: u64,
}

impl JournalBackup {
    /// Everything at and below these paths; `None` if it exceeds the limits.
    pub(crate) fn below<'a>(places: impl IntoIterator<Item = &'a Path>) -> Option<Self> {
        let mut going = Self::default();
        let mut open: Vec<PathBuf> = places.into_iter().map(Path::to_owned).collect();
        while let Some(path) = open.pop() {
            let Ok(meta) = path.symlink_metadata() else { continue };
            if meta.is_dir() {
                let entries = fs::read_dir(&path).ok()?;
                open.extend(entries.flatten().map(|it| it.path()));
                going.dirs.push(path);
            } else {
                going.bytes += meta.len();
                going.files.push(path);
            }
            if going.is_too_much() {
                return None;
            }
        }
        Some(going)
    }

    /// Adds a directory that is removed once it is empty.
    pub(crate) fn with_emptied(mut self, dir: &Path) -> Self {
        let entries = fs::read_dir(dir).map_or(0, |it| it.flatten().count());
        if entries == 1 {
            self.dirs.insert(0, dir.to_owned());
        }
        self
    }

    /// Only these files; `None` if they exceed the limits.
    pub(crate) fn only(files: impl IntoIterator<Item = PathBuf>) -> Option<Self> {
        let files: Vec<PathBuf> = files.into_iter().collect();
        let len = |it: &PathBuf| it.symlink_metadata().map_or(0, |it| it.len());
        let going = Self { bytes: files.iter().map(len).sum(), files, dirs: Vec::new() };
        (!going.is_too_much()).then_some(going)
    }

    /// Adds their parent directories, starting at `top`.
    pub(crate) fn with_directories_from(mut self, top: &Path) -> Self {
        let above = self.files.iter().flat_map(|it| it.ancestors().skip(1)).filter(|it| it.starts_with(top));
        let mut dirs: Vec<PathBuf> = above.map(Path::to_owned).collect();
        dirs.sort();
        dirs.dedup();
        self.dirs.extend(dirs);
        self
    }

    fn is_too_much(&self) -> bool {
        MAX_FILES < self.files.len() + self.dirs.len() || MAX_BYTES < self.bytes
    }

    /// Saves the files and records their deletion. Returns the journal entry id for `haft undo`.
    pub(crate) fn keep(&self, workspace: &Workspace, origin: &ChangeOrigin) -> Result<String, String> {
        let journal = workspace.journal()?;
        let mut changes = Vec::new();
        let gone =
            |path: &Path, before| FileChange { path: path.to_owned(), before, after: FileState::Absent };
        for path in &self.files {
            let failed = |why: &dyn std::fmt::Display| format!("{} cannot be kept: {why}", path.display());
            let meta = path.symlink_metadata().map_err(|err| failed(&err))?;
            if meta.is_symlink() {
                let target = fs::read_link(path).map_err(|err| failed(&err))?;
                changes.push(gone(path, FileState::Symlink { target }));
            } else if meta.is_file() {
                let file = OpenFile::open(path).map_err(|err| failed(&err.reason()))?;
                let kept = journal.store_async(&file).map_err(|err| failed(&err.reason()))?;
                changes.push(gone(path, kept));
            }
        }
        for path in self.dirs.iter().rev() {
            let mode = path.metadata().map_or(0o755, |it| it.permissions().mode() & 0o7777);
            changes.push(gone(path, FileState::Directory { mode }));
        }
        let entry = journal.record(origin, changes).map_err(|err| err.reason())?;
        Ok(entry.id.to_string())
    }
}
