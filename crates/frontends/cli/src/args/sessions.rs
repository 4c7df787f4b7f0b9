//! Flags of `haft sessions`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List them, newest first.
    List,
    /// Show what was said and done.
    Show {
        /// The id, its beginning, or the name.
        id: String,
    },
    /// Find a text in all of them.
    Search {
        /// What to look for; upper and lower case are the same.
        text: String,
    },
    /// Give one a name.
    Title {
        /// The id, its beginning, or the name.
        id: String,
        /// The name.
        title: String,
    },
    /// Print where its log is.
    Path {
        /// The id, its beginning, or the name.
        id: String,
    },
}
