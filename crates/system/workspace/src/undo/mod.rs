//! Undo and redo.
//!
//! Only files that are still as the change left them are restored. A file that was changed since is
//! reported as a conflict and kept.

mod attributes;
mod hard_links;
mod history;
mod plan_undo;
mod restore;
mod tree_restore;

use std::{fmt, path::PathBuf};

use haft_types::CallId;

pub use history::{EntryState, HistoryItem};

use crate::{ChangeOrigin, EntryId, FileError, FileState, Journal, TurnId, Workspace};

/// What to undo.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UndoTarget {
    /// The latest change in effect.
    Last,
    /// The changes of one call.
    Call(CallId),
    /// One journal entry.
    Entry(EntryId),
    /// The changes of one turn.
    Turn(TurnId),
    /// All changes since the start of this turn.
    SinceTurn(TurnId),
}

/// Result of an undo or redo.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UndoReport {
    /// The journal entry of this undo; `None` if nothing was done.
    pub entry: Option<EntryId>,
    /// The undone entries.
    pub undone: Vec<EntryId>,
    /// Restored paths.
    pub restored: Vec<PathBuf>,
    /// Paths that were kept, with reasons.
    pub conflicts: Vec<Conflict>,
    /// Paths whose content was restored but not their hard links to other names, which could not be
    /// found.
    pub untied: Vec<PathBuf>,
    /// Commits made by the undone commands. They stay: undo affects only files.
    pub commits: Vec<String>,
}

/// Preview of an undo.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UndoPlan {
    /// Paths that would change.
    pub steps: Vec<UndoPlanStep>,
    /// Paths that would be kept, with reasons.
    pub conflicts: Vec<Conflict>,
}

/// One path that would change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UndoPlanStep {
    /// The path.
    pub path: PathBuf,
    /// The kind of change.
    pub what: PlannedChange,
}

/// How a path would change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PlannedChange {
    /// It would be deleted.
    Removed,
    /// It would be created again.
    Made,
    /// Its old content would be restored.
    Restored,
}

impl PlannedChange {
    /// One word for display.
    pub fn words(self) -> &'static str {
        match self {
            Self::Removed => "remove",
            Self::Made => "bring back",
            Self::Restored => "restore",
        }
    }
}

/// A path that was kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conflict {
    /// The path.
    pub path: PathBuf,
    /// The reason, for the user.
    pub reason: String,
}

/// Why nothing could be undone.
#[derive(Debug)]
pub enum UndoError {
    /// No matching journal entry.
    NothingFound(String),
    /// There is no journal; the reason.
    NoJournal(String),
    /// The journal or a file could not be accessed.
    File(FileError),
}

impl fmt::Display for UndoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingFound(what) => f.write_str(what),
            Self::NoJournal(reason) => write!(f, "there is no record of changes: {reason}"),
            Self::File(err) => err.fmt(f),
        }
    }
}

impl std::error::Error for UndoError {}

impl From<FileError> for UndoError {
    fn from(err: FileError) -> Self {
        Self::File(err)
    }
}

impl Workspace {
    fn require_journal(&self) -> Result<&Journal, UndoError> {
        self.journal().map_err(UndoError::NoJournal)
    }

    /// All changes with their states, newest first.
    pub fn history(&self) -> Result<Vec<HistoryItem>, UndoError> {
        Ok(history::history(self.require_journal()?.entries()?))
    }

    /// Undoes changes. Conflicting files are kept and reported.
    pub fn undo(&self, target: &UndoTarget, origin: &ChangeOrigin) -> Result<UndoReport, UndoError> {
        let history = self.history()?;
        let entries = history::find(&history, target)?;
        restore::restore(self, &history, entries, origin)
    }

    /// Preview of an undo. Read-only.
    pub fn undo_plan(&self, target: &UndoTarget) -> Result<UndoPlan, UndoError> {
        let history = self.history()?;
        let entries = history::find(&history, target)?;
        let mut conflicts = Vec::new();
        let steps = plan_undo::plan(&history, &entries, &mut conflicts)?;
        let steps = steps.into_iter().map(|step| UndoPlanStep {
            what: match (&step.current, &step.wanted) {
                (_, FileState::Absent) => PlannedChange::Removed,
                (FileState::Absent, _) => PlannedChange::Made,
                _ => PlannedChange::Restored,
            },
            path: step.path,
        });
        Ok(UndoPlan { steps: steps.collect(), conflicts })
    }

    /// Reverts the latest undo.
    pub fn redo(&self, origin: &ChangeOrigin) -> Result<UndoReport, UndoError> {
        let history = self.history()?;
        let undo = history.iter().find(|item| item.standing == EntryState::Undo);
        let Some(undo) = undo else {
            return Err(UndoError::NothingFound("there is no undo to take back".to_owned()));
        };
        restore::restore(self, &history, vec![undo.entry.clone()], origin)
    }
}
