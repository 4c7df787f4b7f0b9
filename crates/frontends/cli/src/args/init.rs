//! Flags of `haft init`.

/// Flags of `haft init`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Write without a prompt; existing files are never overwritten
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only show what would be written
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}
