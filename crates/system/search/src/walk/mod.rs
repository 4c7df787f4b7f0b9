//! Parallel directory walk that records what it skips.

mod file_filter;
mod ignore_rules;
mod stats;
mod walk_worker;
mod work_queue;

use std::{num::NonZero, path::Path, sync::Arc, thread};

pub use file_filter::{GlobFilter, UnknownType, VCS_DIRS, WalkFilter, file_type};
use ignore_rules::IgnoreRules;
pub use ignore_rules::left_out;
pub(crate) use stats::SkippedDir;
pub use stats::{FileRequirement, Unreadable, WalkStats};
pub use walk_worker::WalkEntry;
use walk_worker::{PendingDir, WalkJob, WalkWorker};
use work_queue::WorkQueue;

use crate::{SearchRoot, SearchStop};

/// A walk below one root.
#[derive(Debug)]
pub struct TreeWalk<'a> {
    root: &'a SearchRoot,
    filter: &'a WalkFilter,
    stop: &'a SearchStop,
    limits: WalkLimits,
    rules: Arc<IgnoreRules>,
}

/// Limits of a walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkLimits {
    /// Number of worker threads.
    pub threads: NonZero<usize>,
    /// Whether to stay on the root's file system.
    pub one_file_system: bool,
    /// Maximum depth of directories entered; 0 lists only the root.
    pub max_depth: usize,
}

impl Default for WalkLimits {
    fn default() -> Self {
        /// Maximum number of threads; more would only contend.
        const MAX_THREADS: usize = 8;
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
        Self {
            threads: NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN),
            one_file_system: false,
            max_depth: usize::MAX,
        }
    }
}

/// Receives the entries of a walk. Each thread has its own visitor.
pub trait WalkVisitor: Send {
    /// State passed from a directory to its children.
    type Mark: Clone + Send + Sync;

    /// Whether symlinks are visited like files. They are never followed.
    const LINKS: bool = false;

    /// Returns the mark for a subdirectory, or `None` to skip it.
    fn enter(&mut self, above: &Self::Mark, name: &[u8]) -> Option<Self::Mark>;

    /// Called before a directory is listed.
    fn dir(&mut self, _rel: &[u8]) {}

    /// Called for each file.
    fn file(&mut self, entry: &WalkEntry<'_, Self::Mark>, tally: &mut WalkStats);
}

/// What to do with entries that the filter excludes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LeftOut {
    /// Skip them and remember their paths.
    Skip,
    /// Visit them, with what the request would need to include them.
    Visit,
}

impl<'a> TreeWalk<'a> {
    /// Prepares a walk. `cwd` is the directory to which git's global rules are relative. Reads the
    /// ignore files of parent directories.
    pub fn new(
        root: &'a SearchRoot,
        filter: &'a WalkFilter,
        cwd: &Path,
        limits: WalkLimits,
        stop: &'a SearchStop,
    ) -> Self {
        let rules =
            if filter.respect_ignore { IgnoreRules::above(root.path(), cwd) } else { IgnoreRules::none() };
        Self { root, filter, stop, limits, rules }
    }

    /// The same walk with another cancellation.
    pub(crate) fn with_stop<'b>(&'b self, stop: &'b SearchStop) -> TreeWalk<'b> {
        TreeWalk { stop, rules: Arc::clone(&self.rules), ..*self }
    }

    /// Whether ignore files exclude the root itself or everything in it. A caller that names such a
    /// directory wants to see it anyway.
    pub fn root_is_ignored(&self) -> bool {
        if !self.filter.respect_ignore {
            return false;
        }
        let path = self.root.path();
        let own = IgnoreRules::at(&self.rules, path);
        self.rules.leave_out(path) || own.excludes_all(path)
    }

    /// Visits everything below the root. Blocks; returns the visitors of all threads. Panics of visitors
    /// are propagated.
    pub fn run<V: WalkVisitor>(&self, mark: V::Mark, make: impl Fn() -> V) -> (Vec<V>, WalkStats) {
        let start = PendingDir {
            rel: Vec::new(),
            depth: 0,
            rules: Arc::clone(&self.rules),
            mark,
            needs: FileRequirement::default(),
        };
        self.drive(vec![WalkJob::Dir(start)], LeftOut::Skip, make)
    }

    /// Visits what an earlier walk skipped.
    pub fn run_left_out<V: WalkVisitor<Mark = ()>>(
        &self,
        tally: &WalkStats,
        make: impl Fn() -> V,
    ) -> (Vec<V>, WalkStats) {
        let jobs = tally.pruned.iter().map(WalkJob::of_pruned).collect();
        self.drive(jobs, LeftOut::Visit, make)
    }

    fn drive<V: WalkVisitor>(
        &self,
        jobs: Vec<WalkJob<V::Mark>>,
        left_out: LeftOut,
        make: impl Fn() -> V,
    ) -> (Vec<V>, WalkStats) {
        let queue = WorkQueue::new(jobs);
        let workers = thread::scope(|scope| {
            let start = |_| {
                let worker = WalkWorker::new(self, &queue, left_out, make());
                thread::Builder::new().name("haft-search".into()).spawn_scoped(scope, || worker.run())
            };
            let threads: Vec<_> = (0..self.limits.threads.get()).map(start).collect();
            if threads.iter().all(Result::is_err) {
                // No further thread could be started: use this one.
                return vec![WalkWorker::new(self, &queue, left_out, make()).run()];
            }
            let joined: Vec<_> = threads.into_iter().flatten().map(thread::ScopedJoinHandle::join).collect();
            // A partial result must not look complete.
            joined.into_iter().map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        let mut tally = WalkStats::default();
        let mut visitors = Vec::new();
        for (visitor, part) in workers {
            tally.add(part);
            visitors.push(visitor);
        }
        (visitors, tally)
    }
}
