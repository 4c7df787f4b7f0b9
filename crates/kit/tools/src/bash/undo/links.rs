//! Hard links: which names were one file before a command, and whether it tore
//! them apart or tied others together.

use std::collections::BTreeSet;

use haft_workspace::{FileChange, FileObject, LinkedName};

use super::tree::{Node, Tree};

/// Whether a name stands for another file than before, and one of the two has
/// further names: an undo that cared for contents alone would leave names torn
/// off, or change what they share.
pub(super) fn is_relinked(before: &Node, after: Option<&Node>) -> bool {
    let (Some(old), Some(new)) = (before.stamp, after.and_then(|it| it.stamp)) else { return false };
    old.object() != new.object() && (old.is_linked() || new.is_linked())
}

/// The names that an undo of these changes has to know: changed ones that had or
/// have further names, and those that were one file with them.
pub(super) fn linked_names(before: &Tree, after: &Tree, changes: &[FileChange]) -> Vec<LinkedName> {
    let object = |tree: &Tree, change: &FileChange| {
        let stamp = tree.get(&change.path)?.stamp?;
        stamp.is_linked().then(|| stamp.object())
    };
    let torn: BTreeSet<FileObject> = changes.iter().filter_map(|it| object(before, it)).collect();
    let shared = |node: &Node| node.stamp.is_some_and(|it| it.is_linked() && torn.contains(&it.object()));
    let were = before.iter().filter(|(_, node)| shared(node)).map(|(path, _)| path);
    let became = changes.iter().filter(|it| object(after, it).is_some()).map(|it| &it.path);
    let names: BTreeSet<_> = were.chain(became).collect();
    let was = |path: &std::path::PathBuf| Some(before.get(path)?.stamp?.object());
    names.into_iter().map(|path| LinkedName { path: path.clone(), before: was(path) }).collect()
}
