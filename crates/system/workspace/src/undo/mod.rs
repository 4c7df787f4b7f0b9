//! Taking changes back, and bringing them back again.
//!
//! Only what is still as the change left it is taken back. A file that somebody
//! has changed since is reported and stays.

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

/// What to take back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UndoTarget {
    /// The latest change that stands.
    Last,
    /// What one call changed.
    Call(CallId),
    /// One entry of the journal.
    Entry(EntryId),
    /// What one turn changed.
    Turn(TurnId),
    /// Everything from this turn on.
    SinceTurn(TurnId),
}

/// What an undo or redo did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UndoReport {
    /// The entry that records it; nothing when nothing was done.
    pub entry: Option<EntryId>,
    /// The entries that were taken back.
    pub undone: Vec<EntryId>,
    /// Paths that are as they were.
    pub restored: Vec<PathBuf>,
    /// Paths that were left alone, and why.
    pub conflicts: Vec<Conflict>,
    /// Paths whose content is as it was, but which no longer are one file with
    /// their other hard links: those could not be found any more.
    pub untied: Vec<PathBuf>,
    /// Commits that the commands made which were taken back. They stay: undo is
    /// about files.
    pub commits: Vec<String>,
}

/// What an undo would do.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UndoPlan {
    /// Paths that would change.
    pub steps: Vec<UndoPlanStep>,
    /// Paths that would be left alone, and why.
    pub conflicts: Vec<Conflict>,
}

/// One path that would change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UndoPlanStep {
    /// Where.
    pub path: PathBuf,
    /// How.
    pub what: PlannedChange,
}

/// How a path would change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PlannedChange {
    /// It is not there any more.
    Removed,
    /// It is there again.
    Made,
    /// It has its content of before.
    Restored,
}

impl PlannedChange {
    /// In one word, for a person.
    pub fn words(self) -> &'static str {
        match self {
            Self::Removed => "remove",
            Self::Made => "bring back",
            Self::Restored => "restore",
        }
    }
}

/// A path that was left alone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conflict {
    /// The path that was left as it is.
    pub path: PathBuf,
    /// Why it was left, for a person.
    pub reason: String,
}

/// Why nothing could be undone.
#[derive(Debug)]
pub enum UndoError {
    /// Nothing in the journal fits.
    NothingFound(String),
    /// There is no journal.
    NoJournal(String),
    /// The journal or a file could not be used.
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

    /// What was changed, newest first.
    pub fn history(&self) -> Result<Vec<HistoryItem>, UndoError> {
        Ok(history::history(self.require_journal()?.entries()?))
    }

    /// Takes changes back.
    pub fn undo(&self, target: &UndoTarget, origin: &ChangeOrigin) -> Result<UndoReport, UndoError> {
        let history = self.history()?;
        let entries = history::find(&history, target)?;
        restore::restore(self, &history, entries, origin)
    }

    /// What taking changes back would do now. Changes nothing.
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

    /// Brings back what the latest undo took.
    pub fn redo(&self, origin: &ChangeOrigin) -> Result<UndoReport, UndoError> {
        let history = self.history()?;
        let undo = history.iter().find(|item| item.standing == EntryState::Undo);
        let Some(undo) = undo else {
            return Err(UndoError::NothingFound("there is no undo to take back".to_owned()));
        };
        restore::restore(self, &history, vec![undo.entry.clone()], origin)
    }
}
