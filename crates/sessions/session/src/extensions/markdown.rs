//! Finds Markdown files below a directory: commands, agents, styles, rules.

use std::{
    collections::HashSet,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::LinkGuard;

/// Maximum directory depth.
const DEEPEST: usize = 6;

/// Maximum number of directory entries read: a symlink in a project can lead anywhere.
const MAX_ENTRIES: usize = 10_000;

/// Markdown files below a directory in order, with their relative paths. A directory outside of the
/// permitted one is listed itself instead of its files, so that reading it reports the reason.
pub(crate) fn pages(dir: &Path, fence: &LinkGuard) -> Vec<(PathBuf, PathBuf)> {
    let mut walk = MarkdownWalk { fence, found: Vec::new(), seen: HashSet::new(), left: MAX_ENTRIES };
    walk.collect(dir, Path::new(""), 0);
    walk.found.sort();
    walk.found
}

struct MarkdownWalk<'a> {
    fence: &'a LinkGuard,
    found: Vec<(PathBuf, PathBuf)>,
    /// Directories already visited, because symlinks can form cycles.
    seen: HashSet<(u64, u64)>,
    left: usize,
}

impl MarkdownWalk<'_> {
    fn collect(&mut self, dir: &Path, inside: &Path, depth: usize) {
        let Ok(place) = std::fs::metadata(dir) else { return };
        if self.fence.is_left_by(dir) {
            return self.found.push((inside.to_owned(), dir.to_owned()));
        }
        if !self.seen.insert((place.dev(), place.ino())) {
            return;
        }
        let (mut linked, mut below) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let (path, inside) = (entry.path(), inside.join(entry.file_name()));
            let is_link = entry.file_type().is_ok_and(|it| it.is_symlink());
            if path.is_dir() && depth < DEEPEST {
                let dirs = if is_link { &mut linked } else { &mut below };
                dirs.push((path, inside));
            } else if path.extension().is_some_and(|it| it == "md") {
                self.found.push((inside, path));
            }
        }
        // Wherever links lead, what is really here comes first.
        for (path, inside) in below.into_iter().chain(linked) {
            self.collect(&path, &inside, depth + 1);
        }
    }
}
