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

/// How a search for text is run.
pub struct GrepRun<'a> {
    /// What to look for.
    pub query: &'a GrepQuery,
    /// Where relative things are relative to.
    pub cwd: &'a Path,
    /// Which files count.
    pub filter: &'a WalkFilter,
    /// Threads and file systems.
    pub limits: WalkLimits,
    /// Which part of the answer is wanted.
    pub page: GrepPage,
    /// Whether a file may be shown, by its place below the root.
    pub may_show: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// When to give up.
    pub stop: &'a SearchStop,
}

/// What a search found, and what it left out.
#[derive(Debug, Default)]
pub struct GrepResult {
    /// What was found.
    pub totals: GrepTotals,
    /// Files that were searched.
    pub searched: u64,
    /// Files that are no text and were not searched.
    pub binary: u64,
    /// What the walk saw and left out.
    pub tally: WalkStats,
    /// What was left out, looked at: only when hardly anything was found.
    pub left_out: Option<LeftOut>,
    /// The search did not come to its end.
    pub stopped: Option<SearchStopReason>,
    /// The named directory is ignored itself, so ignore files did not count.
    pub ignore_files_off: bool,
}

/// What is in the files that were left out.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// Files, and how many of them match, by what they need to be searched.
    pub by_need: BTreeMap<FileRequirement, (u64, u64)>,
    /// There was no time to look at all of them.
    pub incomplete: bool,
}

/// How long to look at what was left out, when nothing was found and when
/// something was.
const LEFT_OUT_TIME: Duration = Duration::from_secs(5);
const LEFT_OUT_GLANCE: Duration = Duration::from_millis(250);

/// Whoever finds no more files than this may miss what they looked for.
const FEW_HITS: u64 = 2;

impl GrepRun<'_> {
    /// Searches the tree below a root. When nothing or hardly anything is found,
    /// also looks at what was left out, so that the answer can say what it means.
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

    /// Searches one file that was named.
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

/// Searches what a walk comes to.
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
        let keep = if is_content { self.collector.keep_of(&entry.rel()) } else { 0 };
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
                // Nothing is said about a file that may not be shown, not even
                // that it matched: that would answer questions about it.
                if (self.run.may_show)(&rel) {
                    self.collector.add(rel, found);
                }
            }
        }
    }
}

/// Counts matches in what was left out.
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
