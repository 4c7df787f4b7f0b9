//! Flags of `haft bug`.

use std::path::PathBuf;

/// Flags of `haft bug`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BugArgs {
    /// File to write; by default one in this directory, named after the time
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Add the log of this session, secrets masked
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}
