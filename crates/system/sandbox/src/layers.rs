//! Overlay layers: store what a session's commands write to directories that must not change.

use std::{
    fs::{DirBuilder, File, Permissions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{FlockOperation, flock};

use crate::helper_request::OverlayLayer;

/// Maximum number of layer sets, and thus of concurrent commands with layers.
const MAX_SETS: usize = 64;

/// The overlay layers of one session; deleted on drop.
///
/// Two mounted overlays must not share a layer, so each running command has its own set. Consecutive
/// commands reuse the same set.
#[derive(Debug)]
pub(crate) struct LayerStore {
    dir: PathBuf,
    /// Locked for the lifetime of the session, so that other sessions do not delete the directory.
    _lock: File,
}

/// The layers of one command.
#[derive(Debug, Default)]
pub(crate) struct HeldLayers {
    pub(crate) layers: Vec<OverlayLayer>,
    /// Locked while the command runs.
    _lock: Option<File>,
}

impl LayerStore {
    /// Creates a store below `dir`. Removes stores of sessions that no longer run.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        private(dir)?;
        sweep(dir);
        for _ in 0..10 {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let own = dir.join(format!("{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&own) {
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let lock = File::open(&own)?;
            // A concurrent sweep may have deleted it.
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && own.exists() {
                return Ok(Self { dir: own, _lock: lock });
            }
        }
        Err(io::Error::other("there is no place for layers"))
    }

    /// Returns a free set of layers over these directories. Fails if all sets are in use.
    pub(crate) fn hold(&self, paths: &[PathBuf]) -> io::Result<HeldLayers> {
        for number in 0..MAX_SETS {
            let set = self.dir.join(number.to_string());
            private(&set)?;
            let lock = File::open(&set)?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => continue,
                locked => locked?,
            }
            let layers = paths.iter().map(|path| layer(&set, path)).collect::<io::Result<_>>()?;
            return Ok(HeldLayers { layers, _lock: Some(lock) });
        }
        Err(io::Error::other("too many commands run"))
    }
}

impl Drop for LayerStore {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

impl HeldLayers {
    /// Layers that make the directories read-only.
    pub(crate) fn read_only(paths: &[PathBuf]) -> Self {
        let layers = paths.iter().map(|path| OverlayLayer { path: path.clone(), store: None });
        Self { layers: layers.collect(), _lock: None }
    }
}

fn layer(set: &Path, path: &Path) -> io::Result<OverlayLayer> {
    let mut name = DefaultHasher::new();
    path.hash(&mut name);
    let own = set.join(format!("{:016x}", name.finish()));
    let (upper, work) = (own.join("upper"), own.join("work"));
    private(&upper)?;
    private(&work)?;
    // The layer represents the directory, so it gets its mode.
    std::fs::set_permissions(&upper, Permissions::from_mode(path.metadata()?.mode() & 0o777))?;
    Ok(OverlayLayer { path: path.to_owned(), store: Some((upper, work)) })
}

fn private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Removes the stores of sessions that no longer run.
fn sweep(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(lock) = File::open(entry.path()) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&entry.path());
        }
    }
}

/// Removes a store, including overlay work directories, which are unreadable.
fn remove(store: &Path) {
    let below = |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path());
    for work in below(store.to_owned()).flat_map(below).map(|it| it.join("work/work")) {
        std::fs::set_permissions(work, Permissions::from_mode(0o700)).ok();
    }
    std::fs::remove_dir_all(store).ok();
}
