use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use haft_types::EnvVars;
use tokio::{process::Command, sync::Mutex};

/// Timeout of a renewal command. Long, because some of them open a browser login.
const RENEWAL_TIME: Duration = Duration::from_secs(180);
/// Minimum time between two runs: when the renewed credentials are rejected as well, another run does
/// not help.
const RENEWAL_PAUSE: Duration = Duration::from_secs(300);

/// A command that renews the credentials stored by a cloud's own tools, such as `aws sso login`. Runs
/// when the provider rejects the credentials or there are none.
#[derive(Debug)]
pub struct LoginRenewal {
    command: String,
    variables: EnvVars,
    last: Mutex<Option<Instant>>,
}

impl LoginRenewal {
    /// Creates a renewal. `variables` is the command's environment, from which variables that hold
    /// credentials are removed.
    pub fn new(command: impl Into<String>, variables: EnvVars) -> Self {
        Self { command: command.into(), variables, last: Mutex::new(None) }
    }

    /// Runs the command, unless it ran within [`RENEWAL_PAUSE`]. Returns whether it succeeded, so that a
    /// retry may help. Concurrent callers wait for each other.
    pub(crate) async fn renew(&self) -> bool {
        let mut last = self.last.lock().await;
        if last.is_some_and(|when| when.elapsed() < RENEWAL_PAUSE) {
            return false;
        }
        let mut command = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
        command.env_clear().envs(self.variables.inherited());
        command.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(&self.command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let ended = tokio::time::timeout(RENEWAL_TIME, command.status()).await;
        *last = Some(Instant::now());
        matches!(ended, Ok(Ok(status)) if status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn renewal_runs_once_per_pause_and_returns_success() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("runs");
        let renewal = LoginRenewal::new(format!("echo x >> '{}'", file.display()), EnvVars::of_process());
        assert_eq!((renewal.renew().await, renewal.renew().await), (true, false));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n");
        assert!(!LoginRenewal::new("exit 3", EnvVars::of_process()).renew().await);
    }
}
