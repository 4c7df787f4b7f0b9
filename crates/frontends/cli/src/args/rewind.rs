//! Flags of `haft rewind`.

/// Where a session goes back to.
#[derive(Debug, clap::Args)]
pub(crate) struct RewindArgs {
    /// Which session: its id, the beginning of it, or its title; the newest when nothing is named.
    pub(crate) session: Option<String>,
    /// The number of the message, as `haft rewind` lists it. The conversation before it becomes a new session; the old one stays.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) to: Option<usize>,
    /// Only files.
    #[arg(long, requires = "to", conflicts_with = "talk")]
    pub(crate) files: bool,
    /// Only the conversation.
    #[arg(long, requires = "to")]
    pub(crate) talk: bool,
}
