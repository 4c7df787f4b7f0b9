use haft_tool::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Works with a git repository. Reading operations need no permission and run nothing the repository
/// configures (filters, hooks, text conversion). `commit` takes exactly the `paths` you name, also new
/// files, and leaves what the person has staged alone; hooks and signing run as usual and are never skipped.
/// Everything but push can be taken back with `haft undo`. Paths are literal, relative to the working
/// directory. A forced push needs `expect`, the commit you believe the remote branch is at.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What to do.
    pub operation: Operation,
    /// Directory of the repository, if it is not the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Files or directories: status, diff, log, add, restore, commit, stash push, reset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// A commit, branch or tag: show (or `rev:file`), blame, switch, restore, merge, rebase (onto), cherry_pick,
    /// revert, reset, tag, branch create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<String>,
    /// diff: the older side; without it the index (or HEAD with `staged`). log: commits after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// diff: the newer side; without it the files. log: up to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// diff: what is staged. restore: unstage. commit: everything that is staged, instead of `paths`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub staged: bool,
    /// diff: only the counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stat: bool,
    /// diff: lines around a change; 3 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// log: only commits of this author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// log: only commits after this date, such as "2 weeks ago".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// log: only commits whose message has this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grep: Option<String>,
    /// log: how many; 20 unless given, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u32>,
    /// log: with the changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub patch: bool,
    /// blame: a range of lines such as "10,40".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<String>,
    /// branch: list (usual), create, delete, rename. stash: list (usual), push, pop, apply, drop, show. tag:
    /// list (usual), create, delete. merge, rebase, cherry_pick, revert: continue, abort, skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<GitAction>,
    /// Of a branch or tag; for stash a number, 0 is the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// branch rename: the new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// Of a commit, stash or annotated tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// commit: replace the last commit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub amend: bool,
    /// switch: make the branch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create: bool,
    /// branch delete: also if its commits are nowhere else. push: overwrite, with `expect`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// reset: soft, mixed (usual) or hard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ResetMode>,
    /// fetch, pull, push: the remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// fetch, pull, push: the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// push with force: the commit the remote branch is at, all 40 digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
}

/// What to do with a repository.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// What is different, staged, in conflict, under way.
    Status,
    /// Changes.
    Diff,
    /// Commits.
    Log,
    /// One commit, or a file in it (`rev:path`).
    Show,
    /// Who wrote which lines.
    Blame,
    /// Branches.
    Branch,
    /// Goes to a branch.
    Switch,
    /// Stages.
    Add,
    /// Brings files back, or unstages them.
    Restore,
    /// Commits.
    Commit,
    /// Puts changes aside, and brings them back.
    Stash,
    /// Other checkouts of the repository.
    Worktree,
    /// Tags.
    Tag,
    /// Merges.
    Merge,
    /// Rebases.
    Rebase,
    /// Takes over a commit.
    CherryPick,
    /// Takes back a commit with a new one.
    Revert,
    /// Moves the branch.
    Reset,
    /// Gets commits.
    Fetch,
    /// Gets commits and moves on, where that needs no merge.
    Pull,
    /// Sends commits.
    Push,
}

/// What to do with what an operation is about.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GitAction {
    /// Shows all.
    List,
    /// Makes one.
    Create,
    /// Removes one.
    Delete,
    /// Renames one.
    Rename,
    /// Puts changes aside.
    Push,
    /// Brings them back and forgets them.
    Pop,
    /// Brings them back and keeps them.
    Apply,
    /// Forgets them.
    Drop,
    /// Shows them.
    Show,
    /// Goes on after conflicts.
    Continue,
    /// Gives up and goes back.
    Abort,
    /// Leaves a commit out.
    Skip,
}

/// How far a reset goes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetMode {
    /// Only the branch.
    Soft,
    /// The branch and what is staged.
    Mixed,
    /// The files, too.
    Hard,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Diff => "diff",
            Self::Log => "log",
            Self::Show => "show",
            Self::Blame => "blame",
            Self::Branch => "branch",
            Self::Switch => "switch",
            Self::Add => "add",
            Self::Restore => "restore",
            Self::Commit => "commit",
            Self::Stash => "stash",
            Self::Worktree => "worktree",
            Self::Tag => "tag",
            Self::Merge => "merge",
            Self::Rebase => "rebase",
            Self::CherryPick => "cherry_pick",
            Self::Revert => "revert",
            Self::Reset => "reset",
            Self::Fetch => "fetch",
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }

    /// Returns git's subcommand.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::CherryPick => "cherry-pick",
            other => other.name(),
        }
    }

    /// Returns the parameters this operation accepts besides `operation` and `dir`.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Status | Self::Add => &["paths"],
            Self::Diff => &["paths", "from", "to", "staged", "stat", "context"],
            Self::Log => &["paths", "from", "to", "author", "since", "grep", "limit", "patch"],
            Self::Show => &["rev"],
            Self::Blame => &["paths", "rev", "lines"],
            Self::Branch => &["action", "name", "new_name", "rev", "force"],
            Self::Switch => &["name", "rev", "create"],
            Self::Restore => &["paths", "rev", "staged"],
            Self::Commit => &["message", "paths", "staged", "amend"],
            Self::Stash => &["action", "name", "message", "paths"],
            Self::Worktree => &["action"],
            Self::Tag => &["action", "name", "rev", "message"],
            Self::Merge => &["rev", "action", "message"],
            Self::Rebase | Self::CherryPick | Self::Revert => &["rev", "action"],
            Self::Reset => &["rev", "mode", "paths"],
            Self::Fetch | Self::Pull => &["remote", "branch"],
            Self::Push => &["remote", "branch", "force", "expect"],
        }
    }

    fn actions(self) -> &'static [GitAction] {
        match self {
            Self::Branch => &[GitAction::List, GitAction::Create, GitAction::Delete, GitAction::Rename],
            Self::Stash => &[
                GitAction::List,
                GitAction::Push,
                GitAction::Pop,
                GitAction::Apply,
                GitAction::Drop,
                GitAction::Show,
            ],
            Self::Tag => &[GitAction::List, GitAction::Create, GitAction::Delete],
            Self::Worktree => &[GitAction::List],
            Self::Merge => &[GitAction::Continue, GitAction::Abort],
            Self::Rebase | Self::CherryPick | Self::Revert => {
                &[GitAction::Continue, GitAction::Abort, GitAction::Skip]
            }
            _ => &[],
        }
    }
}

impl Input {
    /// Whether the operation changes nothing.
    pub(super) fn reads(&self) -> bool {
        match self.operation {
            Operation::Status | Operation::Diff | Operation::Log | Operation::Show | Operation::Blame => true,
            Operation::Worktree => true,
            Operation::Branch | Operation::Tag => matches!(self.action, None | Some(GitAction::List)),
            Operation::Stash => matches!(self.action, None | Some(GitAction::List | GitAction::Show)),
            _ => false,
        }
    }

    /// Whether the operation may change files of the working tree.
    pub(super) fn touches_files(&self) -> bool {
        match self.operation {
            Operation::Switch
            | Operation::Merge
            | Operation::Rebase
            | Operation::CherryPick
            | Operation::Revert
            | Operation::Pull => true,
            Operation::Stash => {
                !matches!(self.action, None | Some(GitAction::List | GitAction::Show | GitAction::Drop))
            }
            Operation::Restore => !self.staged,
            Operation::Reset => self.mode == Some(ResetMode::Hard),
            _ => false,
        }
    }

    /// Whether the operation accesses the network.
    pub(super) fn is_network(&self) -> bool {
        matches!(self.operation, Operation::Fetch | Operation::Pull | Operation::Push)
    }

    /// Checks what the schema cannot express.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        let wrong = |why: String| Err(ToolError::invalid(why));
        let name = self.operation.name();
        let given = serde_json::to_value(self).unwrap_or(Value::Null);
        let known = self.operation.parameters();
        let given = given.as_object().into_iter().flatten().map(|it| it.0.as_str());
        for parameter in given.filter(|it| !matches!(*it, "operation" | "dir")) {
            if !known.contains(&parameter) {
                return wrong(format!("{name} has no {parameter}; it takes {}", known.join(", ")));
            }
        }
        if let Some(action) = self.action
            && !self.operation.actions().contains(&action)
        {
            return wrong(format!("{name} has no such action"));
        }
        let words = [&self.rev, &self.from, &self.to, &self.name, &self.new_name, &self.remote, &self.branch];
        for word in words.into_iter().flatten() {
            if word.is_empty() || word.starts_with('-') || word.chars().any(|it| it.is_control() || it == ' ')
            {
                return wrong(format!("{word:?} is no name of a commit, branch or remote"));
            }
        }
        if self.is_network() && self.branch.as_deref().is_some_and(|it| !is_refspec(it)) {
            return wrong(String::from(
                "branch is a name, or HERE:THERE; a branch is overwritten with force and expect, and removed elsewhere in a shell",
            ));
        }
        let texts =
            self.paths.iter().chain(&self.author).chain(&self.since).chain(&self.grep).chain(&self.message);
        if texts.clone().any(|it| it.contains('\0')) {
            return wrong(String::from("a NUL byte is in no name and no message"));
        }
        if self.paths.iter().any(String::is_empty) {
            return wrong(String::from("an empty path names nothing; \".\" is everything here"));
        }
        self.check_needs().map_or(Ok(()), wrong)
    }

    /// Returns which required parameter is missing.
    fn check_needs(&self) -> Option<String> {
        use Operation as Op;
        let name = self.operation.name();
        let lacks = |what: &str| Some(format!("{name} needs {what}"));
        match (self.operation, self.action) {
            (Op::Commit, _)
                if self.message.as_deref().unwrap_or_default().trim().is_empty() && !self.amend =>
            {
                lacks("a message")
            }
            (Op::Commit, _) if self.staged && !self.paths.is_empty() => {
                Some(String::from("give paths or staged, not both"))
            }
            (Op::Commit, _) if self.paths.is_empty() && !self.staged && !self.amend => {
                lacks("paths: exactly those files are committed (staged: true commits what is staged)")
            }
            (Op::Add | Op::Restore, _) if self.paths.is_empty() => lacks("paths"),
            (Op::Blame, _) if self.paths.len() != 1 => lacks("one path"),
            (Op::Blame, _) if self.lines.as_deref().is_some_and(|it| !is_range(it)) => {
                Some(String::from("lines is a range such as \"10,40\""))
            }
            (Op::Switch, _) if self.name.is_none() && (self.create || self.rev.is_none()) => lacks("name"),
            (Op::Switch, _) if self.name.is_some() && self.rev.is_some() && !self.create => Some(
                String::from("with switch, rev is where a new branch begins; give create, or name alone"),
            ),
            (Op::Branch | Op::Tag, Some(GitAction::Create | GitAction::Delete | GitAction::Rename))
                if self.name.is_none() =>
            {
                lacks("name")
            }
            (Op::Branch, Some(GitAction::Rename)) if self.new_name.is_none() => lacks("new_name"),
            (Op::Merge | Op::Rebase | Op::CherryPick | Op::Revert, None) if self.rev.is_none() => {
                lacks("rev, or an action")
            }
            (Op::Stash, _) if self.name.as_deref().is_some_and(|it| it.parse::<u32>().is_err()) => {
                Some(String::from("a stash goes by its number; 0 is the newest"))
            }
            (Op::Reset, _) if !self.paths.is_empty() && self.mode.is_some() => {
                Some(String::from("reset with paths only unstages them; leave mode out"))
            }
            (Op::Push, _) if self.force && !self.expect.as_deref().is_some_and(is_sha) => lacks(
                "expect with force: the commit the remote branch is at, all 40 digits (fetch, then log it)",
            ),
            (Op::Push, _) if self.force && self.branch.is_none() => lacks("branch with force"),
            _ => None,
        }
    }
}

/// Whether the text is a branch, or `local:remote`. Forced (`+`) and deleting (empty source) refspecs
/// are rejected.
fn is_refspec(text: &str) -> bool {
    let sides: Vec<&str> = text.split(':').collect();
    let proper = |it: &&str| !it.is_empty() && !it.starts_with(['+', '^', '-']) && !it.contains('*');
    sides.len() <= 2 && sides.iter().all(proper)
}

fn is_range(text: &str) -> bool {
    let number = |it: &str| it.trim().parse::<u64>().is_ok_and(|it| 0 < it);
    text.split_once(',').is_some_and(|(first, last)| number(first) && number(last))
}

fn is_sha(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|it| it.is_ascii_hexdigit())
}

/// What git said and did.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Which operation.
    pub operation: String,
    /// What the model reads.
    pub text: String,
    /// The same as values.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// What kind of change it was.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub git_operation: Value,
}
