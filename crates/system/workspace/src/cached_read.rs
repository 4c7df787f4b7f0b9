//! Reads files from the page cache without blocking.
//!
//! Most files a model reads are small and recently used. Passing such a read to a blocking thread costs
//! several times as much as the read, so it is tried on the calling thread first: only with data in the
//! kernel's caches, and only on local file systems, because a network file system may hang.

use std::{
    io::IoSliceMut,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{PoisonError, RwLock},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatFs, StatxFlags, makedev, openat2, statx},
    io::{Errno, ReadWriteFlags, preadv2},
};

use crate::OpenFile;

/// Reads a regular file of at most `max` bytes if that does not block. `None` means only that it could
/// not be done without blocking.
pub fn read_at_hand(path: &Path, max: usize) -> Option<(OpenFile, Vec<u8>)> {
    let probe = open_cached(path, OFlags::PATH)?;
    let id = local_file(&probe, max)?;
    let fd = open_cached(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    let file = OpenFile::checked(fd, path, id).ok()?;
    let bytes = read_now(&file)?;
    Some((file, bytes))
}

/// Whether the path is a regular file without symlinks, if that can be determined without blocking.
/// `false` means nothing about the path.
pub fn is_plain_file_at_hand(path: &Path) -> bool {
    let found = open_cached(path, OFlags::PATH);
    found.is_some_and(|fd| local_file(&fd, usize::MAX).is_some())
}

/// Opens a path only if all its components are in the kernel's cache.
fn open_cached(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
    openat2(CWD, path, flags, Mode::empty(), resolve).ok()
}

/// Requests one byte more than the file's size: a shorter read then means that this is the whole file.
fn read_now(file: &OpenFile) -> Option<Vec<u8>> {
    let claimed = usize::try_from(file.stamp().len).ok()?;
    let mut bytes = vec![0; claimed + 1];
    let mut flags = ReadWriteFlags::NOWAIT;
    let len = loop {
        match preadv2(file.file(), &mut [IoSliceMut::new(&mut bytes)], 0, flags) {
            Ok(len) => break len,
            Err(Errno::INTR) => (),
            // Not every file system supports this; reading a small local file hardly blocks.
            Err(Errno::OPNOTSUPP) if !flags.is_empty() => flags = ReadWriteFlags::empty(),
            Err(_) => return None,
        }
    };
    // Fewer bytes may mean that only part is cached, more that the file grows: both are left to the
    // blocking path.
    (len == claimed).then(|| {
        bytes.truncate(len);
        bytes
    })
}

/// Devices known to be local; recorded when the blocking path first meets one.
static LOCAL: RwLock<Vec<u64>> = RwLock::new(Vec::new());

/// ext, XFS, Btrfs, tmpfs, overlay, F2FS, ZFS.
const LOCAL_MAGIC: [u64; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1];

/// Records whether a device is local.
pub(crate) fn note(device: u64, file_system: &StatFs) {
    const MOST: usize = 256;
    let magic = file_system.f_type as u64 & 0xffff_ffff;
    if !LOCAL_MAGIC.contains(&magic) || is_noted(device) {
        return;
    }
    let mut local = LOCAL.write().unwrap_or_else(PoisonError::into_inner);
    if local.len() < MOST {
        local.push(device);
    }
}

/// Whether a device is known to be local.
pub(crate) fn is_noted(device: u64) -> bool {
    LOCAL.read().unwrap_or_else(PoisonError::into_inner).contains(&device)
}

/// Identity of a regular file of at most `max` bytes on a local device. Uses cached attributes only,
/// because `fstat` may contact a server.
fn local_file(fd: impl AsFd, max: usize) -> Option<(u64, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(fd, "", flags, StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE).ok()?;
    let device = makedev(found.stx_dev_major, found.stx_dev_minor);
    let is_regular = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
    // Kernel file systems are never recorded as local devices.
    (is_regular && found.stx_size <= max as u64 && is_noted(device)).then_some((device, found.stx_ino))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn read_at_hand_reads_only_small_regular_files_without_symlinks() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::write(root.join("f"), "content").unwrap();
        fs::write(root.join("empty"), "").unwrap();
        fs::write(root.join("large"), vec![b'x'; 101]).unwrap();
        fs::create_dir(root.join("d")).unwrap();
        std::os::unix::fs::symlink("f", root.join("link")).unwrap();
        std::os::unix::fs::symlink(".", root.join("here")).unwrap();
        rustix::fs::mkfifoat(CWD, root.join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        // Now the device is known to be local.
        OpenFile::open(&root.join("f")).unwrap();
        for name in ["large", "d", "link", "here/f", "pipe", "gone", "f/x"] {
            assert!(read_at_hand(&root.join(name), 100).is_none(), "{name}");
            assert!(name == "large" || !is_plain_file_at_hand(&root.join(name)), "{name}");
        }
        for path in ["/proc/self/status", "/dev/null", "/sys/kernel/mm"] {
            assert!(read_at_hand(Path::new(path), 100_000).is_none(), "{path}");
        }
        // The kernel or file system may not support this.
        for (name, want) in [("f", "content"), ("empty", "")] {
            if let Some((file, bytes)) = read_at_hand(&root.join(name), 100) {
                assert!(is_plain_file_at_hand(&root.join(name)), "{name}");
                assert_eq!((bytes.as_slice(), file.stamp().len), (want.as_bytes(), want.len() as u64));
            }
        }
    }
}
