//! Changes of a session, from the undo journal.

use std::path::Path;

use haft_workspace::{
    EntryState, FileChange, FileState, HistoryItem, Journal, JournalLimits, Workspace, WorkspaceConfig,
    counts, patch,
};

use crate::log_index::LogIndex;

/// Maximum number of changes listed; older ones are in `haft history`.
const MAX_CHANGES: usize = 200;

/// Maximum bytes of a file that is diffed.
const LARGEST: u64 = 512 << 10;

/// Maximum lines of a diff.
const MAX_LINES: usize = 600;

/// A change of one or more files.
#[derive(Debug)]
pub(crate) struct JournalChange {
    pub(crate) id: String,
    pub(crate) time: i64,
    pub(crate) tool: String,
    pub(crate) standing: &'static str,
    pub(crate) can_undo: bool,
    pub(crate) files: Vec<JournalledFile>,
}

/// A changed file.
#[derive(Debug)]
pub(crate) struct JournalledFile {
    pub(crate) path: String,
    pub(crate) what: &'static str,
    pub(crate) added: usize,
    pub(crate) removed: usize,
    pub(crate) lines: Vec<String>,
}

impl JournalChange {
    /// Returns the changes of a session, newest first.
    pub(crate) fn all(index: &LogIndex, state_dir: Option<&Path>) -> Vec<Self> {
        let Some(workspace) = state_dir.and_then(|dir| workspace(index, dir)) else { return Vec::new() };
        let (Ok(history), Ok(journal)) = (workspace.history(), workspace.journal()) else {
            return Vec::new();
        };
        let id = index.id();
        let mine = |it: &&HistoryItem| it.entry.origin.session.as_ref().is_some_and(|of| of.as_str() == id);
        history.iter().filter(mine).take(MAX_CHANGES).map(|it| Self::new(it, journal)).collect()
    }

    fn new(item: &HistoryItem, journal: &Journal) -> Self {
        let entry = &item.entry;
        Self {
            id: entry.id.to_string(),
            time: i64::try_from(entry.time).unwrap_or(0),
            tool: entry.origin.tool.clone(),
            standing: match item.standing {
                EntryState::InEffect => "in effect",
                EntryState::Undone => "taken back",
                EntryState::Undo => "an undo",
                EntryState::Redo => "brought back",
            },
            can_undo: item.standing == EntryState::InEffect,
            files: entry.changes.iter().take(100).map(|it| JournalledFile::new(it, journal)).collect(),
        }
    }
}

impl JournalledFile {
    fn new(change: &FileChange, journal: &Journal) -> Self {
        let what = match (&change.before, &change.after) {
            (FileState::Absent, _) => "made",
            (_, FileState::Absent) => "removed",
            _ => "changed",
        };
        let text = |state: &FileState| match state {
            FileState::Absent => Some(String::new()),
            FileState::File { hash, len, .. } if *len <= LARGEST => {
                String::from_utf8(journal.content(hash).ok()?).ok()
            }
            _ => None,
        };
        let hunks = match (text(&change.before), text(&change.after)) {
            (Some(before), Some(after)) => patch(&before, &after),
            _ => Vec::new(),
        };
        let (added, removed) = counts(&hunks);
        let lines = hunks.into_iter().flat_map(|it| it.lines).take(MAX_LINES).collect();
        Self { path: change.path.display().to_string(), what, added, removed, lines }
    }
}

/// Returns the session's workspace, if it has a journal.
pub(crate) fn workspace(index: &LogIndex, state_dir: &Path) -> Option<Workspace> {
    if index.cwd.is_empty() || !state_dir.join("journal").is_dir() {
        return None;
    }
    let root = Path::new(&index.cwd).canonicalize().ok()?;
    let config = WorkspaceConfig { state_dir: state_dir.to_owned(), root, limits: JournalLimits::default() };
    Workspace::open(config).ok()
}
