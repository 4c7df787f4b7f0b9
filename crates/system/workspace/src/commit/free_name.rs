//! Moves a file to a name that must not exist, also on file systems without rename flags or hard links.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use haft_paths::sync_content;
use rustix::{
    fs::{
        AtFlags, Mode, OFlags, RenameFlags, fchmod, fstat, linkat, openat, renameat, renameat_with, unlinkat,
    },
    io::Errno,
};

use crate::FileStat;

/// Whether the file system (or a filter) does not support rename flags; a plain rename may work.
pub(super) fn lacks_flags(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM)
}

/// Whether the file system does not support hard links.
pub(super) fn lacks_links(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::MLINK
    )
}

/// Moves a file; fails with `EEXIST` if the name exists.
pub(super) fn move_to_free_name(dir: &OwnedFd, from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        Err(errno) if lacks_flags(errno) => (),
        other => return other,
    }
    match linkat(dir, from, dir, to, AtFlags::empty()) {
        Ok(()) => unlinkat(dir, from, AtFlags::empty()).inspect_err(|_| {
            unlinkat(dir, to, AtFlags::empty()).ok();
        }),
        Err(errno) if lacks_links(errno) => claim(dir, from, to),
        Err(errno) => Err(errno),
    }
}

/// Creates an empty file at the name exclusively and then replaces it.
fn claim(dir: &OwnedFd, from: &Path, to: &Path) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let claimed = File::from(openat(dir, to, flags, Mode::RUSR | Mode::WUSR)?);
    let done = renameat(dir, from, dir, to).or_else(|_| {
        // Even that failed: copy the content to the new name.
        let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut content = File::from(openat(dir, from, read, Mode::empty())?);
        copy(&mut content, &claimed)?;
        unlinkat(dir, from, AtFlags::empty())
    });
    done.inspect_err(|_| {
        unlinkat(dir, to, AtFlags::empty()).ok();
    })
}

/// Copies content and mode, and waits for the disk.
pub(super) fn copy(from: &mut File, to: &File) -> Result<(), Errno> {
    let failed = |err: io::Error| Errno::from_io_error(&err).unwrap_or(Errno::IO);
    let mut writer = to;
    io::copy(from, &mut writer).map_err(failed)?;
    let mode = FileStat::new(&fstat(from.as_fd())?).permissions();
    // Some file systems have no modes.
    fchmod(to, Mode::from_raw_mode(mode)).ok();
    sync_content(to).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::open_checked::open_dir;

    /// All three methods behave alike.
    #[test]
    fn move_to_free_name_never_replaces() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let dir = open_dir(&root).unwrap();
        for act in [move_to_free_name, claim] {
            fs::write(root.join("from"), "new").unwrap();
            fs::write(root.join("to"), "theirs").unwrap();
            assert_eq!(act(&dir, "from".as_ref(), "to".as_ref()), Err(Errno::EXIST));
            assert_eq!(fs::read(root.join("to")).unwrap(), b"theirs");
            fs::remove_file(root.join("to")).unwrap();
            act(&dir, "from".as_ref(), "to".as_ref()).unwrap();
            assert_eq!(fs::read(root.join("to")).unwrap(), b"new");
            assert_eq!(act(&dir, "from".as_ref(), "other".as_ref()), Err(Errno::NOENT));
            assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "nothing lies about");
            fs::remove_file(root.join("to")).unwrap();
        }
    }
}
