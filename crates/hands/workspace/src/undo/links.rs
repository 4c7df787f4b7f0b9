//! Hard links, put back with what they share.
//!
//! A name whose object is still the one it was is overwritten where it stands, so
//! that every other name of it, known or not, gets the old content as well. A
//! name that was torn off its object is linked to it again.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, linkat, renameat, unlinkat};

use super::{plan::state_of, restore::beside};
use crate::{
    EntryId, FileObject, FileState, Journal, LinkedName, MAX_EDITABLE, OpenFile,
    commit::{name_of_object, overwrite_at, temporary_name},
    open::{open_dir, split},
};

/// Which names are to be one file, and which object that was.
pub(super) struct WantedLinks {
    wanted: BTreeMap<PathBuf, Option<FileObject>>,
    /// What they are before anything is put back.
    now: HashMap<PathBuf, FileObject>,
    /// Where names are looked for that nobody wrote down.
    roots: Vec<PathBuf>,
}

impl WantedLinks {
    /// Looks up what belongs to some entries, newest first, and at the disk.
    pub(super) fn of(journal: &Journal, undone: &[EntryId], roots: Vec<PathBuf>) -> Self {
        // The oldest word about a name is the one that counts.
        let links = undone.iter().flat_map(|id| journal.beside(id).links);
        let wanted: BTreeMap<PathBuf, Option<FileObject>> =
            links.map(|LinkedName { path, before }| (path, before)).collect();
        let now = wanted.keys().filter_map(|path| Some((path.clone(), object(&metadata(path)?)))).collect();
        Self { wanted, now, roots }
    }

    /// What an undo of this undo needs to know.
    pub(super) fn for_redo(&self) -> Vec<LinkedName> {
        let before = |path: &PathBuf| self.now.get(path).copied();
        self.wanted.keys().map(|path| LinkedName { path: path.clone(), before: before(path) }).collect()
    }

    /// The object that a name was.
    fn wanted(&self, path: &Path) -> Option<FileObject> {
        self.wanted.get(path).copied().flatten()
    }

    /// Whether a file shares its object with names it did not share it with
    /// before: what is set on it would be set on those.
    pub(super) fn is_foreign(&self, path: &Path) -> bool {
        let found = metadata(path).filter(|it| 1 < it.nlink());
        found.is_some_and(|it| self.wanted.contains_key(path) && self.wanted(path) != Some(object(&it)))
    }

    /// Overwrites a file that is still the object it was and has other names.
    /// Nothing for any other.
    pub(super) fn overwrite(
        &self,
        journal: &Journal,
        path: &Path,
        wanted: &crate::ContentHash,
    ) -> Option<Result<(), String>> {
        let found = metadata(path).filter(|it| 1 < it.nlink())?;
        if self.wanted(path) != Some(object(&found)) || MAX_EDITABLE < found.len() {
            return None;
        }
        let put_back = || {
            let file = OpenFile::open(path)?;
            let here = file.read_all(MAX_EDITABLE)?;
            overwrite_at(&file, &here, &journal.content(wanted)?)
        };
        Some(put_back().map_err(|err| err.to_string()))
    }

    /// Makes a name the same file as another one it was the same file as, where
    /// that holds what is wanted. False if there is no such name.
    pub(super) fn link(&self, path: &Path, wanted: &FileState) -> bool {
        let Some(object) = self.wanted(path) else { return false };
        let others = self.wanted.iter().filter(|it| *it.1 == Some(object) && it.0 != path);
        let is_wanted = |other: &Path| state_of(other).is_ok_and(|it| it == *wanted);
        let mut others = others.map(|it| it.0.as_path()).filter(|other| is_wanted(other));
        if others.any(|other| same_file_again(other, path).is_ok()) {
            return true;
        }
        let found = name_of_object(path, object, &self.roots).filter(|other| is_wanted(other));
        found.is_some_and(|other| same_file_again(&other, path).is_ok())
    }
}

/// Gives the file `other` the name `path`, in one step.
fn same_file_again(other: &Path, path: &Path) -> Result<(), String> {
    let ids = (metadata(other).map(|it| object(&it)), metadata(path).map(|it| object(&it)));
    if ids.0.is_some() && ids.0 == ids.1 {
        return Ok(());
    }
    let (from, from_name) = split(other).map_err(|err| err.to_string())?;
    let from = open_dir(from).map_err(|err| err.to_string())?;
    let temp = temporary_name();
    beside(path, |dir, name| {
        linkat(&from, from_name, dir, &*temp, AtFlags::empty())?;
        renameat(dir, &*temp, dir, name).inspect_err(|_| {
            unlinkat(dir, &*temp, AtFlags::empty()).ok();
        })
    })
}

/// Of a regular file, not of what a link leads to.
fn metadata(path: &Path) -> Option<Metadata> {
    fs::symlink_metadata(path).ok().filter(Metadata::is_file)
}

fn object(meta: &Metadata) -> FileObject {
    (meta.dev(), meta.ino())
}
