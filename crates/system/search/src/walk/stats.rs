use std::sync::Arc;

use super::ignore_rules::IgnoreRules;

/// What a request would have to include to see a file.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileRequirement {
    /// Ignored files: an ignore file excludes it or a parent.
    pub ignored: bool,
    /// Hidden files: its name or a parent's starts with a dot.
    pub hidden: bool,
    /// Binary files.
    pub binary: bool,
}

/// What a walk visited and skipped.
#[derive(Debug, Default)]
pub struct WalkStats {
    /// Regular files (and symlinks, if requested) visited.
    pub files: u64,
    /// Directories listed.
    pub dirs: u64,
    /// Entries excluded by ignore files; a directory counts as one.
    pub ignored: u64,
    /// Hidden entries.
    pub hidden: u64,
    /// Directories of version control systems.
    pub vcs: u64,
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Symlinks, which are not followed.
    pub links: u64,
    /// Directories on other file systems.
    pub mounts: u64,
    /// Entries that could not be read.
    pub unreadable: Unreadable,
    /// Skipped entries, to visit later.
    pub(crate) pruned: Vec<SkippedDir>,
    /// Whether more were skipped than are remembered.
    pub(crate) forgotten: bool,
}

/// A skipped entry.
#[derive(Clone, Debug)]
pub(crate) struct SkippedDir {
    pub(crate) rel: Vec<u8>,
    pub(crate) needs: FileRequirement,
    /// For a directory: the rules that apply to it.
    pub(crate) dir: Option<Arc<IgnoreRules>>,
}

/// Maximum number of skipped entries remembered.
const MAX_PRUNED: usize = 50_000;

impl WalkStats {
    pub(crate) fn prune(&mut self, pruned: impl FnOnce() -> SkippedDir) {
        if self.pruned.len() < MAX_PRUNED {
            self.pruned.push(pruned());
        } else {
            self.forgotten = true;
        }
    }

    /// Adds the counts of another worker.
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.dirs += other.dirs;
        self.ignored += other.ignored;
        self.hidden += other.hidden;
        self.vcs += other.vcs;
        self.special += other.special;
        self.links += other.links;
        self.mounts += other.mounts;
        self.unreadable.add(other.unreadable);
        self.forgotten |= other.forgotten;
        self.pruned.extend(other.pruned);
    }
}

/// Entries that could not be read.
#[derive(Clone, Debug, Default)]
pub struct Unreadable {
    pub count: u64,
    /// The first ones by path, each with the error.
    pub first: Vec<(Vec<u8>, String)>,
}

/// Maximum number of entries kept with their error.
const NAMED: usize = 5;

impl Unreadable {
    /// Records an entry that could not be read.
    pub(crate) fn note(&mut self, rel: &[u8], error: &std::io::Error) {
        self.count += 1;
        self.keep(rel.to_vec(), plain(error));
    }

    fn keep(&mut self, rel: Vec<u8>, reason: String) {
        let at = self.first.partition_point(|(other, _)| *other < rel);
        self.first.insert(at, (rel, reason));
        self.first.truncate(NAMED);
    }

    fn add(&mut self, other: Self) {
        self.count += other.count;
        for (rel, reason) in other.first {
            self.keep(rel, reason);
        }
    }
}

/// The error text without the error number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}
