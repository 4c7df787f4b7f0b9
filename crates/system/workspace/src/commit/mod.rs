//! Changing files so that nothing is ever half done.
//!
//! New content is written beside the file, made durable, and then trades places
//! with it in one step. What was swapped out is compared with what the change
//! was made for: if another writer was quicker, the two are swapped back. A
//! batch is written down before its first step, so an error takes all of it
//! back, and so does the next process if this one dies.

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

/// A change of one file, as planned.
#[derive(Debug)]
pub struct PlannedWrite<'a> {
    /// The resolved path.
    pub path: PathBuf,
    /// What the change was made for; `None` when the file must not exist.
    pub base: Option<&'a FileSnapshot>,
    /// What the file is to hold; `None` to remove it.
    pub content: Option<Bytes<'a>>,
    /// Permission bits to set. `None` keeps those of the existing file and
    /// gives a new one the usual ones.
    pub mode: Option<u32>,
}

/// A batch that was carried out.
#[derive(Debug)]
pub struct CommittedBatch {
    /// Names the batch in the journal; without it, the change cannot be undone.
    pub entry: Option<EntryId>,
    /// What is now in each file, in the order of the changes.
    pub files: Vec<CommittedFile>,
    /// Things a person would want to know about how it was done.
    pub notes: Vec<String>,
}

/// A file after a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommittedFile {
    /// What it holds; `None` when it was removed.
    pub hash: Option<ContentHash>,
    /// Its size in bytes.
    pub len: u64,
}

/// A batch that was not carried out: no file is changed.
#[derive(Debug)]
pub struct CommitError {
    /// Which change could not be made.
    pub index: usize,
    /// What went wrong; nothing of the batch was kept.
    pub error: FileError,
}

impl std::fmt::Display for CommitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CommitError {}
