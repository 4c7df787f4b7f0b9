use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use haft_types::EnvVars;
use tokio::{process::Command, sync::Mutex};

use crate::{ModelError, SecretString};

/// Timeout of a helper command. A longer run is killed and fails with [`ModelError::Auth`].
const HELPER_TIME: Duration = Duration::from_secs(30);
/// Default time for which a helper's output is cached.
pub(crate) const HELPER_TTL: Duration = Duration::from_secs(300);

/// Source of an API key. The key is looked up when a request needs it and never appears in `Debug`
/// output.
#[derive(Debug)]
pub enum KeySource {
    /// A fixed key.
    Value(SecretString),
    /// Name of an environment variable that holds the key; read for every request.
    Env(String),
    /// A shell command that prints the key.
    Helper(KeyHelper),
}

impl KeySource {
    /// Creates a source with a fixed key.
    pub fn value(key: impl AsRef<str>) -> Self {
        Self::Value(SecretString::new(key))
    }

    /// Creates a source from a shell command that prints the key. The output is cached for five minutes,
    /// or until the provider rejects the key.
    pub fn helper(command: impl Into<String>) -> Self {
        Self::helper_with_ttl(command, HELPER_TTL)
    }

    /// Like [`helper`](Self::helper), with the time the output is cached.
    pub fn helper_with_ttl(command: impl Into<String>, ttl: Duration) -> Self {
        Self::helper_of(command, ttl, EnvVars::of_process())
    }

    /// Like [`helper`](Self::helper), with the environment the command runs in.
    pub fn helper_for(command: impl Into<String>, variables: EnvVars) -> Self {
        Self::helper_of(command, HELPER_TTL, variables)
    }

    /// Creates a source from a shell command, the time its output is cached, and its environment.
    /// Variables that hold credentials are not passed on.
    pub fn helper_of(command: impl Into<String>, ttl: Duration, variables: EnvVars) -> Self {
        Self::Helper(KeyHelper::new(command, ttl, variables))
    }

    /// Returns the key; runs the helper command if its cached output is older than the TTL. An empty key
    /// or one with control characters is [`ModelError::Auth`].
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

    /// Drops the cached key after the provider rejected it. Returns whether a retry may get another key,
    /// which only a helper can give.
    pub(crate) async fn forget(&self) -> bool {
        match self {
            Self::Value(_) | Self::Env(_) => false,
            Self::Helper(helper) => helper.forget().await,
        }
    }
}

/// A shell command that prints a key, and the cached output of its last run.
#[derive(Debug)]
pub struct KeyHelper {
    command: String,
    ttl: Duration,
    variables: EnvVars,
    last: Mutex<Option<(Instant, SecretString)>>,
}

impl KeyHelper {
    /// Creates a helper. `ttl` is how long the output is cached; `variables` is the command's
    /// environment, from which variables that hold credentials are removed.
    pub fn new(command: impl Into<String>, ttl: Duration, variables: EnvVars) -> Self {
        Self { command: command.into(), ttl, variables, last: Mutex::new(None) }
    }

    /// Drops the cached key. Returns whether there was one.
    pub(crate) async fn forget(&self) -> bool {
        self.last.lock().await.take().is_some()
    }

    /// Returns the cached key, or runs the command. The lock is held during the run, so concurrent
    /// callers share one run.
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
    async fn helper_output_is_cached_until_key_is_rejected() {
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
    async fn key_source_never_shows_key() {
        let error = KeySource::helper("echo sk-secret; exit 3").get().await.unwrap_err();
        assert!(!error.to_string().contains("sk-secret") && error.to_string().contains("failed"), "{error}");
        assert!(KeySource::value("a\nb").get().await.is_err());
        assert!(KeySource::value(" ").get().await.is_err());
        let shown = format!("{:?}", KeySource::value("sk-secret"));
        assert!(!shown.contains("sk-secret"), "{shown}");
    }
}
