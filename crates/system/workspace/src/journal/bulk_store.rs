//! Saves many contents, and restores them without loading them into memory.

use std::{
    fs::File,
    io::{self, Read, Write},
    sync::atomic::Ordering,
    time::SystemTime,
};

use super::Journal;
use crate::{ContentHash, FileError, FileState, OpenFile};

/// Maximum bytes of content read at once.
const SMALL: u64 = 1 << 20;

impl Journal {
    /// Saves the content of an open file without waiting for the disk. It may be missing after a power
    /// failure; its hash detects that.
    pub fn store_async(&self, file: &OpenFile) -> Result<FileState, FileError> {
        let stamp = file.stamp();
        let (hash, len) = if stamp.len <= SMALL {
            let bytes = file.read_all(crate::MAX_EDITABLE)?;
            let (hash, len) = (ContentHash::hash(&bytes), bytes.len() as u64);
            if !self.has(&hash, len) {
                self.store().put_bytes_soon(hash, &bytes)?;
                self.added.fetch_add(len, Ordering::Relaxed);
            }
            (hash, len)
        } else {
            let kept = self.store().put_reader_soon(file)?;
            self.added.fetch_add(kept.1, Ordering::Relaxed);
            kept
        };
        Ok(FileState::File { hash, len, mode: stamp.permissions() })
    }

    /// Saves the content of a file that is never modified in place, such as a git object: by a hard link
    /// if possible.
    pub fn store_by_link(&self, file: &OpenFile) -> Result<FileState, FileError> {
        let stamp = file.stamp();
        let hash = crate::snapshot::hash_open(file)?;
        if !self.has(&hash, stamp.len) && !self.store().link(file, hash) {
            return self.store_async(file);
        }
        Ok(FileState::File { hash, len: stamp.len, mode: stamp.permissions() })
    }

    /// Whether content is stored, judged by its size.
    pub fn has(&self, hash: &ContentHash, len: u64) -> bool {
        self.store().has(hash, len)
    }

    /// Modification times of the store's directories; while they are equal, nothing was added or
    /// removed.
    pub fn store_times(&self) -> Vec<Option<SystemTime>> {
        let dirs = (0..=255_u8).map(|it| self.dir().join("objects").join(format!("{it:02x}")));
        dirs.map(|dir| dir.metadata().and_then(|it| it.modified()).ok()).collect()
    }

    /// Writes stored content to a file, in bounded memory. Fails if it does not match its hash.
    pub(crate) fn write_content(&self, hash: &ContentHash, to: &mut File) -> Result<(), FileError> {
        let path = self.store().path_of(hash);
        let failed = |err| FileError::from_io(&path, "read", err);
        let from = File::open(&path).map_err(failed)?;
        let mut copy = TeeReader { from, to };
        let found = ContentHash::of_reader(&mut copy).map_err(failed)?;
        if found != *hash {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the kept content is damaged")));
        }
        Ok(())
    }
}

/// Passes on everything that is read through it.
pub(super) struct TeeReader<'a, R> {
    pub(super) from: R,
    pub(super) to: &'a mut File,
}

impl<R: Read> Read for TeeReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.from.read(buffer)?;
        self.to.write_all(&buffer[..len])?;
        Ok(len)
    }
}
