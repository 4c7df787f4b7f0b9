//! Reads a file that another process may be changing, or may have crafted.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

/// Maximum bytes of a settings file.
pub(crate) const LARGEST: u64 = 2 * 1024 * 1024;

/// Content of a file, and a fingerprint to detect later changes.
#[derive(Debug)]
pub(crate) struct FileContents {
    pub(crate) bytes: Vec<u8>,
    pub(crate) print: FileFingerprint,
}

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Absent,
    /// A directory, pipe or device, on which a read might block for ever.
    NotAFile,
    TooLarge(u64),
    Failed(io::Error),
}

/// Identifies one state of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum FileFingerprint {
    Absent,
    Present {
        stamp: ReadStamp,
        /// Hash of the content. Only set if the file was modified so recently that another change might
        /// not alter its timestamp.
        digest: Option<[u8; 32]>,
    },
}

/// Metadata: everything but the content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ReadStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ReadStamp {
    fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Maximum bytes of a file that is compared by content.
const MAX_COMPARED_BYTES: u64 = 64 * 1024 * 1024;

/// Result of comparing a file with its fingerprint.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum FileChangeCheck {
    Changed,
    Same,
    /// Unchanged, and old enough that metadata alone now suffices (the new fingerprint).
    Settled(FileFingerprint),
}

/// Coarsest timestamp resolution of supported file systems (FAT: 2 s), plus a margin.
const COARSEST_CLOCK: Duration = Duration::from_millis(2500);

/// Reads a regular file of at most `largest` bytes.
pub(crate) fn read(path: &Path, largest: u64) -> Result<FileContents, ReadError> {
    let mut file = open(path)?;
    let before = file.metadata().map_err(ReadError::Failed)?;
    if !before.is_file() {
        return Err(ReadError::NotAFile);
    }
    if largest < before.len() {
        return Err(ReadError::TooLarge(before.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.len()).unwrap_or(0));
    // The file may grow during the read.
    (&mut file).take(largest + 1).read_to_end(&mut bytes).map_err(ReadError::Failed)?;
    if largest < bytes.len() as u64 {
        return Err(ReadError::TooLarge(bytes.len() as u64));
    }
    // Metadata from before the read: if the file changes meanwhile, the next check detects it.
    let print = FileFingerprint::from_metadata(&before, || Some(Sha256::digest(&bytes).into()));
    Ok(FileContents { bytes, print })
}

/// Opens a file without blocking on a pipe.
fn open(path: &Path) -> Result<File, ReadError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(File::from(file)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Err(ReadError::Absent),
        Err(error) => Err(ReadError::Failed(error.into())),
    }
}

impl FileFingerprint {
    fn from_metadata(metadata: &std::fs::Metadata, digest: impl FnOnce() -> Option<[u8; 32]>) -> Self {
        let digest = if is_settled(metadata) { None } else { digest() };
        Self::Present { stamp: ReadStamp::from_metadata(metadata), digest }
    }

    /// Compares the file at `path` with this fingerprint. One system call, unless the file was recently
    /// modified when it was read.
    pub(crate) fn look(&self, path: &Path) -> FileChangeCheck {
        match (self, std::fs::metadata(path)) {
            (Self::Absent, Err(_)) => FileChangeCheck::Same,
            (Self::Present { stamp, digest }, Ok(metadata)) => match digest {
                _ if ReadStamp::from_metadata(&metadata) != *stamp => FileChangeCheck::Changed,
                None => FileChangeCheck::Same,
                Some(digest) => self.compare(path, digest),
            },
            _ => FileChangeCheck::Changed,
        }
    }

    /// Compares the content too.
    fn compare(&self, path: &Path, digest: &[u8; 32]) -> FileChangeCheck {
        match read(path, MAX_COMPARED_BYTES) {
            Ok(now) if <[u8; 32]>::from(Sha256::digest(&now.bytes)) == *digest => match now.print {
                print if print == *self => FileChangeCheck::Same,
                print => FileChangeCheck::Settled(print),
            },
            Ok(_) | Err(_) => FileChangeCheck::Changed,
        }
    }

    /// Returns the metadata as text.
    pub(crate) fn without_content(&self) -> String {
        match self {
            Self::Absent => String::new(),
            Self::Present { stamp, .. } => {
                let ReadStamp { device, inode, size, modified, changed } = stamp;
                format!("{device} {inode} {size} {modified:?} {changed:?}")
            }
        }
    }

    /// Returns the fingerprint of a file whose content does not matter.
    pub(crate) fn at(path: &Path) -> Self {
        match std::fs::metadata(path) {
            Ok(metadata) => Self::from_metadata(&metadata, || {
                read(path, MAX_COMPARED_BYTES).ok().map(|it| Sha256::digest(&it.bytes).into())
            }),
            Err(_) => Self::Absent,
        }
    }
}

fn is_settled(metadata: &std::fs::Metadata) -> bool {
    let seconds = u64::try_from(metadata.ctime()).unwrap_or(0);
    let touched = UNIX_EPOCH + Duration::from_secs(seconds);
    // A timestamp in the future never counts as old enough.
    SystemTime::now().duration_since(touched).is_ok_and(|age| COARSEST_CLOCK + Duration::from_secs(1) < age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_within_clock_resolution_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "aaaa").unwrap();
        let print = read(&path, LARGEST).unwrap().print;
        assert_eq!(print.look(&path), FileChangeCheck::Same);
        let times = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::write(&path, "bbbb").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(times).unwrap();
        assert_eq!(print.look(&path), FileChangeCheck::Changed);
    }

    #[test]
    fn non_regular_file_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(read(directory.path(), LARGEST), Err(ReadError::NotAFile)));
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(matches!(read(&pipe, LARGEST), Err(ReadError::NotAFile)));
        assert!(matches!(read(&directory.path().join("none"), LARGEST), Err(ReadError::Absent)));
        let large = directory.path().join("large");
        std::fs::write(&large, "x".repeat(11)).unwrap();
        assert!(matches!(read(&large, 10), Err(ReadError::TooLarge(11))));
    }
}
