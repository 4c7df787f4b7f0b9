//! File access for tools.
//!
//! [`Workspace`] reads and changes files, [`text::Text`] shows their content in any encoding,
//! [`ReadState`] remembers what was read, and [`Journal`] what was changed. [`SessionFiles`] combines
//! them for one session. All functions block; async callers use blocking threads.
//!
//! **Does not know** tools, rules, models, git or tasks. It takes resolved paths that the permission engine has approved.
//!
//! **Invariant:** the opened object is the checked object. No function follows a symlink, blocks on a pipe or opens a device.
//!
//! **Invariant:** a file has its old or its new content, never a mixture; a batch is carried out completely or not at all, even after a crash.
//!
//! **Invariant:** a file is changed only if it is byte for byte what the change was made for, and no byte outside the change is modified.
//!
//! **Invariant:** content replaced by our changes can be restored, and undo never overwrites changes of others.
//!
//! **Invariant:** memory is bounded by the request, not by the file size, except when a whole file is changed ([`MAX_EDITABLE`]).

mod background_sync;
mod cached_read;
mod commit;
mod content_hash;
mod error;
mod file_stat;
mod journal;
mod line_reader;
mod open_checked;
mod overlay;
mod patch;
mod path_locks;
mod pending_entries;
mod reads;
mod session_files;
mod snapshot;
pub mod text;
mod undo;
mod workspace;

pub use cached_read::{is_plain_file_at_hand, read_at_hand};
pub use commit::{CommitError, CommittedBatch, CommittedFile, PlannedWrite};
pub use content_hash::ContentHash;
pub use error::{FileError, FileKind};
pub use file_stat::FileStat;
pub use journal::{
    AttributeChange, Attributes, ChangeOrigin, EntryAttachments, EntryId, FileChange, FileObject, FileState,
    How, Journal, JournalEntry, JournalLimits, LinkedName, RetainedObject, TurnId, workspace_key,
};
pub use line_reader::{
    IsCancelled, LineEnd, LineQuery, Lines, lines_before, read_bytes, read_lines, skip_characters, tail_start,
};
pub use open_checked::{OpenFile, RewoundReader, hash_file};
pub use overlay::{BufferChange, BufferLookup, EditorOverlay, LoadedFile};
pub use patch::{Hunk, counts, exact_patch, patch, patch_of_splices, unified};
pub use reads::{
    ContextView, CurrentFile, EmptyContextView, FileEvent, Freshness, FullContextView, LineEdit, LineHash,
    LinesView, ReadBy, ReadState, SeenRecord, WholeFileSeen, count_lines, line_print,
};
pub use session_files::SessionFiles;
pub use snapshot::{FileSnapshot, MAX_EDITABLE};
pub use undo::{
    Conflict, EntryState, HistoryItem, PlannedChange, UndoError, UndoPlan, UndoPlanStep, UndoReport,
    UndoTarget,
};
pub use workspace::{LockedFiles, Workspace, WorkspaceConfig};
