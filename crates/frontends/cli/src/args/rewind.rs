//! Flags of `haft rewind`.

/// Where a session goes back to.
#[derive(Debug, clap::Args)]
pub(crate) struct RewindArgs {
    /// Session id, id prefix or title; the latest if none is given
    pub(crate) session: Option<String>,
    /// Number of the message, as `haft rewind` lists it
    ///
    /// The conversation before it becomes a new session; the old one stays.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) to: Option<usize>,
    /// Only the files
    #[arg(long, requires = "to", conflicts_with = "talk")]
    pub(crate) files: bool,
    /// Only the conversation
    #[arg(long, requires = "to")]
    pub(crate) talk: bool,
}
