//! Flags of `haft doctor`.

/// Flags of `haft doctor`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Also try to reach the provider (no key is sent) and servers of models on this machine.
    #[arg(long)]
    pub(crate) online: bool,
    /// Print the path of the program itself and nothing else, for hosts that start it directly.
    #[arg(long)]
    pub(crate) binary: bool,
}
