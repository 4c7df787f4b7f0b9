//! Flags of `haft triggers`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum TriggersCommand {
    /// List the triggers of your settings
    List,
    /// Listen for signed webhooks and run their prompts until interrupted
    Serve {
        /// Address to listen on
        #[arg(long, default_value = "127.0.0.1")]
        bind: std::net::IpAddr,
        /// Port to listen on; 0 selects a free one
        #[arg(long, default_value_t = 8787)]
        port: u16,
    },
    /// Fire a trigger by hand and wait for its run
    Fire {
        /// Name of the trigger
        name: String,
        /// Payload for the template; `-` reads standard input
        #[arg(long)]
        body: Option<String>,
    },
    /// List runs and their outcome
    Logs {
        /// Only runs of this trigger
        name: Option<String>,
    },
}
