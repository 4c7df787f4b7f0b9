//! What is on the disk, in a form that can be compared later.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use haft_workspace::FileState;
use serde::{Deserialize, Serialize};

/// Everything below some starting points, by path.
pub(crate) type Tree = BTreeMap<PathBuf, Node>;

/// What is at a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Node {
    /// As the journal writes it down. The content of a file is known only after
    /// it was kept.
    pub(crate) state: FileState,
    /// Which version of a file this is.
    pub(crate) stamp: Option<FileStamp>,
}

/// Tells two versions of a file apart. The last number cannot be set by anybody.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct FileStamp {
    id: (u64, u64),
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    pub(crate) fn of(meta: &Metadata) -> Self {
        Self {
            id: (meta.dev(), meta.ino()),
            len: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
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
    /// output), and for git's own; larger ones are left out.
    pub generated: (usize, u64),
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { entries: 50_000, bytes: 512 << 20, generated: (5_000, 64 << 20) }
    }
}

/// A file found by a walk, whose content is not known yet.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) stamp: FileStamp,
    pub(crate) mode: u32,
}

/// Walks starting points within limits.
pub(crate) struct Walk<'a> {
    pub(crate) limits: SnapshotLimits,
    /// Never entered.
    pub(crate) except: &'a [PathBuf],
    /// What was too large and was left out.
    pub(crate) left_out: Vec<PathBuf>,
    /// Directories that cannot be looked into.
    pub(crate) unreadable: Vec<PathBuf>,
    pub(crate) files: Vec<Found>,
    pub(crate) others: Vec<(PathBuf, FileState)>,
    bytes: u64,
}

/// There is more than the limits allow.
pub(crate) struct TooMuch;

impl<'a> Walk<'a> {
    pub(crate) fn new(limits: SnapshotLimits, except: &'a [PathBuf], left_out: Vec<PathBuf>) -> Self {
        Self {
            limits,
            except,
            left_out,
            unreadable: Vec::new(),
            files: Vec::new(),
            others: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds everything at and below a path. What is not there is nothing.
    pub(crate) fn add(&mut self, start: &Path) -> Result<(), TooMuch> {
        let Ok(meta) = fs::symlink_metadata(start) else { return Ok(()) };
        if self.except.iter().any(|it| start.starts_with(it)) {
            return Ok(());
        }
        self.note(start.to_owned(), &meta);
        if meta.is_dir() { self.below(start.to_owned()) } else { Ok(()) }
    }

    fn below(&mut self, dir: PathBuf) -> Result<(), TooMuch> {
        let mut open = vec![dir];
        while let Some(dir) = open.pop() {
            let Ok(entries) = fs::read_dir(&dir) else {
                self.unreadable.push(dir);
                continue;
            };
            for entry in entries.flatten() {
                let path = entry.path();
                let Ok(meta) = entry.metadata() else { continue };
                if self.left_out.contains(&path) || self.except.contains(&path) {
                    // Its own existence is not noted either: nothing of it is touched.
                } else if !meta.is_dir() {
                    self.note(path, &meta);
                } else if is_generated(&path) {
                    self.generated(path, &meta)?;
                } else {
                    self.note(path.clone(), &meta);
                    open.push(path);
                }
                if self.limits.entries < self.files.len() + self.others.len()
                    || self.limits.bytes < self.bytes
                {
                    return Err(TooMuch);
                }
            }
        }
        Ok(())
    }

    /// A directory that can be made again is only worth a small effort.
    fn generated(&mut self, dir: PathBuf, meta: &Metadata) -> Result<(), TooMuch> {
        let (entries, bytes) = self.limits.generated;
        let limits = SnapshotLimits { entries, bytes, generated: (entries, bytes) };
        let mut inner = Walk::new(limits, self.except, Vec::new());
        inner.note(dir.clone(), meta);
        match inner.below(dir.clone()) {
            Err(TooMuch) => self.left_out.push(dir),
            Ok(()) => {
                self.bytes += inner.bytes;
                self.files.append(&mut inner.files);
                self.others.append(&mut inner.others);
                self.left_out.append(&mut inner.left_out);
                self.unreadable.append(&mut inner.unreadable);
            }
        }
        Ok(())
    }

    fn note(&mut self, path: PathBuf, meta: &Metadata) {
        let mode = meta.mode() & 0o7777;
        if meta.is_dir() {
            self.others.push((path, FileState::Directory { mode }));
        } else if meta.is_symlink() {
            if let Ok(target) = fs::read_link(&path) {
                self.others.push((path, FileState::Symlink { target }));
            }
        } else if meta.is_file() {
            self.bytes += meta.len();
            self.files.push(Found { path, stamp: FileStamp::of(meta), mode });
        }
        // Pipes, sockets and devices hold nothing that could be brought back.
    }
}

/// Whether a directory holds what programs make from something else, or git's
/// own files.
fn is_generated(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    match name {
        ".git" | "node_modules" | "__pycache__" => true,
        "target" | "build" | "dist" | "out" | ".cache" | "coverage" => dir.join("CACHEDIR.TAG").is_file(),
        ".venv" | "venv" | "env" => dir.join("pyvenv.cfg").is_file(),
        _ => name.starts_with('.') && dir.join("CACHEDIR.TAG").is_file(),
    }
}
