use std::{fmt, path::PathBuf, sync::Arc};

use haft_types::{CallId, SessionId};
use serde::{Deserialize, Serialize};

use super::path_serde;
use crate::ContentHash;

/// Id of a journal entry, short enough to type.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct EntryId(Arc<str>);

impl EntryId {
    /// Creates an id from any text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Id of a turn: what the model did in response to one user prompt.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct TurnId(Arc<str>);

impl TurnId {
    /// Creates an id from any text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Origin of a change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ChangeOrigin {
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The turn of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The tool call.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
}

/// State of a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FileState {
    /// It does not exist.
    Absent,
    /// A regular file.
    File {
        /// Hash of its content.
        hash: ContentHash,
        len: u64,
        mode: u32,
    },
    /// A symlink.
    Symlink {
        /// Its target.
        #[serde(with = "path_serde")]
        target: PathBuf,
    },
    /// A directory.
    Directory { mode: u32 },
}

impl FileState {
    /// The hash of its content, if it is a file.
    pub fn hash(&self) -> Option<ContentHash> {
        match self {
            Self::File { hash, .. } => Some(*hash),
            _ => None,
        }
    }
}

/// Change of one path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FileChange {
    /// The path.
    #[serde(with = "path_serde")]
    pub path: PathBuf,
    /// State before.
    pub before: FileState,
    /// State after.
    pub after: FileState,
}

/// All changes of one call.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct JournalEntry {
    /// Id for `haft undo` and `haft diff`.
    pub id: EntryId,
    /// Time, in milliseconds since 1970.
    pub time: u64,
    /// Origin of the changes.
    #[serde(flatten)]
    pub origin: ChangeOrigin,
    /// The entries that this one undoes, if it is an undo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoes: Vec<EntryId>,
    /// Who made the changes.
    #[serde(default, skip_serializing_if = "How::is_made")]
    pub how: How,
    /// The changes, in order.
    pub changes: Vec<FileChange>,
}

/// Who made the changes of an entry.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A Haft tool, file by file.
    #[default]
    Made,
    /// Another program, such as a shell command; includes trees, symlinks and modes.
    Observed,
    /// A command that ran while nothing could be recorded: its changes are unknown.
    Unseen,
}

impl How {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks this way")]
    fn is_made(&self) -> bool {
        *self == Self::Made
    }
}
