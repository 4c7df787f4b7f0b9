use std::{collections::BTreeMap, fs::File, io, path::Path, time::Duration};

use super::{
    GrepOptions, GrepQuery, GrepTotals, Mode,
    file::{FileSearch, GrepOrigin, Searched},
    paging::{Collector, GrepPage},
};
use crate::{
    FileRequirement, SearchRoot, SearchStop, SearchStopReason, TreeWalk, WalkEntry, WalkFilter, WalkLimits,
    WalkStats, WalkVisitor, walk::SkippedDir,
};

/// Options of a text search.
pub struct GrepRun<'a> {
    pub query: &'a GrepQuery,
    /// Working directory, to which git's global ignore rules are relative.
    pub cwd: &'a Path,
    /// Which files are searched.
    pub filter: &'a WalkFilter,
    /// Threads and file system limits.
    pub limits: WalkLimits,
    /// Which part of the result to return.
    pub page: GrepPage,
    /// Whether a file may be shown, by its path below the root.
    pub may_show: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// Cancellation and deadline.
    pub stop: &'a SearchStop,
}

/// Result of a text search.
#[derive(Debug, Default)]
pub struct GrepResult {
    /// The matches.
    pub totals: GrepTotals,
    /// Number of files searched.
    pub searched: u64,
    /// Binary files that were not searched.
    pub binary: u64,
    /// What the walk visited and skipped.
    pub tally: WalkStats,
    /// Matches in skipped files; only if there were few matches otherwise.
    pub left_out: Option<LeftOut>,
    /// Why the search is incomplete, if it is.
    pub stopped: Option<SearchStopReason>,
    /// Whether ignore files were disregarded because the named directory is itself ignored.
    pub ignore_files_off: bool,
}

/// Matches in skipped files.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// Number of files and of those that match, by what the request would need to include them.
    pub by_need: BTreeMap<FileRequirement, (u64, u64)>,
    /// Whether the time limit ended this search.
    pub incomplete: bool,
}

/// Time limits for searching skipped files: if nothing was found, and if something was.
const LEFT_OUT_TIME: Duration = Duration::from_secs(5);
const LEFT_OUT_GLANCE: Duration = Duration::from_millis(250);

/// Maximum number of matching files for which skipped files are searched too.
const FEW_HITS: u64 = 2;

impl GrepRun<'_> {
    /// Searches the tree below a root. If there are few or no matches, also searches the skipped files,
    /// so that the answer can mention them. Blocks.
    pub fn run(&self, root: &SearchRoot) -> GrepResult {
        let mut filter = self.filter.clone();
        let mut walk = TreeWalk::new(root, &filter, self.cwd, self.limits, self.stop);
        let ignore_files_off = walk.root_is_ignored();
        if ignore_files_off {
            filter.respect_ignore = false;
            walk = TreeWalk::new(root, &filter, self.cwd, self.limits, self.stop);
        }
        let collector = Collector::new(self.page, self.query.options.mode);
        let (searches, tally) = walk.run((), || TreeSearch::new(self, &collector));
        let mut grepped = GrepResult { tally, ignore_files_off, ..GrepResult::default() };
        for search in searches {
            grepped.searched += search.searched;
            grepped.binary += search.binary;
        }
        grepped.totals = collector.finish();
        grepped.stopped = self.stop.reason();
        if grepped.totals.total_files <= FEW_HITS && grepped.stopped.is_none() {
            let time = if grepped.totals.total_files == 0 { LEFT_OUT_TIME } else { LEFT_OUT_GLANCE };
            grepped.left_out = Some(self.look_at_left_out(&walk, &grepped.tally, time));
        }
        grepped
    }

    /// Searches one named file. Blocks.
    pub fn run_file(&self, name: &[u8], file: File) -> io::Result<GrepResult> {
        let collector = Collector::new(self.page, self.query.options.mode);
        let len = file.metadata()?.len();
        let mut search = FileSearch::new(self.query, self.stop);
        let mut grepped = GrepResult { searched: 1, ..GrepResult::default() };
        if let Searched::Text(found) = search.search(file, len, GrepOrigin::Named, collector.keep())?
            && 0 < found.count
        {
            collector.add(name.to_vec(), found);
        }
        grepped.totals = collector.finish();
        grepped.stopped = self.stop.reason();
        Ok(grepped)
    }

    fn look_at_left_out(&self, walk: &TreeWalk<'_>, tally: &WalkStats, time: Duration) -> LeftOut {
        let stop = self.stop.within(time);
        let options = GrepOptions { mode: Mode::Files, before: 0, after: 0, ..self.query.options };
        let query = GrepQuery { options, ..self.query.clone() };
        let make = || GrepProbe {
            search: FileSearch::new(&query, &stop),
            may_show: self.may_show,
            by_need: BTreeMap::new(),
        };
        let (probes, probed) = walk.with_stop(&stop).run_left_out(tally, make);
        let mut left_out = LeftOut {
            incomplete: stop.is_over() || probed.forgotten || tally.forgotten,
            ..LeftOut::default()
        };
        for (needs, (files, matching)) in probes.into_iter().flat_map(|it| it.by_need) {
            let sum = left_out.by_need.entry(needs).or_default();
            sum.0 += files;
            sum.1 += matching;
        }
        left_out
    }
}

/// Searches the files of a walk.
struct TreeSearch<'a> {
    run: &'a GrepRun<'a>,
    collector: &'a Collector,
    search: FileSearch<'a>,
    searched: u64,
    binary: u64,
}

impl<'a> TreeSearch<'a> {
    fn new(run: &'a GrepRun<'a>, collector: &'a Collector) -> Self {
        let search = FileSearch::new(run.query, run.stop);
        Self { run, collector, search, searched: 0, binary: 0 }
    }
}

impl WalkVisitor for TreeSearch<'_> {
    type Mark = ();

    fn enter(&mut self, _above: &(), _name: &[u8]) -> Option<()> {
        Some(())
    }

    fn file(&mut self, entry: &WalkEntry<'_, ()>, tally: &mut WalkStats) {
        let is_content = self.run.query.options.mode == Mode::Content;
        let keep = if is_content { self.collector.limit_for_file(&entry.rel()) } else { 0 };
        match search_entry(&mut self.search, entry, GrepOrigin::Walk, keep) {
            Err(error) => tally.unreadable.note(&entry.rel(), &error),
            Ok(Searched::Binary) => {
                self.binary += 1;
                let needs = FileRequirement { binary: true, ..entry.needs };
                tally.prune(|| SkippedDir { rel: entry.rel(), needs, dir: None });
            }
            Ok(Searched::Text(found)) => {
                self.searched += 1;
                if found.count == 0 {
                    return;
                }
                let rel = entry.rel();
                // A file that may not be shown is not even counted, because the count would leak its
                // content.
                if (self.run.may_show)(&rel) {
                    self.collector.add(rel, found);
                }
            }
        }
    }
}

/// Counts matches in skipped files.
struct GrepProbe<'a> {
    search: FileSearch<'a>,
    may_show: &'a (dyn Fn(&[u8]) -> bool + Sync),
    by_need: BTreeMap<FileRequirement, (u64, u64)>,
}

impl WalkVisitor for GrepProbe<'_> {
    type Mark = ();

    fn enter(&mut self, _above: &(), _name: &[u8]) -> Option<()> {
        Some(())
    }

    fn file(&mut self, entry: &WalkEntry<'_, ()>, tally: &mut WalkStats) {
        let origin = if entry.needs.binary { GrepOrigin::Named } else { GrepOrigin::Walk };
        let sum = self.by_need.entry(entry.needs).or_default();
        sum.0 += 1;
        match search_entry(&mut self.search, entry, origin, /*keep*/ 0) {
            Err(error) => tally.unreadable.note(&entry.rel(), &error),
            Ok(Searched::Text(found)) if 0 < found.count && (self.may_show)(&entry.rel()) => sum.1 += 1,
            Ok(_) => (),
        }
    }
}

fn search_entry(
    search: &mut FileSearch<'_>,
    entry: &WalkEntry<'_, ()>,
    origin: GrepOrigin,
    keep: usize,
) -> io::Result<Searched> {
    let (file, stat) = entry.open()?;
    search.search(file, u64::try_from(stat.st_size).unwrap_or(0), origin, keep)
}
