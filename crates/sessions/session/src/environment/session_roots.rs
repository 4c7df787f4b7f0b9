//! The workspace directories of a session.

use std::{
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock},
};

/// The workspace directories, including those added by answers to permission questions.
#[derive(Debug)]
pub(crate) struct SessionRoots {
    first: Vec<PathBuf>,
    later: RwLock<Vec<PathBuf>>,
}

impl SessionRoots {
    pub(crate) fn new(first: Vec<PathBuf>) -> Self {
        Self { first, later: RwLock::default() }
    }

    pub(crate) fn now(&self) -> Vec<PathBuf> {
        let later = self.later.read().unwrap_or_else(PoisonError::into_inner);
        self.first.iter().chain(later.iter()).cloned().collect()
    }

    /// Adds a directory. Returns `false` if it was already there.
    pub(crate) fn add(&self, dir: &Path) -> bool {
        let mut later = self.later.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = !self.first.iter().chain(later.iter()).any(|it| it == dir);
        if is_new {
            later.push(dir.to_owned());
        }
        is_new
    }

    /// Removes a directory that was added during the session. Returns whether it was there.
    pub(crate) fn remove(&self, dir: &Path) -> bool {
        let mut later = self.later.write().unwrap_or_else(PoisonError::into_inner);
        let before = later.len();
        later.retain(|it| it != dir);
        later.len() < before
    }
}
