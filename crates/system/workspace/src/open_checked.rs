//! Opens exactly the file that was checked.
//!
//! Permission is decided on a resolved path without symlinks. Somebody may replace a component by a
//! symlink before the call, so no open follows symlinks.

use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat, openat2},
    io::Errno,
};

use crate::{ContentHash, FileError, FileKind, FileObject, FileStat, cached_read};

/// An open regular file with its metadata at that time.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    path: PathBuf,
    stamp: FileStat,
}

impl OpenFile {
    /// Opens the regular file at a resolved path. Fails for anything else without blocking on a pipe or
    /// touching a device.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let failed = |errno| FileError::from_errno(path, "open", errno);
        // `O_PATH` examines the object without opening it, because opening some devices has side
        // effects.
        let probe = open_no_links(path, OFlags::PATH).map_err(failed)?;
        let seen = regular(path, &probe)?;
        let fd = open_no_links(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map_err(failed)?;
        Self::checked(fd, path, seen.id)
    }

    /// Accepts an open object if it is the one that was examined.
    pub(crate) fn checked(fd: OwnedFd, path: &Path, seen: (u64, u64)) -> Result<Self, FileError> {
        let stat = fstat(&fd).map_err(|errno| FileError::from_errno(path, "open", errno))?;
        let stamp = FileStat::new(&stat);
        if stamp.id != seen {
            return Err(FileError::Moved { path: path.to_owned() });
        }
        Ok(Self { file: File::from(fd), path: path.to_owned(), stamp })
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Metadata at the time it was opened.
    pub fn stamp(&self) -> &FileStat {
        &self.stamp
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Identity of the object, independent of its names.
    pub(crate) fn object(&self) -> Option<FileObject> {
        self.file.metadata().ok().map(|it| FileObject::of(&it))
    }

    /// Current metadata.
    pub(crate) fn restamp(&self) -> Result<FileStat, FileError> {
        let stat = fstat(&self.file).map_err(|errno| FileError::from_errno(&self.path, "stat", errno))?;
        Ok(FileStat::new(&stat))
    }

    /// Reads the whole file, regardless of its reported size. Fails if it exceeds `max` bytes.
    pub fn read_all(&self, max: u64) -> Result<Vec<u8>, FileError> {
        let too_large = |len| FileError::TooLarge { path: self.path.clone(), len, max };
        if max < self.stamp.len {
            return Err(too_large(self.stamp.len));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(self.stamp.len).unwrap_or(0) + 1);
        let read = self.from_start().take(max + 1).read_to_end(&mut bytes);
        read.map_err(|err| FileError::from_io(&self.path, "read", err))?;
        if max < bytes.len() as u64 {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(bytes)
    }

    /// Reads the whole file like [`OpenFile::read_all`] and hashes it.
    pub(crate) fn read_hashed(&self, max: u64) -> Result<(Vec<u8>, ContentHash), FileError> {
        /// From this size on a second thread is worthwhile.
        const LARGE: u64 = 4 * 1024 * 1024;
        const PART: usize = 512 * 1024;
        let len = self.stamp.len;
        if len < LARGE || max < len {
            return self.read_plainly(max);
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let (read, hash) = ContentHash::beside(|hand_on| {
            let mut from = self.from_start();
            for part in bytes.chunks_mut(PART) {
                from.read_exact(part)?;
                hand_on(part);
            }
            // A file that grew meanwhile is read the simple way.
            from.read(&mut [0])
        });
        match read {
            Ok(0) => Ok((bytes, hash)),
            // Its size changed: start again.
            Ok(_) => self.read_plainly(max),
            Err(err) if err.kind() == std::io::ErrorKind::UnexpectedEof => self.read_plainly(max),
            Err(err) => Err(FileError::from_io(&self.path, "read", err)),
        }
    }

    fn read_plainly(&self, max: u64) -> Result<(Vec<u8>, ContentHash), FileError> {
        let bytes = self.read_all(max)?;
        let hash = ContentHash::hash(&bytes);
        Ok((bytes, hash))
    }

    /// A reader with its own position, starting at the beginning.
    pub fn from_start(&self) -> RewoundReader<'_> {
        RewoundReader { file: &self.file, offset: 0 }
    }

    /// The first `max` bytes.
    pub fn head(&self, max: usize) -> Result<Vec<u8>, FileError> {
        let mut bytes = vec![0; max];
        let mut len = 0;
        while len < max {
            match rustix::io::pread(&self.file, &mut bytes[len..], len as u64) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(Errno::INTR) => (),
                Err(errno) => return Err(FileError::from_errno(&self.path, "read", errno)),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}

/// Reads an open file from its beginning.
#[derive(Debug)]
pub struct RewoundReader<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for RewoundReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = rustix::io::pread(self.file, buffer, self.offset)?;
        self.offset += len as u64;
        Ok(len)
    }
}

/// Hash of the regular file at a resolved path.
pub fn hash_file(path: &Path) -> Result<ContentHash, FileError> {
    let open = OpenFile::open(path)?;
    ContentHash::of_reader(open.from_start()).map_err(|err| FileError::from_io(path, "read", err))
}

/// Checks that an object is a regular file on a storage file system.
fn regular(path: &Path, fd: &OwnedFd) -> Result<FileStat, FileError> {
    let failed = |errno| FileError::from_errno(path, "stat", errno);
    let stat = fstat(fd).map_err(failed)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let refuse = |kind| FileError::NotRegular { path: path.to_owned(), kind };
    match kind {
        FileType::RegularFile => (),
        // Symlinks are not followed, so this one was created after the check.
        FileType::Symlink => return Err(FileError::Moved { path: path.to_owned() }),
        other => return Err(refuse(FileKind::from_kind(other))),
    }
    let file_system = fstatfs(fd).map_err(failed)?;
    if haft_paths::is_kernel_interface(&file_system) {
        return Err(refuse(FileKind::Kernel));
    }
    let stamp = FileStat::new(&stat);
    cached_read::note(stamp.id.0, &file_system);
    Ok(stamp)
}

/// Opens a resolved path. A symlink in it fails with `ELOOP` (or `ENOTDIR` in the fallback).
pub(crate) fn open_no_links(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(CWD, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => (),
            // `openat2` is missing in old kernels and forbidden in some sandboxes.
            Err(Errno::NOSYS | Errno::PERM) => return walk_no_links(path, flags),
            other => return other,
        }
    }
}

/// Fallback of [`open_no_links`]: opens one component at a time.
fn walk_no_links(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = openat(CWD, "/", step, Mode::empty())?;
    let mut names = path.components().filter_map(|it| match it {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let Some(mut name) = names.next() else { return openat(CWD, "/", flags, Mode::empty()) };
    for next in names {
        dir = openat(&dir, name, step, Mode::empty())?;
        name = next;
    }
    openat(&dir, name, flags, Mode::empty())
}

/// Opens the directory at a resolved path.
pub(crate) fn open_dir(path: &Path) -> Result<OwnedFd, FileError> {
    open_no_links(path, OFlags::RDONLY | OFlags::DIRECTORY)
        .or_else(|errno| match errno {
            // A directory may be searchable but not readable.
            Errno::ACCESS => open_no_links(path, OFlags::PATH | OFlags::DIRECTORY),
            errno => Err(errno),
        })
        .map_err(|errno| FileError::from_errno(path, "open", errno))
}

/// Opens the regular file `name` in an open directory.
pub(crate) fn open_in(dir: impl AsFd, name: &Path, path: &Path) -> Result<OpenFile, FileError> {
    let failed = |errno| FileError::from_errno(path, "open", errno);
    let nofollow = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let probe = openat(&dir, name, OFlags::PATH | nofollow, Mode::empty()).map_err(failed)?;
    let seen = regular(path, &probe)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | nofollow;
    let fd = openat(&dir, name, flags, Mode::empty()).map_err(failed)?;
    OpenFile::checked(fd, path, seen.id)
}

/// Splits a resolved path into directory and name.
pub(crate) fn split(path: &Path) -> Result<(&Path, &Path), FileError> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, Path::new(name))),
        _ => Err(FileError::NotRegular { path: path.to_owned(), kind: FileKind::Directory }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_no_links_equals_openat2() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("d/f"), "x").unwrap();
        std::os::unix::fs::symlink("d", root.join("l")).unwrap();
        std::os::unix::fs::symlink("d/f", root.join("k")).unwrap();
        for (path, ok) in [("d/f", true), ("l/f", false), ("k", false), ("d/f/x", false), ("gone", false)] {
            let path = root.join(path);
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            assert_eq!(open_no_links(&path, OFlags::RDONLY).is_ok(), ok, "{path:?}");
            assert_eq!(walk_no_links(&path, flags).is_ok(), ok, "{path:?}");
        }
    }
}
