//! Worktrees: separate checkouts to work in.

mod enter;
mod exit;

use std::{path::PathBuf, sync::Arc};

use haft_tool::{BoxFuture, CallContext, DynTool, Tool, erase};

pub use enter::EnterWorktree;
pub use exit::{ExitWorktree, LeaveAction};

/// Which worktree to enter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WorktreeTarget {
    /// A new worktree, or the existing one with this name.
    Named(Option<String>),
    /// The existing worktree at this path.
    At(PathBuf),
}

/// The worktree the session has moved into.
#[derive(Clone, Debug)]
pub struct EnteredWorktree {
    pub path: PathBuf,
    /// Its branch; `None` if `HEAD` is detached.
    pub branch: Option<String>,
    /// Notes for the model: the base commit, and what the worktree lacks.
    pub notes: Vec<String>,
}

/// How to leave a worktree.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LeaveWorktree {
    /// Whether to keep or remove it.
    pub action: LeaveAction,
    /// Whether to discard its changes.
    pub discards: bool,
}

/// The worktree the session has left.
#[derive(Clone, Debug)]
pub struct LeaveReport {
    /// The session's working directory now.
    pub back_in: PathBuf,
    /// Path of the worktree, even if it was removed.
    pub path: PathBuf,
    pub branch: Option<String>,
    /// Whether it was removed.
    pub is_removed: bool,
    /// Number of files with uncommitted changes.
    pub changed_files: usize,
    /// Number of commits that are on no other branch.
    pub commits: usize,
    /// Notes for the model: where changes were saved, and why the worktree was kept.
    pub notes: Vec<String>,
}

/// Creates worktrees and removes them without losing work. Implemented by the session.
pub trait Worktrees: Send + Sync {
    /// Moves the session into a worktree. An error says why that is not possible.
    fn enter<'a>(
        &'a self,
        wanted: WorktreeTarget,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<EnteredWorktree, String>>;

    /// Leaves the worktree. An error says why that is not possible; then nothing has changed.
    fn leave<'a>(
        &'a self,
        order: LeaveWorktree,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<LeaveReport, String>>;
}

/// No worktrees: every call fails.
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

/// Names of the worktree tools.
pub(crate) const NAMES: [&str; 2] = [<EnterWorktree as Tool>::NAME, <ExitWorktree as Tool>::NAME];

/// Returns the worktree tools.
pub fn tools(worktrees: &Arc<dyn Worktrees>) -> Vec<Arc<dyn DynTool>> {
    vec![erase(EnterWorktree::new(Arc::clone(worktrees))), erase(ExitWorktree::new(Arc::clone(worktrees)))]
}
