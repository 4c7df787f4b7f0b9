//! Restores times, owners and extended attributes, after everything else.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use crate::{AttributeChange, Attributes, EntryId, Journal};

/// Attributes to restore, and those before the undo.
pub(super) struct TargetAttributes {
    paths: BTreeMap<PathBuf, AttributePath>,
}

struct AttributePath {
    /// What the entries left at the path.
    left: Option<Attributes>,
    /// What is at the path now.
    now: Option<Attributes>,
    /// What to restore.
    wanted: Option<Attributes>,
}

impl TargetAttributes {
    /// Collects the attributes for some entries, newest first, and reads the current ones.
    pub(super) fn collect(journal: &Journal, undone: &[EntryId]) -> Self {
        let mut paths: BTreeMap<PathBuf, AttributePath> = BTreeMap::new();
        for AttributeChange { path, before, after } in
            undone.iter().flat_map(|id| journal.beside(id).attributes)
        {
            match paths.get_mut(&path) {
                Some(known) => known.wanted = before,
                None => {
                    let now = fs::symlink_metadata(&path).ok().map(|meta| Attributes::read(&path, &meta));
                    paths.insert(path, AttributePath { left: after, now, wanted: before });
                }
            }
        }
        Self { paths }
    }

    /// Applies attributes to the restored paths and their parent directories, innermost first. Returns
    /// the changes.
    pub(super) fn apply(self, restored: &HashSet<&Path>) -> Vec<AttributeChange> {
        let mut changes = Vec::new();
        for (path, it) in self.paths.into_iter().rev() {
            // A directory that another process changed keeps its time.
            let untouched = it.now == it.left;
            let applies = restored.contains(path.as_path()) || untouched;
            if let Some(wanted) = it.wanted.as_ref().filter(|_| applies) {
                wanted.apply(&path).ok();
            }
            if applies {
                changes.push(AttributeChange { path, before: it.now, after: it.wanted });
            }
        }
        changes
    }
}
