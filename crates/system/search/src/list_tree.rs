//! What is in a directory, and how much below it.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use crate::{
    DiskKind, FileRequirement, SearchRoot, SearchStop, SearchStopReason, TreeWalk, WalkEntry, WalkFilter,
    WalkLimits, WalkStats, WalkVisitor,
};

/// How a tree is looked at.
pub struct TreeRun<'a> {
    /// Where relative things are relative to.
    pub cwd: &'a Path,
    /// Which entries count.
    pub filter: &'a WalkFilter,
    /// Threads and file systems.
    pub limits: WalkLimits,
    /// Directories down to here are kept with their entries; below, sums only.
    pub depth: usize,
    /// How many entries of one directory are kept; the rest is counted.
    pub keep: usize,
    /// Whether a file may be shown, by its place below the root.
    pub may_show: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// When to give up.
    pub stop: &'a SearchStop,
}

/// The directories below a place, as deep as was asked for.
#[derive(Debug, Default)]
pub struct ListedTree {
    /// The directories down to the asked depth by their place below the root;
    /// the root is the empty place.
    pub dirs: BTreeMap<Vec<u8>, ListedDir>,
    /// What the walk saw and left out.
    pub tally: WalkStats,
    /// The sums are not complete.
    pub stopped: Option<SearchStopReason>,
}

/// One directory of a tree with its entries.
#[derive(Debug, Default)]
pub struct ListedDir {
    /// Its entries by name, as far as they are kept.
    pub entries: BTreeMap<Vec<u8>, TreeItem>,
    /// Entries that are not kept.
    pub more: u64,
    /// Files in it and below.
    pub files: u64,
    /// The size of all files below, in bytes.
    pub bytes: u64,
}

/// What one entry of a directory is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TreeItem {
    /// A directory.
    Dir,
    /// A file, and its size.
    File(u64),
    /// A symbolic link, and what it says.
    Link(Vec<u8>),
}

/// What was left out of a tree.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SkippedEntry {
    /// Its place below the root.
    pub rel: Vec<u8>,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// What it needs to be seen.
    pub needs: FileRequirement,
}

impl TreeRun<'_> {
    /// Looks at everything below a root.
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
    /// What was left out, by path.
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
    /// Keeps the first entries by name.
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

/// Adds what is below to what is above.
fn add_up(dirs: &mut BTreeMap<Vec<u8>, ListedDir>) {
    let places: Vec<Vec<u8>> = dirs.keys().rev().cloned().collect();
    // Deeper places sort behind those above them.
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

/// How many directories a place is below the root.
fn depth(rel: &[u8]) -> usize {
    if rel.is_empty() { 0 } else { memchr::memchr_iter(b'/', rel).count() + 1 }
}

/// The first `depth` names of a place.
fn cut(rel: &[u8], depth: usize) -> &[u8] {
    if depth == 0 {
        return b"";
    }
    match memchr::memchr_iter(b'/', rel).nth(depth - 1) {
        Some(at) => &rel[..at],
        None => rel,
    }
}
