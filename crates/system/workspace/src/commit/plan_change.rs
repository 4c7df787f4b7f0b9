use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, AtFlags, accessat};

use super::{
    CommitContext, FileSlot, PlannedWrite, WriteMethod,
    hard_links::{LinkNames, other_names},
    in_place::{open_for_writing, overwrite},
    parent_dirs::{missing, open_or_create},
    stage::{StagedFile, temporary_name},
};
use crate::{
    ContentHash, FileError, FileState, LinkedName, OpenFile,
    open_checked::{open_dir, open_in, split},
    text::Bytes,
};

/// A checked change and how it will be made.
pub(super) struct PlannedChange {
    /// The directory; `None` if it must be created.
    dir: Option<OwnedFd>,
    /// The existing file.
    pub(super) old: Option<OpenFile>,
    /// All names that get the new content; the requested one is first.
    pub(super) slots: Vec<FileSlot>,
    /// Directories of the other names, in the order of their slots.
    other_dirs: Vec<OwnedFd>,
    pub(super) note: Option<String>,
    /// Whether the file has names that are not among the slots.
    elsewhere: bool,
    /// Large new content that is already written.
    pub(super) ahead: Option<StagedFile>,
    /// Content that was overwritten in place.
    pub(super) overwritten: Option<Vec<u8>>,
}

/// From this many bytes on, content is written and hashed concurrently.
pub(super) const LARGE: usize = 4 * 1024 * 1024;

impl PlannedChange {
    /// Checks whether a change may be made. Modifies nothing.
    pub(super) fn new(
        index: usize,
        change: &PlannedWrite<'_>,
        setting: &CommitContext<'_>,
    ) -> Result<Self, FileError> {
        let (parent, name) = split(&change.path)?;
        let dir = found(open_dir(parent))?;
        let old = match &dir {
            Some(dir) => found(open_in(dir, name, &change.path))?,
            None => None,
        };
        check_base(change, old.as_ref())?;
        if let (Some(dir), Some(old)) = (&dir, &old) {
            check_writable(dir, name, old)?;
        }
        let way = match (&old, &change.content) {
            (None, _) => WriteMethod::Create,
            (Some(_), None) => WriteMethod::Remove,
            (Some(_), Some(_)) => WriteMethod::Swap,
        };
        let (ahead, after) = match (&dir, &old, &change.content) {
            (Some(dir), Some(old), Some(content)) if LARGE <= content.len() => {
                let (ahead, after) = StagedFile::ahead(dir, old, content, change.mode);
                (ahead, Some(after))
            }
            (_, _, content) => (None, content.as_ref().map(Bytes::hash)),
        };
        let slots = vec![slot(index, change, after, parent, name, way)];
        let other_dirs = Vec::new();
        let elsewhere = way == WriteMethod::Remove && old.as_ref().is_some_and(|it| 1 < it.stamp().links);
        let mut planned =
            Self { dir, old, slots, other_dirs, note: None, elsewhere, ahead, overwritten: None };
        if way == WriteMethod::Swap {
            planned.add_other_names(change, setting)?;
        }
        Ok(planned)
    }

    /// Directories to create, outermost first.
    pub(super) fn missing_dirs(&self) -> Vec<PathBuf> {
        match self.dir {
            Some(_) => Vec::new(),
            None => missing(&self.slots[0].dir),
        }
    }

    /// Creates the missing directories.
    pub(super) fn make_dirs(&mut self, created: &mut Vec<PathBuf>) -> Result<(), FileError> {
        if self.dir.is_none() {
            self.dir = Some(open_or_create(&self.slots[0].dir, created)?);
        }
        Ok(())
    }

    /// The open directory of a slot.
    pub(super) fn dir(&self, slot: usize) -> Result<&OwnedFd, FileError> {
        let dir = match slot.checked_sub(1) {
            None => self.dir.as_ref(),
            Some(other) => self.other_dirs.get(other),
        };
        dir.ok_or_else(|| FileError::NotFound { path: self.slots[0].dir.clone() })
    }

    /// All open directories.
    pub(super) fn dirs(&self) -> impl Iterator<Item = &OwnedFd> {
        self.dir.iter().chain(&self.other_dirs)
    }

    fn add_other_names(
        &mut self,
        change: &PlannedWrite<'_>,
        setting: &CommitContext<'_>,
    ) -> Result<(), FileError> {
        let Some(old) = &self.old else { return Ok(()) };
        let ours = match old.stamp().links {
            1 => 0,
            _ => setting.journal.map_or(0, |journal| journal.names_of_ours(old.stamp().id)),
        };
        match other_names(&change.path, old.stamp(), setting.roots, ours) {
            LinkNames::AllKnown(names) => {
                for path in names {
                    let (parent, name) = split(&path)?;
                    self.other_dirs.push(open_dir(parent)?);
                    let first = &self.slots[0];
                    let (dir, name) = (parent.to_owned(), name.to_owned());
                    self.slots.push(FileSlot { dir, name, temp: temporary_name(), ..first.clone() });
                }
            }
            LinkNames::Elsewhere(count) => {
                let names = if count == 1 { "another name" } else { "other names" };
                self.elsewhere = true;
                self.note = Some(format!(
                    "{} has {names} outside of the workspace ({count} hard linked); the old content stays there",
                    change.path.display()
                ));
            }
        }
        Ok(())
    }

    /// Switches to overwriting in place.
    pub(super) fn switch_to_in_place(&mut self) {
        self.slots.truncate(1);
        self.other_dirs.clear();
        for slot in &mut self.slots {
            slot.way = WriteMethod::InPlace;
        }
    }

    /// Link records for undo, for a file with several names.
    pub(super) fn linked_names(&self) -> Vec<LinkedName> {
        let Some(old) = self.old.as_ref().filter(|it| 1 < it.stamp().links) else { return Vec::new() };
        let (before, elsewhere) = (old.object(), self.elsewhere);
        let name = |slot: &FileSlot| LinkedName { path: slot.path(), before, after: None, elsewhere };
        self.slots.iter().map(name).collect()
    }

    /// State before the change.
    pub(super) fn before(&self) -> FileState {
        match (&self.old, self.slots.first().and_then(|slot| slot.before)) {
            (Some(old), Some(hash)) => {
                FileState::File { hash, len: old.stamp().len, mode: old.stamp().permissions() }
            }
            _ => FileState::Absent,
        }
    }
}

/// `None` for a file that does not exist.
fn found<T>(result: Result<T, FileError>) -> Result<Option<T>, FileError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(FileError::NotFound { .. }) => Ok(None),
        Err(err) => Err(err),
    }
}

fn slot(
    index: usize,
    change: &PlannedWrite<'_>,
    after: Option<ContentHash>,
    dir: &Path,
    name: &Path,
    way: WriteMethod,
) -> FileSlot {
    FileSlot {
        change: index,
        dir: dir.to_owned(),
        name: name.to_owned(),
        temp: temporary_name(),
        before: change.base.map(crate::FileSnapshot::hash),
        after,
        way,
    }
}

fn check_base(change: &PlannedWrite<'_>, found: Option<&OpenFile>) -> Result<(), FileError> {
    let current = match (change.base, found) {
        (None, None) => true,
        (Some(base), Some(found)) => base.is_untouched(found)?,
        (Some(_), None) | (None, Some(_)) => false,
    };
    if current {
        return Ok(());
    }
    Err(FileError::Changed {
        path: change.path.clone(),
        expected: change.base.map(crate::FileSnapshot::hash),
    })
}

/// A rename ignores the permissions of the replaced file; respect them like a careful editor.
fn check_writable(dir: &OwnedFd, name: &Path, old: &OpenFile) -> Result<(), FileError> {
    let path = old.path().to_owned();
    if old.stamp().is_read_only() {
        return Err(FileError::ReadOnly { path, mode: old.stamp().permissions() });
    }
    accessat(dir, name, Access::WRITE_OK, AtFlags::EACCESS)
        .map_err(|_| FileError::Denied { path, doing: "write" })
}

/// Overwrites an open file with other content, for repairs.
pub(crate) fn overwrite_at(file: &OpenFile, found: &[u8], wanted: &[u8]) -> Result<(), FileError> {
    let (parent, name) = split(file.path())?;
    let dir = open_dir(parent)?;
    let writer = open_for_writing(&dir, name, file.path(), file.stamp())?;
    overwrite(&writer, file.path(), found, wanted)
}
