use std::{
    fs::File,
    io::{Seek as _, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::UNIX_EPOCH,
};

use haft_paths::sync_content;
use rustix::{
    fs::{
        AtFlags, CWD, Gid, Mode, OFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr,
        fstat, linkat, openat, unlinkat,
    },
    io::Errno,
};

use super::free_name::{copy, lacks_links, move_to_free_name};
use crate::{ContentHash, FileError, FileStat, OpenFile, text::Bytes};

/// Staged new content: an unnamed file if the file system supports it, so that a crash leaves nothing,
/// else a file with a random name.
#[derive(Debug)]
pub(super) struct StagedFile {
    file: File,
    /// Whether it already has the temporary name.
    named: bool,
}

/// Why content could not be staged.
pub(super) enum StageError {
    Failed(FileError),
    /// A new object cannot have the owner or attributes of the old one.
    CannotCopyAttributes,
}

/// A hidden, recognisable, random name for a temporary file.
pub(crate) fn temporary_name() -> String {
    let mut random = [0_u8; 12];
    let mut len = 0;
    while len < random.len() {
        match rustix::rand::getrandom(&mut random[len..], rustix::rand::GetRandomFlags::empty()) {
            Ok(got) => len += got,
            Err(Errno::INTR) => (),
            // Without randomness, exclusive creation still protects; the name only has to be new.
            Err(_) => return format!(".haft-{}", new_digits(random.len())),
        }
    }
    let digits: String = random.iter().map(|it| format!("{it:02x}")).collect();
    format!(".haft-{digits}")
}

/// Unique hexadecimal digits.
fn new_digits(bytes: usize) -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let mut digits = ContentHash::hash(format!("{now} {} {call}", std::process::id()).as_bytes()).to_string();
    digits.truncate(2 * bytes);
    digits
}

impl StagedFile {
    /// Stages content for a new file, with default permissions and the umask.
    pub(super) fn create(
        dir: impl AsFd,
        temp: &str,
        path: &Path,
        content: &Bytes<'_>,
        mode: Option<u32>,
    ) -> Result<Self, FileError> {
        let staged = Self::empty(&dir, temp, Mode::from_raw_mode(0o666), path)?;
        let done = staged.fill(content, path).and_then(|()| match mode {
            Some(mode) => fchmod(&staged.file, Mode::from_raw_mode(mode))
                .map_err(|errno| FileError::from_errno(path, "set the mode of", errno)),
            None => Ok(()),
        });
        let done = done.and_then(|()| staged.sync(path));
        staged.or_discard(dir, temp, done)
    }

    /// Stages content for an existing file, with its owner, permissions and attributes.
    pub(super) fn replace(
        dir: impl AsFd,
        temp: &str,
        old: &OpenFile,
        content: &Bytes<'_>,
        mode: Option<u32>,
    ) -> Result<Self, StageError> {
        let path = old.path();
        let staged = Self::empty(&dir, temp, Mode::from_raw_mode(0o600), path).map_err(|err| match err {
            FileError::Denied { .. } => StageError::CannotCopyAttributes,
            err => StageError::Failed(err),
        })?;
        if let Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::NOSPC | Errno::INVAL) =
            copy_attributes(old, &staged.file, mode)
        {
            staged.discard(&dir, temp);
            return Err(StageError::CannotCopyAttributes);
        }
        let done = staged.fill(content, path).and_then(|()| staged.sync(path));
        staged.or_discard(dir, temp, done).map_err(StageError::Failed)
    }

    /// Writes and hashes large content before the change is recorded. The file has no name, so nothing
    /// can be left behind. On any problem the regular path reports the error.
    pub(super) fn ahead(
        dir: impl AsFd,
        old: &OpenFile,
        content: &Bytes<'_>,
        mode: Option<u32>,
    ) -> (Option<Self>, ContentHash) {
        ContentHash::beside(|hand_on| {
            content.pieces().for_each(hand_on);
            let staged = Self::unnamed(&dir, Mode::from_raw_mode(0o600)).ok()?;
            copy_attributes(old, &staged.file, mode).ok()?;
            staged.fill(content, old.path()).and_then(|()| staged.sync(old.path())).ok()?;
            Some(staged)
        })
    }

    fn unnamed(dir: impl AsFd, mode: Mode) -> Result<Self, Errno> {
        // Readable too: if it cannot be linked, its content is copied.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
        openat(dir, ".", flags, mode).map(|fd| Self { file: File::from(fd), named: false })
    }

    fn empty(dir: impl AsFd, temp: &str, mode: Mode, path: &Path) -> Result<Self, FileError> {
        match Self::unnamed(&dir, mode) {
            Ok(staged) => return Ok(staged),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => (),
            Err(errno) => return Err(FileError::from_errno(path, "write", errno)),
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd =
            openat(&dir, temp, flags, mode).map_err(|errno| FileError::from_errno(path, "write", errno))?;
        Ok(Self { file: File::from(fd), named: true })
    }

    fn fill(&self, content: &Bytes<'_>, path: &Path) -> Result<(), FileError> {
        let mut file = &self.file;
        for piece in content.pieces() {
            file.write_all(piece).map_err(|err| FileError::from_io(path, "write", err))?;
        }
        Ok(())
    }

    fn sync(&self, path: &Path) -> Result<(), FileError> {
        sync_content(&self.file).map_err(|err| FileError::from_io(path, "write", err))
    }

    fn or_discard(self, dir: impl AsFd, temp: &str, done: Result<(), FileError>) -> Result<Self, FileError> {
        if let Err(err) = done {
            self.discard(dir, temp);
            return Err(err);
        }
        Ok(self)
    }

    /// Discards the content.
    pub(super) fn discard(self, dir: impl AsFd, temp: &str) {
        if self.named {
            unlinkat(dir, temp, AtFlags::empty()).ok();
        }
    }

    /// Gives the file a name, which must not exist.
    pub(super) fn link(&mut self, dir: &OwnedFd, name: &Path, temp: &str) -> Result<(), Errno> {
        let is_temp = name == Path::new(temp);
        if !self.named {
            match link_open_file(&self.file, dir, name) {
                Err(errno) if lacks_links(errno) => self.name_by_copy(dir, temp)?,
                linked => {
                    self.named |= linked.is_ok();
                    return linked;
                }
            }
        }
        // A named file is moved, so that no second name remains.
        if is_temp { Ok(()) } else { move_to_free_name(dir, Path::new(temp), name) }
    }

    /// Copies the content to a file at the temporary name, where unnamed files cannot be linked.
    fn name_by_copy(&mut self, dir: &OwnedFd, temp: &str) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let copied = File::from(openat(dir, temp, flags, Mode::RUSR | Mode::WUSR)?);
        let mut from = &self.file;
        let done = from
            .rewind()
            .map_err(|err| Errno::from_io_error(&err).unwrap_or(Errno::IO))
            .and_then(|()| copy_all(&self.file, &FileStat::new(&fstat(&self.file)?), &copied, None))
            .and_then(|()| copy(&mut self.file, &copied));
        if let Err(errno) = done {
            unlinkat(dir, temp, AtFlags::empty()).ok();
            return Err(errno);
        }
        *self = Self { file: copied, named: true };
        Ok(())
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

/// Gives an open file an additional name.
pub(crate) fn link_open_file(file: impl AsFd, dir: impl AsFd, name: &Path) -> Result<(), Errno> {
    match linkat(&file, "", &dir, name, AtFlags::EMPTY_PATH) {
        // Older kernels require a privilege for this; use `/proc`.
        Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {
            let detour = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
            linkat(CWD, detour, &dir, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

/// Copies owner, permissions and extended attributes, including access control lists.
pub(crate) fn copy_attributes(old: &OpenFile, new: &File, mode: Option<u32>) -> Result<(), Errno> {
    copy_all(old.file(), old.stamp(), new, mode)
}

fn copy_all(old: &File, from: &FileStat, new: &File, mode: Option<u32>) -> Result<(), Errno> {
    let to = FileStat::new(&fstat(new)?);
    if (from.uid, from.gid) != (to.uid, to.gid) {
        fchown(new, Some(Uid::from_raw(from.uid)), Some(Gid::from_raw(from.gid)))?;
    }
    copy_xattrs(old, new)?;
    // Last, because changing the owner clears special bits.
    fchmod(new, Mode::from_raw_mode(mode.unwrap_or(from.permissions())))
}

fn copy_xattrs(old: &File, new: &File) -> Result<(), Errno> {
    let names = match read_xattr(|buffer| flistxattr(old, buffer)) {
        Ok(names) => names,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    for name in names.split(|it| *it == 0).filter(|name| !name.is_empty()) {
        let value = match read_xattr(|buffer| fgetxattr(old, name, buffer)) {
            Ok(value) => value,
            Err(Errno::NODATA) => continue,
            Err(errno) => return Err(errno),
        };
        match fsetxattr(new, name, &value, XattrFlags::empty()) {
            // Security labels are set by the kernel.
            Err(_) if name.starts_with(b"security.") || name.starts_with(b"trusted.") => (),
            other => other?,
        }
    }
    Ok(())
}

/// The kernel's limit for lists and values.
const XATTR_MAX: usize = 64 * 1024;

fn read_xattr(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; XATTR_MAX];
    let len = read(&mut value)?;
    value.truncate(len);
    Ok(value)
}
