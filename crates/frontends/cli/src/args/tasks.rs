//! Flags of `haft tasks`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List it: whose it is, its processes, its command.
    List,
    /// End it, with everything it started.
    Stop {
        /// A task, a call or a process; what sessions that are gone left when nothing is named.
        id: Option<String>,
    },
    /// Print what it printed so far.
    Output {
        /// A task, a call or a process.
        id: String,
    },
}
