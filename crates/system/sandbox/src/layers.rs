//! Where a session keeps what its commands write to directories that stay as
//! they are.

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

/// Maximum number of sets of layers, and so of commands at the same time that
/// have one.
const MAX_SETS: usize = 64;

/// The layers of one session, removed when it is dropped.
///
/// Two overlays may not share a layer, so every command has a set of its own while
/// it runs. Commands that run one after the other get the same set.
#[derive(Debug)]
pub(crate) struct LayerStore {
    dir: PathBuf,
    /// Held as long as the session lives: nobody else removes the directory.
    _lock: File,
}

/// The layers of one command.
#[derive(Debug, Default)]
pub(crate) struct HeldLayers {
    pub(crate) layers: Vec<OverlayLayer>,
    /// Held as long as the command runs.
    _lock: Option<File>,
}

impl LayerStore {
    /// A new store below `dir`. Removes the stores of sessions that are gone.
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
            // Whoever sweeps at this moment may have taken it away.
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && own.exists() {
                return Ok(Self { dir: own, _lock: lock });
            }
        }
        Err(io::Error::other("there is no place for layers"))
    }

    /// Layers over these directories for one command.
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
    /// Nothing may be written there.
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
    // The layer stands for the directory, so it has its mode.
    std::fs::set_permissions(&upper, Permissions::from_mode(path.metadata()?.mode() & 0o777))?;
    Ok(OverlayLayer { path: path.to_owned(), store: Some((upper, work)) })
}

fn private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Removes the stores of sessions that are gone.
fn sweep(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(lock) = File::open(entry.path()) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&entry.path());
        }
    }
}

/// Removes a store, with the directories of overlays that nobody can read.
fn remove(store: &Path) {
    let below = |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path());
    for work in below(store.to_owned()).flat_map(below).map(|it| it.join("work/work")) {
        std::fs::set_permissions(work, Permissions::from_mode(0o700)).ok();
    }
    std::fs::remove_dir_all(store).ok();
}
