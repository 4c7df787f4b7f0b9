//! Flags of `haft new`.

use std::path::PathBuf;

/// What `haft new` writes.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum NewCommand {
    /// Write a crate with a tool, its test, and a server for MCP clients.
    Tool {
        /// The name: `word-count`.
        name: String,
        /// Into this new directory; by default one of the tool's name.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Where the source of Haft is; by default the published crate is used.
        #[arg(long, value_name = "DIR")]
        haft: Option<PathBuf>,
    },
}
