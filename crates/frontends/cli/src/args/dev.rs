//! Flags of `haft dev`.

use clap::Subcommand;
use std::path::PathBuf;

use super::MockModelArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum DevCommand {
    /// Write the generated documentation
    Docs {
        /// Target directory
        dir: PathBuf,
    },
    /// Write man pages
    Man {
        /// Target directory
        dir: PathBuf,
    },
    /// Serve a scripted model on loopback that checks requests as the real services do
    MockModel(MockModelArgs),
}
