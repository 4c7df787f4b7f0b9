//! Finds logs and assigns keys to their pages.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use haft_agent::log::session_list::SessionInfo;
use sha2::{Digest as _, Sha256};

/// Directories that contain a log directory per project.
#[derive(Clone, Debug, Default)]
pub struct LogRoots(pub Vec<PathBuf>);

/// A log.
#[derive(Clone, Debug)]
pub(crate) struct LogLocation {
    /// Key of its page; not derived from user input, so it cannot name a path.
    pub(crate) key: String,
    pub(crate) path: PathBuf,
    /// Title, from the start and end of the log.
    pub(crate) title: String,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
}

/// The logs that have pages.
#[derive(Debug, Default)]
pub struct LogLocations {
    roots: LogRoots,
    known: Mutex<HashMap<String, PathBuf>>,
}

impl LogLocations {
    /// Creates the set of logs below these directories.
    pub fn new(roots: LogRoots) -> Self {
        Self { roots, known: Mutex::default() }
    }

    /// Adds a log; returns the key of its page.
    pub fn add(&self, path: &Path) -> String {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let key: String = digest.iter().take(12).map(|it| format!("{it:02x}")).collect();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), path);
        key
    }

    /// Returns the log of a page.
    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Returns all logs, newest first. Symlinks are not followed.
    pub(crate) fn all(&self) -> Vec<LogLocation> {
        let mut found = Vec::new();
        for root in &self.roots.0 {
            for project in entries(root).filter(|it| it.is_dir()) {
                let logs = haft_agent::log::session_list::list(&project).unwrap_or_default();
                found.extend(logs.into_iter().map(|log| self.place(log)));
            }
        }
        found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
        found.dedup_by(|a, b| a.key == b.key);
        found
    }

    fn place(&self, log: SessionInfo) -> LogLocation {
        let key = self.add(&log.path);
        LogLocation { key, path: log.path, title: log.title, size: log.size, modified: log.modified }
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path())
}
