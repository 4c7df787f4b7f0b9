//! Hard links: which paths were the same file before a command, and whether the command separated them
//! or linked others.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use haft_workspace::{FileChange, FileObject, Journal, LinkedName, RetainedObject};

use super::path_tree::{FileStamp, PathNode, PathTree, is_generated, is_objects};

/// Maximum number of files held open while a command runs.
const MAX_HELD: usize = 256;

/// Files with several hard links, held open while a command runs. If the command replaces one of the
/// paths, undo can link it to the original file again, wherever the other paths are.
#[derive(Debug, Default)]
pub(super) struct RetainedLinks {
    held: HashMap<FileObject, RetainedObject>,
    /// Number of files that have links outside the snapshot and could not be held, so undo may not
    /// relink them.
    beyond: usize,
}

impl RetainedLinks {
    /// Opens the hard-linked files of a snapshot, at most [`MAX_HELD`]. Skips dependencies, build output
    /// and git objects.
    pub(super) fn hold(tree: &PathTree, journal: &Journal) -> Self {
        let linked = tree.iter().filter_map(|(path, node)| {
            let stamp = node.stamp.filter(FileStamp::is_linked)?;
            Some((path, stamp))
        });
        let mut names: BTreeMap<FileObject, (&Path, FileStamp, u64)> = BTreeMap::new();
        for (path, stamp) in linked {
            names.entry(stamp.object()).or_insert((path, stamp, 0)).2 += 1;
        }
        if names.is_empty() {
            return Self::default();
        }
        let store = fs::metadata(journal.dir()).map(|it| it.dev()).ok();
        let mut links = Self::default();
        let mut bulk = BulkDirectories::default();
        for (object, (path, stamp, known)) in names {
            if bulk.holds(path) {
                continue;
            }
            let reachable = Some(object.id().0) == store && links.held.len() < MAX_HELD;
            match reachable.then(|| RetainedObject::open(path, object)).flatten() {
                Some(held) => drop(links.held.insert(object, held)),
                None => links.beyond += usize::from(known < stamp.names()),
            }
        }
        links
    }

    /// Returns the note shown before the command runs; `None` if every file can be relinked.
    pub(super) fn note(&self) -> Option<String> {
        let files = match self.beyond {
            0 => return None,
            1 => String::from("one file that is a hard link"),
            more => format!("{more} files that are hard links"),
        };
        Some(format!(
            "undo brings back the content of {files}, but may not tie it to other names outside of the workspace again"
        ))
    }

    /// Hands the files that lost a link to the journal, which keeps them.
    pub(super) fn keep_torn(&self, journal: &Journal, links: &[LinkedName], after: &PathTree) {
        for link in links {
            let now = after.get(&link.path).and_then(|it| it.stamp).map(|it| it.object());
            if now != link.before
                && let Some(held) = link.before.and_then(|it| self.held.get(&it))
            {
                journal.retain_inode(held);
            }
        }
    }
}

/// Caches, per directory, whether it belongs to dependencies, build output or git objects, which can be
/// regenerated or never change.
#[derive(Default)]
struct BulkDirectories(HashMap<PathBuf, bool>);

impl BulkDirectories {
    fn holds(&mut self, path: &Path) -> bool {
        let Some(dir) = path.parent() else { return false };
        if let Some(known) = self.0.get(dir) {
            return *known;
        }
        let is_bulk = dir.ancestors().any(|it| is_objects(it) || is_generated(it));
        self.0.insert(dir.to_owned(), is_bulk);
        is_bulk
    }
}

/// Whether the path is now a different file, and the old or the new one has other links. Restoring only
/// the content would not restore the links, or would change the other links too.
pub(super) fn is_relinked(before: &PathNode, after: Option<&PathNode>) -> bool {
    let (Some(old), Some(new)) = (before.stamp, after.and_then(|it| it.stamp)) else { return false };
    old.object() != new.object() && (old.is_linked() || new.is_linked())
}

/// Returns the paths that undo and redo of these changes need: changed paths that had or have other
/// links, and all paths in the two snapshots that are the same file as one of those.
pub(super) fn linked_names(
    journal: &Journal,
    before: &PathTree,
    after: &PathTree,
    changes: &[FileChange],
) -> Vec<LinkedName> {
    let object = |tree: &PathTree, path: &Path| tree.get(path)?.stamp.map(|it| it.object());
    let linked = |tree: &PathTree| -> BTreeSet<FileObject> {
        let stamps = changes.iter().filter_map(|it| tree.get(&it.path)?.stamp);
        stamps.filter(FileStamp::is_linked).map(|it| it.object()).collect()
    };
    let (torn, tied) = (linked(before), linked(after));
    let shares = |node: &PathNode, objects: &BTreeSet<FileObject>| {
        node.stamp.is_some_and(|it| it.is_linked() && objects.contains(&it.object()))
    };
    let were = before.iter().filter(|(_, node)| shares(node, &torn)).map(|(path, _)| path);
    let became = after.iter().filter(|(_, node)| shares(node, &tied)).map(|(path, _)| path);
    let names: BTreeSet<&PathBuf> = were.chain(became).collect();
    let mut known: HashMap<FileObject, u64> = HashMap::new();
    for object in names.iter().filter_map(|path| object(before, path)) {
        *known.entry(object).or_default() += 1;
    }
    for (object, known) in &mut known {
        *known += journal.names_of_ours(object.id());
    }
    let name = |path: &PathBuf| {
        let stamp = before.get(path).and_then(|it| it.stamp);
        let elsewhere =
            stamp.is_some_and(|it| known.get(&it.object()).is_none_or(|known| *known < it.names()));
        let after = object(after, path);
        LinkedName { path: path.clone(), before: stamp.map(|it| it.object()), after, elsewhere }
    };
    names.into_iter().map(name).collect()
}
