//! Flags of `haft cron`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Show stored prompts and when they run next.
    List,
    /// Remove a stored prompt.
    Remove {
        /// Which.
        id: String,
    },
    /// Run what is due, unattended, and exit; the timer calls this every minute.
    RunDue,
    /// Show what came of runs.
    Logs {
        /// Of this stored prompt only.
        id: Option<String>,
    },
    /// Set up one timer for you: systemd, launchd, or a line in your crontab.
    Install {
        /// Only show what would be set up.
        #[arg(long)]
        print: bool,
    },
    /// Take the timer away.
    Uninstall,
}
