//! Restores hard links.
//!
//! A file that is still the same object is overwritten in place, so that all its names, known or not,
//! get the old content. A name that was detached from its object is linked to it again.

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

/// Maximum number of objects held open.
const MAX_HELD: usize = 256;

/// Which names must become the same file, and which object that was.
pub(super) struct TargetLinks<'a> {
    journal: &'a Journal,
    history: &'a [HistoryItem],
    wanted: BTreeMap<PathBuf, LinkedName>,
    /// Names that some entry linked to another object.
    relinked: HashSet<PathBuf>,
    /// Names that the entries changed. The others only share an object with them.
    changed: HashSet<&'a Path>,
    /// Objects of the names before the undo.
    now: HashMap<PathBuf, FileObject>,
    /// Objects that names had after the entries, with the objects that replaced them when they were
    /// created again since.
    remade: Vec<(FileObject, FileObject)>,
    /// Directories searched for names that are not recorded.
    roots: Vec<PathBuf>,
    /// States that the entries found and left at these names.
    passed: Vec<FileState>,
    /// Names restored so far.
    placed: RefCell<HashSet<PathBuf>>,
    /// Content written in place; the object's other names show it too.
    written: RefCell<Vec<(FileObject, ContentHash)>>,
}

impl<'a> TargetLinks<'a> {
    /// Collects the link records of some entries, newest first, and reads the current state.
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
        // The oldest record of a name counts.
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

    /// Link records for a redo. Call after everything was restored.
    pub(super) fn for_redo(&self) -> Vec<LinkedName> {
        let name = |path: &PathBuf| {
            let before = self.now.get(path).copied();
            let after = metadata(path).map(|it| FileObject::of(&it));
            LinkedName { path: path.clone(), before, after, elsewhere: false }
        };
        self.wanted.keys().map(name).collect()
    }

    /// The object that the name was.
    fn wanted(&self, path: &Path) -> Option<FileObject> {
        self.wanted.get(path)?.before
    }

    /// Whether an object is the one that a name was, or the one that replaced it when it was restored.
    fn stands_for(&self, path: &Path, object: &FileObject) -> bool {
        let is_it = |known: Option<FileObject>| known.is_some_and(|it| it.is(object));
        self.wanted(path).is_some_and(|it| self.is_or_replaces(object, &it))
            || (!self.relinked.contains(path) && is_it(self.last_known(path)))
    }

    /// The object of a name after the latest entry about it.
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

    /// Whether the name is still the recorded object.
    pub(super) fn is_the_same(&self, path: &Path) -> bool {
        self.is_wanted_at(path, path)
    }

    /// Whether a file shares its object with names it did not share before; attributes set on it would
    /// affect those.
    pub(super) fn is_foreign(&self, path: &Path) -> bool {
        let found = metadata(path).filter(|it| 1 < it.nlink());
        found.is_some_and(|it| self.wanted.contains_key(path) && !self.stands_for(path, &FileObject::of(&it)))
    }

    /// Overwrites in place a file that is still the recorded object and has other names. `None` for any
    /// other file.
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

    /// Whether this undo wrote the content through another name of the file.
    pub(super) fn has_written(&self, path: &Path, content: Option<ContentHash>) -> bool {
        let found = metadata(path).map(|it| FileObject::of(&it));
        let written = self.written.borrow();
        written.iter().any(|(object, hash)| found == Some(*object) && content == Some(*hash))
    }

    /// Records that a name was restored.
    pub(super) fn note_placed(&self, path: &Path) {
        self.placed.borrow_mut().insert(path.to_owned());
    }

    /// Links a name to another name of its recorded object that has the wanted content. False if there
    /// is none.
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
        // Names that the entries did not change take precedence, whatever object they are now.
        kept.into_iter().any(tie)
            || same.into_iter().any(tie)
            || self.remade_of(object).any(|it| name_of_object(path, it, &self.roots).is_some_and(tie))
            || self.journal.kept_object(object).is_some_and(tie)
            || replaced.into_iter().filter(is_placed).any(tie)
            || name_of_object(path, object, &self.roots).is_some_and(tie)
    }

    /// Returns the objects that replaced one. Names in the workspace belong to these, even while the
    /// journal still stores the old one.
    fn remade_of(&self, wanted: FileObject) -> impl Iterator<Item = FileObject> {
        self.remade.iter().filter(move |(old, _)| old.is(&wanted)).map(|(_, new)| *new)
    }

    /// Links `path` to `other` if that has the wanted content or content that the undone entries found
    /// or left there.
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

    /// Whether `other` is the object that `path` was.
    fn is_wanted_at(&self, path: &Path, other: &Path) -> bool {
        let found = metadata(other).map(|it| FileObject::of(&it));
        matches!((self.wanted(path), found), (Some(wanted), Some(found)) if self.is_or_replaces(&found, &wanted))
    }

    /// Whether a restored name was linked to unknown names and no longer is.
    pub(super) fn is_untied(&self, path: &Path) -> bool {
        self.wanted.get(path).is_some_and(|it| it.elsewhere)
            && metadata(path).is_some()
            && !self.is_the_same(path)
    }

    /// Holds the current objects of the names open, before anything is restored.
    pub(super) fn hold(&self) -> Vec<(PathBuf, RetainedObject)> {
        let linked = self.now.iter().filter(|(path, _)| metadata(path).is_some_and(|it| 1 < it.nlink()));
        let held = linked.map(|(path, object)| Some((path.clone(), RetainedObject::open(path, *object)?)));
        held.take(MAX_HELD).flatten().collect()
    }

    /// Keeps objects whose names changed, so that undoing this undo can link them again.
    pub(super) fn keep_torn(&self, held: &[(PathBuf, RetainedObject)]) {
        for (path, held) in held {
            if metadata(path).map(|it| FileObject::of(&it)) != Some(held.object()) {
                self.journal.retain_inode(held);
            }
        }
    }
}

/// Links `path` to the file `other`, atomically replacing it.
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

/// Metadata of the file or symlink itself.
fn metadata(path: &Path) -> Option<Metadata> {
    fs::symlink_metadata(path).ok().filter(|it| it.is_file() || it.is_symlink())
}
