//! Flags of `haft models`.

/// Flags of `haft models`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// Only models whose name holds this.
    pub(crate) filter: Option<String>,
    /// Do not look for servers on this machine.
    #[arg(long)]
    pub(crate) no_local: bool,
}
