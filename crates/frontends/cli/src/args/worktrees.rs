//! Flags of `haft worktrees`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum WorktreesCommand {
    /// List worktrees and what exists only in them
    List,
    /// Save a worktree's changes as commits under a name; the worktree stays as it is
    Rescue {
        /// Name of the worktree
        name: String,
    },
    /// Save a worktree's changes, then remove it
    Remove {
        /// Name of the worktree
        name: String,
    },
}
