//! The state of files on disk, in a form that can be stored and compared.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use haft_workspace::{Attributes, FileObject, FileState};
use serde::{Deserialize, Serialize};

use super::taker::SkippedPaths;

/// Everything below the starting points of a snapshot, by path.
pub(crate) type PathTree = BTreeMap<PathBuf, PathNode>;

/// The state of one path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct PathNode {
    /// The state as the journal stores it, with the content hash for a file.
    pub(crate) state: FileState,
    /// Version of the file or symbolic link; `None` for a directory.
    pub(crate) stamp: Option<FileStamp>,
    /// Timestamps, owner and other attributes.
    #[serde(default)]
    pub(crate) attributes: Attributes,
}

/// Identifies a version of a file. It includes the change time (`ctime`), which programs cannot set.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct FileStamp {
    id: FileObject,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Number of hard links.
    #[serde(default = "one_name")]
    links: u64,
}

/// Default for records of earlier versions, which lack the field.
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

    /// Identity of the file, independent of its path.
    pub(crate) fn object(&self) -> FileObject {
        self.id
    }

    /// Whether the file has more than one hard link.
    pub(crate) fn is_linked(&self) -> bool {
        1 < self.links
    }

    /// Number of hard links.
    pub(crate) fn names(&self) -> u64 {
        self.links
    }

    /// Whether both stamps have the same content: same file, length and modification time. Link count
    /// and mode may differ.
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        (self.id, self.len, self.modified) == (other.id, other.len, other.modified)
    }

    /// Whether any later change would change the stamp. File system clocks tick every few milliseconds,
    /// some only every two seconds, so a recent stamp proves nothing.
    pub(crate) fn is_settled(&self, now: (i64, i64)) -> bool {
        let (seconds, nanos) = (now.0 - self.changed.0, now.1 - self.changed.1);
        let age = seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000);
        let coarse = self.changed.1 == 0 && self.modified.1 == 0;
        if coarse { 2_500 < age } else { 50 < age }
    }
}

/// Limits of a snapshot. Each pair is (number of entries, bytes).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SnapshotLimits {
    /// Maximum number of files, directories and symbolic links. Default 50,000.
    pub entries: usize,
    /// Maximum total bytes of files. Default 512 MiB.
    pub bytes: u64,
    /// Limits for one directory of generated files (dependencies, build output). A larger one is left
    /// out of the snapshot. Default 5,000 entries, 64 MiB.
    pub generated: (usize, u64),
    /// Limits for the objects of one git repository. Objects never change, so they are hard-linked into
    /// the store if it is on the same file system; otherwise the `generated` limits apply. Default
    /// 20,000 entries, 1 GiB.
    pub objects: (usize, u64),
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { entries: 50_000, bytes: 512 << 20, generated: (5_000, 64 << 20), objects: (20_000, 1 << 30) }
    }
}

/// A file found by a walk, whose content hash is not known yet.
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) stamp: FileStamp,
    pub(crate) meta: Metadata,
    /// Whether the content can never change (git objects).
    pub(crate) immutable: bool,
}

impl FoundFile {
    pub(crate) fn mode(&self) -> u32 {
        self.meta.mode() & 0o7777
    }
}

/// Walks directory trees within limits.
pub(crate) struct SnapshotWalk<'a> {
    pub(crate) limits: SnapshotLimits,
    /// Directories that are never entered.
    pub(crate) except: &'a [PathBuf],
    /// Paths and files to leave out of the result.
    skipped: &'a SkippedPaths,
    /// Directories left out because they exceed their limits.
    pub(crate) left_out: Vec<PathBuf>,
    /// Directories that cannot be read.
    pub(crate) unreadable: Vec<PathBuf>,
    pub(crate) files: Vec<FoundFile>,
    /// Directories and links.
    pub(crate) others: Vec<(PathBuf, PathNode)>,
    bytes: u64,
    /// Whether the walk is inside git's objects directory.
    immutable: bool,
}

/// The walk exceeded its limits.
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

    /// Adds the path and everything below it. A path that does not exist is ignored.
    pub(crate) fn add(&mut self, start: &Path) -> Result<(), LimitExceeded> {
        let Ok(meta) = fs::symlink_metadata(start) else { return Ok(()) };
        if self.except.iter().any(|it| start.starts_with(it)) || self.skips(start, &meta) {
            return Ok(());
        }
        self.note(start.to_owned(), &meta);
        if meta.is_dir() { self.below(start.to_owned()) } else { Ok(()) }
    }

    /// Adds the parent directory without its entries, because creating or removing `start` changes its
    /// timestamps.
    pub(crate) fn add_around(&mut self, start: &Path) {
        let around = start.parent().filter(|it| !self.others.iter().any(|(path, ..)| path == it));
        if let Some((path, meta)) = around.and_then(|it| Some((it, fs::symlink_metadata(it).ok()?)))
            && meta.is_dir()
        {
            self.note(path.to_owned(), &meta);
        }
    }

    /// Whether the path, or the file now at this path, was left out of the snapshot before the command.
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
                    // Not even its existence is recorded, so undo does not touch it.
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

    /// Walks a directory that has limits of its own; leaves it out if it exceeds them.
    fn bounded(&mut self, dir: PathBuf, meta: &Metadata, bounds: (usize, u64), immutable: bool) {
        let (entries, bytes) = bounds;
        let limits = SnapshotLimits { entries, bytes, generated: bounds, objects: bounds };
        let mut inner = SnapshotWalk::new(limits, self.except, self.skipped);
        inner.immutable = immutable;
        inner.note(dir.clone(), meta);
        match inner.below(dir.clone()) {
            Err(LimitExceeded) => self.left_out.push(dir),
            Ok(()) => {
                // Files that are only hard-linked take no space.
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
        // Pipes, sockets and devices have no content to restore.
    }
}

/// Whether the directory holds the objects of a git repository, of one of its submodules, or of git-lfs.
pub(crate) fn is_objects(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name == "objects")
        && dir.ancestors().any(|it| it.file_name().is_some_and(|name| name == ".git"))
        && dir.parent().is_some_and(|git| git.join("HEAD").is_file() || git.ends_with("lfs"))
}

/// Whether the directory holds generated files: dependencies, caches or build output.
pub(crate) fn is_generated(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    match name {
        "node_modules" | "__pycache__" => true,
        "target" | "build" | "dist" | "out" | ".cache" | "coverage" => dir.join("CACHEDIR.TAG").is_file(),
        ".venv" | "venv" | "env" => dir.join("pyvenv.cfg").is_file(),
        _ => name.starts_with('.') && dir.join("CACHEDIR.TAG").is_file(),
    }
}
