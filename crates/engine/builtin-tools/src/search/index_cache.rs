use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_search::TreeIndex;

/// The indexes of the last few trees, most recent first. They live in memory:
/// building one takes seconds for tens of thousands of files and is done once a
/// session, and what is not stored cannot be stale, foreign or broken.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes {
    known: Arc<Mutex<Vec<(PathBuf, SharedIndex)>>>,
}

type SharedIndex = Arc<Mutex<TreeIndex>>;

/// As many trees are kept in mind.
const KEPT: usize = 3;

impl Indexes {
    /// The index of a tree; an empty one if it is new.
    pub(super) fn of(&self, root: &Path) -> SharedIndex {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().position(|(path, _)| path == root);
        let entry = match found {
            Some(at) => known.remove(at),
            None => (root.to_owned(), SharedIndex::default()),
        };
        let index = Arc::clone(&entry.1);
        known.insert(0, entry);
        known.truncate(KEPT);
        index
    }
}

/// Calls about the same tree wait for each other: the second finds the index up
/// to date.
pub(super) fn lock(index: &SharedIndex) -> MutexGuard<'_, TreeIndex> {
    index.lock().unwrap_or_else(|poisoned| {
        // Whoever broke it may have left it half changed.
        let mut index = PoisonError::into_inner(poisoned);
        *index = TreeIndex::default();
        index
    })
}
