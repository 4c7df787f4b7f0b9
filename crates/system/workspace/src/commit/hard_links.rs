//! Hard links of changed files.
//!
//! Replacing a file by rename gives one name a new object and leaves its other names with the old one.
//! If all names are inside the workspace, all are moved to the new object, so the link persists. A name
//! outside keeps the old content: the user did not grant access to it, and package managers share files
//! of their store that way.

use std::{
    fs,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{FileObject, FileStat};

/// Maximum time to search for other names.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// What is known about the names of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum LinkNames {
    /// All other names; empty for an ordinary file.
    AllKnown(Vec<PathBuf>),
    /// This many other names are outside the workspace or were not found in time.
    Elsewhere(u64),
}

/// Finds the other names of the file at `path` below `roots`. `ours` of its links are in the journal.
pub(super) fn other_names(path: &Path, stamp: &FileStat, roots: &[PathBuf], ours: u64) -> LinkNames {
    let links = stamp.links.saturating_sub(ours);
    if links <= 1 {
        return LinkNames::AllKnown(Vec::new());
    }
    let mut search = LinkSearch {
        path,
        object: stamp.id,
        found: Vec::new(),
        deadline: Instant::now() + TIMEOUT,
        wanted: usize::try_from(links - 1).unwrap_or(usize::MAX),
    };
    // Siblings first: other names are usually there.
    if let Some(parent) = path.parent()
        && roots.iter().any(|root| path.starts_with(root))
    {
        search.directory(parent);
    }
    for root in roots {
        search.tree(root);
    }
    match search.wanted {
        0 => LinkNames::AllKnown(search.found),
        missing => LinkNames::Elsewhere(missing as u64),
    }
}

/// A name below `roots`, other than `path`, of a known object.
pub(crate) fn name_of_object(path: &Path, object: FileObject, roots: &[PathBuf]) -> Option<PathBuf> {
    let deadline = Instant::now() + TIMEOUT;
    let mut search = LinkSearch { path, object: object.id(), found: Vec::new(), deadline, wanted: 1 };
    if let Some(parent) = path.parent() {
        search.directory(parent);
    }
    for root in roots {
        search.tree(root);
    }
    let is_it = |found: &PathBuf| found.symlink_metadata().is_ok_and(|it| FileObject::of(&it).is(&object));
    search.found.pop().filter(is_it)
}

struct LinkSearch<'a> {
    path: &'a Path,
    object: (u64, u64),
    found: Vec<PathBuf>,
    wanted: usize,
    deadline: Instant,
}

impl LinkSearch<'_> {
    fn tree(&mut self, root: &Path) {
        let mut todo = vec![root.to_owned()];
        while let Some(dir) = todo.pop() {
            if self.wanted == 0 || self.deadline < Instant::now() {
                return;
            }
            // Hard links do not cross devices, so other mounts are skipped.
            match fs::symlink_metadata(&dir) {
                Ok(found) if found.is_dir() && found.dev() == self.object.0 => (),
                _ => continue,
            }
            todo.extend(self.directory(&dir));
        }
    }

    /// Searches one directory; returns its subdirectories.
    fn directory(&mut self, dir: &Path) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
        let mut below = Vec::new();
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                below.push(entry.path());
            } else if entry.ino() == self.object.1 && self.wanted != 0 {
                self.consider(entry.path());
            }
        }
        below
    }

    fn consider(&mut self, path: PathBuf) {
        let same = fs::symlink_metadata(&path).is_ok_and(|it| (it.dev(), it.ino()) == self.object);
        if same && path != self.path && !self.found.contains(&path) {
            self.found.push(path);
            self.wanted -= 1;
        }
    }
}
