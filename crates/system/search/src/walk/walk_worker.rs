use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    mem::MaybeUninit,
    ops::Range,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::fs::{Stat, fstat};

use super::{
    FileRequirement, LeftOut, TreeWalk, WalkStats, WalkVisitor,
    file_filter::IgnoreReason,
    ignore_rules::{IgnoreRules, RuleFiles},
    stats::SkippedDir,
    work_queue::WorkQueue,
};
use crate::fs::{self, DirectoryListing, DiskKind, as_path};

/// A unit of work.
pub(crate) enum WalkJob<M> {
    Dir(PendingDir<M>),
    /// Some files of a large directory.
    Files(Arc<OpenDir<M>>, Range<usize>),
    /// A file that an earlier walk skipped.
    File {
        rel: Vec<u8>,
        mark: M,
        needs: FileRequirement,
    },
}

pub(crate) struct PendingDir<M> {
    pub(crate) rel: Vec<u8>,
    pub(crate) depth: usize,
    pub(crate) rules: Arc<IgnoreRules>,
    pub(crate) mark: M,
    pub(crate) needs: FileRequirement,
}

/// A directory whose files are being visited.
pub(crate) struct OpenDir<M> {
    fd: OwnedFd,
    rel: Vec<u8>,
    listing: DirectoryListing,
    rules: Arc<IgnoreRules>,
    mark: M,
    needs: FileRequirement,
}

impl WalkJob<()> {
    pub(crate) fn of_pruned(pruned: &SkippedDir) -> Self {
        let (rel, needs) = (pruned.rel.clone(), pruned.needs);
        match &pruned.dir {
            Some(rules) => Self::Dir(PendingDir { rel, depth: 0, rules: Arc::clone(rules), mark: (), needs }),
            None => Self::File { rel, mark: (), needs },
        }
    }
}

/// An entry passed to a visitor.
#[derive(Debug)]
pub struct WalkEntry<'a, M> {
    dir: &'a OwnedFd,
    dir_rel: &'a [u8],
    name: &'a CStr,
    /// File, or symlink if the visitor wants those.
    pub kind: DiskKind,
    /// The mark of its directory.
    pub mark: &'a M,
    /// What the request would need to include it.
    pub needs: FileRequirement,
}

impl<M> WalkEntry<'_, M> {
    /// File name.
    pub fn name(&self) -> &[u8] {
        self.name.to_bytes()
    }

    /// Path below the root.
    pub fn rel(&self) -> Vec<u8> {
        join(self.dir_rel, self.name.to_bytes())
    }

    /// Path of its directory below the root.
    pub fn dir_rel(&self) -> &[u8] {
        self.dir_rel
    }

    /// Opens it for reading.
    pub fn open(&self) -> io::Result<(File, Stat)> {
        fs::open_entry(self.dir.as_fd(), self.name)
    }

    /// Metadata; of the link itself for a symlink.
    pub fn stat(&self) -> io::Result<Stat> {
        fs::stat_entry(self.dir.as_fd(), self.name)
    }

    /// Text of a symlink.
    pub fn link_text(&self) -> Vec<u8> {
        fs::read_link(self.dir.as_fd(), self.name)
    }

    /// Metadata of a symlink's target.
    pub fn stat_target(&self) -> io::Result<Stat> {
        fs::stat_target(self.dir.as_fd(), self.name)
    }
}

/// `dir/name`, or `name` if `dir` is empty.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Files of one directory visited per job.
const BATCH: usize = 128;

/// Bytes of the listing buffer: a few hundred names per system call.
const LISTING_BUFFER: usize = 32 * 1024;

/// After this time a walk lowers its priority.
const GIVE_WAY_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct WalkWorker<'a, V: WalkVisitor> {
    walk: &'a TreeWalk<'a>,
    queue: &'a WorkQueue<WalkJob<V::Mark>>,
    left_out: LeftOut,
    visitor: V,
    tally: WalkStats,
    buffer: Vec<MaybeUninit<u8>>,
    more: Vec<WalkJob<V::Mark>>,
    polite: bool,
}

impl<'a, V: WalkVisitor> WalkWorker<'a, V> {
    pub(crate) fn new(
        walk: &'a TreeWalk<'a>,
        queue: &'a WorkQueue<WalkJob<V::Mark>>,
        left_out: LeftOut,
        visitor: V,
    ) -> Self {
        Self {
            walk,
            queue,
            left_out,
            visitor,
            tally: WalkStats::default(),
            buffer: vec![MaybeUninit::uninit(); LISTING_BUFFER],
            more: Vec::new(),
            polite: false,
        }
    }

    pub(crate) fn run(mut self) -> (V, WalkStats) {
        let queue = self.queue;
        queue.work(|job| self.job(job));
        (self.visitor, self.tally)
    }

    fn job(&mut self, job: WalkJob<V::Mark>) {
        if self.walk.stop.is_over() {
            self.queue.clear();
            return;
        }
        self.give_way();
        match job {
            WalkJob::Dir(place) => {
                if let Err(error) = self.dir(&place) {
                    self.tally.unreadable.note(&place.rel, &error);
                }
                self.queue.push(&mut self.more);
            }
            WalkJob::Files(dir, range) => self.files(&dir, range),
            WalkJob::File { rel, mark, needs } => {
                if let Err(error) = self.lone_file(&rel, &mark, needs) {
                    self.tally.unreadable.note(&rel, &error);
                }
            }
        }
    }

    fn give_way(&mut self) {
        if !self.polite && GIVE_WAY_AFTER < self.walk.stop.elapsed() {
            self.polite = true;
            // On Linux the priority is per thread, so it ends with the walk.
            rustix::process::setpriority_process(None, 10).ok();
        }
    }

    fn dir(&mut self, place: &PendingDir<V::Mark>) -> io::Result<()> {
        let fd = self.walk.root.open_dir(&place.rel)?;
        let device = fstat(&fd)?.st_dev;
        if device != self.walk.root.device()
            && (self.walk.limits.one_file_system || fs::is_kernel_interface(&fd)?)
        {
            self.tally.mounts += 1;
            return Ok(());
        }
        let listing = DirectoryListing::read(fd.as_fd(), &mut self.buffer)?;
        self.tally.dirs += 1;
        self.visitor.dir(&place.rel);
        let rules = self.rules_in(place, &listing);
        let dir = OpenDir {
            fd,
            rel: place.rel.clone(),
            listing,
            rules,
            mark: place.mark.clone(),
            needs: place.needs,
        };
        if place.depth < self.walk.limits.max_depth {
            self.subdirs(&dir, place.depth + 1);
        }
        let dir = Arc::new(dir);
        let len = dir.listing.len();
        let rest = (BATCH..len).step_by(BATCH);
        self.more.extend(rest.map(|at| WalkJob::Files(Arc::clone(&dir), at..(at + BATCH).min(len))));
        self.queue.push(&mut self.more);
        self.files(&dir, 0..BATCH.min(len));
        Ok(())
    }

    fn rules_in(&self, place: &PendingDir<V::Mark>, listing: &DirectoryListing) -> Arc<IgnoreRules> {
        let mut found = RuleFiles::default();
        if !self.walk.filter.respect_ignore || place.needs.ignored {
            return Arc::clone(&place.rules);
        }
        for (name, _) in listing.iter() {
            if name.to_bytes().first() == Some(&b'.') {
                found.see(name.to_bytes());
            }
        }
        IgnoreRules::below(&place.rules, &self.absolute(&place.rel), found)
    }

    fn absolute(&self, rel: &[u8]) -> PathBuf {
        if rel.is_empty() {
            return self.walk.root.path().to_owned();
        }
        self.walk.root.path().join(as_path(rel))
    }

    fn subdirs(&mut self, dir: &OpenDir<V::Mark>, depth: usize) {
        let mut paths = WalkPaths::new(self.walk, dir);
        for (name, kind) in dir.listing.iter() {
            if kind != DiskKind::Dir {
                continue;
            }
            let name = name.to_bytes();
            let Some(mark) = self.visitor.enter(&dir.mark, name) else { continue };
            let Some(needs) = self.admit(dir, &mut paths, name, /*is_dir*/ true) else { continue };
            let rel = join(&dir.rel, name);
            self.more.push(WalkJob::Dir(PendingDir {
                rel,
                depth,
                rules: Arc::clone(&dir.rules),
                mark,
                needs,
            }));
        }
    }

    fn files(&mut self, dir: &OpenDir<V::Mark>, range: Range<usize>) {
        let mut paths = WalkPaths::new(self.walk, dir);
        for index in range {
            let Some((name, kind)) = dir.listing.get(index) else { return };
            match kind {
                DiskKind::Dir => continue,
                DiskKind::Special => {
                    self.tally.special += 1;
                    continue;
                }
                DiskKind::Link if !V::LINKS => {
                    self.tally.links += 1;
                    continue;
                }
                DiskKind::Link | DiskKind::File => (),
            }
            if self.walk.stop.is_over() {
                return;
            }
            if let Some(needs) = self.admit(dir, &mut paths, name.to_bytes(), /*is_dir*/ false) {
                self.tally.files += 1;
                let entry = WalkEntry { dir: &dir.fd, dir_rel: &dir.rel, name, kind, mark: &dir.mark, needs };
                self.visitor.file(&entry, &mut self.tally);
            }
        }
    }

    /// Decides whether to visit an entry, and what the request would need for that.
    fn admit(
        &mut self,
        dir: &OpenDir<V::Mark>,
        paths: &mut WalkPaths,
        name: &[u8],
        is_dir: bool,
    ) -> Option<FileRequirement> {
        let path = paths.of(name);
        let ruling = self.walk.filter.rule(&dir.rules, path, name, is_dir);
        let (mut needs, dir_rel) = (dir.needs, &dir.rel);
        match ruling {
            IgnoreReason::Keep => return Some(needs),
            IgnoreReason::Unwanted => return None,
            IgnoreReason::Vcs => {
                self.tally.vcs += 1;
                return None;
            }
            IgnoreReason::Ignored => {
                self.tally.ignored += 1;
                needs.ignored = true;
            }
            IgnoreReason::Hidden => {
                self.tally.hidden += 1;
                needs.hidden = true;
            }
        }
        match self.left_out {
            LeftOut::Visit => Some(needs),
            LeftOut::Skip => {
                let dir = is_dir.then(|| Arc::clone(&dir.rules));
                self.tally.prune(|| SkippedDir { rel: join(dir_rel, name), needs, dir });
                None
            }
        }
    }

    fn lone_file(&mut self, rel: &[u8], mark: &V::Mark, needs: FileRequirement) -> io::Result<()> {
        let cut = memchr::memrchr(b'/', rel);
        let (dir_rel, name) = match cut {
            Some(cut) => (&rel[..cut], &rel[cut + 1..]),
            None => (&b""[..], rel),
        };
        let fd = self.walk.root.open_dir(dir_rel)?;
        let name = CString::new(name)?;
        self.tally.files += 1;
        let entry = WalkEntry { dir: &fd, dir_rel, name: &name, kind: DiskKind::File, mark, needs };
        self.visitor.file(&entry, &mut self.tally);
        Ok(())
    }
}

/// Absolute paths of the entries of one directory, built only if the filter needs them.
struct WalkPaths {
    path: Option<PathBuf>,
    base: usize,
}

impl WalkPaths {
    fn new<M>(walk: &TreeWalk<'_>, dir: &OpenDir<M>) -> Self {
        if !walk.filter.needs_path(&dir.rules) {
            return Self { path: None, base: 0 };
        }
        let mut path = walk.root.path().join(as_path(&dir.rel));
        // `join` with an empty path leaves a trailing slash, and the push below adds its own.
        if dir.rel.is_empty() {
            path = walk.root.path().to_owned();
        }
        Self { base: path.as_os_str().as_bytes().len(), path: Some(path) }
    }

    fn of(&mut self, name: &[u8]) -> &Path {
        match &mut self.path {
            None => Path::new(""),
            Some(path) => {
                if self.base < path.as_os_str().as_bytes().len() {
                    path.pop();
                }
                path.push(as_path(name));
                path
            }
        }
    }
}
