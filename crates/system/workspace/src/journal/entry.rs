use std::{fmt, path::PathBuf, sync::Arc};

use haft_types::{CallId, SessionId};
use serde::{Deserialize, Serialize};

use super::path_serde;
use crate::ContentHash;

/// Names one entry of the journal, in a form a person can type.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct EntryId(Arc<str>);

impl EntryId {
    /// Takes any text as an id.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One turn of a conversation: what the model did in answer to one line of the
/// person.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct TurnId(Arc<str>);

impl TurnId {
    /// Takes any text as an id.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// On whose behalf a change is made.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ChangeOrigin {
    /// The session in whose name the change was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The turn of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The tool call.
    pub call: CallId,
    /// The name of the tool that made the change.
    pub tool: String,
}

/// What is, or was, at a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FileState {
    /// The path does not exist.
    Absent,
    /// A regular file.
    File {
        /// What it holds.
        hash: ContentHash,
        /// Its size in bytes.
        len: u64,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        #[serde(with = "path_serde")]
        target: PathBuf,
    },
    /// A directory.
    Directory {
        /// Its permission bits.
        mode: u32,
    },
}

impl FileState {
    /// The content, where there is some.
    pub fn hash(&self) -> Option<ContentHash> {
        match self {
            Self::File { hash, .. } => Some(*hash),
            _ => None,
        }
    }
}

/// What happened to one path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FileChange {
    /// The path that changed.
    #[serde(with = "path_serde")]
    pub path: PathBuf,
    /// What was there.
    pub before: FileState,
    /// What is there now.
    pub after: FileState,
}

/// What one call changed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct JournalEntry {
    /// Names the entry in `haft undo` and `haft diff`.
    pub id: EntryId,
    /// When, in milliseconds since 1970.
    pub time: u64,
    /// On whose behalf.
    #[serde(flatten)]
    pub origin: ChangeOrigin,
    /// Which entries this one takes back, if it is an undo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoes: Vec<EntryId>,
    /// Who made the changes.
    #[serde(default, skip_serializing_if = "How::is_made")]
    pub how: How,
    /// The changes, in the order they were made.
    pub changes: Vec<FileChange>,
}

/// Who made the changes of an entry.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A tool of ours, file by file.
    #[default]
    Made,
    /// Something else, such as a command: trees, links and modes as well.
    Observed,
    /// A command that ran while nothing could be recorded: it is not known what it
    /// changed.
    Unseen,
}

impl How {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks this way")]
    fn is_made(&self) -> bool {
        *self == Self::Made
    }
}
