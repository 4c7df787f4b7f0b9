use std::{collections::HashMap, fs::Metadata, os::unix::fs::MetadataExt, path::PathBuf};

/// Maximum entries examined of a directory named in a rule.
const MAX_ENTRIES: usize = 256;

/// Device and inode.
pub(crate) type FileId = (u64, u64);

/// Identity of a file with several hard links.
pub(crate) fn linked_id(metadata: &Metadata) -> Option<FileId> {
    (metadata.is_file() && 1 < metadata.nlink()).then(|| (metadata.dev(), metadata.ino()))
}

/// The path named in a rule that is the same file. `id` is called only if there is something to compare.
pub(crate) fn same_file(
    id: impl Fn() -> Option<FileId>,
    named: &[(PathBuf, usize)],
) -> Option<(PathBuf, usize)> {
    if named.is_empty() {
        return None;
    }
    let id = id()?;
    linked_files(named).remove(&id)
}

/// Files with several hard links among the paths named in rules and directly inside named directories.
/// Other links cannot be found, because hard links do not refer to each other.
pub(crate) fn linked_files(named: &[(PathBuf, usize)]) -> HashMap<FileId, (PathBuf, usize)> {
    let mut found = HashMap::new();
    for (path, rule) in named {
        let Ok(metadata) = std::fs::metadata(path) else { continue };
        if let Some(id) = linked_id(&metadata) {
            found.entry(id).or_insert_with(|| (path.clone(), *rule));
        }
        if !metadata.is_dir() {
            continue;
        }
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries.take(MAX_ENTRIES) {
            if let Some(id) = entry.metadata().ok().as_ref().and_then(linked_id) {
                found.entry(id).or_insert_with(|| (entry.path(), *rule));
            }
        }
    }
    found
}
