//! Atomic changes of files.
//!
//! New content is written to a temporary file, synced, and exchanged with the file in one step. The old
//! file is then compared with what the change was made for; if another writer was faster, the two are
//! exchanged back. A batch is recorded before its first step, so it is reverted completely on an error,
//! and by the next process after a crash.

mod apply;
mod free_name;
mod hard_links;
mod in_place;
mod parent_dirs;
mod plan_change;
mod slot;
mod stage;

use std::path::PathBuf;

pub(crate) use apply::{CommitContext, commit};
pub(crate) use hard_links::name_of_object;
pub(crate) use in_place::torn;
pub(crate) use parent_dirs::remove_created;
pub(crate) use plan_change::overwrite_at;
pub(crate) use slot::{FileSlot, SlotProgress, WriteMethod};
pub(crate) use stage::{copy_attributes, link_open_file, temporary_name};

use crate::{ContentHash, EntryId, FileError, FileSnapshot, text::Bytes};

/// A planned change of one file.
#[derive(Debug)]
pub struct PlannedWrite<'a> {
    /// Resolved path.
    pub path: PathBuf,
    /// What the change was made for; `None` if the file must not exist.
    pub base: Option<&'a FileSnapshot>,
    /// New content; `None` to delete the file.
    pub content: Option<Bytes<'a>>,
    /// Permission bits to set. `None` keeps those of the existing file, or the default for a new one.
    pub mode: Option<u32>,
}

/// A batch that was carried out.
#[derive(Debug)]
pub struct CommittedBatch {
    /// Journal entry; `None` if the change cannot be undone.
    pub entry: Option<EntryId>,
    /// New state of each file, in the order of the changes.
    pub files: Vec<CommittedFile>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A file after a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommittedFile {
    /// Hash of its content; `None` if it was deleted.
    pub hash: Option<ContentHash>,
    /// Size in bytes.
    pub len: u64,
}

/// A batch that was not carried out: no file is changed.
#[derive(Debug)]
pub struct CommitError {
    /// Index of the failed change.
    pub index: usize,
    /// The error.
    pub error: FileError,
}

impl std::fmt::Display for CommitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CommitError {}
