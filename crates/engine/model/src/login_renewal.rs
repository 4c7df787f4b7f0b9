use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use haft_types::EnvVars;
use tokio::{process::Command, sync::Mutex};

/// How long a command may take: people log in with some of them.
const RENEWAL_TIME: Duration = Duration::from_secs(180);
/// It does not run again before that: what it brought was refused, too.
const RENEWAL_PAUSE: Duration = Duration::from_secs(300);

/// A command that renews what a cloud's own tools keep, such as
/// `aws sso login`. It runs when credentials are refused, or when there are none.
#[derive(Debug)]
pub struct LoginRenewal {
    command: String,
    variables: EnvVars,
    last: Mutex<Option<Instant>>,
}

impl LoginRenewal {
    /// A command that sees these variables, but for keys.
    pub fn new(command: impl Into<String>, variables: EnvVars) -> Self {
        Self { command: command.into(), variables, last: Mutex::new(None) }
    }

    /// Runs the command, unless it just ran. Says whether it ended well, so that
    /// asking again may help. One at a time.
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
    async fn it_runs_once_and_says_how_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("runs");
        let renewal = LoginRenewal::new(format!("echo x >> '{}'", file.display()), EnvVars::of_process());
        assert_eq!((renewal.renew().await, renewal.renew().await), (true, false));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n");
        assert!(!LoginRenewal::new("exit 3", EnvVars::of_process()).renew().await);
    }
}
