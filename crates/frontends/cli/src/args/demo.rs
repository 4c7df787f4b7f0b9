//! Flags of `haft demo`.

/// Flags of `haft demo`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Do not pause between words
    #[arg(long)]
    pub(crate) fast: bool,
    /// Keep the project
    #[arg(long)]
    pub(crate) keep: bool,
}
