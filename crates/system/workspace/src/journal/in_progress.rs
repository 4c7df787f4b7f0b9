//! Changes in progress.
//!
//! Before a change modifies the user's files, it is recorded in a file that its owner keeps locked. An
//! unlocked file belongs to a dead owner: the next process completes the change if it was complete
//! enough, or reverts it.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use haft_paths::{Durability, PendingFile};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{Journal, JournalEntry, content_store::read_dir, path_serde};
use crate::{
    FileError, FileState, OpenFile,
    commit::{FileSlot, SlotProgress, WriteMethod, remove_created, temporary_name, torn},
    path_locks::PathLocks,
};

/// Recorded plan of a change.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct JournalPlan {
    pub(crate) entry: JournalEntry,
    pub(crate) slots: Vec<FileSlot>,
    /// Directories created for it, outermost first.
    #[serde(with = "path_serde::list")]
    pub(crate) created: Vec<PathBuf>,
}

/// A change in progress, owned by this process.
#[derive(Debug)]
pub(crate) struct InProgressChange {
    path: PathBuf,
    plan: JournalPlan,
    /// Locked while the change is in progress.
    file: File,
    /// Saved contents that are not synced yet.
    unsynced: Vec<File>,
}

/// Writes and locks a record before it gets its name, so that no process takes it for abandoned.
fn write_locked(path: &Path, plan: &JournalPlan) -> Result<File, FileError> {
    let write = || {
        let text = serde_json::to_vec(plan)?;
        let mut unfinished = PendingFile::named(path.with_file_name(temporary_name()))?;
        flock(unfinished.file(), FlockOperation::NonBlockingLockExclusive)?;
        unfinished.file().write_all(&text)?;
        // A single rename is atomic and needs no repair after a power failure.
        let several = 1 < plan.slots.len() || plan.slots.iter().any(|slot| slot.way == WriteMethod::InPlace);
        let durability = if several { Durability::Content } else { Durability::Whenever };
        unfinished.take_place_of(path, durability)
    };
    write().map_err(|err| FileError::from_io(path, "write", err))
}

impl InProgressChange {
    pub(super) fn begin(dir: &Path, plan: JournalPlan, unsynced: Vec<File>) -> Result<Self, FileError> {
        let path = dir.join(plan.entry.id.as_str());
        let file = write_locked(&path, &plan)?;
        Ok(Self { path, plan, file, unsynced })
    }

    /// Saved contents that must be synced.
    pub(crate) fn take_unsynced(&mut self) -> Vec<File> {
        std::mem::take(&mut self.unsynced)
    }

    /// Records, before it happens, that a file will be overwritten in place unlike planned. Its other
    /// names stay unchanged.
    pub(crate) fn set_in_place(&mut self, change: usize) -> Result<(), FileError> {
        let mut seen = false;
        self.plan.slots.retain(|slot| slot.change != change || !std::mem::replace(&mut seen, true));
        for slot in self.plan.slots.iter_mut().filter(|slot| slot.change == change) {
            slot.way = WriteMethod::InPlace;
        }
        self.file = write_locked(&self.path, &self.plan)?;
        Ok(())
    }

    /// The entry for the log.
    pub(super) fn entry(&self) -> &JournalEntry {
        &self.plan.entry
    }

    /// Records the permissions of new files and directories, which depend on the umask and the
    /// directory.
    pub(crate) fn note_modes(&mut self, mode_of: impl Fn(&Path) -> u32) {
        for change in &mut self.plan.entry.changes {
            if let (FileState::Absent, FileState::File { mode, .. } | FileState::Directory { mode }) =
                (&change.before, &mut change.after)
            {
                *mode = mode_of(&change.path);
            }
        }
    }

    /// Ends the change (done or reverted): nothing needs repair.
    pub(super) fn end(self) {
        fs::remove_file(&self.path).ok();
        drop(self.file);
    }
}

impl Journal {
    /// Repairs changes of processes that died. Usually costs reading one empty directory.
    pub(crate) fn recover(&self, locks: &PathLocks) {
        for path in read_dir(&self.active_dir()) {
            let unnamed = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            if !unnamed {
                self.recover_one(&path, locks).unwrap_or(());
            }
        }
    }

    fn recover_one(&self, path: &Path, locks: &PathLocks) -> Option<()> {
        let file = File::open(path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        if file.metadata().ok()?.nlink() == 0 {
            return None;
        }
        let text = fs::read(path).ok()?;
        let Ok(plan) = serde_json::from_slice::<JournalPlan>(&text) else {
            // Truncated while being written: nothing had been modified yet.
            fs::remove_file(path).ok();
            return None;
        };
        let paths: Vec<PathBuf> = plan.slots.iter().map(FileSlot::path).collect();
        let refs: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let _guard = locks.acquire(&refs).ok()?;
        if self.settle(&plan) && !self.is_logged(&plan.entry) {
            self.log().append(&plan.entry).ok()?;
        }
        fs::remove_file(path).ok()
    }

    fn is_logged(&self, entry: &JournalEntry) -> bool {
        self.log().entries().is_ok_and(|entries| entries.iter().any(|it| it.id == entry.id))
    }

    /// Completes or reverts the change. Returns true if it is in effect.
    fn settle(&self, plan: &JournalPlan) -> bool {
        for slot in &plan.slots {
            if slot.way == WriteMethod::InPlace {
                self.complete_in_place(slot).ok();
            }
        }
        let progress: Vec<SlotProgress> = plan.slots.iter().map(FileSlot::progress).collect();
        let complete = progress.iter().all(|it| *it == SlotProgress::Done);
        if !complete {
            for (slot, progress) in plan.slots.iter().zip(progress).rev() {
                if progress == SlotProgress::Done {
                    if slot.take_back().is_err()
                        && let Some(old) = slot.before.and_then(|it| self.store().get(&it).ok())
                    {
                        slot.put_back(&mut old.as_slice(), None).ok();
                    }
                    self.restore_in_place(slot).ok();
                }
            }
        }
        plan.slots.iter().for_each(FileSlot::clean_up);
        if !complete {
            remove_created(&plan.created);
        }
        complete
    }

    /// Completes an interrupted overwrite.
    fn complete_in_place(&self, slot: &FileSlot) -> Result<(), FileError> {
        let (Some(before), Some(after)) = (slot.before, slot.after) else { return Ok(()) };
        let file = OpenFile::open(&slot.path())?;
        let found = file.read_all(crate::MAX_EDITABLE)?;
        let (old, new) = (self.store().get(&before)?, self.store().get(&after)?);
        if found != old && found != new && torn(&found, &old, &new) {
            crate::commit::overwrite_at(&file, &found, &new)?;
        }
        Ok(())
    }

    fn restore_in_place(&self, slot: &FileSlot) -> Result<(), FileError> {
        let (WriteMethod::InPlace, Some(before)) = (slot.way, slot.before) else { return Ok(()) };
        let file = OpenFile::open(&slot.path())?;
        let found = file.read_all(crate::MAX_EDITABLE)?;
        crate::commit::overwrite_at(&file, &found, &self.store().get(&before)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChangeOrigin, ContentHash, FileChange, JournalLimits, journal::new_entry};

    /// An overwrite was interrupted after `written` bytes, possibly followed by another writer.
    fn recovered(found: &[u8], old: &[u8], new: &[u8]) -> (Vec<u8>, usize) {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let journal = Journal::open(&root, &root, JournalLimits::default()).unwrap();
        let locks = PathLocks::open(&root).unwrap();
        let path = root.join("f");
        fs::write(&path, found).unwrap();
        let (before, after) = (journal.keep_bytes(old).unwrap(), journal.keep_bytes(new).unwrap());
        let state = |hash: ContentHash| FileState::File { hash, len: 0, mode: 0o644 };
        let changes = vec![FileChange { path: path.clone(), before: state(before), after: state(after) }];
        let origin = ChangeOrigin { session: None, turn: None, call: "c".into(), tool: "Edit".to_owned() };
        let slot = FileSlot {
            change: 0,
            dir: root.clone(),
            name: "f".into(),
            temp: "unused".to_owned(),
            before: Some(before),
            after: Some(after),
            way: WriteMethod::InPlace,
        };
        let entry = new_entry(origin, changes, Vec::new());
        let active =
            journal.begin(JournalPlan { entry, slots: vec![slot], created: Vec::new() }, Vec::new()).unwrap();
        journal.recover(&locks);
        assert_eq!(fs::read(&path).unwrap(), found, "a living owner is left alone");
        drop(active);
        journal.recover(&locks);
        assert_eq!(fs::read_dir(journal.active_dir()).unwrap().count(), 0);
        (fs::read(&path).unwrap(), journal.entries().unwrap().len())
    }

    #[test]
    fn interrupted_overwrite_is_completed() {
        let (old, new) = (&b"the old text, some bytes long"[..], &b"THE NEW TEXT IS QUITE A BIT LONGER"[..]);
        for (old, new) in [(old, new), (new, old), (old, &b"THE OLD TEXT, SOME BYTES LONG"[..])] {
            for written in 0..=new.len() {
                let rest = old.get(written..).unwrap_or_default();
                let found = [&new[..written], rest].concat();
                let (content, entries) = recovered(&found, old, new);
                let untouched = found == old;
                assert_eq!(content, if untouched { old } else { new }, "{written}");
                assert_eq!(entries, usize::from(!untouched), "{written}");
            }
        }
        let (content, entries) = recovered(b"somebody went on from there", old, new);
        assert_eq!((&content[..], entries), (&b"somebody went on from there"[..], 0));
    }
}
