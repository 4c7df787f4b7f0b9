//! Files back to what they were before a prompt: the journal knows.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use haft_types::CallId;
use haft_workspace::{
    Entry, FileState, HistoryItem, Journal, Origin, Standing, UndoTarget, Workspace, patch,
};
use serde_json::{Value, json};

use crate::wiring::Setup;

/// What is to be done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rewind {
    /// Say what would change.
    Look,
    /// Do it.
    Do,
}

/// Takes back what the calls since a prompt changed.
pub(super) fn rewind(setup: &Setup, log: Option<&Path>, prompt: &str, how: Rewind) -> Result<Value, String> {
    let calls =
        log.and_then(|log| calls_since(log, prompt)).ok_or("No file checkpoint found for this message.")?;
    let workspace = setup.workspace().map_err(|_| String::from("there is no record of changes"))?;
    let history = workspace.history().map_err(|err| err.to_string())?;
    let session = &setup.session_id;
    let is_ours = |item: &&HistoryItem| {
        let origin = &item.entry.origin;
        item.standing == Standing::InEffect
            && calls.contains(&origin.call)
            && origin.session.as_ref().is_none_or(|it| it == session)
    };
    let entries: Vec<&Entry> = history.iter().filter(is_ours).map(|item| &item.entry).collect();
    match how {
        Rewind::Look => Ok(preview(&workspace, &entries)),
        Rewind::Do => undo(&workspace, &entries, setup),
    }
}

/// Newest first, so that each finds what it left.
fn undo(workspace: &Workspace, entries: &[&Entry], setup: &Setup) -> Result<Value, String> {
    let origin = Origin {
        session: Some(setup.session_id.clone()),
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
    let mut answer = json!({"canRewind": true, "skippedLinks": 0});
    if !kept.is_empty() {
        answer["error"] = json!(format!("left as they are: {}", kept.join("; ")));
    }
    Ok(answer)
}

/// What would change: files, and lines that come and go.
fn preview(workspace: &Workspace, entries: &[&Entry]) -> Value {
    let mut wanted: Vec<(PathBuf, FileState)> = Vec::new();
    // Newest first: the oldest state of each path is the one that counts.
    for change in entries.iter().flat_map(|entry| entry.changes.iter().rev()) {
        match wanted.iter_mut().find(|(path, _)| *path == change.path) {
            Some((_, state)) => *state = change.before.clone(),
            None => wanted.push((change.path.clone(), change.before.clone())),
        }
    }
    wanted.sort_by(|a, b| a.0.cmp(&b.0));
    let journal = workspace.journal().ok();
    let (mut files, mut insertions, mut deletions) = (Vec::new(), 0, 0);
    for (path, state) in &wanted {
        let now = std::fs::read(path).map(|it| String::from_utf8_lossy(&it).into_owned()).unwrap_or_default();
        let then = journal.and_then(|journal| text(journal, state)).unwrap_or_default();
        if now == then && path.exists() == (*state != FileState::Absent) {
            continue;
        }
        files.push(path);
        for line in patch(&now, &then).iter().flat_map(|hunk| &hunk.lines) {
            insertions += usize::from(line.starts_with('+'));
            deletions += usize::from(line.starts_with('-'));
        }
    }
    json!({"canRewind": true, "filesChanged": files, "insertions": insertions, "deletions": deletions})
}

fn text(journal: &Journal, state: &FileState) -> Option<String> {
    let bytes = journal.content(&state.hash()?).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The calls a log holds after a prompt; nothing when it holds no such prompt.
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
