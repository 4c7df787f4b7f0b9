//! An advisory lock on a directory, released by the kernel when its owner exits.
//!
//! `flock` is taken on the directory itself, so there is no lock file that could be left behind, deleted
//! by accident or committed.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    io::Errno,
};
use sha2::{Digest, Sha256};

/// Maximum time to wait for the lock. Owners hold it for milliseconds; a suspended owner must not block
/// others for ever.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Exclusive permission to change the files of one directory. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _descriptor: OwnedFd,
}

/// Why the lock was not acquired.
#[derive(Debug)]
pub(crate) enum LockFailure {
    /// Another process held the lock for the whole timeout.
    Busy,
    Failed(io::Error),
}

/// Locks a directory; blocks for at most [`TIMEOUT`]. If its file system does not support locks, a file
/// in `elsewhere` is locked instead.
pub(crate) fn lock(directory: &Path, elsewhere: Option<&Path>) -> Result<DirectoryLock, LockFailure> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let descriptor = open(directory, OFlags::DIRECTORY)?;
        match wait(&descriptor, deadline) {
            Ok(()) if is_still(directory, &descriptor) => {
                return Ok(DirectoryLock { _descriptor: descriptor });
            }
            // The directory was replaced while this process waited: the lock is on the old one, so try
            // again.
            Ok(()) => (),
            Err(LockFailure::Failed(error)) if knows_no_locks(&error) => {
                let Some(elsewhere) = elsewhere else { return Err(LockFailure::Failed(error)) };
                let descriptor = stand_in(directory, elsewhere)?;
                wait(&descriptor, deadline)?;
                return Ok(DirectoryLock { _descriptor: descriptor });
            }
            Err(failure) => return Err(failure),
        }
        if deadline <= Instant::now() {
            return Err(LockFailure::Busy);
        }
    }
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, LockFailure> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| LockFailure::Failed(error.into()))
}

/// Polls with a non-blocking lock until the deadline, because a blocking lock has no timeout.
fn wait(descriptor: &OwnedFd, deadline: Instant) -> Result<(), LockFailure> {
    let mut pause = Duration::from_micros(500);
    loop {
        match rustix::fs::flock(descriptor, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if deadline <= Instant::now() => return Err(LockFailure::Busy),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(pause),
            Err(error) => return Err(LockFailure::Failed(error.into())),
        }
        pause = (pause * 3 / 2).min(Duration::from_millis(10));
    }
}

fn is_still(directory: &Path, descriptor: &OwnedFd) -> bool {
    match (rustix::fs::fstat(descriptor), fs::metadata(directory)) {
        (Ok(locked), Ok(now)) => (locked.st_dev, locked.st_ino) == (now.dev(), now.ino()),
        _ => false,
    }
}

fn knows_no_locks(error: &io::Error) -> bool {
    let codes = [Errno::OPNOTSUPP, Errno::NOLCK, Errno::BADF, Errno::NOSYS, Errno::INVAL];
    error.raw_os_error().is_some_and(|code| codes.iter().any(|it| it.raw_os_error() == code))
}

fn stand_in(directory: &Path, elsewhere: &Path) -> Result<OwnedFd, LockFailure> {
    fs::create_dir_all(elsewhere).map_err(LockFailure::Failed)?;
    let real = fs::canonicalize(directory).map_err(LockFailure::Failed)?;
    let digest = Sha256::digest(real.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = rustix::fs::open(elsewhere.join(name), flags, Mode::RUSR | Mode::WUSR);
    opened.map_err(|error| LockFailure::Failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_exclusive_and_released_on_drop() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(directory.path(), None).unwrap();
        let descriptor = open(directory.path(), OFlags::DIRECTORY).unwrap();
        assert!(matches!(wait(&descriptor, Instant::now()), Err(LockFailure::Busy)));
        drop(first);
        wait(&descriptor, Instant::now()).unwrap();
    }

    #[test]
    fn lock_file_is_unique_per_directory() {
        let (a, b, locks) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = stand_in(a.path(), locks.path()).unwrap();
        wait(&first, Instant::now()).unwrap();
        let same = stand_in(a.path(), locks.path()).unwrap();
        assert!(matches!(wait(&same, Instant::now()), Err(LockFailure::Busy)));
        let other = stand_in(b.path(), locks.path()).unwrap();
        wait(&other, Instant::now()).unwrap();
    }
}
