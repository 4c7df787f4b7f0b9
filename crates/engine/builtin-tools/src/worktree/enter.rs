use std::{path::PathBuf, sync::Arc};

use haft_tool::{
    AccessSet, CallContext, Content, ContextChange, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
    Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{WorktreeTarget, Worktrees};

/// Makes a git worktree with a branch of its own below `.claude/worktrees`, and goes on working
/// there. It begins at the commit you are on; changes that are not committed are not in it, and the
/// result names them. Use it only when the user wants a worktree, or when work has to be kept apart.
/// ExitWorktree leaves it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What it is called: letters, digits, `.`, `_`, `-` and `/`; made up when not given. One that is
    /// left from before is gone on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A worktree of this repository that is there already, instead of a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    worktree_path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    worktree_branch: Option<String>,
    message: String,
}

/// Moves the session into a worktree.
pub struct EnterWorktree {
    worktrees: Arc<dyn Worktrees>,
}

impl EnterWorktree {
    pub fn new(worktrees: Arc<dyn Worktrees>) -> Self {
        Self { worktrees }
    }
}

/// Whether the name is valid as a directory and as a branch.
pub(super) fn is_worktree_name(name: &str) -> bool {
    let segment = |it: &str| {
        let fits = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
        !it.is_empty()
            && it.chars().all(fits)
            && it.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '_')
            && !it.ends_with('.')
            && !it.ends_with(".lock")
            && !it.contains("..")
    };
    name.len() <= 64 && name.split('/').all(segment)
}

impl Tool for EnterWorktree {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "EnterWorktree";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(serde_json::json!({
            "type": "object",
            "properties": {"worktreePath": {"type": "string"}, "worktreeBranch": {"type": "string"}, "message": {"type": "string"}},
            "required": ["worktreePath", "message"],
        }))
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "git worktree enter isolate",
            exposure: Exposure::Deferred,
            ..Traits::default()
        }
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::Undeclared
    }

    fn canonicalize(&self, input: &mut Input, cx: &CallContext) {
        if let Some(path) = &input.path
            && let Ok(full) = haft_paths::expand(path.as_ref(), &cx.cwd, cx.home.as_deref())
        {
            input.path = Some(haft_paths::lexical(&full).to_string_lossy().into_owned());
        }
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        match (&input.name, &input.path) {
            (Some(_), Some(_)) => Err(ToolError::invalid("give name or path, not both")),
            (Some(name), None) if !is_worktree_name(name) => Err(ToolError::invalid(format!(
                "the name {name:?} does not fit: up to 64 letters, digits, . _ - and / between them, each part beginning with a letter or digit"
            ))),
            _ => Ok(()),
        }
    }

    /// A new worktree affects nothing existing, so it needs no prompt; entering one elsewhere asks.
    fn check_permissions(&self, input: &Input, _cx: &CallContext) -> Verdict {
        match &input.path {
            Some(path) if !path.contains("/.claude/worktrees/") => {
                Verdict::Ask(format!("goes on working in {path}"))
            }
            _ => Verdict::Allow,
        }
    }

    fn describe(&self, input: &Input) -> String {
        match (&input.name, &input.path) {
            (Some(name), _) => format!("Work in the worktree {name}"),
            (None, Some(path)) => format!("Work in the worktree {path}"),
            (None, None) => String::from("Work in a new worktree"),
        }
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let wanted = match input.path {
            Some(path) => WorktreeTarget::At(path.into()),
            None => WorktreeTarget::Named(input.name),
        };
        let entered = self.worktrees.enter(wanted, cx).await.map_err(ToolError::failed)?;
        let branch = entered.branch.as_ref().map(|it| format!(" on branch {it}")).unwrap_or_default();
        let mut message = format!("Work goes on in the worktree {}{branch}.", entered.path.display());
        for note in &entered.notes {
            message.push('\n');
            message.push_str(note);
        }
        let mut changes = vec![ContextChange::Cwd(entered.path.clone())];
        if !entered.path.starts_with(&cx.cwd) {
            changes.insert(0, ContextChange::AddDirectory(entered.path.clone()));
        }
        let output = Output { worktree_path: entered.path, worktree_branch: entered.branch, message };
        Ok(changes.into_iter().fold(Outcome::from(output), Outcome::with_change))
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.message.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::is_worktree_name;

    #[test]
    fn worktree_names_must_be_valid_branches() {
        for (name, fits) in [
            ("fix-login", true),
            ("team/fix.1", true),
            ("_x", true),
            ("", false),
            ("a//b", false),
            ("../up", false),
            (".hidden", false),
            ("-flag", false),
            ("a..b", false),
            ("a.lock", false),
            ("a b", false),
            ("a\nb", false),
            ("ä", false),
            (&"x".repeat(65), false),
        ] {
            assert_eq!(is_worktree_name(name), fits, "{name:?}");
        }
    }
}
