//! Overwrites a file in place.
//!
//! Last resort for files that a new object cannot replace: a file of another user that we may write, a
//! file in a directory we may not write, or a mount point. Both contents are stored before the first
//! byte changes, so an interrupted write can be completed later ([`torn`] recognises it).

use std::{fs::File, os::fd::AsFd, path::Path};

use haft_paths::sync_content;
use rustix::{
    fs::{FallocateFlags, Mode, OFlags, fallocate, fstat, ftruncate, openat},
    io::{Errno, pwrite},
};

use crate::{FileError, FileStat};

/// Opens a file for overwriting; it must be the checked object.
pub(super) fn open_for_writing(
    dir: impl AsFd,
    name: &Path,
    path: &Path,
    expected: &FileStat,
) -> Result<File, FileError> {
    let failed = |errno| FileError::from_errno(path, "write", errno);
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(dir, name, flags, Mode::empty()).map_err(failed)?;
    let found = FileStat::new(&fstat(&fd).map_err(failed)?);
    if found.id != expected.id {
        return Err(FileError::Changed { path: path.to_owned(), expected: None });
    }
    Ok(File::from(fd))
}

/// Replaces `old` by `new` in an open file, writing only what differs. Reserves space first, so that a
/// full disk is noticed before anything changes; restores the old bytes if it fails anyway.
pub(super) fn overwrite(file: &File, path: &Path, old: &[u8], new: &[u8]) -> Result<(), FileError> {
    let failed = |errno| FileError::from_errno(path, "write", errno);
    if old.len() < new.len() {
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, new.len() as u64) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => (),
            Err(errno) => return Err(failed(errno)),
        }
    }
    write_difference(file, old, new).map_err(|errno| {
        write_difference(file, &[], old).ok();
        failed(errno)
    })
}

fn write_difference(file: &File, old: &[u8], new: &[u8]) -> Result<(), Errno> {
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let mut at = same;
    let end = if old.len() == new.len() {
        new.len() - old[same..].iter().rev().zip(new[same..].iter().rev()).take_while(|(a, b)| a == b).count()
    } else {
        new.len()
    };
    while at < end {
        match pwrite(file, &new[at..end], at as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(len) => at += len,
            Err(Errno::INTR) => (),
            Err(errno) => return Err(errno),
        }
    }
    ftruncate(file, new.len() as u64)?;
    sync_content(file).map_err(|err| Errno::from_io_error(&err).unwrap_or(Errno::IO))
}

/// Whether `found` is the result of an interrupted [`overwrite`]: a prefix of the new content followed
/// by the rest of the old. Anything else is the work of another writer.
pub(crate) fn torn(found: &[u8], old: &[u8], new: &[u8]) -> bool {
    let written = found.iter().zip(new).take_while(|(a, b)| a == b).count();
    if found.len() != old.len() {
        return written == found.len() && old.len() < found.len();
    }
    let kept = found.iter().rev().zip(old.iter().rev()).take_while(|(a, b)| a == b).count();
    found.len() <= written + kept
}
