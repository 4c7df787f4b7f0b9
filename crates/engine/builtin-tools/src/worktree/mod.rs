//! Worktrees: a checkout of its own to work in.

mod enter;
mod exit;

use std::{path::PathBuf, sync::Arc};

use haft_tool::{BoxFuture, CallContext, DynTool, Tool, erase};

pub use enter::EnterWorktree;
pub use exit::{ExitWorktree, LeaveAction};

/// Which worktree is wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WorktreeTarget {
    /// A new one, or one of this name that is left.
    Named(Option<String>),
    /// One that is there.
    At(PathBuf),
}

/// A worktree the session works in now.
#[derive(Clone, Debug)]
pub struct EnteredWorktree {
    /// Where it is.
    pub path: PathBuf,
    /// Its branch, if it is on one.
    pub branch: Option<String>,
    /// What there is to know: where it begins, and what is not in it.
    pub notes: Vec<String>,
}

/// How a worktree is left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LeaveWorktree {
    /// Whether it stays.
    pub action: LeaveAction,
    /// Whether changes in it are given up.
    pub discards: bool,
}

/// A worktree the session does not work in any more.
#[derive(Clone, Debug)]
pub struct LeaveReport {
    /// Where the session works now.
    pub back_in: PathBuf,
    /// Where the worktree is, or was.
    pub path: PathBuf,
    /// Its branch.
    pub branch: Option<String>,
    /// Whether it is gone.
    pub is_removed: bool,
    /// Files with changes that nobody committed.
    pub changed_files: usize,
    /// Commits that are on no other branch.
    pub commits: usize,
    /// What there is to know: where changes were kept, and why it stays.
    pub notes: Vec<String>,
}

/// Makes worktrees, and takes them away without losing anything. Whoever runs
/// sessions implements this.
pub trait Worktrees: Send + Sync {
    /// Goes into a worktree; an error says why not.
    fn enter<'a>(
        &'a self,
        wanted: WorktreeTarget,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<EnteredWorktree, String>>;

    /// Leaves the worktree; an error says why not, and nothing has changed then.
    fn leave<'a>(
        &'a self,
        order: LeaveWorktree,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<LeaveReport, String>>;
}

/// There are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorktrees;

impl Worktrees for NoWorktrees {
    fn enter<'a>(
        &'a self,
        _wanted: WorktreeTarget,
        _cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<EnteredWorktree, String>> {
        Box::pin(async { Err(String::from("there are no worktrees here")) })
    }

    fn leave<'a>(
        &'a self,
        _order: LeaveWorktree,
        _cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<LeaveReport, String>> {
        Box::pin(async { Err(String::from("there are no worktrees here")) })
    }
}

/// The names of the tools.
pub(crate) const NAMES: [&str; 2] = [<EnterWorktree as Tool>::NAME, <ExitWorktree as Tool>::NAME];

/// The tools.
pub fn tools(worktrees: &Arc<dyn Worktrees>) -> Vec<Arc<dyn DynTool>> {
    vec![erase(EnterWorktree::new(Arc::clone(worktrees))), erase(ExitWorktree::new(Arc::clone(worktrees)))]
}
