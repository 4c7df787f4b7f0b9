use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_search::TreeIndex;

/// Search indexes of the most recently searched trees, newest first. Kept in memory only: building one
/// takes seconds for tens of thousands of files and happens once per session, and an index that is not
/// stored cannot be stale or corrupt.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes {
    known: Arc<Mutex<Vec<(PathBuf, SharedIndex)>>>,
}

type SharedIndex = Arc<Mutex<TreeIndex>>;

/// Maximum number of indexes kept.
const KEPT: usize = 3;

impl Indexes {
    /// Returns the index of a tree, an empty one if there is none, and marks it as most recently used.
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

/// Locks an index. Concurrent calls about the same tree wait; the second one finds it up to date.
pub(super) fn lock(index: &SharedIndex) -> MutexGuard<'_, TreeIndex> {
    index.lock().unwrap_or_else(|poisoned| {
        // A panic may have left the index half updated, so it is discarded.
        let mut index = PoisonError::into_inner(poisoned);
        *index = TreeIndex::default();
        index
    })
}
