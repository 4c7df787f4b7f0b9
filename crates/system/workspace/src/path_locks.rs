use std::{
    fs,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{CWD, FlockOperation, Mode, OFlags, flock, openat},
    io::Errno,
};

use crate::{ContentHash, FileError};

/// Locks on paths, across threads and processes.
///
/// A lock is an `flock` on one of a fixed set of files in a private directory: no lock files appear in
/// the user's tree, and the kernel releases the lock when its owner dies.
#[derive(Debug)]
pub(crate) struct PathLocks {
    dir: PathBuf,
}

/// Releases the locks on drop.
#[derive(Debug)]
pub(crate) struct PathLockGuard {
    _files: Vec<OwnedFd>,
}

/// Maximum wait for another writer, which normally holds a lock for milliseconds. Then
/// [`FileError::Busy`].
const TIMEOUT: Duration = Duration::from_secs(10);

impl PathLocks {
    /// Uses lock files below the state directory, or in a private temporary directory if that is not
    /// writable.
    pub(crate) fn open(state_dir: &Path) -> Result<Self, FileError> {
        let preferred = state_dir.join("locks");
        let uid = rustix::process::geteuid().as_raw();
        let fallback = std::env::temp_dir().join(format!("haft-{uid}")).join("locks");
        private_dir(&preferred).or_else(|_| private_dir(&fallback)).map(|dir| Self { dir })
    }

    /// For a state directory that must not be created.
    pub(crate) fn unmade(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("locks") }
    }

    /// Locks all paths together, in a fixed order to prevent deadlocks. Blocks up to `TIMEOUT`.
    pub(crate) fn acquire(&self, paths: &[&Path]) -> Result<PathLockGuard, FileError> {
        let mut shards: Vec<(String, &Path)> = paths.iter().map(|path| (shard(path), *path)).collect();
        shards.sort();
        shards.dedup_by(|a, b| a.0 == b.0);
        let deadline = Instant::now() + TIMEOUT;
        let mut files = Vec::with_capacity(shards.len());
        for (shard, path) in shards {
            files.push(self.acquire_one(&shard, path, deadline)?);
        }
        Ok(PathLockGuard { _files: files })
    }

    fn acquire_one(&self, shard: &str, path: &Path, deadline: Instant) -> Result<OwnedFd, FileError> {
        let failed = |errno| FileError::from_errno(path, "lock", errno);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(CWD, self.dir.join(shard), flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let mut pause = Duration::from_micros(50);
        let mut has_waited = false;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::INTR) => (),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    if !std::mem::replace(&mut has_waited, true) {
                        tracing::debug!(path = %path.display(), "waits for another writer");
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(5));
                }
                Err(Errno::WOULDBLOCK) => return Err(FileError::Busy { path: path.to_owned() }),
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}

/// Lock file of a path. A fixed number of files is shared, so unrelated paths sometimes wait briefly.
fn shard(path: &Path) -> String {
    let mut name = ContentHash::hash(path.as_os_str().as_encoded_bytes()).to_string();
    name.truncate(2);
    name
}

/// Creates a directory with mode 0700. Fails if it exists and is not ours.
pub(crate) fn private_dir(path: &Path) -> Result<PathBuf, FileError> {
    let failed = |err| FileError::from_io(path, "create", err);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let found = fs::symlink_metadata(path).map_err(failed)?;
    let uid = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != uid {
        return Err(FileError::Denied { path: path.to_owned(), doing: "use" });
    }
    Ok(path.to_owned())
}
