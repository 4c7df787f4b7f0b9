//! Keeping many contents at once, and giving them back without loading them.

use std::{
    fs::File,
    io::{self, Read, Write},
    sync::atomic::Ordering,
    time::SystemTime,
};

use super::Journal;
use crate::{ContentHash, FileError, FileState, OpenFile};

/// Contents up to this size are read in one go.
const SMALL: u64 = 1 << 20;

impl Journal {
    /// Keeps the content of an open file without waiting for the disk: after a
    /// power cut it may be missing, and then the fingerprint says so.
    pub fn keep_soon(&self, file: &OpenFile) -> Result<FileState, FileError> {
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

    /// Keeps the content of a file that nobody changes in place, such as an
    /// object of git: by giving it a second name where that is possible.
    pub fn keep_immutable(&self, file: &OpenFile) -> Result<FileState, FileError> {
        let stamp = file.stamp();
        let hash = crate::snapshot::hash_open(file)?;
        if !self.has(&hash, stamp.len) && !self.store().link(file, hash) {
            return self.keep_soon(file);
        }
        Ok(FileState::File { hash, len: stamp.len, mode: stamp.permissions() })
    }

    /// Whether some content is kept, as far as its size tells.
    pub fn has(&self, hash: &ContentHash, len: u64) -> bool {
        self.store().has(hash, len)
    }

    /// When the directories of the store last changed: as long as these are the
    /// same, nothing was added to it and nothing removed.
    pub fn store_times(&self) -> Vec<Option<SystemTime>> {
        let dirs = (0..=255_u8).map(|it| self.dir().join("objects").join(format!("{it:02x}")));
        dirs.map(|dir| dir.metadata().and_then(|it| it.modified()).ok()).collect()
    }

    /// Writes kept content into a file, in bounded memory. What does not match
    /// its fingerprint any more is an error.
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

/// Passes on what is read through it.
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
