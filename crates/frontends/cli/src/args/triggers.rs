//! Flags of `haft triggers`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum TriggersCommand {
    /// Show the triggers of your settings.
    List,
    /// Listen for signed deliveries and run what they start, until interrupted.
    Serve {
        /// At this address of the machine.
        #[arg(long, default_value = "127.0.0.1")]
        bind: std::net::IpAddr,
        /// At this port; 0 takes a free one.
        #[arg(long, default_value_t = 8787)]
        port: u16,
    },
    /// Fire a trigger yourself, and wait for it.
    Fire {
        /// Which.
        name: String,
        /// What its template is filled with; - reads it.
        #[arg(long)]
        body: Option<String>,
    },
    /// Show what came of runs.
    Logs {
        /// Of this trigger only.
        name: Option<String>,
    },
}
