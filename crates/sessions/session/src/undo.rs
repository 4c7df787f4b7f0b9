//! Undo, redo and history of file changes made by tools, for commands and for remote callers.

use std::path::PathBuf;

use haft_workspace::{
    ChangeOrigin, Conflict, EntryId, EntryState, HistoryItem, TurnId, UndoReport, UndoTarget, Workspace,
};
use serde_json::{Value, json};

use crate::environment::SessionEnvironment;

/// Undoes the changes of a call, a journal entry or (with `turn`) the whole turn that `id` belongs to;
/// the latest change if `id` is `None`. Conflicting files are left as they are and listed in the report.
/// Blocks on file access.
pub fn undo_change(
    premises: &SessionEnvironment,
    id: Option<String>,
    turn: bool,
) -> Result<UndoReport, String> {
    let workspace = premises.workspace().map_err(|err| err.to_string())?;
    let target = match id {
        None => UndoTarget::Last,
        Some(id) if turn => UndoTarget::Turn(turn_of(&workspace, &id)?),
        Some(id) => target(&workspace, id)?,
    };
    workspace.undo(&target, &origin(premises, "undo")).map_err(|err| err.to_string())
}

/// Reapplies the changes of the latest undo. Blocks on file access.
pub fn redo_change(premises: &SessionEnvironment) -> Result<UndoReport, String> {
    let workspace = premises.workspace().map_err(|err| err.to_string())?;
    workspace.redo(&origin(premises, "redo")).map_err(|err| err.to_string())
}

/// Converts an undo report to JSON. Paths that are not UTF-8 are converted lossily.
pub fn undo_json(report: &UndoReport) -> Value {
    let texts = |paths: &[PathBuf]| -> Vec<String> {
        paths.iter().map(|it| it.to_string_lossy().into_owned()).collect()
    };
    let conflict = |it: &Conflict| json!({"path": it.path.to_string_lossy(), "reason": it.reason});
    let is_gone = |path: &&PathBuf| path.symlink_metadata().is_err();
    let removed: Vec<PathBuf> = report.restored.iter().filter(is_gone).cloned().collect();
    json!({
        "restored": texts(&report.restored),
        "removed": texts(&removed),
        "conflicts": report.conflicts.iter().map(conflict).collect::<Vec<_>>(),
        "untied": texts(&report.untied),
        "commits": report.commits,
    })
}

/// Returns the recorded changes as JSON, newest first.
pub fn history_json(premises: &SessionEnvironment) -> Result<Value, String> {
    let workspace = premises.workspace().map_err(|err| err.to_string())?;
    Ok(items(&workspace)?.iter().map(change_json).collect())
}

/// Converts one change to JSON.
pub fn change_json(item: &HistoryItem) -> Value {
    let mut json = serde_json::to_value(&item.entry).unwrap_or_default();
    json["standing"] = Value::from(entry_state_text(item.standing));
    json
}

/// Returns a text for the state of a change (applied, undone, …).
pub fn entry_state_text(standing: EntryState) -> &'static str {
    match standing {
        EntryState::InEffect => "in effect",
        EntryState::Undone => "undone",
        EntryState::Undo => "undo",
        EntryState::Redo => "redo",
    }
}

/// Returns the turn with this id, or the turn that the change or call with this id belongs to.
fn turn_of(workspace: &Workspace, id: &str) -> Result<TurnId, String> {
    let items = items(workspace)?;
    let origins = || items.iter().map(|item| (&item.entry.id, &item.entry.origin));
    let turns = || origins().filter_map(|(_, origin)| origin.turn.as_ref());
    if let Some(turn) = turns().find(|turn| turn.as_str() == id) {
        return Ok(turn.clone());
    }
    let named = origins().find(|(entry, origin)| entry.as_str() == id || &*origin.call == id);
    match named.map(|(_, origin)| origin.turn.clone()) {
        Some(Some(turn)) => Ok(turn),
        Some(None) => Err(format!("the change {id} belongs to no turn; undo it by itself")),
        None => Err(format!("no turn, change or call {id} is recorded; see `haft history`")),
    }
}

/// Interprets `id` as a journal entry if the journal contains it, otherwise as a call.
fn target(workspace: &Workspace, id: String) -> Result<UndoTarget, String> {
    let entry = EntryId::new(id.as_str());
    let known = items(workspace)?.iter().any(|item| item.entry.id == entry);
    Ok(if known { UndoTarget::Entry(entry) } else { UndoTarget::Call(id.into()) })
}

fn items(workspace: &Workspace) -> Result<Vec<HistoryItem>, String> {
    workspace.history().map_err(|err| err.to_string())
}

fn origin(premises: &SessionEnvironment, tool: &str) -> ChangeOrigin {
    ChangeOrigin {
        session: None,
        turn: None,
        call: premises.session_id.as_str().into(),
        tool: tool.to_owned(),
    }
}
