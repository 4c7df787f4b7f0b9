//! Where Haft writes when its own directory cannot be had: no home directory, or
//! one that somebody else owns or that cannot be written.

use std::{
    fs::DirBuilder,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::fs::{Access, access, statvfs};

/// A directory in the temp directory that belongs to this user alone, the same
/// for all of their sessions. Where somebody has put something else in its
/// place it is one that nobody can guess, for this process.
pub(crate) fn temporary_state() -> PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| private_below(&std::env::temp_dir())).clone()
}

fn private_below(temp: &Path) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let usual = temp.join(format!("haft-{user}"));
    DirBuilder::new().mode(0o700).create(&usual).ok();
    // A link is not followed: whoever made it could change where it leads.
    let is_ours =
        usual.symlink_metadata().is_ok_and(|it| it.is_dir() && it.uid() == user && it.mode() & 0o077 == 0);
    if is_ours { usual } else { temp.join(format!("haft-{user}-{}", uuid::Uuid::new_v4())) }
}

/// Whether something can be written below a directory that may not be there
/// yet: we may, and there is room. Nothing is tried or made.
pub(crate) fn can_be_written(dir: &Path) -> bool {
    may_be_written(dir) && existing(dir).is_some_and(has_room)
}

/// Whether we may write below a directory that may not be there yet.
pub(crate) fn may_be_written(dir: &Path) -> bool {
    existing(dir).is_some_and(|it| access(it, Access::WRITE_OK | Access::EXEC_OK).is_ok())
}

fn existing(dir: &Path) -> Option<&Path> {
    dir.ancestors().find(|it| it.symlink_metadata().is_ok())
}

/// Less than this is no room for the log of a session.
const MIN_ROOM: u64 = 64 << 10;

/// File systems that do not say how large they are have room.
fn has_room(dir: &Path) -> bool {
    let Ok(found) = statvfs(dir) else { return true };
    let free = if rustix::process::geteuid().is_root() { found.f_bfree } else { found.f_bavail };
    let bytes = free.saturating_mul(found.f_frsize);
    (found.f_blocks == 0 || MIN_ROOM <= bytes) && (found.f_files == 0 || 0 < found.f_ffree)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_others_have_put_there_is_not_used() {
        let temp = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let usual = temp.path().join(format!("haft-{user}"));
        assert_eq!(private_below(temp.path()), usual);
        assert_eq!(usual.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(private_below(temp.path()), usual);
        // One that others see into, a file, and a link to elsewhere.
        std::fs::set_permissions(&usual, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(private_below(temp.path()), usual);
        std::fs::remove_dir(&usual).unwrap();
        std::fs::write(&usual, "").unwrap();
        assert_ne!(private_below(temp.path()), usual);
        std::fs::remove_file(&usual).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), &usual).unwrap();
        assert_ne!(private_below(temp.path()), usual);
    }
}
