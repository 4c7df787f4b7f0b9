use std::{path::PathBuf, sync::Arc};

use haft_tool::{
    AccessSet, CallContext, Content, ContextChange, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
    Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LeaveWorktree, Worktrees};

/// Leaves the worktree that EnterWorktree went into and goes back to where work was before. `keep`
/// leaves it as it is. `remove` takes it away, and is refused while it has changes or commits of its
/// own: commit and merge them, keep it, or ask the user whether they may go (`discard_changes`).
/// Whatever is removed is kept where the result says.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Whether it stays.
    pub action: LeaveAction,
    /// Give up changes and commits that are nowhere else. The user is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard_changes: Option<bool>,
}

/// What becomes of a worktree.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaveAction {
    /// It stays.
    Keep,
    /// It goes.
    Remove,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    action: LeaveAction,
    original_cwd: PathBuf,
    restored_cwd: PathBuf,
    worktree_path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    worktree_branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discarded_files: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discarded_commits: Option<usize>,
    message: String,
}

/// Leaves the session's worktree.
pub struct ExitWorktree {
    worktrees: Arc<dyn Worktrees>,
}

impl ExitWorktree {
    pub fn new(worktrees: Arc<dyn Worktrees>) -> Self {
        Self { worktrees }
    }
}

impl Input {
    fn discards(&self) -> bool {
        self.action == LeaveAction::Remove && self.discard_changes == Some(true)
    }
}

impl Tool for ExitWorktree {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "ExitWorktree";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(serde_json::json!({
            "type": "object",
            "properties": {"action": {"type": "string", "enum": ["keep", "remove"]}, "originalCwd": {"type": "string"}, "restoredCwd": {"type": "string"}, "worktreePath": {"type": "string"}, "worktreeBranch": {"type": "string"}, "discardedFiles": {"type": "integer"}, "discardedCommits": {"type": "integer"}, "message": {"type": "string"}},
            "required": ["action", "originalCwd", "worktreePath", "message"],
        }))
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "git worktree exit leave remove",
            exposure: Exposure::Deferred,
            ..Traits::default()
        }
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::Undeclared
    }

    /// Discarding changes always asks, because a model cannot consent to losing work.
    fn check_permissions(&self, input: &Input, _cx: &CallContext) -> Verdict {
        if input.discards() {
            Verdict::Insist(String::from(
                "removes a worktree with changes or commits that are nowhere else (they can be brought back with `haft worktrees`)",
            ))
        } else {
            Verdict::Allow
        }
    }

    fn describe(&self, input: &Input) -> String {
        String::from(match (input.action, input.discards()) {
            (LeaveAction::Keep, _) => "Leave the worktree and keep it",
            (LeaveAction::Remove, false) => "Leave the worktree and remove it",
            (LeaveAction::Remove, true) => "Leave the worktree and remove it with all changes in it",
        })
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let order = LeaveWorktree { action: input.action, discards: input.discards() };
        let left = self.worktrees.leave(order, cx).await.map_err(ToolError::failed)?;
        let what = if left.is_removed { "is removed" } else { "stays" };
        let mut message = format!(
            "The worktree {} {what}. Work goes on in {}.",
            left.path.display(),
            left.back_in.display()
        );
        for note in &left.notes {
            message.push('\n');
            message.push_str(note);
        }
        let gave_up = left.is_removed && order.discards;
        let output = Output {
            action: if left.is_removed { LeaveAction::Remove } else { LeaveAction::Keep },
            original_cwd: left.back_in.clone(),
            restored_cwd: left.back_in.clone(),
            worktree_path: left.path,
            worktree_branch: left.branch,
            discarded_files: gave_up.then_some(left.changed_files),
            discarded_commits: gave_up.then_some(left.commits),
            message,
        };
        Ok(Outcome::from(output).with_change(ContextChange::Cwd(left.back_in)))
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.message.clone())
    }
}
