//! Flags of `haft doctor`.

/// Flags of `haft doctor`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Also try to reach the provider (no key is sent) and local model servers
    #[arg(long)]
    pub(crate) online: bool,
    /// Only print the path of the program, for hosts that start it directly
    #[arg(long)]
    pub(crate) binary: bool,
}
