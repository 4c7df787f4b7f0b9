//! Files as tools see them.

mod commit;
mod error;
mod hash;
mod journal;
mod lines;
mod lock;
mod open;
mod snapshot;
mod stamp;
pub mod text;
mod undo;
mod workspace;

pub use commit::{Change, CommitError, Committed, CommittedFile};
pub use error::{FileError, FileKind};
pub use hash::ContentHash;
pub use journal::{Entry, EntryId, FileChange, FileState, Journal, JournalLimits, Origin, TurnId};
pub use lines::{Cancelled, LineEnd, LineQuery, Lines, lines_before, read_bytes, read_lines, tail_start};
pub use open::{FromStart, OpenFile, hash_file};
pub use snapshot::{MAX_EDITABLE, Snapshot};
pub use stamp::Stamp;
pub use undo::{Conflict, HistoryItem, Standing, UndoError, UndoReport, UndoTarget};
pub use workspace::{Locked, Workspace, WorkspaceConfig};
