//! Lists a directory tree with sizes.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use crate::{
    DiskKind, FileRequirement, SearchRoot, SearchStop, SearchStopReason, TreeWalk, WalkEntry, WalkFilter,
    WalkLimits, WalkStats, WalkVisitor,
};

/// Options of a tree listing.
pub struct TreeRun<'a> {
    /// Working directory, to which git's global ignore rules are relative.
    pub cwd: &'a Path,
    /// Which entries are listed.
    pub filter: &'a WalkFilter,
    /// Threads and file system limits.
    pub limits: WalkLimits,
    /// Depth to which entries are listed; deeper directories only contribute to sums.
    pub depth: usize,
    /// Maximum entries kept per directory; the others are counted.
    pub keep: usize,
    /// Whether a file may be shown, by its path below the root.
    pub may_show: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// Cancellation and deadline.
    pub stop: &'a SearchStop,
}

/// Result of a tree listing.
#[derive(Debug, Default)]
pub struct ListedTree {
    /// Directories down to the requested depth, by path below the root (empty for the root).
    pub dirs: BTreeMap<Vec<u8>, ListedDir>,
    /// What the walk visited and skipped.
    pub tally: WalkStats,
    /// Why the sums are incomplete, if they are.
    pub stopped: Option<SearchStopReason>,
}

/// A directory with its entries.
#[derive(Debug, Default)]
pub struct ListedDir {
    /// Entries by name, at most [`TreeRun::keep`].
    pub entries: BTreeMap<Vec<u8>, TreeItem>,
    /// Number of entries not kept.
    pub more: u64,
    /// Number of files in it and below.
    pub files: u64,
    /// Total size of these files in bytes.
    pub bytes: u64,
}

/// Type of a directory entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TreeItem {
    Dir,
    /// A file with its size in bytes.
    File(u64),
    /// A symlink with its text.
    Link(Vec<u8>),
}

/// A skipped entry.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SkippedEntry {
    /// Path below the root.
    pub rel: Vec<u8>,
    pub is_dir: bool,
    /// What the request would need to include it.
    pub needs: FileRequirement,
}

impl TreeRun<'_> {
    /// Lists everything below `root`. Blocks.
    pub fn run(&self, root: &SearchRoot) -> ListedTree {
        let walk = TreeWalk::new(root, self.filter, self.cwd, self.limits, self.stop);
        let (parts, tally) = walk.run((), || TreePart { run: self, dirs: HashMap::new() });
        let mut dirs: BTreeMap<Vec<u8>, ListedDir> = BTreeMap::new();
        for (place, part) in parts.into_iter().flat_map(|part| part.dirs) {
            let dir = dirs.entry(place).or_default();
            dir.more += part.more;
            dir.files += part.files;
            dir.bytes += part.bytes;
            dir.entries.extend(part.entries);
            dir.trim(self.keep);
        }
        add_up(&mut dirs);
        ListedTree { dirs, tally, stopped: self.stop.reason() }
    }
}

impl ListedTree {
    /// Skipped entries, sorted by path.
    pub fn left_out(&self) -> Vec<SkippedEntry> {
        let pruned = self.tally.pruned.iter();
        let mut entries: Vec<SkippedEntry> = pruned
            .map(|it| SkippedEntry { rel: it.rel.clone(), is_dir: it.dir.is_some(), needs: it.needs })
            .collect();
        entries.sort_unstable();
        entries
    }
}

impl ListedDir {
    /// Keeps the first `keep` entries by name.
    fn trim(&mut self, keep: usize) {
        while keep < self.entries.len() {
            self.entries.pop_last();
            self.more += 1;
        }
    }

    fn insert(&mut self, name: &[u8], keep: usize, item: impl FnOnce() -> TreeItem) {
        let is_behind = self.entries.last_key_value().is_some_and(|(last, _)| last.as_slice() < name);
        if keep <= self.entries.len() && is_behind {
            self.more += 1;
            return;
        }
        self.entries.insert(name.to_vec(), item());
        self.trim(keep);
    }
}

/// Adds the sums of directories to their parents.
fn add_up(dirs: &mut BTreeMap<Vec<u8>, ListedDir>) {
    let places: Vec<Vec<u8>> = dirs.keys().rev().cloned().collect();
    // Children sort after their parents.
    for place in places {
        let Some((files, bytes)) = dirs.get(&place).map(|dir| (dir.files, dir.bytes)) else { continue };
        if let Some(above) = above(&place) {
            let dir = dirs.entry(above.to_vec()).or_default();
            dir.files += files;
            dir.bytes += bytes;
        }
    }
}

fn above(place: &[u8]) -> Option<&[u8]> {
    if place.is_empty() {
        return None;
    }
    Some(memchr::memrchr(b'/', place).map_or(&b""[..], |cut| &place[..cut]))
}

struct TreePart<'a> {
    run: &'a TreeRun<'a>,
    dirs: HashMap<Vec<u8>, ListedDir>,
}

impl WalkVisitor for TreePart<'_> {
    type Mark = ();
    const LINKS: bool = true;

    fn enter(&mut self, _above: &(), _name: &[u8]) -> Option<()> {
        Some(())
    }

    fn dir(&mut self, rel: &[u8]) {
        let depth = depth(rel);
        if depth <= self.run.depth {
            self.dirs.entry(rel.to_vec()).or_default();
        }
        if let Some(above) = above(rel)
            && depth <= self.run.depth + 1
        {
            let name = &rel[if above.is_empty() { 0 } else { above.len() + 1 }..];
            let keep = self.run.keep;
            self.dirs.entry(above.to_vec()).or_default().insert(name, keep, || TreeItem::Dir);
        }
    }

    fn file(&mut self, entry: &WalkEntry<'_, ()>, _tally: &mut WalkStats) {
        let size = match entry.kind {
            DiskKind::Link => 0,
            _ => entry.stat().map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0)),
        };
        let is_kept = depth(entry.dir_rel()) <= self.run.depth;
        if is_kept && !(self.run.may_show)(&entry.rel()) {
            return;
        }
        let dir = self.dirs.entry(cut(entry.dir_rel(), self.run.depth).to_vec()).or_default();
        dir.files += 1;
        dir.bytes += size;
        if is_kept {
            dir.insert(entry.name(), self.run.keep, || match entry.kind {
                DiskKind::Link => TreeItem::Link(entry.link_text()),
                _ => TreeItem::File(size),
            });
        }
    }
}

/// Number of components of a path.
fn depth(rel: &[u8]) -> usize {
    if rel.is_empty() { 0 } else { memchr::memchr_iter(b'/', rel).count() + 1 }
}

/// The first `depth` components of a path.
fn cut(rel: &[u8], depth: usize) -> &[u8] {
    if depth == 0 {
        return b"";
    }
    match memchr::memchr_iter(b'/', rel).nth(depth - 1) {
        Some(at) => &rel[..at],
        None => rel,
    }
}
