//! Flags of `haft models`.

/// Flags of `haft models`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// Only models whose name contains this
    pub(crate) filter: Option<String>,
    /// Do not look for local model servers
    #[arg(long)]
    pub(crate) no_local: bool,
}
