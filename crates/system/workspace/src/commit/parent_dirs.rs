use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat},
    io::Errno,
};

use crate::{FileError, open_checked::open_dir};

/// Missing directories on the way to a path, outermost first.
pub(super) fn missing(path: &Path) -> Vec<PathBuf> {
    let is_missing = |it: &&Path| matches!(open_dir(it), Err(FileError::NotFound { .. }));
    let mut missing: Vec<PathBuf> = path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Opens a directory and creates missing components one by one, without following symlinks that appear
/// meanwhile. Appends what it creates to `created`, outermost first.
pub(super) fn open_or_create(path: &Path, created: &mut Vec<PathBuf>) -> Result<OwnedFd, FileError> {
    let mut missing = Vec::new();
    let mut existing = path;
    let mut dir = loop {
        match open_dir(existing) {
            Ok(dir) => break dir,
            Err(err @ FileError::NotFound { .. }) => match (existing.parent(), existing.file_name()) {
                (Some(parent), Some(name)) => {
                    missing.push(name);
                    existing = parent;
                }
                _ => return Err(err),
            },
            Err(err) => return Err(err),
        }
    };
    let mut at = existing.to_owned();
    for name in missing.into_iter().rev() {
        at.push(name);
        let failed = |errno| match errno {
            // A component that was missing is now something else.
            Errno::LOOP | Errno::NOTDIR => FileError::Moved { path: at.clone() },
            errno => FileError::from_errno(&at, "create", errno),
        };
        match mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => created.push(at.clone()),
            Err(Errno::EXIST) => (),
            Err(errno) => return Err(failed(errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        dir = openat(&dir, name, flags, Mode::empty()).map_err(failed)?;
    }
    Ok(dir)
}

/// Removes directories created for a change that did not happen, unless they are no longer empty.
pub(crate) fn remove_created(created: &[PathBuf]) {
    for path in created.iter().rev() {
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
            && let Ok(dir) = open_dir(parent)
        {
            unlinkat(&dir, name, AtFlags::REMOVEDIR).ok();
        }
    }
}
