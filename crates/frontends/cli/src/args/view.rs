//! Flags of `haft view`.

use std::path::PathBuf;

/// Flags of `haft view`.
#[derive(Debug, clap::Args)]
pub(crate) struct ViewArgs {
    /// Which session, or the path of a log. Without one: all sessions, or for a file the newest of this directory.
    pub(crate) session: Option<String>,
    /// Write one self-contained page into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write a trace that Perfetto and Chrome read into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Let the page take changes of files back.
    #[arg(long, conflicts_with_all = ["html", "perfetto"])]
    pub(crate) allow_undo: bool,
    /// Listen here instead of on any free port of this machine alone.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["html", "perfetto"])]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// End after so many seconds without an open page.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, conflicts_with_all = ["html", "perfetto"])]
    pub(crate) ends_after: u64,
    /// Print the address and open no browser.
    #[arg(long, conflicts_with_all = ["html", "perfetto"])]
    pub(crate) no_open: bool,
}
