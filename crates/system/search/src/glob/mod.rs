//! Finds files by name.

mod glob_plan;
mod pattern;

use std::{cmp::Reverse, collections::BinaryHeap, path::Path, sync::Arc};

pub use glob_plan::{GlobPlan, GlobProblem};
use pattern::{GlobPattern, PatternPositions};
use rustix::fs::{FileType, Stat};

use crate::{
    DiskKind, SearchRoot, SearchStop, TreeWalk, WalkEntry, WalkFilter, WalkLimits, WalkStats, WalkVisitor,
};

/// A matching file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GlobMatch {
    /// Modification time in nanoseconds since 1970.
    pub modified: i128,
    /// Path below the root.
    pub rel: Vec<u8>,
}

impl Ord for GlobMatch {
    /// Newest first, then by path.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        Reverse(self.modified).cmp(&Reverse(other.modified)).then_with(|| self.rel.cmp(&other.rel))
    }
}

impl PartialOrd for GlobMatch {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Matches below one root.
#[derive(Debug)]
pub struct GlobResult {
    /// The newest matches, newest first.
    pub hits: Vec<GlobMatch>,
    /// Total number of matches.
    pub total: u64,
    /// What the walk visited and skipped.
    pub tally: WalkStats,
}

/// Options of a glob search.
pub struct GlobRun<'a> {
    /// Working directory, to which git's global ignore rules are relative.
    pub cwd: &'a Path,
    /// Which files are considered.
    pub filter: &'a WalkFilter,
    /// Threads and file system limits.
    pub limits: WalkLimits,
    /// Maximum number of matches kept.
    pub keep: usize,
    /// Whether a file may be shown, by its path below the root.
    pub may_show: &'a (dyn Fn(&[u8], DiskKind) -> bool + Sync),
    /// Cancellation and deadline.
    pub stop: &'a SearchStop,
}

impl GlobRun<'_> {
    /// Runs the patterns of `plan` that start at `asked`, which was opened as `root`. Blocks.
    pub fn run(&self, plan: &GlobPlan, asked: &Path, root: &SearchRoot) -> GlobResult {
        let Some(search) = plan.search(asked) else {
            return GlobResult { hits: Vec::new(), total: 0, tally: WalkStats::default() };
        };
        let walk = TreeWalk::new(root, self.filter, self.cwd, self.limits, self.stop);
        let start: Arc<[PatternPositions]> = search.patterns.iter().map(GlobPattern::start).collect();
        let make =
            || Collector { run: self, patterns: &search.patterns, newest: BinaryHeap::new(), total: 0 };
        let (collectors, tally) = walk.run(start, make);
        let total = collectors.iter().map(|it| it.total).sum();
        let mut hits: Vec<GlobMatch> = collectors.into_iter().flat_map(|it| it.newest).collect();
        hits.sort_unstable();
        hits.truncate(self.keep);
        GlobResult { hits, total, tally }
    }
}

struct Collector<'a> {
    run: &'a GlobRun<'a>,
    patterns: &'a [GlobPattern],
    /// Max-heap: the oldest kept match is on top.
    newest: BinaryHeap<GlobMatch>,
    total: u64,
}

impl WalkVisitor for Collector<'_> {
    type Mark = Arc<[PatternPositions]>;
    const LINKS: bool = true;

    fn enter(&mut self, above: &Self::Mark, name: &[u8]) -> Option<Self::Mark> {
        let enter = |(pattern, places): (&GlobPattern, &PatternPositions)| pattern.enter(*places, name);
        let mut places = self.patterns.iter().zip(above.iter()).map(enter);
        if let [only] = self.patterns
            && let [before] = **above
        {
            // With a single pattern, mostly `**`, the mark often stays equal.
            let after = only.enter(before, name);
            return match after {
                0 => None,
                same if same == before => Some(Arc::clone(above)),
                other => Some(Arc::from([other])),
            };
        }
        let places: Arc<[PatternPositions]> = places.by_ref().collect();
        places.iter().any(|it| *it != 0).then_some(places)
    }

    fn file(&mut self, entry: &WalkEntry<'_, Self::Mark>, _tally: &mut WalkStats) {
        let mut pairs = self.patterns.iter().zip(entry.mark.iter());
        if !pairs.any(|(pattern, places)| pattern.takes(*places, entry.name())) {
            return;
        }
        let Some(stat) = listed(entry) else { return };
        let rel = entry.rel();
        if !(self.run.may_show)(&rel, entry.kind) {
            return;
        }
        self.total += 1;
        let hit = GlobMatch { modified: modified(&stat), rel };
        if self.newest.len() < self.run.keep {
            self.newest.push(hit);
        } else if let Some(mut oldest) = self.newest.peek_mut()
            && hit < *oldest
        {
            *oldest = hit;
        }
    }
}

/// Metadata of a regular file or of a symlink to one.
fn listed<M>(entry: &WalkEntry<'_, M>) -> Option<Stat> {
    match entry.kind {
        DiskKind::File => entry.stat().ok(),
        DiskKind::Link => {
            let target = entry.stat_target().ok()?;
            (FileType::from_raw_mode(target.st_mode) == FileType::RegularFile).then_some(target)
        }
        DiskKind::Dir | DiskKind::Special => None,
    }
}

/// Modification time in nanoseconds since 1970.
#[expect(clippy::unnecessary_cast, reason = "the width differs by platform")]
pub(crate) fn modified(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime as i64) * 1_000_000_000 + i128::from(stat.st_mtime_nsec as i64)
}
