use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use rmcp::transport::auth::StoredCredentials;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::client::hex;

/// Everything needed to use a login and to keep it alive.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// For people who look into the directory.
    pub(super) server: String,
    pub(super) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    pub(super) redirect_uri: String,
    pub(super) credentials: StoredCredentials,
}

impl Record {
    pub(super) fn access_token(&self) -> Option<String> {
        let response = serde_json::to_value(self.credentials.token_response.as_ref()?).ok()?;
        response["access_token"].as_str().map(str::to_owned)
    }

    pub(super) fn can_be_refreshed(&self) -> bool {
        let response = serde_json::to_value(&self.credentials.token_response).unwrap_or_default();
        response["refresh_token"].is_string()
    }

    /// Seconds until the token ends; `None` if nobody said.
    pub(super) fn remaining(&self) -> Option<(u64, u64)> {
        let response = serde_json::to_value(self.credentials.token_response.as_ref()?).ok()?;
        let lifetime = response["expires_in"].as_u64()?;
        let age = now().saturating_sub(self.credentials.token_received_at?);
        Some((lifetime.saturating_sub(age), lifetime))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

/// The login to one server, shared by all processes of the user.
///
/// **Invariant:** the file is whole or absent, and readable by its owner alone.
pub(crate) struct TokenFile {
    /// Without a directory, memory has to do.
    path: Option<PathBuf>,
    memory: Mutex<Option<Record>>,
}

/// Held while a token is exchanged for a new one.
pub(super) struct Exclusive(#[expect(dead_code, reason = "closing it gives the lock back")] Option<File>);

impl TokenFile {
    pub(crate) fn new(directory: Option<&Path>, server: &str, url: &str) -> Self {
        let key = hex(&Sha256::digest(format!("{server}\n{url}")));
        let path = directory.map(|it| it.join(format!("{}.json", &key[..32])));
        Self { path, memory: Mutex::default() }
    }

    /// What is stored now: another process may have changed it since.
    pub(super) fn load(&self) -> Option<Record> {
        match &self.path {
            Some(path) => serde_json::from_slice(&std::fs::read(path).ok()?).ok(),
            None => self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(super) fn save(&self, record: &Record) -> std::io::Result<()> {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(record.clone());
        let Some(path) = &self.path else { return Ok(()) };
        let directory = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory)?;
        // Such files are made for the owner alone.
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&serde_json::to_vec_pretty(record)?)?;
        // A rotated token exists nowhere else: it has to survive a power cut.
        file.as_file().sync_all()?;
        file.persist(path).map_err(|err| err.error)?;
        File::open(directory)?.sync_all()
    }

    /// Says whether there was anything to forget.
    pub(crate) fn forget(&self) -> bool {
        let remembered = self.memory.lock().unwrap_or_else(PoisonError::into_inner).take().is_some();
        let stored = self.path.as_ref().is_some_and(|path| std::fs::remove_file(path).is_ok());
        remembered || stored
    }

    /// Waits until no other process is exchanging this token.
    pub(super) async fn exclusive(&self) -> std::io::Result<Exclusive> {
        let Some(path) = self.path.as_ref().map(|it| it.with_extension("lock")) else {
            return Ok(Exclusive(None));
        };
        let locking = tokio::task::spawn_blocking(move || {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
            file.lock()?;
            Ok(Exclusive(Some(file)))
        });
        locking.await.map_err(std::io::Error::other)?
    }
}
