//! Times, owners and extended attributes, put back after everything else.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use crate::{AttributeChange, Attributes, EntryId, Journal};

/// What paths should have, and what they had before anything was put back.
pub(super) struct TargetAttributes {
    paths: BTreeMap<PathBuf, AttributePath>,
}

struct AttributePath {
    /// What the entries left there.
    left: Option<Attributes>,
    /// What is there now.
    now: Option<Attributes>,
    /// What is to be there.
    wanted: Option<Attributes>,
}

impl TargetAttributes {
    /// Looks up what belongs to some entries, newest first, and at the disk.
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

    /// Gives them to the paths that were restored and to the directories around
    /// them, innermost first, and says what changed.
    pub(super) fn apply(self, restored: &HashSet<&Path>) -> Vec<AttributeChange> {
        let mut changes = Vec::new();
        for (path, it) in self.paths.into_iter().rev() {
            // A directory that another process worked in keeps its time.
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
