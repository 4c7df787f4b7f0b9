//! Hard links, put back with what they share.
//!
//! A name whose object is still the one it was is overwritten where it stands, so
//! that every other name of it, known or not, gets the old content as well. A
//! name that was torn off its object is linked to it again.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, linkat, renameat, unlinkat};

use super::{HistoryItem, plan_undo::state_of, restore::beside, tree_restore::set_mode};
use crate::{
    ContentHash, FileObject, FileState, Journal, JournalEntry, LinkedName, MAX_EDITABLE, OpenFile,
    RetainedObject,
    commit::{name_of_object, overwrite_at, temporary_name},
    open_checked::{open_dir, split},
};

/// As many objects are held at once.
const MAX_HELD: usize = 256;

/// Which names are to be one file, and which object that was.
pub(super) struct TargetLinks<'a> {
    journal: &'a Journal,
    history: &'a [HistoryItem],
    wanted: BTreeMap<PathBuf, LinkedName>,
    /// Names that some entry gave to another object.
    relinked: HashSet<PathBuf>,
    /// Names that the entries changed. The others only share an object with those.
    changed: HashSet<&'a Path>,
    /// What they are before anything is put back.
    now: HashMap<PathBuf, FileObject>,
    /// Objects that names had after the entries, and the ones that took their place when
    /// they were made again since.
    remade: Vec<(FileObject, FileObject)>,
    /// Where names are looked for that nobody wrote down.
    roots: Vec<PathBuf>,
    /// What the entries found and left at these names.
    passed: Vec<FileState>,
    /// Names that this restore has put back.
    placed: RefCell<HashSet<PathBuf>>,
    /// What was written into objects where they stand: their other names show it too.
    written: RefCell<Vec<(FileObject, ContentHash)>>,
}

impl<'a> TargetLinks<'a> {
    /// Looks up what belongs to some entries, newest first, and at the disk.
    pub(super) fn collect(
        journal: &'a Journal,
        history: &'a [HistoryItem],
        undone: &'a [JournalEntry],
        roots: Vec<PathBuf>,
    ) -> Self {
        let links: Vec<LinkedName> =
            undone.iter().flat_map(|entry| journal.beside(&entry.id).links).collect();
        let stays = |it: &LinkedName| matches!((it.before, it.after), (Some(a), Some(b)) if a.is(&b));
        let relinked = links.iter().filter(|it| !stays(it)).map(|it| it.path.clone()).collect();
        // The oldest record of a name is the one that counts.
        let wanted: BTreeMap<PathBuf, LinkedName> =
            links.iter().map(|it| (it.path.clone(), it.clone())).collect();
        let now = wanted.keys().filter_map(|path| Some((path.clone(), FileObject::of(&metadata(path)?))));
        let now: HashMap<PathBuf, FileObject> = now.collect();
        let changes = || undone.iter().flat_map(|entry| &entry.changes);
        let changed = changes().map(|it| it.path.as_path()).collect();
        let passed = changes().filter(|it| wanted.contains_key(&it.path));
        let passed = passed.flat_map(|it| [it.before.clone(), it.after.clone()]).collect();
        let (placed, written) = (RefCell::default(), RefCell::default());
        let remade = Vec::new();
        let mut found =
            Self { journal, history, wanted, relinked, changed, now, remade, roots, passed, placed, written };
        found.remade = found.remade(&links);
        found
    }

    /// What the newest of the entries left at a name, and what is there now because an undo
    /// or redo made it again. What somebody else put there stands for nothing.
    fn remade(&self, links: &[LinkedName]) -> Vec<(FileObject, FileObject)> {
        let mut seen = HashSet::new();
        let newest = links.iter().filter(|it| seen.insert(it.path.as_path()));
        let pairs = newest.filter_map(|it| {
            let (left, now) = (it.after?, *self.now.get(&it.path)?);
            let ours = || self.last_known(&it.path).is_some_and(|known| known.is(&now));
            (!left.is(&now) && ours()).then_some((left, now))
        });
        pairs.collect()
    }

    /// Whether an object is a wanted one, or was made again in its place.
    fn is_or_replaces(&self, object: &FileObject, wanted: &FileObject) -> bool {
        wanted.is(object) || self.remade_of(*wanted).any(|it| it.is(object))
    }

    /// What an undo of this undo needs to know. Call it when everything is put back.
    pub(super) fn for_redo(&self) -> Vec<LinkedName> {
        let name = |path: &PathBuf| {
            let before = self.now.get(path).copied();
            let after = metadata(path).map(|it| FileObject::of(&it));
            LinkedName { path: path.clone(), before, after, elsewhere: false }
        };
        self.wanted.keys().map(name).collect()
    }

    /// The object that a name was.
    fn wanted(&self, path: &Path) -> Option<FileObject> {
        self.wanted.get(path)?.before
    }

    /// Whether an object is the one that a name was, or the one that took its place
    /// when it was put back since.
    fn stands_for(&self, path: &Path, object: &FileObject) -> bool {
        let is_it = |known: Option<FileObject>| known.is_some_and(|it| it.is(object));
        self.wanted(path).is_some_and(|it| self.is_or_replaces(object, &it))
            || (!self.relinked.contains(path) && is_it(self.last_known(path)))
    }

    /// The object that a name stood for after the latest entry about it.
    fn last_known(&self, path: &Path) -> Option<FileObject> {
        let about = |item: &HistoryItem| {
            let links = self.journal.beside(&item.entry.id).links;
            let link = links.into_iter().find(|it| it.path == path);
            let is_changed = || item.entry.changes.iter().any(|it| it.path == path);
            if link.is_some() || is_changed() { Some(link.and_then(|it| it.after)) } else { None }
        };
        self.wanted.get(path)?;
        self.history.iter().find_map(about).flatten()
    }

    /// Whether a name is the object that it was.
    pub(super) fn is_the_same(&self, path: &Path) -> bool {
        self.is_wanted_at(path, path)
    }

    /// Whether a file shares its object with names it did not share it with
    /// before: what is set on it would be set on those.
    pub(super) fn is_foreign(&self, path: &Path) -> bool {
        let found = metadata(path).filter(|it| 1 < it.nlink());
        found.is_some_and(|it| self.wanted.contains_key(path) && !self.stands_for(path, &FileObject::of(&it)))
    }

    /// Overwrites a file that is still the object it was and has other names.
    /// Nothing for any other.
    pub(super) fn overwrite(&self, path: &Path, wanted: &ContentHash) -> Option<Result<(), String>> {
        let found = metadata(path).filter(|it| it.is_file() && 1 < it.nlink())?;
        let object = FileObject::of(&found);
        if !self.stands_for(path, &object) || MAX_EDITABLE < found.len() {
            return None;
        }
        let put_back = || {
            let file = OpenFile::open(path)?;
            let here = file.read_all(MAX_EDITABLE)?;
            overwrite_at(&file, &here, &self.journal.content(wanted)?)
        };
        self.written.borrow_mut().push((object, *wanted));
        Some(put_back().map_err(|err| err.to_string()))
    }

    /// Whether this restore wrote such content through another name of the file.
    pub(super) fn has_written(&self, path: &Path, content: Option<ContentHash>) -> bool {
        let found = metadata(path).map(|it| FileObject::of(&it));
        let written = self.written.borrow();
        written.iter().any(|(object, hash)| found == Some(*object) && content == Some(*hash))
    }

    /// Takes note of a name that was put back.
    pub(super) fn note_placed(&self, path: &Path) {
        self.placed.borrow_mut().insert(path.to_owned());
    }

    /// Makes a name the same file as another one it was the same file as, where
    /// that holds what is wanted. False if there is no such name.
    pub(super) fn link(&self, path: &Path, wanted: &FileState) -> bool {
        let Some(object) = self.wanted(path) else { return false };
        let tie = |other: PathBuf| self.tie(&other, path, wanted);
        let is_other = |it: &&LinkedName| it.path != path && it.before.is_some_and(|it| it.is(&object));
        let others: Vec<PathBuf> = self.wanted.values().filter(is_other).map(|it| it.path.clone()).collect();
        let (changed, kept): (Vec<PathBuf>, Vec<PathBuf>) =
            others.into_iter().partition(|it| self.changed.contains(it.as_path()));
        let (same, replaced): (Vec<PathBuf>, Vec<PathBuf>) =
            changed.into_iter().partition(|it| self.is_the_same(it));
        let is_placed = |it: &PathBuf| self.placed.borrow().contains(it);
        // Names that stay as they are decide, whatever object they are by now.
        kept.into_iter().any(tie)
            || same.into_iter().any(tie)
            || self.remade_of(object).any(|it| name_of_object(path, it, &self.roots).is_some_and(tie))
            || self.journal.kept_object(object).is_some_and(tie)
            || replaced.into_iter().filter(is_placed).any(tie)
            || name_of_object(path, object, &self.roots).is_some_and(tie)
    }

    /// The objects that were made again in the place of one. The names of the workspace
    /// belong to these, also while the journal still keeps the old one.
    fn remade_of(&self, wanted: FileObject) -> impl Iterator<Item = FileObject> {
        self.remade.iter().filter(move |(old, _)| old.is(&wanted)).map(|(_, new)| *new)
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
            && self.is_wanted_at(path, other)
            && same_file_again(other, path).is_ok()
            && self.overwrite(path, hash).is_some_and(|it| it.is_ok())
            && set_mode(path, *mode).is_ok()
    }

    /// Whether the name `other` is the object that the name `path` was.
    fn is_wanted_at(&self, path: &Path, other: &Path) -> bool {
        let found = metadata(other).map(|it| FileObject::of(&it));
        matches!((self.wanted(path), found), (Some(wanted), Some(found)) if self.is_or_replaces(&found, &wanted))
    }

    /// Whether a name that was put back shared its object with names nobody knows,
    /// and does not any more.
    pub(super) fn is_untied(&self, path: &Path) -> bool {
        self.wanted.get(path).is_some_and(|it| it.elsewhere)
            && metadata(path).is_some()
            && !self.is_the_same(path)
    }

    /// Holds what names stand for now, before anything is put back.
    pub(super) fn hold(&self) -> Vec<(PathBuf, RetainedObject)> {
        let linked = self.now.iter().filter(|(path, _)| metadata(path).is_some_and(|it| 1 < it.nlink()));
        let held = linked.map(|(path, object)| Some((path.clone(), RetainedObject::open(path, *object)?)));
        held.take(MAX_HELD).flatten().collect()
    }

    /// Keeps what names stood for that stand for something else now: an undo of
    /// this undo ties them to it again.
    pub(super) fn keep_torn(&self, held: &[(PathBuf, RetainedObject)]) {
        for (path, held) in held {
            if metadata(path).map(|it| FileObject::of(&it)) != Some(held.object()) {
                self.journal.keep_object(held);
            }
        }
    }
}

/// Gives the file `other` the name `path`, in one step.
fn same_file_again(other: &Path, path: &Path) -> Result<(), String> {
    let object = |path: &Path| metadata(path).map(|it| FileObject::of(&it));
    if object(other).is_some() && object(other) == object(path) {
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
