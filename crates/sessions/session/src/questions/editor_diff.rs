//! Shows a proposed file change as a diff in the user's editor while the permission question is open.
//! The first answer counts, from the editor or from the front end. A closed tab, a missing editor or an
//! unknown reply is not an answer.

use std::path::{Path, PathBuf};

use haft_mcp_client::WeakMcpManager;
use haft_tool_runtime::{PermissionAnswer, PermissionQuestion};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::proposed_content::{ProposedText, input_for, proposed_text};

/// Maximum size in bytes of a file shown as a diff.
const LARGEST: u64 = 4 << 20;

/// Opens diffs in the user's editor, an MCP server.
#[derive(Clone)]
pub(crate) struct EditorDiffs {
    pub(crate) server: String,
    pub(crate) manager: WeakMcpManager,
}

/// A tab in the editor. Dropping it closes the tab in a background task.
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
    /// The user's answer in the editor. Never returns if no diff can be shown or the user does not
    /// answer there.
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

/// The text of a file, empty if it does not exist. `None` if it is not text or larger than [`LARGEST`].
fn current(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Some(String::new()),
        Ok(found) if found.is_file() && found.len() <= LARGEST => std::fs::read_to_string(path).ok(),
        _ => None,
    }
}
