//! The one way to the file system: files as tools see them.
//!
//! [`Workspace`] reads and changes files, [`text::Text`] shows their content
//! whatever the encoding, [`ReadState`] remembers what was seen, [`Journal`]
//! what was changed. [`SessionFiles`] is all of it for one session. Everything here
//! blocks; callers with a runtime use its blocking threads.
//!
//! **Does not know** tools, rules, models, git or tasks. It takes resolved paths
//! that the permission engine has judged.
//!
//! **Invariant:** the object opened is the object checked. No function follows a
//! symbolic link, and none waits for a pipe or touches a device.
//!
//! **Invariant:** a file holds its old or its new content, never a part of
//! either, whatever happens; a batch is carried out as a whole or not at all.
//!
//! **Invariant:** nothing is changed that is not byte for byte what the change
//! was made for, and no byte outside of the change is touched.
//!
//! **Invariant:** what our changes replaced can be brought back, and taking a
//! change back never overwrites anybody else's.
//!
//! **Invariant:** memory is bounded by what is asked for, not by the size of the
//! file, except where a whole file is changed ([`MAX_EDITABLE`]).

mod at_hand;
mod commit;
mod error;
mod files;
mod hash;
mod journal;
mod later;
mod lines;
mod lock;
mod open;
mod overlay;
mod patch;
mod reads;
mod snapshot;
mod stamp;
pub mod text;
mod undo;
mod unrecorded;
mod workspace;

pub use at_hand::{is_plain_file_at_hand, read_at_hand};
pub use commit::{CommitError, CommittedBatch, CommittedFile, PlannedWrite};
pub use error::{FileError, FileKind};
pub use files::SessionFiles;
pub use hash::ContentHash;
pub use journal::{
    AttributeChange, Attributes, ChangeOrigin, EntryAttachments, EntryId, FileChange, FileObject, FileState,
    How, Journal, JournalEntry, JournalLimits, LinkedName, RetainedObject, TurnId, workspace_key,
};
pub use lines::{
    IsCancelled, LineEnd, LineQuery, Lines, lines_before, read_bytes, read_lines, skip_characters, tail_start,
};
pub use open::{OpenFile, RewoundReader, hash_file};
pub use overlay::{BufferChange, BufferLookup, EditorOverlay, LoadedFile};
pub use patch::{Hunk, counts, exact_patch, patch, patch_of_splices, unified};
pub use reads::{
    ContextView, CurrentFile, EmptyContextView, FileEvent, Freshness, FullContextView, LineEdit, LineHash,
    LinesView, ReadBy, ReadState, SeenRecord, WholeFileSeen, count_lines, line_print,
};
pub use snapshot::{FileSnapshot, MAX_EDITABLE};
pub use stamp::FileStat;
pub use undo::{
    Conflict, EntryState, HistoryItem, PlannedChange, UndoError, UndoPlan, UndoPlanStep, UndoReport,
    UndoTarget,
};
pub use workspace::{LockedFiles, Workspace, WorkspaceConfig};
