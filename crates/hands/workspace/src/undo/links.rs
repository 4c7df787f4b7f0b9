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

use super::{plan::state_of, restore::beside, tree::set_mode};
use crate::{
    ContentHash, FileObject, FileState, HeldObject, Journal, JournalEntry, LinkedName, MAX_EDITABLE,
    OpenFile,
    commit::{name_of_object, overwrite_at, temporary_name},
    open::{open_dir, split},
};

/// As many objects are held at once.
const MOST_HELD: usize = 256;

/// Which names are to be one file, and which object that was.
pub(super) struct WantedLinks<'a> {
    journal: &'a Journal,
    wanted: BTreeMap<PathBuf, LinkedName>,
    /// What they are before anything is put back.
    now: HashMap<PathBuf, FileObject>,
    /// Where names are looked for that nobody wrote down.
    roots: Vec<PathBuf>,
    /// What the entries found and left at these names.
    passed: Vec<FileState>,
}

impl<'a> WantedLinks<'a> {
    /// Looks up what belongs to some entries, newest first, and at the disk.
    pub(super) fn of(journal: &'a Journal, undone: &[JournalEntry], roots: Vec<PathBuf>) -> Self {
        // The oldest word about a name is the one that counts.
        let links = undone.iter().flat_map(|entry| journal.beside(&entry.id).links);
        let wanted: BTreeMap<PathBuf, LinkedName> = links.map(|it| (it.path.clone(), it)).collect();
        let now = wanted.keys().filter_map(|path| Some((path.clone(), object(&metadata(path)?)))).collect();
        let changes = undone.iter().flat_map(|entry| &entry.changes);
        let changes = changes.filter(|it| wanted.contains_key(&it.path));
        let passed = changes.flat_map(|it| [it.before.clone(), it.after.clone()]).collect();
        Self { journal, wanted, now, roots, passed }
    }

    /// What an undo of this undo needs to know.
    pub(super) fn for_redo(&self) -> Vec<LinkedName> {
        let name = |path: &PathBuf| {
            let before = self.now.get(path).copied();
            LinkedName { path: path.clone(), before, elsewhere: false }
        };
        self.wanted.keys().map(name).collect()
    }

    /// The object that a name was.
    fn wanted(&self, path: &Path) -> Option<FileObject> {
        self.wanted.get(path)?.before
    }

    /// Whether a file shares its object with names it did not share it with
    /// before: what is set on it would be set on those.
    pub(super) fn is_foreign(&self, path: &Path) -> bool {
        let found = metadata(path).filter(|it| 1 < it.nlink());
        found.is_some_and(|it| self.wanted.contains_key(path) && self.wanted(path) != Some(object(&it)))
    }

    /// Overwrites a file that is still the object it was and has other names.
    /// Nothing for any other.
    pub(super) fn overwrite(&self, path: &Path, wanted: &ContentHash) -> Option<Result<(), String>> {
        let found = metadata(path).filter(|it| it.is_file() && 1 < it.nlink())?;
        if self.wanted(path) != Some(object(&found)) || MAX_EDITABLE < found.len() {
            return None;
        }
        let put_back = || {
            let file = OpenFile::open(path)?;
            let here = file.read_all(MAX_EDITABLE)?;
            overwrite_at(&file, &here, &self.journal.content(wanted)?)
        };
        Some(put_back().map_err(|err| err.to_string()))
    }

    /// Makes a name the same file as another one it was the same file as, where
    /// that holds what is wanted. False if there is no such name.
    pub(super) fn link(&self, path: &Path, wanted: &FileState) -> bool {
        let Some(object) = self.wanted(path) else { return false };
        let others = self.wanted.iter().filter(|it| it.1.before == Some(object) && it.0 != path);
        let mut others = others.map(|it| it.0.clone());
        others.any(|other| self.tie(&other, path, wanted))
            || self.journal.kept_object(object).is_some_and(|other| self.tie(&other, path, wanted))
            || name_of_object(path, object, &self.roots).is_some_and(|other| self.tie(&other, path, wanted))
    }

    /// Makes a name the same file as another that holds what is wanted, or what the
    /// entries that are taken back found or left there.
    fn tie(&self, other: &Path, path: &Path, wanted: &FileState) -> bool {
        let Ok(found) = state_of(other) else { return false };
        if found == *wanted {
            return same_file_again(other, path).is_ok();
        }
        let (FileState::File { .. }, FileState::File { hash, mode, .. }) = (&found, wanted) else {
            return false;
        };
        self.passed.contains(&found)
            && metadata(other).map(|it| object(&it)) == self.wanted(path)
            && same_file_again(other, path).is_ok()
            && self.overwrite(path, hash).is_some_and(|it| it.is_ok())
            && set_mode(path, *mode).is_ok()
    }

    /// Whether a name that was put back shared its object with names nobody knows,
    /// and does not any more.
    pub(super) fn is_untied(&self, path: &Path) -> bool {
        let wanted = self.wanted.get(path).filter(|it| it.elsewhere).and_then(|it| it.before);
        wanted.is_some_and(|object| self::metadata(path).is_some_and(|it| self::object(&it) != object))
    }

    /// Holds what names stand for now, before anything is put back.
    pub(super) fn hold(&self) -> Vec<(PathBuf, HeldObject)> {
        let linked = self.now.iter().filter(|(path, _)| metadata(path).is_some_and(|it| 1 < it.nlink()));
        let held = linked.map(|(path, object)| Some((path.clone(), HeldObject::open(path, *object)?)));
        held.take(MOST_HELD).flatten().collect()
    }

    /// Keeps what names stood for that stand for something else now: an undo of
    /// this undo ties them to it again.
    pub(super) fn keep_torn(&self, held: &[(PathBuf, HeldObject)]) {
        for (path, held) in held {
            if metadata(path).map(|it| object(&it)) != Some(held.object()) {
                self.journal.keep_object(held);
            }
        }
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

/// Of a file or a symbolic link, not of what that leads to.
fn metadata(path: &Path) -> Option<Metadata> {
    fs::symlink_metadata(path).ok().filter(|it| it.is_file() || it.is_symlink())
}

fn object(meta: &Metadata) -> FileObject {
    (meta.dev(), meta.ino())
}
