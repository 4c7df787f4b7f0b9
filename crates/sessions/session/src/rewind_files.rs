//! Restores files to their state before a prompt, from the undo journal.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    time::Duration,
};

use haft_tool_host::{HostSet, protocol::HostCommand};
use haft_types::{CallId, SessionId};
use haft_workspace::{
    ChangeOrigin, EntryState, FileState, HistoryItem, Journal, JournalEntry, UndoTarget, Workspace, patch,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::environment::SessionEnvironment;

/// Maximum number of lines of the preview patch.
const MAX_SHOWN: usize = 2000;

/// Error for a message without a checkpoint.
const NO_CHECKPOINT: &str = "No file checkpoint found for this message.";

/// Time limit of a tool host.
const HOST_LIMIT: Duration = Duration::from_secs(60);

/// Result of a rewind.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindReport {
    /// Preview of a dry run.
    Preview {
        /// Files that would change.
        files: Vec<PathBuf>,
        /// Number of lines that would be added.
        insertions: usize,
        /// Number of lines that would be removed.
        deletions: usize,
        /// The patch, truncated to a maximum number of lines.
        patch: Vec<String>,
    },
    /// The files were restored, except these, with reasons.
    Done(Vec<String>),
}

impl RewindReport {
    /// Combines the results of two machines.
    fn and(self, more: Self) -> Self {
        match (self, more) {
            (
                Self::Preview { mut files, insertions, deletions, mut patch },
                Self::Preview { files: f, insertions: i, deletions: d, patch: p },
            ) => {
                files.extend(f);
                patch.extend(p);
                Self::Preview { files, insertions: insertions + i, deletions: deletions + d, patch }
            }
            (Self::Done(mut kept), Self::Done(more)) => {
                kept.extend(more);
                Self::Done(kept)
            }
            (first, _) => first,
        }
    }
}

/// Undoes the changes of all calls since a prompt, or with `dry_run` previews that.
pub(crate) fn rewind(
    premises: &SessionEnvironment,
    session: &SessionId,
    log: &Path,
    prompt: &str,
    dry_run: bool,
) -> Result<RewindReport, String> {
    let calls = calls_since(log, prompt).ok_or(NO_CHECKPOINT)?;
    rewind_calls(premises, session, &calls, dry_run)
}

/// Like [`rewind`], on tool hosts.
pub(crate) fn rewind_on_hosts(
    hosts: &HostSet,
    log: &Path,
    prompt: &str,
    dry_run: bool,
) -> Result<RewindReport, String> {
    let calls = calls_since(log, prompt).ok_or(NO_CHECKPOINT)?;
    let order = HostCommand::Rewind { calls: calls.into_iter().collect(), dry_run };
    let mut all: Option<RewindReport> = None;
    for (name, outcome) in hosts.order_and_wait(&order, HOST_LIMIT) {
        let report = outcome.and_then(|it| serde_json::from_value(it).map_err(|err| err.to_string()));
        let report: RewindReport = report.map_err(|why| format!("host {name}: {why}"))?;
        all = Some(match all {
            Some(before) => before.and(report),
            None => report,
        });
    }
    all.ok_or_else(|| String::from("there is no host"))
}

/// Undoes the changes of these calls on this machine, or with `dry_run` previews that.
pub fn rewind_calls(
    premises: &SessionEnvironment,
    session: &SessionId,
    calls: &HashSet<CallId>,
    dry_run: bool,
) -> Result<RewindReport, String> {
    let workspace = premises.workspace().map_err(|_| String::from("there is no record of changes"))?;
    let history = workspace.history().map_err(|err| err.to_string())?;
    let ids = [session, &premises.session_id];
    let is_ours = |item: &&HistoryItem| {
        let origin = &item.entry.origin;
        item.standing == EntryState::InEffect
            && calls.contains(&origin.call)
            && origin.session.as_ref().is_none_or(|it| ids.contains(&it))
    };
    let entries: Vec<&JournalEntry> = history.iter().filter(is_ours).map(|item| &item.entry).collect();
    if dry_run { Ok(preview(&workspace, &entries)) } else { undo(&workspace, &entries, session) }
}

/// Newest first, so that each undo finds the state it left.
fn undo(
    workspace: &Workspace,
    entries: &[&JournalEntry],
    session: &SessionId,
) -> Result<RewindReport, String> {
    let origin = ChangeOrigin {
        session: Some(session.clone()),
        turn: None,
        call: CallId::from("rewind_files"),
        tool: String::from("rewind_files"),
    };
    let mut kept = Vec::new();
    for entry in entries {
        let report = workspace.undo(&UndoTarget::Entry(entry.id.clone()), &origin);
        let report = report.map_err(|err| err.to_string())?;
        kept.extend(report.conflicts.iter().map(|it| format!("{}: {}", it.path.display(), it.reason)));
    }
    Ok(RewindReport::Done(kept))
}

/// Computes the preview.
fn preview(workspace: &Workspace, entries: &[&JournalEntry]) -> RewindReport {
    let mut wanted: Vec<(PathBuf, FileState)> = Vec::new();
    // Newest first: the oldest state of each path is restored.
    for change in entries.iter().flat_map(|entry| entry.changes.iter().rev()) {
        match wanted.iter_mut().find(|(path, _)| *path == change.path) {
            Some((_, state)) => *state = change.before.clone(),
            None => wanted.push((change.path.clone(), change.before.clone())),
        }
    }
    wanted.sort_by(|a, b| a.0.cmp(&b.0));
    let journal = workspace.journal().ok();
    let (mut files, mut insertions, mut deletions, mut shown) = (Vec::new(), 0, 0, Vec::new());
    for (path, state) in wanted {
        let now =
            std::fs::read(&path).map(|it| String::from_utf8_lossy(&it).into_owned()).unwrap_or_default();
        let then = journal.and_then(|journal| text(journal, &state)).unwrap_or_default();
        if now == then && path.exists() == (state != FileState::Absent) {
            continue;
        }
        let hunks = patch(&now, &then);
        if shown.len() < MAX_SHOWN {
            shown.push(path.display().to_string());
        }
        for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
            insertions += usize::from(line.starts_with('+'));
            deletions += usize::from(line.starts_with('-'));
            if shown.len() < MAX_SHOWN {
                shown.push(line.clone());
            }
        }
        files.push(path);
    }
    RewindReport::Preview { files, insertions, deletions, patch: shown }
}

fn text(journal: &Journal, state: &FileState) -> Option<String> {
    let bytes = journal.content(&state.hash()?).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The calls in a log after a prompt; `None` if the log does not contain the prompt.
fn calls_since(log: &Path, prompt: &str) -> Option<HashSet<CallId>> {
    let lines = BufReader::new(File::open(log).ok()?).lines();
    let mut found: Option<HashSet<CallId>> = None;
    for line in lines.map_while(Result::ok) {
        match &mut found {
            None => {
                let is_it = line.contains(prompt)
                    && serde_json::from_str::<Value>(&line)
                        .is_ok_and(|it| it["uuid"] == prompt && it["type"] == "user");
                found = is_it.then(HashSet::new);
            }
            Some(calls) if line.contains("tool_use") => {
                let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
                let blocks = line["message"]["content"].as_array().into_iter().flatten();
                let ids = blocks.filter(|it| it["type"] == "tool_use").filter_map(|it| it["id"].as_str());
                calls.extend(ids.map(CallId::from));
            }
            Some(_) => (),
        }
    }
    found
}
