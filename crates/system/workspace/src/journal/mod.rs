//! The undo journal: what was changed by whom, and the previous content.
//!
//! Contents are stored under their hashes; a log lists the changes of each call. It does not use git and
//! does not touch the user's tree: undo uses the same safe writes as other changes.

mod attributes;
mod bulk_store;
mod content_store;
mod entry;
mod entry_log;
mod held_objects;
mod in_progress;
mod object;
pub(crate) mod path_serde;
mod prune;

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::AtomicU64,
    time::{SystemTime, UNIX_EPOCH},
};

pub use attributes::{AttributeChange, Attributes, EntryAttachments, LinkedName};
use content_store::ContentStore;
pub use entry::{ChangeOrigin, EntryId, FileChange, FileState, How, JournalEntry, TurnId};
use entry_log::EntryLog;
pub use held_objects::RetainedObject;
pub(crate) use in_progress::{InProgressChange, JournalPlan};
pub use object::FileObject;
pub use prune::JournalLimits;

use crate::{
    ContentHash, FileError, OpenFile, background_sync::SyncItem, commit::temporary_name,
    path_locks::private_dir,
};

/// The journal of one workspace.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    log: EntryLog,
    store: ContentStore,
    limits: JournalLimits,
    /// Bytes stored since the limits were last applied.
    added: AtomicU64,
}

impl Journal {
    /// Opens the journal of a workspace, `<state>/journal/<key>`.
    pub fn open(state_dir: &Path, workspace: &Path, limits: JournalLimits) -> Result<Self, FileError> {
        let dir = private_dir(&state_dir.join("journal").join(workspace_key(workspace)))?;
        private_dir(&dir.join("active"))?;
        private_dir(&dir.join("objects"))?;
        let log = EntryLog::new(dir.join("log.jsonl"));
        let store = ContentStore::new(dir.join("objects"));
        let journal = Self { dir, log, store, limits, added: AtomicU64::new(0) };
        journal.prune_if_due();
        Ok(journal)
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> Result<Vec<JournalEntry>, FileError> {
        self.log.entries()
    }

    /// Stores content, so that a change can refer to it.
    pub fn keep_bytes(&self, bytes: &[u8]) -> Result<ContentHash, FileError> {
        self.store.put(bytes)
    }

    /// Stores the content of an open file.
    pub fn keep_file(&self, file: &OpenFile) -> Result<FileState, FileError> {
        let hash = crate::snapshot::hash_open(file)?;
        self.store.sync(self.store.keep(file, hash)?)?;
        let stamp = file.stamp();
        Ok(FileState::File { hash, len: stamp.len, mode: stamp.permissions() })
    }

    /// Reads stored content.
    pub fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, FileError> {
        self.store.get(hash)
    }

    /// Reserves disk space for an entry of about `bytes`. Fails if there is no space, so the next change
    /// could not be recorded.
    pub fn reserve(&self, bytes: u64) -> Result<(), FileError> {
        self.log.reserve(bytes)
    }

    /// Records changes that another program made, such as a command. The caller must have stored the
    /// previous contents.
    pub fn record(&self, origin: &ChangeOrigin, changes: Vec<FileChange>) -> Result<JournalEntry, FileError> {
        self.record_as(origin, changes, Vec::new())
    }

    /// Like [`Self::record`], for an undo of such changes.
    pub(crate) fn record_as(
        &self,
        origin: &ChangeOrigin,
        changes: Vec<FileChange>,
        undoes: Vec<EntryId>,
    ) -> Result<JournalEntry, FileError> {
        let entry = JournalEntry { how: How::Observed, ..new_entry(origin.clone(), changes, undoes) };
        self.log.append(&entry)?;
        self.prune_if_grown(kept_by(&entry));
        Ok(entry)
    }

    /// Records a change that is about to be made. `unsynced` are stored contents that are not synced
    /// yet.
    pub(crate) fn begin(
        &self,
        plan: JournalPlan,
        unsynced: Vec<File>,
    ) -> Result<InProgressChange, FileError> {
        InProgressChange::begin(&self.active_dir(), plan, unsynced)
    }

    /// Marks the change as made; from now on it can be undone. The replaced contents and the entry must
    /// still be synced.
    pub(crate) fn finish(
        &self,
        mut active: InProgressChange,
    ) -> Result<(JournalEntry, Vec<SyncItem>), FileError> {
        let entry = active.entry().clone();
        // If the log cannot be written, the record of the change in progress stays, and the next process
        // completes it.
        let log = self.log.write(&entry)?;
        let unsynced = active.take_unsynced().into_iter().chain([log]).map(SyncItem::Content).collect();
        active.end();
        self.prune_if_grown(kept_by(&entry));
        Ok((entry, unsynced))
    }

    /// Removes the record of a change that was not made.
    pub(crate) fn abort(active: InProgressChange) {
        active.end();
    }

    fn active_dir(&self) -> PathBuf {
        self.dir.join("active")
    }

    pub(crate) fn log(&self) -> &EntryLog {
        &self.log
    }

    pub(crate) fn store(&self) -> &ContentStore {
        &self.store
    }
}

/// Bytes of content that an entry refers to.
fn kept_by(entry: &JournalEntry) -> u64 {
    let len = |state: &FileState| match state {
        FileState::File { len, .. } => *len,
        _ => 0,
    };
    entry.changes.iter().map(|change| len(&change.before)).sum()
}

pub(crate) fn new_entry(
    origin: ChangeOrigin,
    changes: Vec<FileChange>,
    undoes: Vec<EntryId>,
) -> JournalEntry {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let random = temporary_name();
    let id = EntryId::new(&random[random.len() - 8..]);
    JournalEntry { id, time, origin, undoes, how: How::Made, changes }
}

/// Directory name for a workspace: readable, made unique by a hash.
pub fn workspace_key(workspace: &Path) -> String {
    let bytes = workspace.as_os_str().as_encoded_bytes();
    let hash = ContentHash::hash(bytes).short();
    let name = workspace.file_name().unwrap_or_default().to_string_lossy();
    let name: String =
        name.chars().take(40).map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
    format!("{name}-{hash}")
}
