//! Flags of `haft dev mock-model`.

use std::path::PathBuf;

/// Flags of `haft dev mock-model`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MockModelArgs {
    /// The script: see docs/reference/mock-model.md
    pub(crate) script: PathBuf,
    /// Port; 0 selects a free one. The address is the first line of output
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Append every request to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub(crate) requests: Option<PathBuf>,
    /// Write only the sizes and times of requests
    #[arg(long, requires = "requests")]
    pub(crate) without_bodies: bool,
}
