//! File system primitives of this crate. None follows a symlink, blocks on a pipe or opens a device.

use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    io::{self, Read},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, fstatfs, openat, openat2,
        statat,
    },
    io::Errno,
};

/// An open directory below which a search runs, opened without following symlinks.
#[derive(Debug)]
pub struct SearchRoot {
    fd: OwnedFd,
    path: PathBuf,
    device: u64,
}

impl SearchRoot {
    /// Opens the directory at a resolved path. Fails if any component is a symlink, because it was
    /// created after the path was resolved.
    pub fn open(path: &Path) -> io::Result<Self> {
        let fd = open_below(CWD, path.as_os_str().as_bytes(), DIRECTORY)?;
        if is_kernel_interface(&fd)? {
            let message = "it belongs to the kernel (proc, sysfs or the like), not to a disk";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let device = fstat(&fd)?.st_dev;
        Ok(Self { fd, path: path.to_owned(), device })
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device number of its file system.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Opens a directory by its path below the root.
    pub(crate) fn open_dir(&self, rel: &[u8]) -> io::Result<OwnedFd> {
        let rel = if rel.is_empty() { b"." } else { rel };
        Ok(open_below(self.fd.as_fd(), rel, DIRECTORY)?)
    }

    /// Opens a regular file by its path below the root.
    pub(crate) fn open_file(&self, rel: &[u8]) -> io::Result<(File, Stat)> {
        regular(open_below(self.fd.as_fd(), rel, FILE)?)
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
/// `NONBLOCK`: opening a pipe that replaced a file must not block.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Maximum bytes of a path per system call (the kernel's limit is 4096); longer ones are opened in
/// steps.
const PIECE: usize = 4000;

fn open_below(dir: BorrowedFd<'_>, rel: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if rel.len() <= PIECE {
        return open_piece(dir, rel, flags);
    }
    let mut held: Option<OwnedFd> = None;
    let mut rest = rel;
    while PIECE < rest.len() {
        let cut = memchr::memrchr(b'/', &rest[..PIECE]).filter(|cut| 0 < *cut).ok_or(Errno::NAMETOOLONG)?;
        let from = held.as_ref().map_or(dir, AsFd::as_fd);
        held = Some(open_piece(from, &rest[..cut], OFlags::PATH | OFlags::DIRECTORY)?);
        rest = &rest[cut + 1..];
    }
    open_piece(held.as_ref().map_or(dir, AsFd::as_fd), rest, flags)
}

fn open_piece(dir: BorrowedFd<'_>, rel: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(dir, rel, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => (),
            // Not available in old kernels and some sandboxes.
            Err(Errno::NOSYS | Errno::PERM) => return open_by_component(dir, rel, flags),
            other => return other,
        }
    }
}

fn open_by_component(dir: BorrowedFd<'_>, rel: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut held: Option<OwnedFd> = None;
    if rel.starts_with(b"/") {
        held = Some(openat(CWD, c"/", step, Mode::empty())?);
    }
    let mut names = rel.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let flags = if names.peek().is_some() { step } else { flags };
        held = Some(openat(held.as_ref().map_or(dir, AsFd::as_fd), name, flags, Mode::empty())?);
    }
    match held {
        Some(fd) => Ok(fd),
        None => openat(dir, c".", flags, Mode::empty()),
    }
}

/// Opens a regular file by its name in an open directory.
pub(crate) fn open_entry(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<(File, Stat)> {
    regular(openat(dir, name, FILE | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Metadata of a directory entry; does not follow symlinks.
pub(crate) fn stat_entry(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Stat> {
    Ok(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Metadata of a symlink's target.
pub(crate) fn stat_target(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Stat> {
    Ok(statat(dir, name, AtFlags::empty())?)
}

/// Text of a symlink; empty if it cannot be read.
pub(crate) fn read_link(dir: BorrowedFd<'_>, name: &CStr) -> Vec<u8> {
    rustix::fs::readlinkat(dir, name, Vec::new()).map(CString::into_bytes).unwrap_or_default()
}

fn regular(fd: OwnedFd) -> io::Result<(File, Stat)> {
    let stat = fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((File::from(fd), stat)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Opens the regular file at a resolved path.
pub fn open_file(path: &Path) -> io::Result<File> {
    let fd = open_below(CWD, path.as_os_str().as_bytes(), FILE)?;
    if is_kernel_interface(&fd)? {
        let message = "it is made up by the kernel while it is read (proc, sysfs or the like)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    Ok(regular(fd)?.0)
}

/// Reads a small configuration file. `None` if it does not exist, is not a regular file, or is
/// unreasonably large.
pub(crate) fn read_small(path: &Path) -> Option<Vec<u8>> {
    const MAX: u64 = 1 << 20;
    let fd = openat(CWD, path, FILE | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let (file, stat) = regular(fd).ok()?;
    if MAX < u64::try_from(stat.st_size).ok()? {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether the file system generates its files on read (proc, sysfs, …).
pub(crate) fn is_kernel_interface(fd: impl AsFd) -> io::Result<bool> {
    Ok(haft_paths::is_kernel_interface(&fstatfs(fd)?))
}

/// Type of a directory entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DiskKind {
    File,
    Dir,
    Link,
    /// A pipe, socket or device; never opened.
    Special,
}

impl DiskKind {
    pub(crate) fn from_kind(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

/// Names and types of a directory's entries, in one allocation.
#[derive(Debug, Default)]
pub(crate) struct DirectoryListing {
    /// NUL-terminated names.
    names: Vec<u8>,
    entries: Vec<(u32, DiskKind)>,
}

impl DirectoryListing {
    /// Reads an open directory.
    pub(crate) fn read(dir: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Self> {
        let mut listing = Self::default();
        let mut raw = RawDir::new(dir, buffer);
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match stat_entry(dir, name) {
                    Ok(stat) => DiskKind::from_kind(FileType::from_raw_mode(stat.st_mode)),
                    Err(_) => continue,
                },
                known => DiskKind::from_kind(known),
            };
            let start = u32::try_from(listing.names.len()).map_err(io::Error::other)?;
            listing.entries.push((start, kind));
            listing.names.extend_from_slice(name.to_bytes_with_nul());
        }
        Ok(listing)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Name and type of an entry.
    pub(crate) fn get(&self, index: usize) -> Option<(&CStr, DiskKind)> {
        let (start, kind) = *self.entries.get(index)?;
        let name = CStr::from_bytes_until_nul(self.names.get(start as usize..)?).ok()?;
        Some((name, kind))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&CStr, DiskKind)> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
