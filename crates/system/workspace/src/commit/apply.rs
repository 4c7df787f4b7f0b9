use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Advice, RenameFlags, fadvise, renameat, renameat_with},
    io::Errno,
};

use super::{
    CommitError, CommittedBatch, CommittedFile, FileSlot, PlannedWrite, WriteMethod,
    free_name::{lacks_flags, move_to_free_name},
    in_place::{open_for_writing, overwrite},
    parent_dirs::remove_created,
    plan_change::{LARGE, PlannedChange},
    slot::{SlotExchange, exchange, open_temp},
    stage::{StageError, StagedFile, link_open_file},
};
use crate::{
    ChangeOrigin, EntryAttachments, FileChange, FileError, FileSnapshot, FileState, Journal, LinkedName,
    MAX_EDITABLE, RetainedObject,
    background_sync::{BackgroundSync, SyncItem},
    journal::{EntryId, InProgressChange, JournalPlan, new_entry},
    open_checked::{open_dir, open_in},
    pending_entries::PendingEntries,
};

/// Context of a batch: the user's directories and where it is recorded.
pub(crate) struct CommitContext<'a> {
    pub(crate) roots: &'a [PathBuf],
    pub(crate) journal: Option<&'a Journal>,
    pub(crate) later: &'a BackgroundSync,
    pub(crate) origin: &'a ChangeOrigin,
    pub(crate) undoes: Vec<EntryId>,
    /// Collects entries that could not be recorded.
    pub(crate) unrecorded: &'a PendingEntries,
    /// Changes made beside the batch (symlinks, directories) that belong to the same entry.
    pub(crate) further: Vec<FileChange>,
}

/// Up to this many bytes the new content is stored too, so that the change can still be shown after
/// later ones. Undo does not need it.
const WORTH_SHOWING: usize = 1024 * 1024;

/// Carries out a batch completely or not at all. The caller holds the locks.
pub(crate) fn commit(
    changes: &[PlannedWrite<'_>],
    setting: &CommitContext<'_>,
) -> Result<CommittedBatch, CommitError> {
    let mut batch = CommitBatch::plan(changes, setting)?;
    let mut notes: Vec<String> = batch.planned.iter().filter_map(|it| it.note.clone()).collect();
    let mut record = CommitRecord { journal: setting.journal, active: None };
    if let Some(journal) = setting.journal {
        match batch.write_down(journal, setting) {
            Ok(active) => record.active = Some(active),
            Err(err) => notes.push(format!("this change cannot be undone: {}", err.reason())),
        }
    }
    if let Err(err) = batch.carry_out(&mut record) {
        tracing::warn!(files = changes.len(), error = ?err, "a change of files is taken back");
        remove_created(&batch.created);
        if let Some(active) = record.active {
            Journal::abort(active);
        }
        return Err(err);
    }
    batch.clean_up();
    let files = batch.planned.iter().zip(changes).map(committed_file).collect();
    let (mut entry, mut unsynced) = (None, batch.names());
    if let (Some(journal), Some(mut active)) = (record.journal, record.active) {
        active.note_modes(mode_of);
        match journal.finish(active) {
            Ok((done, contents)) => {
                entry = Some(done.id);
                unsynced.extend(contents);
            }
            Err(err) => notes.push(format!("this change is not in the undo log yet: {}", err.reason())),
        }
    } else {
        let (_, mut changes) = batch.recorded();
        changes.extend(setting.further.iter().cloned());
        setting.unrecorded.add(new_entry(setting.origin.clone(), changes, setting.undoes.clone()));
    }
    tracing::debug!(files = changes.len(), ?entry, "files changed");
    setting.later.sync(unsynced);
    batch.forget_replaced();
    Ok(CommittedBatch { entry, files, notes })
}

fn committed_file((planned, change): (&PlannedChange, &PlannedWrite<'_>)) -> CommittedFile {
    let len = change.content.as_ref().map_or(0, |content| content.len() as u64);
    CommittedFile { hash: planned.slots[0].after, len }
}

/// Record of the change in progress, if there is a journal.
struct CommitRecord<'a> {
    journal: Option<&'a Journal>,
    active: Option<InProgressChange>,
}

struct CommitBatch<'a> {
    changes: &'a [PlannedWrite<'a>],
    planned: Vec<PlannedChange>,
    created: Vec<PathBuf>,
}

impl<'a> CommitBatch<'a> {
    fn plan(changes: &'a [PlannedWrite<'a>], setting: &CommitContext<'_>) -> Result<Self, CommitError> {
        let mut batch = Self { changes, planned: Vec::new(), created: Vec::new() };
        for (index, change) in changes.iter().enumerate() {
            match PlannedChange::new(index, change, setting) {
                Ok(planned) => batch.planned.push(planned),
                Err(error) => return Err(CommitError { index, error }),
            }
        }
        Ok(batch)
    }

    /// The directories to create, outermost first, and the changes as journal entries list them.
    fn recorded(&self) -> (Vec<PathBuf>, Vec<FileChange>) {
        let mut created: Vec<PathBuf> = self.planned.iter().flat_map(PlannedChange::missing_dirs).collect();
        created.sort();
        created.dedup();
        let directory = |path: &PathBuf| {
            let after = FileState::Directory { mode: 0o755 };
            FileChange { path: path.clone(), before: FileState::Absent, after }
        };
        let mut changes: Vec<FileChange> = created.iter().map(directory).collect();
        changes
            .extend(self.changes.iter().zip(&self.planned).flat_map(|(change, it)| file_changes(change, it)));
        (created, changes)
    }

    /// Stores the old contents and records the planned change.
    fn write_down(
        &self,
        journal: &Journal,
        setting: &CommitContext<'_>,
    ) -> Result<InProgressChange, FileError> {
        let (created, mut changes) = self.recorded();
        let mut unsynced = Vec::new();
        for (change, planned) in self.changes.iter().zip(&self.planned) {
            if let (Some(old), Some(base)) = (&planned.old, change.base) {
                unsynced.extend(journal.store().keep(old, base.hash())?);
            }
            if let Some(content) = change.content.as_ref().filter(|content| content.len() < WORTH_SHOWING) {
                journal.store().put_soon(planned.slots[0].after, content)?;
            }
        }
        changes.extend(setting.further.iter().cloned());
        let entry = new_entry(setting.origin.clone(), changes, setting.undoes.clone());
        let slots = self.planned.iter().flat_map(|it| it.slots.clone()).collect();
        self.keep_links(journal, &entry.id);
        journal.begin(JournalPlan { entry, slots, created }, unsynced)
    }

    /// Keeps hard-linked objects accessible, so that undo can restore the links. Without it only
    /// contents are restored.
    fn keep_links(&self, journal: &Journal, entry: &EntryId) {
        let links: Vec<LinkedName> = self.planned.iter().flat_map(PlannedChange::linked_names).collect();
        if links.is_empty() {
            return;
        }
        for old in self.planned.iter().filter_map(|it| it.old.as_ref()).filter(|it| 1 < it.stamp().links) {
            if let Some(held) = old.object().and_then(|object| RetainedObject::open(old.path(), object)) {
                journal.retain_inode(&held);
            }
        }
        journal.record_beside(entry, &EntryAttachments { links, ..EntryAttachments::default() }).ok();
    }

    /// Stages all files, then moves them into place. On error everything is reverted.
    fn carry_out(&mut self, record: &mut CommitRecord<'_>) -> Result<(), CommitError> {
        let mut staged = Vec::new();
        for (index, (change, planned)) in self.changes.iter().zip(&mut self.planned).enumerate() {
            let made = planned.make_dirs(&mut self.created);
            match made.and_then(|()| stage(change, planned, record)) {
                Ok(one) => staged.push(one),
                Err(error) => {
                    discard(staged, &self.planned);
                    return Err(CommitError { index, error });
                }
            }
        }
        let mut done: Vec<(usize, usize)> = Vec::new();
        for index in self.order() {
            for at in 0..self.planned[index].slots.len() {
                let planned = &mut self.planned[index];
                match apply(&self.changes[index], planned, at, &mut staged[index], record) {
                    Ok(()) => done.push((index, at)),
                    Err(error) => {
                        self.take_back(&done);
                        discard(staged, &self.planned);
                        return Err(CommitError { index, error });
                    }
                }
            }
        }
        Ok(())
    }

    /// Changes that cannot be reverted atomically go last.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.planned.len()).collect();
        order.sort_by_key(|index| self.planned[*index].slots[0].way == WriteMethod::InPlace);
        order
    }

    /// Deletes the old objects.
    fn clean_up(&self) {
        for (planned, at) in self.planned.iter().flat_map(|it| (0..it.slots.len()).map(move |at| (it, at))) {
            match planned.dir(at) {
                Ok(dir) if planned.slots[at].way != WriteMethod::Create => planned.slots[at].forget_temp(dir),
                _ => (),
            }
        }
    }

    /// Evicts replaced large files from the page cache; they are only needed for undo.
    fn forget_replaced(&self) {
        for old in self.planned.iter().filter_map(|it| it.old.as_ref()) {
            if LARGE as u64 <= old.stamp().len {
                fadvise(old.file(), 0, None, Advice::DontNeed).ok();
            }
        }
    }

    /// Directories whose entries changed.
    fn names(&self) -> Vec<SyncItem> {
        let known = self.planned.iter().flat_map(PlannedChange::dirs).filter_map(|dir| dir.try_clone().ok());
        let parents = self.created.iter().filter_map(|path| open_dir(path.parent()?).ok());
        known.chain(parents).map(SyncItem::Names).collect()
    }

    fn take_back(&self, done: &[(usize, usize)]) {
        for (index, at) in done.iter().rev() {
            let (planned, slot) = (&self.planned[*index], &self.planned[*index].slots[*at]);
            match (slot.way, &planned.old, &planned.overwritten) {
                (WriteMethod::InPlace, Some(old), Some(bytes)) => {
                    let found = old.read_all(MAX_EDITABLE).unwrap_or_default();
                    super::overwrite_at(old, &found, bytes).ok();
                }
                (WriteMethod::Swap, Some(old), _) if slot.take_back().is_err() => {
                    slot.put_back(&mut old.from_start(), Some(old)).ok();
                }
                (WriteMethod::Swap, ..) => (),
                _ => drop(slot.take_back()),
            }
        }
    }
}

/// Permission bits of a new file or directory.
fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).map_or(0o755, |it| it.mode() & 0o7777)
}

/// One change for each name that gets the new content.
fn file_changes(change: &PlannedWrite<'_>, planned: &PlannedChange) -> Vec<FileChange> {
    let before = planned.before();
    let kept_mode = match &before {
        FileState::File { mode, .. } => Some(*mode),
        _ => None,
    };
    let after = match (&change.content, planned.slots[0].after) {
        (Some(content), Some(hash)) => FileState::File {
            hash,
            len: content.len() as u64,
            mode: change.mode.or(kept_mode).unwrap_or(0o644),
        },
        _ => FileState::Absent,
    };
    let change =
        |slot: &FileSlot| FileChange { path: slot.path(), before: before.clone(), after: after.clone() };
    planned.slots.iter().map(change).collect()
}

/// Writes the new content of one change to a temporary file.
fn stage(
    change: &PlannedWrite<'_>,
    planned: &mut PlannedChange,
    record: &mut CommitRecord<'_>,
) -> Result<Option<StagedFile>, FileError> {
    let Some(content) = &change.content else { return Ok(None) };
    if let Some(ahead) = planned.ahead.take() {
        return Ok(Some(ahead));
    }
    let temp = planned.slots[0].temp.clone();
    let Some(old) = &planned.old else {
        return StagedFile::create(planned.dir(0)?, &temp, &change.path, content, change.mode).map(Some);
    };
    match StagedFile::replace(planned.dir(0)?, &temp, old, content, change.mode) {
        Ok(staged) => Ok(Some(staged)),
        Err(StageError::Failed(err)) => Err(err),
        Err(StageError::CannotCopyAttributes) => {
            switch_to_in_place(change, planned, record)?;
            Ok(None)
        }
    }
}

fn discard(staged: Vec<Option<StagedFile>>, planned: &[PlannedChange]) {
    for (staged, planned) in staged.into_iter().zip(planned) {
        if let (Some(staged), Ok(dir)) = (staged, planned.dir(0)) {
            staged.discard(dir, &planned.slots[0].temp);
        }
        planned.slots.iter().filter(|slot| slot.way == WriteMethod::Swap).for_each(FileSlot::clean_up);
    }
}

/// Gives one name its new content.
fn apply(
    change: &PlannedWrite<'_>,
    planned: &mut PlannedChange,
    at: usize,
    staged: &mut Option<StagedFile>,
    record: &mut CommitRecord<'_>,
) -> Result<(), FileError> {
    // Switching to an in-place write drops the other names.
    let Some(slot) = planned.slots.get(at) else { return Ok(()) };
    let dir = planned.dir(at)?;
    let failed = |errno| FileError::from_errno(&slot.path(), "write", errno);
    match (slot.way, staged.as_mut()) {
        (WriteMethod::Create, Some(staged)) => {
            staged.link(dir, &slot.name, &slot.temp).map_err(|errno| match errno {
                Errno::EXIST => FileError::Changed { path: slot.path(), expected: None },
                errno => failed(errno),
            })
        }
        (WriteMethod::Swap, Some(staged)) => {
            match at {
                0 => staged.link(dir, slot.temp.as_ref(), &slot.temp).map_err(failed)?,
                _ => link_open_file(staged.file(), dir, slot.temp.as_ref()).map_err(failed)?,
            }
            match swap(dir, slot, change.base) {
                Err(err) if at == 0 && is_mount_point(&err) => {
                    slot.clean_up();
                    switch_to_in_place(change, planned, record)?;
                    write_in_place(change, planned)
                }
                other => other,
            }
        }
        (WriteMethod::Remove, _) => remove(dir, slot, change.base),
        (WriteMethod::InPlace, _) => write_in_place(change, planned),
        (WriteMethod::Create | WriteMethod::Swap, None) => Err(failed(Errno::INVAL)),
    }
}

fn is_mount_point(err: &FileError) -> bool {
    matches!(err, FileError::Io { source, .. } if Errno::from_io_error(source) == Some(Errno::BUSY))
}

/// Exchanges the files, then checks the old one. If it is not what the change was made for, exchanges
/// them back. The check directly before minimises the time in which others could see reverted content.
fn swap(dir: &OwnedFd, slot: &FileSlot, base: Option<&FileSnapshot>) -> Result<(), FileError> {
    let path = slot.path();
    let failed = |errno| FileError::from_errno(&path, "write", errno);
    let Some(base) = base else { return Err(failed(Errno::INVAL)) };
    let changed = || FileError::Changed { path: path.clone(), expected: Some(base.hash()) };
    let found = match open_in(dir, &slot.name, &path) {
        Ok(found) if base.is_probably_current(&found)? => found,
        Ok(_) | Err(FileError::NotFound { .. } | FileError::Moved { .. }) => return Err(changed()),
        Err(err) => return Err(err),
    };
    match exchange(dir, &slot.temp, &slot.name).map_err(failed)? {
        SlotExchange::Done => (),
        // Without an atomic exchange there is nothing to check afterwards, so the check before is
        // decisive.
        SlotExchange::Unsupported if !base.is_current(&found)? => return Err(changed()),
        SlotExchange::Unsupported => {
            return renameat(dir, &*slot.temp, dir, &slot.name).map_err(failed);
        }
    }
    if open_temp(dir, slot).and_then(|swapped_out| base.is_current(&swapped_out)).unwrap_or(false) {
        return Ok(());
    }
    slot.take_back()?;
    Err(changed())
}

fn remove(dir: &OwnedFd, slot: &FileSlot, base: Option<&FileSnapshot>) -> Result<(), FileError> {
    let failed = |errno| FileError::from_errno(&slot.path(), "remove", errno);
    let temp: &Path = slot.temp.as_ref();
    // No other process knows the temporary name: a plain rename replaces nothing.
    match renameat_with(dir, &slot.name, dir, temp, RenameFlags::NOREPLACE) {
        Err(errno) if lacks_flags(errno) => renameat(dir, &slot.name, dir, temp),
        other => other,
    }
    .map_err(failed)?;
    let moved_out = open_temp(dir, slot);
    let current = base.map(|base| moved_out.and_then(|file| base.is_current(&file)));
    if matches!(current, Some(Ok(true))) {
        return Ok(());
    }
    move_to_free_name(dir, temp, &slot.name).map_err(failed)?;
    Err(FileError::Changed { path: slot.path(), expected: base.map(FileSnapshot::hash) })
}

/// Switches to overwriting in place. Both contents must be stored before the first byte changes: an
/// interrupted write is completed from the store.
fn switch_to_in_place(
    change: &PlannedWrite<'_>,
    planned: &mut PlannedChange,
    record: &mut CommitRecord<'_>,
) -> Result<(), FileError> {
    planned.switch_to_in_place();
    if let (Some(journal), Some(active)) = (record.journal, &mut record.active) {
        if let Some(content) = &change.content {
            journal.store().put(&content.to_vec())?;
        }
        journal.store().sync(active.take_unsynced())?;
        active.set_in_place(planned.slots[0].change)?;
    }
    Ok(())
}

fn write_in_place(change: &PlannedWrite<'_>, planned: &mut PlannedChange) -> Result<(), FileError> {
    let (Some(old), Some(content), Some(base)) = (&planned.old, &change.content, change.base) else {
        return Err(FileError::from_errno(&change.path, "write", Errno::INVAL));
    };
    let writer = open_for_writing(planned.dir(0)?, &planned.slots[0].name, &change.path, old.stamp())?;
    let bytes = old.read_all(MAX_EDITABLE)?;
    if crate::ContentHash::hash(&bytes) != base.hash() {
        return Err(FileError::Changed { path: change.path.clone(), expected: Some(base.hash()) });
    }
    let done = overwrite(&writer, &change.path, &bytes, &content.to_vec());
    planned.overwritten = Some(bytes);
    done
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{ContentHash, OpenFile};

    /// Another process writes between the last check and the exchange.
    #[test]
    fn concurrent_change_before_exchange_survives() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::write(root.join("f"), "base").unwrap();
        let (base, _) = FileSnapshot::load(OpenFile::open(&root.join("f")).unwrap()).unwrap();
        fs::write(root.join("t"), "ours").unwrap();
        let slot = FileSlot {
            change: 0,
            dir: root.clone(),
            name: "f".into(),
            temp: "t".to_owned(),
            before: Some(base.hash()),
            after: Some(ContentHash::hash(b"ours")),
            way: WriteMethod::Swap,
        };
        let dir = open_dir(&root).unwrap();
        fs::write(root.join("f"), "edit").unwrap();
        assert!(swap(&dir, &slot, Some(&base)).unwrap_err().is_race());
        assert_eq!(fs::read(root.join("f")).unwrap(), b"edit");
        // The last check saw nothing: revert the exchange.
        exchange(&dir, "t", Path::new("f")).unwrap();
        slot.take_back().unwrap();
        assert_eq!(fs::read(root.join("f")).unwrap(), b"edit");
        // Again, with another writer after ours.
        fs::write(root.join("t"), "ours").unwrap();
        exchange(&dir, "t", Path::new("f")).unwrap();
        fs::write(root.join("f"), "later").unwrap();
        slot.take_back().unwrap();
        assert_eq!(fs::read(root.join("f")).unwrap(), b"later");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
    }
}
