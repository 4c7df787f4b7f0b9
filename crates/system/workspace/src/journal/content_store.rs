use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use haft_paths::{Durability, PendingFile, sync_content};

use crate::{
    ContentHash, FileError, OpenFile,
    commit::{link_open_file, temporary_name},
    path_locks::private_dir,
    text::Bytes,
};

use super::bulk_store::TeeReader;

/// Stores file contents under their hashes.
#[derive(Debug)]
pub(crate) struct ContentStore {
    dir: PathBuf,
}

/// From this size on, the content of a file to be replaced is saved by a hard link instead of a copy.
const WORTH_LINKING: u64 = 4 * 1024 * 1024;

impl ContentStore {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub(crate) fn path_of(&self, hash: &ContentHash) -> PathBuf {
        let digits = hash.to_string();
        self.dir.join(&digits[..2]).join(&digits[2..])
    }

    /// Whether content is stored, judged by its size.
    pub(crate) fn has(&self, hash: &ContentHash, len: u64) -> bool {
        fs::symlink_metadata(self.path_of(hash)).is_ok_and(|it| it.is_file() && it.len() == len)
    }

    /// Stores content; synced when it returns.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<ContentHash, FileError> {
        let hash = ContentHash::hash(bytes);
        let written = self.put_as(hash, bytes.len() as u64, |file| file.write_all(bytes))?;
        self.sync(written)?;
        Ok(hash)
    }

    /// Stores optional content without waiting for the disk.
    pub(crate) fn put_soon(&self, hash: Option<ContentHash>, content: &Bytes<'_>) -> Result<(), FileError> {
        let Some(hash) = hash else { return Ok(()) };
        let write = |file: &mut File| content.pieces().try_for_each(|it| file.write_all(it));
        self.put_as(hash, content.len() as u64, write).map(drop)
    }

    /// Stores bytes with a known hash without waiting for the disk.
    pub(crate) fn put_bytes_soon(&self, hash: ContentHash, bytes: &[u8]) -> Result<(), FileError> {
        self.put_as(hash, bytes.len() as u64, |file| file.write_all(bytes)).map(drop)
    }

    /// Waits until written files are synced.
    pub(crate) fn sync(&self, written: impl IntoIterator<Item = File>) -> Result<(), FileError> {
        let mut written = written.into_iter();
        written
            .try_for_each(|it| sync_content(&it))
            .map_err(|err| FileError::from_io(&self.dir, "write", err))
    }

    /// Stores the content of an open file, which is read once, without waiting for the disk.
    pub(crate) fn put_reader_soon(&self, from: &OpenFile) -> Result<(ContentHash, u64), FileError> {
        let dir = private_dir(&self.dir.join("new"))?;
        let write = || {
            let mut unfinished = PendingFile::named(dir.join(temporary_name()))?;
            let mut copy = TeeReader { from: from.from_start(), to: unfinished.file() };
            let hash = ContentHash::of_reader(&mut copy)?;
            let len = unfinished.file().metadata()?.len();
            let path = self.path_of(&hash);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            unfinished.take_place_of(&path, Durability::Whenever)?;
            Ok((hash, len))
        };
        write().map_err(|err| FileError::from_io(from.path(), "keep", err))
    }

    /// Stores the content of an open file with a known hash that is about to be replaced. Does not wait
    /// for the disk: the returned file must still be synced.
    pub(crate) fn keep(&self, file: &OpenFile, hash: ContentHash) -> Result<Option<File>, FileError> {
        let stamp = file.stamp();
        if self.has(&hash, stamp.len) {
            return Ok(None);
        }
        // A file with other names stays in use and may change, so it is not linked.
        if WORTH_LINKING <= stamp.len && stamp.links == 1 && self.link(file, hash) {
            return Ok(None);
        }
        self.put_as(hash, stamp.len, |to| io::copy(&mut file.from_start(), to).map(drop))
    }

    /// Hard-links the file into the store; false if that is not possible.
    pub(super) fn link(&self, file: &OpenFile, hash: ContentHash) -> bool {
        let path = self.path_of(&hash);
        let Some(parent) = path.parent() else { return false };
        private_dir(parent).is_ok()
            && File::open(parent).is_ok_and(|dir| {
                let name = Path::new(path.file_name().unwrap_or_default());
                link_open_file(file.file(), &dir, name).is_ok()
            })
    }

    /// Writes content to a temporary name and renames it, so that an object is complete, except after a
    /// power failure. Returns the file to be synced; `None` if it existed.
    fn put_as(
        &self,
        hash: ContentHash,
        len: u64,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<Option<File>, FileError> {
        if self.has(&hash, len) {
            return Ok(None);
        }
        let path = self.path_of(&hash);
        let dir = private_dir(path.parent().unwrap_or(&self.dir))?;
        let put = || {
            let mut unfinished = PendingFile::named(dir.join(temporary_name()))?;
            write(unfinished.file())?;
            unfinished.take_place_of(&path, Durability::Whenever).map(Some)
        };
        put().map_err(|err| FileError::from_io(&path, "write", err))
    }

    /// Reads the content with this hash. Fails if it does not match any more (disk error, or modified by
    /// a process that had the file open).
    pub(crate) fn get(&self, hash: &ContentHash) -> Result<Vec<u8>, FileError> {
        let path = self.path_of(hash);
        let failed = |err| FileError::from_io(&path, "read", err);
        let mut bytes = Vec::new();
        File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(failed)?;
        if ContentHash::hash(&bytes) != *hash {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the kept content is damaged")));
        }
        Ok(bytes)
    }

    /// All files in the store.
    pub(crate) fn objects(&self) -> Vec<StoredObject> {
        let mut objects = Vec::new();
        for shard in read_dir(&self.dir) {
            for path in read_dir(&shard) {
                if let Ok(found) = fs::symlink_metadata(&path)
                    && found.is_file()
                {
                    let name = format!("{}{}", file_name(&shard), file_name(&path));
                    let hash = name.parse().ok();
                    objects.push(StoredObject { path, hash, len: found.len(), since: found.ctime() });
                }
            }
        }
        objects
    }
}

/// A file in the store; without a hash it is a leftover temporary file.
pub(crate) struct StoredObject {
    pub(crate) path: PathBuf,
    pub(crate) hash: Option<ContentHash>,
    pub(crate) len: u64,
    /// Creation time, in seconds since 1970.
    pub(crate) since: i64,
}

pub(crate) fn read_dir(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
