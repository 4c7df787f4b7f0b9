//! Examines a tree that a command copies or moves.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::MAX_NAMES;
use crate::config_files;

/// Content of a tree.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) exists: bool,
    /// Whether it contains anything but directories and files with one hard link, or is too large to
    /// tell.
    pub(super) has_links: bool,
    /// Configuration files, relative to the tree.
    pub(super) names: Vec<PathBuf>,
}

/// Examines a tree without following symlinks.
pub(super) fn survey(tree: &Path) -> Survey {
    let mut found = Survey { exists: true, has_links: false, names: Vec::new() };
    let Ok(meta) = tree.symlink_metadata() else {
        found.exists = false;
        return found;
    };
    if !meta.is_dir() {
        found.has_links = !is_single(&meta);
        return found;
    }
    let mut open = vec![tree.to_owned()];
    let mut seen = 0;
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            found.has_links = true;
            break;
        };
        for entry in entries.flatten() {
            seen += 1;
            let meta = entry.metadata();
            let path = entry.path();
            let single = meta.as_ref().is_ok_and(|it| it.is_dir() || is_single(it));
            if MAX_NAMES < seen || !single {
                found.has_links = true;
                return found;
            }
            let name = entry.file_name().to_string_lossy().to_lowercase();
            if config_files::is_any_config_name(&name)
                && let Ok(inside) = path.strip_prefix(tree)
            {
                found.names.push(inside.to_owned());
            }
            if meta.is_ok_and(|it| it.is_dir()) {
                open.push(path);
            }
        }
    }
    found
}

fn is_single(meta: &std::fs::Metadata) -> bool {
    meta.is_file() && meta.nlink() == 1
}
