use std::{collections::HashMap, fs::Metadata, os::unix::fs::MetadataExt, path::PathBuf};

/// How many entries of a named directory are looked at.
const MAX_ENTRIES: usize = 256;

/// What makes two names the same file.
pub(crate) type FileId = (u64, u64);

/// The identity of a file that has more than one name.
pub(crate) fn linked_id(metadata: &Metadata) -> Option<FileId> {
    (metadata.is_file() && 1 < metadata.nlink()).then(|| (metadata.dev(), metadata.ino()))
}

/// The named path that is the same file. Who it is, is asked only if there is
/// anything to compare it with.
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

/// Files with several names among the named paths and directly inside named
/// directories. Names no rule spells out are not found: a hard link is not
/// visible from the other name.
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
