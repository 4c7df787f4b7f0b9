//! Flags of `haft view`.

use std::path::PathBuf;

/// Flags of `haft view`.
#[derive(Debug, clap::Args)]
pub(crate) struct ViewArgs {
    /// Session id, id prefix, title or the path of a log; without one, all sessions (a file: the latest of this directory)
    pub(crate) session: Option<String>,
    /// Write one self-contained page to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write a trace for Perfetto and Chrome to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Allow the page to undo changes of files
    #[arg(long, conflicts_with_all = ["html", "perfetto"])]
    pub(crate) allow_undo: bool,
    /// Address to listen on (default: a free port on loopback)
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["html", "perfetto"])]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Exit after this many seconds without an open page
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, conflicts_with_all = ["html", "perfetto"])]
    pub(crate) ends_after: u64,
    /// Print the URL and open no browser
    #[arg(long, conflicts_with_all = ["html", "perfetto"])]
    pub(crate) no_open: bool,
}
