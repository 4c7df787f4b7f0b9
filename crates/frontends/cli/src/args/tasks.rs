//! Flags of `haft tasks`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List background commands: session, processes, command line
    List,
    /// Stop a task and everything it started
    Stop {
        /// Task, call or process id; without one, everything that dead sessions left running
        id: Option<String>,
    },
    /// Print the output of a task so far
    Output {
        /// Task, call or process id
        id: String,
    },
}
