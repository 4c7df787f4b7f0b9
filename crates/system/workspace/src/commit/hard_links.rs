//! The other names of a file.
//!
//! Replacing a file by renaming gives one name a new object and leaves the
//! other names with the old one. Where all names are inside the workspace, all
//! of them are moved to the new object, so the link stays. Where one is
//! outside, it keeps the old content: a file the user never showed us is not
//! ours to change, and package managers share files of their store that way.

use std::{
    fs,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{FileObject, FileStat};

/// How long to look for other names.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// What is known about the names of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum LinkNames {
    /// The names besides the one asked about; none for an ordinary file.
    AllKnown(Vec<PathBuf>),
    /// This many others are outside of the workspace, or were not found in time.
    Elsewhere(u64),
}

/// Finds the other names of the file at `path` in the given directory trees.
/// `ours` of them are the journal's.
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
    // Neighbours first: that is where the other name usually is.
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

/// A name in the given directory trees, other than `path`, of an object that is
/// known by its identity.
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
            // A hard link never leaves its device, so other mounts are skipped.
            match fs::symlink_metadata(&dir) {
                Ok(found) if found.is_dir() && found.dev() == self.object.0 => (),
                _ => continue,
            }
            todo.extend(self.directory(&dir));
        }
    }

    /// Looks through one directory and returns its subdirectories.
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
