use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use haft_paths::{Durability, ModeOnReplace, replace_file};
use rmcp::transport::auth::StoredCredentials;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::server_clock::now;
use haft_types::text::hex;

/// A stored login.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginRecord {
    /// URL of the server, for people who read the file.
    pub(super) server: String,
    pub(super) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    #[serde(default)]
    pub(super) redirect_uri: String,
    /// Hash of the settings the token was obtained with, for grants without a user: with other settings
    /// it must not be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<String>,
    /// The server's challenge when the login lacked scopes for a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) wanted: Option<String>,
    #[serde(flatten)]
    pub(super) login: LoginTokens,
}

/// Tokens and what is needed to refresh them.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginTokens {
    pub(super) credentials: StoredCredentials,
    /// The server's original challenge; often the only place that names the authorization server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) challenge: Option<String>,
    /// The key the tokens are bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bound_key: Option<String>,
}

impl std::fmt::Debug for LoginTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The other fields are secret or irrelevant.
        f.debug_struct("Login").field("credentials", &self.credentials).finish_non_exhaustive()
    }
}

impl LoginTokens {
    fn response(&self) -> Value {
        serde_json::to_value(&self.credentials.token_response).unwrap_or_default()
    }

    pub(super) fn access_token(&self) -> Option<String> {
        self.response()["access_token"].as_str().map(str::to_owned)
    }

    pub(super) fn is_bound(&self) -> bool {
        self.response()["token_type"].as_str().is_some_and(|it| it.eq_ignore_ascii_case("dpop"))
    }

    pub(super) fn can_be_refreshed(&self) -> bool {
        self.response()["refresh_token"].is_string()
    }

    /// Returns the seconds until the token expires and its total lifetime; `None` if unknown.
    pub(super) fn remaining(&self) -> Option<(u64, u64)> {
        let lifetime = self.response()["expires_in"].as_u64()?;
        let age = now().saturating_sub(self.credentials.token_received_at?);
        Some((lifetime.saturating_sub(age), lifetime))
    }
}

/// The stored login of one server, shared by all processes of the user.
///
/// **Invariant:** the file is complete or absent, and accessible by its owner only.
pub struct TokenFile {
    /// `None` keeps the login in memory.
    path: Option<PathBuf>,
    memory: Mutex<Option<LoginRecord>>,
}

/// Held while a token is refreshed.
pub(super) struct TokenLock(#[expect(dead_code, reason = "closing it gives the lock back")] Option<File>);

/// Maximum time to wait for the lock; a refresh takes less, so a longer holder hangs.
const LOCK_LIMIT: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

impl TokenFile {
    /// Creates the file of a server below `directory`; in memory if `None`.
    pub fn new(directory: Option<&Path>, server: &str, url: &str) -> Self {
        let key = hex(&Sha256::digest(format!("{server}\n{url}")));
        let path = directory.map(|it| it.join(format!("{}.json", &key[..32])));
        Self { path, memory: Mutex::default() }
    }

    /// Loads the current login, which another process may have changed.
    pub(super) fn load(&self) -> Option<LoginRecord> {
        match &self.path {
            Some(path) => serde_json::from_slice(&std::fs::read(path).ok()?).ok(),
            None => self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(super) fn save(&self, record: &LoginRecord) -> io::Result<()> {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(record.clone());
        let Some(path) = &self.path else { return Ok(()) };
        let directory = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory)?;
        let text = serde_json::to_vec_pretty(record)?;
        // Synced: a rotated refresh token exists nowhere else.
        replace_file(path, &text, ModeOnReplace::Private, Durability::ContentAndName)
    }

    /// Removes the login. Returns whether there was one.
    pub fn forget(&self) -> bool {
        let remembered = self.memory.lock().unwrap_or_else(PoisonError::into_inner).take().is_some();
        let stored = self.path.as_ref().is_some_and(|path| std::fs::remove_file(path).is_ok());
        remembered || stored
    }

    /// Whether a call was rejected because the login lacks scopes.
    pub fn wants_more(&self) -> bool {
        self.load().is_some_and(|it| it.wanted.is_some())
    }

    /// Locks the file against refreshes of other processes; waits at most [`LOCK_LIMIT`].
    pub(super) async fn exclusive(&self) -> io::Result<TokenLock> {
        let Some(path) = self.path.as_ref().map(|it| it.with_extension("lock")) else {
            return Ok(TokenLock(None));
        };
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        let deadline = Instant::now() + LOCK_LIMIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(TokenLock(Some(file))),
                Err(TryLockError::Error(err)) => return Err(err),
                Err(TryLockError::WouldBlock) if deadline < Instant::now() => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another process keeps it"));
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
            }
        }
    }
}
