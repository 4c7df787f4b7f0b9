//! What is on the disk, in a form that can be compared later.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use haft_workspace::{Attributes, FileObject, FileState};
use serde::{Deserialize, Serialize};

use super::taker::SkippedPaths;

/// Everything below some starting points, by path.
pub(crate) type PathTree = BTreeMap<PathBuf, PathNode>;

/// What is at a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct PathNode {
    /// As the journal writes it down. The content of a file is known only after
    /// it was kept.
    pub(crate) state: FileState,
    /// Which version of a file or a link this is.
    pub(crate) stamp: Option<FileStamp>,
    /// What else it has.
    #[serde(default)]
    pub(crate) attributes: Attributes,
}

/// Tells two versions of a file apart. The last number cannot be set by anybody.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct FileStamp {
    id: FileObject,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// How many names it has.
    #[serde(default = "one_name")]
    links: u64,
}

/// What records of earlier versions do not say.
fn one_name() -> u64 {
    1
}

impl FileStamp {
    pub(crate) fn from_metadata(meta: &Metadata) -> Self {
        Self {
            id: FileObject::of(meta),
            len: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            links: meta.nlink(),
        }
    }

    /// Which file this is, whatever its name.
    pub(crate) fn object(&self) -> FileObject {
        self.id
    }

    /// Whether it has other names.
    pub(crate) fn is_linked(&self) -> bool {
        1 < self.links
    }

    /// How many names it has.
    pub(crate) fn names(&self) -> u64 {
        self.links
    }

    /// Whether only what is not content may be different: names and modes.
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        (self.id, self.len, self.modified) == (other.id, other.len, other.modified)
    }

    /// Whether a change after this moment would surely show in the stamp. Clocks
    /// of file systems tick every few milliseconds, some only every two seconds.
    pub(crate) fn is_settled(&self, now: (i64, i64)) -> bool {
        let (seconds, nanos) = (now.0 - self.changed.0, now.1 - self.changed.1);
        let age = seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000);
        let coarse = self.changed.1 == 0 && self.modified.1 == 0;
        if coarse { 2_500 < age } else { 50 < age }
    }
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SnapshotLimits {
    /// Files, directories and links.
    pub entries: usize,
    /// Bytes in files.
    pub bytes: u64,
    /// The same for one directory that can be made again (dependencies, build
    /// output); larger ones are left out.
    pub generated: (usize, u64),
    /// The same for the objects of one git repository. They never change, so
    /// they are kept by a second name where the store is on the same disk;
    /// where it is not, as much as of other directories that can be made again.
    pub objects: (usize, u64),
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { entries: 50_000, bytes: 512 << 20, generated: (5_000, 64 << 20), objects: (20_000, 1 << 30) }
    }
}

/// A file found by a walk, whose content is not known yet.
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) stamp: FileStamp,
    pub(crate) meta: Metadata,
    /// Whether its content can never change.
    pub(crate) immutable: bool,
}

impl FoundFile {
    pub(crate) fn mode(&self) -> u32 {
        self.meta.mode() & 0o7777
    }
}

/// Walks starting points within limits.
pub(crate) struct SnapshotWalk<'a> {
    pub(crate) limits: SnapshotLimits,
    /// Never entered.
    pub(crate) except: &'a [PathBuf],
    /// Neither looked at nor noted.
    skipped: &'a SkippedPaths,
    /// What was too large and was left out.
    pub(crate) left_out: Vec<PathBuf>,
    /// Directories that cannot be looked into.
    pub(crate) unreadable: Vec<PathBuf>,
    pub(crate) files: Vec<FoundFile>,
    /// Directories and links.
    pub(crate) others: Vec<(PathBuf, PathNode)>,
    bytes: u64,
    /// Whether all of this is git's objects.
    immutable: bool,
}

/// There is more than the limits allow.
pub(crate) struct LimitExceeded;

impl<'a> SnapshotWalk<'a> {
    pub(super) fn new(limits: SnapshotLimits, except: &'a [PathBuf], skipped: &'a SkippedPaths) -> Self {
        Self {
            limits,
            except,
            skipped,
            left_out: Vec::new(),
            unreadable: Vec::new(),
            files: Vec::new(),
            others: Vec::new(),
            bytes: 0,
            immutable: false,
        }
    }

    /// Adds everything at and below a path. What is not there is nothing.
    pub(crate) fn add(&mut self, start: &Path) -> Result<(), LimitExceeded> {
        let Ok(meta) = fs::symlink_metadata(start) else { return Ok(()) };
        if self.except.iter().any(|it| start.starts_with(it)) || self.skips(start, &meta) {
            return Ok(());
        }
        self.note(start.to_owned(), &meta);
        if meta.is_dir() { self.below(start.to_owned()) } else { Ok(()) }
    }

    /// Adds the directory something is in, without what else is there: its time
    /// changes with what comes and goes in it.
    pub(crate) fn add_around(&mut self, start: &Path) {
        let around = start.parent().filter(|it| !self.others.iter().any(|(path, ..)| path == it));
        if let Some((path, meta)) = around.and_then(|it| Some((it, fs::symlink_metadata(it).ok()?)))
            && meta.is_dir()
        {
            self.note(path.to_owned(), &meta);
        }
    }

    /// Whether nothing was known of this, or of what is at this path now.
    fn skips(&self, path: &Path, meta: &Metadata) -> bool {
        self.skipped.paths.contains(path)
            || (!self.skipped.objects.is_empty() && self.skipped.objects.contains(&FileObject::of(meta)))
    }

    fn below(&mut self, dir: PathBuf) -> Result<(), LimitExceeded> {
        let mut open = vec![dir];
        while let Some(dir) = open.pop() {
            let Ok(entries) = fs::read_dir(&dir) else {
                self.unreadable.push(dir);
                continue;
            };
            for entry in entries.flatten() {
                let path = entry.path();
                let Ok(meta) = entry.metadata() else { continue };
                if self.skips(&path, &meta) || self.except.contains(&path) {
                    // Its own existence is not noted either: nothing of it is touched.
                } else if !meta.is_dir() {
                    self.note(path, &meta);
                } else if is_objects(&path) {
                    self.bounded(path, &meta, self.limits.objects, true);
                } else if is_generated(&path) {
                    self.bounded(path, &meta, self.limits.generated, false);
                } else {
                    self.note(path.clone(), &meta);
                    open.push(path);
                }
                if self.limits.entries < self.files.len() + self.others.len()
                    || self.limits.bytes < self.bytes
                {
                    return Err(LimitExceeded);
                }
            }
        }
        Ok(())
    }

    /// A directory that has bounds of its own.
    fn bounded(&mut self, dir: PathBuf, meta: &Metadata, bounds: (usize, u64), immutable: bool) {
        let (entries, bytes) = bounds;
        let limits = SnapshotLimits { entries, bytes, generated: bounds, objects: bounds };
        let mut inner = SnapshotWalk::new(limits, self.except, self.skipped);
        inner.immutable = immutable;
        inner.note(dir.clone(), meta);
        match inner.below(dir.clone()) {
            Err(LimitExceeded) => self.left_out.push(dir),
            Ok(()) => {
                // What only gets a second name takes no room.
                self.bytes += if immutable { 0 } else { inner.bytes };
                self.files.append(&mut inner.files);
                self.others.append(&mut inner.others);
                self.left_out.append(&mut inner.left_out);
                self.unreadable.append(&mut inner.unreadable);
            }
        }
    }

    fn note(&mut self, path: PathBuf, meta: &Metadata) {
        let mode = meta.mode() & 0o7777;
        if meta.is_dir() {
            let attributes = Attributes::read(&path, meta);
            self.others
                .push((path, PathNode { state: FileState::Directory { mode }, stamp: None, attributes }));
        } else if meta.is_symlink() {
            if let Ok(target) = fs::read_link(&path) {
                let (stamp, attributes) =
                    (Some(FileStamp::from_metadata(meta)), Attributes::read(&path, meta));
                self.others
                    .push((path, PathNode { state: FileState::Symlink { target }, stamp, attributes }));
            }
        } else if meta.is_file() {
            self.bytes += meta.len();
            let (stamp, meta) = (FileStamp::from_metadata(meta), meta.clone());
            self.files.push(FoundFile { path, stamp, meta, immutable: self.immutable });
        }
        // Pipes, sockets and devices hold nothing that could be brought back.
    }
}

/// Whether a directory holds the objects of a git repository or one of its
/// submodules.
pub(crate) fn is_objects(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name == "objects")
        && dir.ancestors().any(|it| it.file_name().is_some_and(|name| name == ".git"))
        && dir.parent().is_some_and(|git| git.join("HEAD").is_file() || git.ends_with("lfs"))
}

/// Whether a directory holds what programs make from something else.
pub(crate) fn is_generated(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    match name {
        "node_modules" | "__pycache__" => true,
        "target" | "build" | "dist" | "out" | ".cache" | "coverage" => dir.join("CACHEDIR.TAG").is_file(),
        ".venv" | "venv" | "env" => dir.join("pyvenv.cfg").is_file(),
        _ => name.starts_with('.') && dir.join("CACHEDIR.TAG").is_file(),
    }
}
