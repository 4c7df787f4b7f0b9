//! A change that is shown in the person's editor beside the question about it.
//! Whoever answers first, there or at the face, decides; a tab that is closed, an
//! editor that is gone or says something else answers nothing.

use std::path::{Path, PathBuf};

use haft_mcp_client::WeakMcpManager;
use haft_tool_runtime::{PermissionAnswer, PermissionQuestion};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::proposed_content::{ProposedText, input_for, proposed_text};

/// Largest file that is shown, in bytes.
const LARGEST: u64 = 4 << 20;

/// The diffs of an editor.
#[derive(Clone)]
pub(crate) struct EditorDiffs {
    pub(crate) server: String,
    pub(crate) manager: WeakMcpManager,
}

/// A tab in the editor; it is closed when nobody needs it any more.
struct DiffTab<'a> {
    editor: &'a EditorDiffs,
    name: String,
}

impl Drop for DiffTab<'_> {
    fn drop(&mut self) {
        let Some(manager) = self.editor.manager.upgrade() else { return };
        let (server, name) = (self.editor.server.clone(), std::mem::take(&mut self.name));
        tokio::spawn(async move {
            let arguments = Map::from_iter([(String::from("tab_name"), Value::from(name))]);
            manager.call_for_user(&server, "close_tab", arguments, &CancellationToken::new()).await.ok();
        });
    }
}

impl EditorDiffs {
    /// What the person says to a change in their editor. Never returns where nothing
    /// is shown there, or nothing is said.
    pub(super) async fn answer(&self, question: &PermissionQuestion) -> PermissionAnswer {
        match self.shown(question).await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    async fn shown(&self, question: &PermissionQuestion) -> Option<PermissionAnswer> {
        let path = PathBuf::from(question.input["file_path"].as_str()?);
        if question.interaction.is_required() || !path.is_absolute() {
            return None;
        }
        let reading = path.clone();
        let there = tokio::task::spawn_blocking(move || current(&reading)).await.ok()??;
        let ProposedText::Whole(proposed) = proposed_text(&question.input, Some(&there))? else {
            return None;
        };
        let name = path.file_name()?.to_string_lossy();
        let tab = DiffTab { editor: self, name: format!("{name} (haft {})", question.call_id) };
        let arguments = json!({"old_file_path": path.to_string_lossy(), "new_file_path": path.to_string_lossy(), "new_file_contents": proposed,
            "tab_name": tab.name});
        let Value::Object(arguments) = arguments else { return None };
        let manager = self.manager.upgrade()?;
        let said =
            manager.call_for_user(&self.server, "openDiff", arguments, &CancellationToken::new()).await;
        let said = said.ok()?;
        let texts: Vec<&str> =
            said["content"].as_array()?.iter().filter_map(|it| it["text"].as_str()).collect();
        match texts.as_slice() {
            ["FILE_SAVED"] => Some(PermissionAnswer::allow()),
            ["FILE_SAVED", saved, ..] if *saved == proposed => Some(PermissionAnswer::allow()),
            ["FILE_SAVED", saved, ..] => {
                let input = input_for(&question.input, &there, saved);
                Some(PermissionAnswer::allow_with(input))
            }
            ["DIFF_REJECTED", ..] => {
                Some(PermissionAnswer::deny("the user looked at the change in their editor and rejected it"))
            }
            _ => None,
        }
    }
}

/// What a file holds, empty where there is none; nothing where it is no text or too
/// large.
fn current(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Some(String::new()),
        Ok(found) if found.is_file() && found.len() <= LARGEST => std::fs::read_to_string(path).ok(),
        _ => None,
    }
}
