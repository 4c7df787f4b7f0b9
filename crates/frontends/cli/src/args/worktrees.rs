//! Flags of `haft worktrees`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum WorktreesCommand {
    /// List them, and what is only in them.
    List,
    /// Keep what is changed in one as commits with a name; the worktree stays as it is.
    Rescue {
        /// Its name.
        name: String,
    },
    /// Remove one. What is only in it is kept first, and where is said.
    Remove {
        /// Its name.
        name: String,
    },
}
