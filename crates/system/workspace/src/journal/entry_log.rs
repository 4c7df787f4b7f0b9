use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use haft_paths::{Durability, PendingFile, sync_content};
use rustix::{
    fs::{FallocateFlags, FlockOperation, fallocate, flock},
    io::Errno,
};

use super::JournalEntry;
use crate::{FileError, commit::temporary_name};

/// Append-only log of entries, one JSON line each.
///
/// A line truncated by a crash is skipped, and the next one starts on a new line, so any prefix of the
/// file is a valid log.
#[derive(Debug)]
pub(crate) struct EntryLog {
    path: PathBuf,
}

impl EntryLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    fn failed(&self, doing: &'static str) -> impl Fn(std::io::Error) -> FileError {
        let path = self.path.clone();
        move |err| FileError::from_io(&path, doing, err)
    }

    /// Opens and locks the file. Pruning replaces it, so the locked file must still be the one with the
    /// name.
    fn locked(&self) -> std::io::Result<File> {
        loop {
            let mut options = fs::OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            let file = options.open(&self.path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            if same_file(&file, &self.path) {
                return Ok(file);
            }
        }
    }

    /// Appends an entry and waits for the disk.
    pub(crate) fn append(&self, entry: &JournalEntry) -> Result<(), FileError> {
        sync_content(&self.write(entry)?).map_err(self.failed("write"))
    }

    /// Reserves disk space for the next entries, if the file system supports it. Fails if there is no
    /// space.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), FileError> {
        let failed = self.failed("write");
        let mut file = self.locked().map_err(&failed)?;
        let end = file.seek(SeekFrom::End(0)).map_err(&failed)?;
        match fallocate(&file, FallocateFlags::KEEP_SIZE, end, bytes) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(failed(errno.into())),
            _ => Ok(()),
        }
    }

    /// Appends an entry; the returned file must still be synced. A line that does not fit on the disk is
    /// removed again.
    pub(crate) fn write(&self, entry: &JournalEntry) -> Result<File, FileError> {
        let failed = self.failed("write");
        let mut line = serde_json::to_vec(entry).map_err(|err| failed(err.into()))?;
        line.push(b'\n');
        let mut file = self.locked().map_err(&failed)?;
        let end = file.seek(SeekFrom::End(0)).map_err(&failed)?;
        if end != 0 && last_byte(&mut file).map_err(&failed)? != b'\n' {
            line.insert(0, b'\n');
        }
        if let Err(err) = file.write_all(&line) {
            file.set_len(end).ok();
            return Err(failed(err));
        }
        // Other writers need not wait for the disk.
        flock(&file, FlockOperation::Unlock).map_err(|errno| failed(errno.into()))?;
        Ok(file)
    }

    /// All entries, oldest first.
    pub(crate) fn entries(&self) -> Result<Vec<JournalEntry>, FileError> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(parse(&bytes)),
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(err) => Err(self.failed("read")(err)),
        }
    }

    /// Removes the other entries. Blocks writers meanwhile.
    pub(crate) fn retain(
        &self,
        keep: impl Fn(&JournalEntry) -> bool,
    ) -> Result<Vec<JournalEntry>, FileError> {
        let failed = self.failed("write");
        let mut file = self.locked().map_err(&failed)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).map_err(&failed)?;
        let all = parse(&bytes);
        let kept: Vec<JournalEntry> = all.iter().filter(|entry| keep(entry)).cloned().collect();
        if kept.len() == all.len() {
            return Ok(kept);
        }
        let write = || {
            let mut new = PendingFile::named(self.path.with_file_name(temporary_name()))?;
            for entry in &kept {
                serde_json::to_writer(new.file(), entry)?;
                new.file().write_all(b"\n")?;
            }
            new.take_place_of(&self.path, Durability::Content)
        };
        write().map_err(failed)?;
        Ok(kept)
    }
}

fn parse(bytes: &[u8]) -> Vec<JournalEntry> {
    bytes.split(|it| *it == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

fn last_byte(file: &mut File) -> std::io::Result<u8> {
    let mut byte = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
