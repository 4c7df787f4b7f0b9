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

/// Everything needed to use a login and to keep it alive.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginRecord {
    /// For people who look into the directory.
    pub(super) server: String,
    pub(super) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    #[serde(default)]
    pub(super) redirect_uri: String,
    /// Which settings the token was got with, where nobody logged in: with
    /// others it is not the one that was meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<String>,
    /// What the server said when the login was for less than a call needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) wanted: Option<String>,
    #[serde(flatten)]
    pub(super) login: LoginTokens,
}

/// What was come by.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginTokens {
    pub(super) credentials: StoredCredentials,
    /// What the server said when it asked for it: where its authorization server
    /// is, often only stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) challenge: Option<String>,
    /// The key the tokens are bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bound_key: Option<String>,
}

impl std::fmt::Debug for LoginTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The rest is secret, or dull.
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

    /// Seconds until the token ends, and how long it was to live; `None` if
    /// nobody said.
    pub(super) fn remaining(&self) -> Option<(u64, u64)> {
        let lifetime = self.response()["expires_in"].as_u64()?;
        let age = now().saturating_sub(self.credentials.token_received_at?);
        Some((lifetime.saturating_sub(age), lifetime))
    }
}

/// The login to one server, shared by all processes of the user.
///
/// **Invariant:** the file is whole or absent, and readable by its owner alone.
pub struct TokenFile {
    /// Without a directory, memory has to do.
    path: Option<PathBuf>,
    memory: Mutex<Option<LoginRecord>>,
}

/// Held while a token is exchanged for a new one.
pub(super) struct TokenLock(#[expect(dead_code, reason = "closing it gives the lock back")] Option<File>);

/// An exchange takes less, even of several requests; who holds the lock longer
/// hangs.
const LOCK_LIMIT: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

impl TokenFile {
    /// The file of a server below `directory`; memory alone without one.
    pub fn new(directory: Option<&Path>, server: &str, url: &str) -> Self {
        let key = hex(&Sha256::digest(format!("{server}\n{url}")));
        let path = directory.map(|it| it.join(format!("{}.json", &key[..32])));
        Self { path, memory: Mutex::default() }
    }

    /// What is stored now: another process may have changed it since.
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
        // A rotated token exists nowhere else: it has to survive a power cut.
        replace_file(path, &text, ModeOnReplace::Private, Durability::ContentAndName)
    }

    /// Says whether there was anything to forget.
    pub fn forget(&self) -> bool {
        let remembered = self.memory.lock().unwrap_or_else(PoisonError::into_inner).take().is_some();
        let stored = self.path.as_ref().is_some_and(|path| std::fs::remove_file(path).is_ok());
        remembered || stored
    }

    /// Whether a call was refused because the login is for less.
    pub fn wants_more(&self) -> bool {
        self.load().is_some_and(|it| it.wanted.is_some())
    }

    /// Waits until no other process is exchanging this token, but not for ever.
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
