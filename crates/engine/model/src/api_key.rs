use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use haft_types::EnvVars;
use tokio::{process::Command, sync::Mutex};

use crate::{ModelError, SecretString};

/// How long a helper command may take.
const HELPER_TIME: Duration = Duration::from_secs(30);
/// How long what it said is used.
pub(crate) const HELPER_TTL: Duration = Duration::from_secs(300);

/// Where a key comes from. It is looked up when it is needed, and never shown.
#[derive(Debug)]
pub enum KeySource {
    /// A key at hand.
    Value(SecretString),
    /// An environment variable.
    Env(String),
    /// A command that prints it.
    Helper(KeyHelper),
}

impl KeySource {
    /// A key at hand.
    pub fn value(key: impl AsRef<str>) -> Self {
        Self::Value(SecretString::new(key))
    }

    /// A command that prints a key; asked again after five minutes, or when
    /// the key is refused.
    pub fn helper(command: impl Into<String>) -> Self {
        Self::helper_with_ttl(command, HELPER_TTL)
    }

    /// The same with another time.
    pub fn helper_with_ttl(command: impl Into<String>, ttl: Duration) -> Self {
        Self::helper_of(command, ttl, EnvVars::of_process())
    }

    /// The same with the usual time, for a command that sees these variables.
    pub fn helper_for(command: impl Into<String>, variables: EnvVars) -> Self {
        Self::helper_of(command, HELPER_TTL, variables)
    }

    /// The same for a command that sees these variables, but for keys.
    pub fn helper_of(command: impl Into<String>, ttl: Duration, variables: EnvVars) -> Self {
        Self::Helper(KeyHelper::new(command, ttl, variables))
    }

    /// The key of the moment; asks the helper where there is one and its last answer is too old.
    pub(crate) async fn get(&self) -> Result<SecretString, ModelError> {
        let key = match self {
            Self::Value(key) => key.clone(),
            Self::Env(name) => std::env::var(name).map(SecretString::new).map_err(|_| ModelError::Auth {
                message: format!("no key: set the environment variable {name}"),
            })?,
            Self::Helper(helper) => helper.get().await?,
        };
        if key.is_empty() || key.expose().contains(|it: char| it.is_control()) {
            return Err(ModelError::Auth {
                message: "the key is empty or has control characters in it".to_owned(),
            });
        }
        Ok(key)
    }

    /// Forgets a key that was refused. Says whether asking again may help.
    pub(crate) async fn forget(&self) -> bool {
        match self {
            Self::Value(_) | Self::Env(_) => false,
            Self::Helper(helper) => helper.forget().await,
        }
    }
}

/// A command that prints a key.
#[derive(Debug)]
pub struct KeyHelper {
    command: String,
    ttl: Duration,
    variables: EnvVars,
    last: Mutex<Option<(Instant, SecretString)>>,
}

impl KeyHelper {
    /// A command that sees these variables, but for keys; what it prints is used
    /// for that long.
    pub fn new(command: impl Into<String>, ttl: Duration, variables: EnvVars) -> Self {
        Self { command: command.into(), ttl, variables, last: Mutex::new(None) }
    }

    /// Forgets what was refused. Says whether there was anything.
    pub(crate) async fn forget(&self) -> bool {
        self.last.lock().await.take().is_some()
    }

    /// One command at a time, and only when the last answer is too old.
    pub(crate) async fn get(&self) -> Result<SecretString, ModelError> {
        let mut last = self.last.lock().await;
        if let Some((when, key)) = &*last
            && when.elapsed() < self.ttl
        {
            return Ok(key.clone());
        }
        let key = self.run().await?;
        *last = Some((Instant::now(), key.clone()));
        Ok(key)
    }

    async fn run(&self) -> Result<SecretString, ModelError> {
        let fail = |what: String| ModelError::Auth { message: format!("the key helper command {what}") };
        let mut command = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
        command.env_clear().envs(self.variables.inherited());
        command.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(&self.command);
        command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(HELPER_TIME, command.output())
            .await
            .map_err(|_| fail(format!("took longer than {} s", HELPER_TIME.as_secs())))?
            .map_err(|err| fail(format!("could not be started: {err}")))?;
        if !output.status.success() {
            return Err(fail(format!("failed ({})", output.status)));
        }
        let text = String::from_utf8(output.stdout)
            .map_err(|_| fail("printed something that is not text".to_owned()))?;
        Ok(SecretString::new(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_helper_is_asked_once_until_its_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let source =
            KeySource::helper(format!("echo x >> '{}'; wc -l < '{}'", count.display(), count.display()));
        let get = async || source.get().await.unwrap().expose().to_owned();
        assert_eq!((get().await, get().await), ("1".to_owned(), "1".to_owned()));
        assert!(source.forget().await);
        assert_eq!(get().await, "2");
        assert!(!KeySource::value("k").forget().await);
    }

    #[tokio::test]
    async fn keys_do_not_show() {
        let error = KeySource::helper("echo sk-secret; exit 3").get().await.unwrap_err();
        assert!(!error.to_string().contains("sk-secret") && error.to_string().contains("failed"), "{error}");
        assert!(KeySource::value("a\nb").get().await.is_err());
        assert!(KeySource::value(" ").get().await.is_err());
        let shown = format!("{:?}", KeySource::value("sk-secret"));
        assert!(!shown.contains("sk-secret"), "{shown}");
    }
}
