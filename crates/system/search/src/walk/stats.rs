use std::sync::Arc;

use super::ignore_rules::IgnoreRules;

/// What a file needs beyond the request to be looked at.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileRequirement {
    /// Ignore files name it, or a directory above it.
    pub ignored: bool,
    /// Its name or one above begins with a dot.
    pub hidden: bool,
    /// It is no text.
    pub binary: bool,
}

/// What a walk saw, and what it left out.
#[derive(Debug, Default)]
pub struct WalkStats {
    /// Regular files (and links, where they count) that were visited.
    pub files: u64,
    /// Directories that were listed.
    pub dirs: u64,
    /// Entries that ignore files name, directories counting as one.
    pub ignored: u64,
    /// Entries whose name begins with a dot.
    pub hidden: u64,
    /// Directories of version control systems.
    pub vcs: u64,
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Symbolic links, which are not followed.
    pub links: u64,
    /// Directories on other file systems.
    pub mounts: u64,
    /// What could not be read.
    pub unreadable: Unreadable,
    /// Places that were left out, to look at later.
    pub(crate) pruned: Vec<SkippedDir>,
    /// More were left out than are kept in mind.
    pub(crate) forgotten: bool,
}

/// A place that was left out.
#[derive(Clone, Debug)]
pub(crate) struct SkippedDir {
    pub(crate) rel: Vec<u8>,
    pub(crate) needs: FileRequirement,
    /// Of a directory, the rules it is in.
    pub(crate) dir: Option<Arc<IgnoreRules>>,
}

/// As many left-out places are kept in mind.
const MAX_PRUNED: usize = 50_000;

impl WalkStats {
    pub(crate) fn prune(&mut self, pruned: impl FnOnce() -> SkippedDir) {
        if self.pruned.len() < MAX_PRUNED {
            self.pruned.push(pruned());
        } else {
            self.forgotten = true;
        }
    }

    /// Adds another worker's.
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

/// Files and directories that could not be read, and why the first ones could
/// not.
#[derive(Clone, Debug, Default)]
pub struct Unreadable {
    /// How many could not be read.
    pub count: u64,
    /// The first ones by path: place and reason.
    pub first: Vec<(Vec<u8>, String)>,
}

/// As many are named.
const NAMED: usize = 5;

impl Unreadable {
    /// Takes note of one.
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

/// What the system says, without the error number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}
