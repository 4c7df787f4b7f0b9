//! Flags of `haft new`.

use std::path::PathBuf;

/// What `haft new` writes.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum NewCommand {
    /// Create a crate with a tool, its test and an MCP server
    Tool {
        /// Name of the tool: `word-count`
        name: String,
        /// New directory; by default the name of the tool
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Directory of Haft's source; by default the published crate is used
        #[arg(long, value_name = "DIR")]
        haft: Option<PathBuf>,
    },
}
