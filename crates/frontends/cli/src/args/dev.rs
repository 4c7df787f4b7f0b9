//! Flags of `haft dev`.

use clap::Subcommand;
use std::path::PathBuf;

use super::MockModelArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum DevCommand {
    /// Write the generated pages of the documentation.
    Docs {
        /// Into this directory.
        dir: PathBuf,
    },
    /// Write the manual pages.
    Man {
        /// Into this directory.
        dir: PathBuf,
    },
    /// Serve a scripted model on loopback that judges requests like the real services.
    MockModel(MockModelArgs),
}
