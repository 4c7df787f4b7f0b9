//! Flags of `haft cron`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// List stored prompts and when they run next
    List,
    /// Remove a stored prompt
    Remove {
        /// Id of the prompt
        id: String,
    },
    /// Run all due prompts unattended and exit; the timer calls this every minute
    RunDue,
    /// List runs and their outcome
    Logs {
        /// Only runs of this prompt
        id: Option<String>,
    },
    /// Install the timer for you: systemd, launchd, or a line in your crontab
    Install {
        /// Only show what would be installed
        #[arg(long)]
        print: bool,
    },
    /// Remove the timer
    Uninstall,
}
