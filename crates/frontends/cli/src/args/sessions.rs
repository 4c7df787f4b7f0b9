//! Flags of `haft sessions`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, newest first
    List,
    /// Print a session
    Show {
        /// Session id, id prefix or title
        id: String,
    },
    /// Search all sessions of this directory
    Search {
        /// Text to find (case-insensitive)
        text: String,
    },
    /// Rename a session
    Title {
        /// Session id, id prefix or title
        id: String,
        /// The new title
        title: String,
    },
    /// Print the path of a session log
    Path {
        /// Session id, id prefix or title
        id: String,
    },
}
