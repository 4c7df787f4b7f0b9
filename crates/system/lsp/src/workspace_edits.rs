//! Parses edits that servers propose. Nothing is written.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::Value;

use crate::{path_of, responses::kind_of};

/// Maximum number of changes; more are an error.
const MOST: usize = 20_000;

/// A text change, in the server's units.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TextChange {
    /// Start: line and column.
    pub start: (u32, u32),
    /// End: line and column.
    pub end: (u32, u32),
    /// Replacement text.
    pub new_text: String,
}

/// The changes of one file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileEdits {
    pub path: PathBuf,
    /// Changes in document order.
    pub changes: Vec<TextChange>,
}

/// A workspace edit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkspaceChange {
    pub files: Vec<FileEdits>,
    /// Descriptions of files to be created, renamed or deleted.
    pub moves: Vec<String>,
}

/// A code action.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeAction {
    pub title: String,
    /// `CodeActionKind`.
    pub kind: String,
    /// Whether the server marks it as preferred.
    pub preferred: bool,
    /// Its edit, if included.
    pub change: Option<WorkspaceChange>,
    /// Whether it needs a command that only the server can run.
    pub runs_command: bool,
    /// The action as received, to send back in follow-up requests.
    pub raw: Value,
}

/// Parses a workspace edit.
pub fn workspace_change(answer: &Value) -> Result<WorkspaceChange, String> {
    let mut files: BTreeMap<PathBuf, Vec<TextChange>> = BTreeMap::new();
    let mut moves = Vec::new();
    if answer.is_null() {
        return Ok(WorkspaceChange::default());
    }
    if !answer.is_object() {
        return Err(format!("{} instead of edits", kind_of(answer)));
    }
    if let Some(changes) = answer["documentChanges"].as_array() {
        for change in changes.iter().take(MOST) {
            match change["kind"].as_str() {
                Some(kind) => moves.push(moved(kind, change)),
                None => add(&mut files, change["textDocument"]["uri"].as_str(), &change["edits"])?,
            }
        }
    } else if let Some(changes) = answer["changes"].as_object() {
        for (uri, edits) in changes.iter().take(MOST) {
            add(&mut files, Some(uri), edits)?;
        }
    }
    let files = files.into_iter().map(|(path, mut changes)| {
        changes.sort_by_key(|it| it.start);
        FileEdits { path, changes }
    });
    Ok(WorkspaceChange { files: files.collect(), moves })
}

fn moved(kind: &str, change: &Value) -> String {
    let path = |name: &str| {
        let uri = change[name].as_str().unwrap_or_default();
        path_of(uri).map_or_else(|| haft_types::text::one_line(uri, 200), |it| it.display().to_string())
    };
    match kind {
        "create" => format!("create {}", path("uri")),
        "rename" => format!("rename {} to {}", path("oldUri"), path("newUri")),
        "delete" => format!("delete {}", path("uri")),
        other => haft_types::text::one_line(other, 100),
    }
}

fn add(
    files: &mut BTreeMap<PathBuf, Vec<TextChange>>,
    uri: Option<&str>,
    edits: &Value,
) -> Result<(), String> {
    let path = uri.and_then(path_of).ok_or("edits of no file")?;
    let edits = edits.as_array().ok_or("edits that are no list")?;
    let all = files.entry(path).or_default();
    for edit in edits {
        if MOST <= all.len() {
            return Err(format!("more than {MOST} edits of one file"));
        }
        let at = |end: &str| {
            let place = &edit["range"][end];
            let number = |name: &str| place[name].as_u64().map(|it| u32::try_from(it).unwrap_or(u32::MAX));
            Some((number("line")?, number("character")?))
        };
        let (Some(start), Some(end), Some(text)) = (at("start"), at("end"), edit["newText"].as_str()) else {
            return Err(String::from("an edit without a place or a text"));
        };
        all.push(TextChange { start, end, new_text: text.to_owned() });
    }
    Ok(())
}

/// Parses code actions; skips disabled ones.
pub fn code_actions(answer: &Value) -> Result<Vec<CodeAction>, String> {
    let all = match answer {
        Value::Null => return Ok(Vec::new()),
        Value::Array(all) => all,
        other => return Err(format!("{} instead of actions", kind_of(other))),
    };
    let usable = all.iter().take(500).filter(|it| it.get("disabled").is_none_or(Value::is_null));
    usable
        .map(|item| {
            let title = item["title"].as_str().ok_or("an action without a title")?;
            let change = item.get("edit").filter(|it| !it.is_null()).map(workspace_change).transpose()?;
            Ok(CodeAction {
                title: haft_types::text::one_line(title, 200),
                kind: item["kind"].as_str().unwrap_or_default().to_owned(),
                preferred: item["isPreferred"] == true,
                runs_command: change.is_none() && !item["command"].is_null(),
                change,
                raw: item.clone(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workspace_change_parses_all_edit_forms() {
        let edit = |line: u32| json!({"range": {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 1}}, "newText": "x"});
        let old = json!({"changes": {"file:///a": [edit(5), edit(1)]}});
        let got = workspace_change(&old).unwrap();
        assert_eq!(got.files[0].changes.iter().map(|it| it.start.0).collect::<Vec<_>>(), [1, 5]);
        let new = json!({"documentChanges": [
            {"textDocument": {"uri": "file:///a", "version": 1}, "edits": [edit(1)]},
            {"kind": "rename", "oldUri": "file:///a", "newUri": "file:///b"}]});
        let got = workspace_change(&new).unwrap();
        assert_eq!((got.files.len(), got.moves.as_slice()), (1, &[String::from("rename /a to /b")][..]));
        for (answer, want) in [
            (json!([]), "a list instead of edits"),
            (json!({"changes": {"x:y": []}}), "edits of no file"),
            (json!({"changes": {"file:///a": 3}}), "edits that are no list"),
            (json!({"changes": {"file:///a": [{}]}}), "an edit without a place or a text"),
        ] {
            assert_eq!(workspace_change(&answer).unwrap_err(), want);
        }
        let actions = json!([{"title": "A", "kind": "quickfix", "edit": old}, {"title": "B", "disabled": {"reason": "no"}},
            {"title": "C", "command": "c"}]);
        let got = code_actions(&actions).unwrap();
        assert_eq!(
            got.iter().map(|it| (it.title.as_str(), it.runs_command)).collect::<Vec<_>>(),
            [("A", false), ("C", true)]
        );
    }
}
