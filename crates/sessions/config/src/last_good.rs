//! Keeps the last valid version of each settings file, which stays in effect while the user's file is
//! broken.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use haft_paths::{Durability, ModeOnReplace, replace_file, sweep_unfinished};
use sha2::{Digest, Sha256};

use crate::{
    directory_lock::lock,
    settings_document::SettingsDocument,
    stable_read::{LARGEST, read},
};

/// Copies of valid versions, stored in Haft's own directory.
#[derive(Debug)]
pub(crate) struct LastGood {
    directory: Option<PathBuf>,
    /// Versions seen by this process, in case they cannot be stored.
    memory: Mutex<HashMap<PathBuf, Vec<u8>>>,
}

impl LastGood {
    /// Stores copies below `state`; `None` keeps them in memory only.
    pub(crate) fn below(state: Option<&Path>) -> Self {
        let directory = state.map(|state| state.join("cache").join("last-good"));
        Self { directory, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<PathBuf, Vec<u8>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, path: &Path) -> Option<PathBuf> {
        let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.directory.as_ref().map(|directory| directory.join(format!("{name}.json")))
    }

    /// Stores a version. Errors such as a full or read-only disk are ignored; there is then no copy for
    /// later processes.
    pub(crate) fn keep(&self, path: &Path, bytes: &[u8]) {
        if self.memory().get(path).is_some_and(|kept| kept == bytes) {
            return;
        }
        self.memory().insert(path.to_owned(), bytes.to_owned());
        let (Some(place), Some(directory)) = (self.place(path), &self.directory) else { return };
        if read(&place, LARGEST).is_ok_and(|kept| kept.bytes == bytes) {
            return;
        }
        if !directory.is_dir() && DirBuilder::new().recursive(true).mode(0o700).create(directory).is_err() {
            return;
        }
        let Ok(_lock) = lock(directory, None) else { return };
        sweep_unfinished(directory);
        // Another process may have stored a newer version in the meantime: read the file again.
        let Ok(newest) = read(path, LARGEST) else { return };
        if SettingsDocument::parse(&newest.bytes).is_ok()
            && replace_file(&place, &newest.bytes, ModeOnReplace::KeptOr(0o600), Durability::Whenever)
                .is_err()
        {
            // An outdated copy must not be used.
            let _gone = fs::remove_file(&place);
        }
    }

    /// Returns the last valid version of a file.
    pub(crate) fn of(&self, path: &Path) -> Option<SettingsDocument> {
        if let Some(bytes) = self.memory().get(path) {
            return SettingsDocument::parse(bytes).ok();
        }
        let kept = read(&self.place(path)?, LARGEST).ok()?;
        SettingsDocument::parse(&kept.bytes).ok()
    }

    /// Removes the copy, because the user deleted the file.
    pub(crate) fn forget(&self, path: &Path) {
        self.memory().remove(path);
        if let Some(place) = self.place(path).filter(|place| place.exists()) {
            let _gone = fs::remove_file(place);
        }
    }
}
