//! Walking a tree: who is below, and what was left out.

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

/// One walk below a root.
#[derive(Debug)]
pub struct TreeWalk<'a> {
    root: &'a SearchRoot,
    filter: &'a WalkFilter,
    stop: &'a SearchStop,
    limits: WalkLimits,
    rules: Arc<IgnoreRules>,
}

/// What a walk may use.
#[derive(Clone, Copy, Debug)]
pub struct WalkLimits {
    /// Threads that list directories and look at files.
    pub threads: NonZero<usize>,
    /// Stay on the file system of the root.
    pub one_file_system: bool,
    /// How many directories below the root to enter; 0 lists the root only.
    pub max_depth: usize,
}

impl Default for WalkLimits {
    fn default() -> Self {
        /// More threads wait for each other and for the disk.
        const MAX_THREADS: usize = 8;
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
        Self {
            threads: NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN),
            one_file_system: false,
            max_depth: usize::MAX,
        }
    }
}

/// Looks at what a walk finds. Every thread has its own.
pub trait WalkVisitor: Send {
    /// What a directory tells those below it.
    type Mark: Clone + Send + Sync;

    /// Whether symbolic links are visited like files. They are never followed.
    const LINKS: bool = false;

    /// Whether to go into a directory, and with which mark.
    fn enter(&mut self, above: &Self::Mark, name: &[u8]) -> Option<Self::Mark>;

    /// A directory is going to be listed.
    fn dir(&mut self, _rel: &[u8]) {}

    /// Looks at one file.
    fn file(&mut self, entry: &WalkEntry<'_, Self::Mark>, tally: &mut WalkStats);
}

/// What to do with entries that rules leave out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LeftOut {
    /// Leave them out, and keep in mind where they are.
    Skip,
    /// Visit them, saying what they need.
    Visit,
}

impl<'a> TreeWalk<'a> {
    /// Prepares a walk. `cwd` is where git's global rules are relative to.
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

    /// The same walk with another end.
    pub(crate) fn with_stop<'b>(&'b self, stop: &'b SearchStop) -> TreeWalk<'b> {
        TreeWalk { stop, rules: Arc::clone(&self.rules), ..*self }
    }

    /// Whether ignore files leave out the root itself, or everything in it.
    /// A caller who names such a place wants to see it nevertheless.
    pub fn root_is_ignored(&self) -> bool {
        if !self.filter.respect_ignore {
            return false;
        }
        let path = self.root.path();
        let own = IgnoreRules::at(&self.rules, path);
        self.rules.leave_out(path) || own.leave_out_everything(path)
    }

    /// Visits everything below the root. Hands back the visitors.
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

    /// Visits what an earlier walk left out.
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
                // The system has no more threads: this one has to do.
                return vec![WalkWorker::new(self, &queue, left_out, make()).run()];
            }
            let joined: Vec<_> = threads.into_iter().flatten().map(thread::ScopedJoinHandle::join).collect();
            // Half of an answer must not look like a whole one.
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
