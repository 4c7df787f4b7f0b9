//! Haft's own directory: kept private, and where Haft writes when it cannot be had,
//! because there is no home directory, or somebody else owns it, or it cannot be written.

use std::{
    fs::{DirBuilder, Permissions},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::fs::{Access, access, statvfs};

/// A directory in the temp directory that belongs to this user alone, the same
/// for all of their sessions. Where somebody has put something else in its
/// place it is one that nobody can guess, for this process.
pub fn temporary_state() -> PathBuf {
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
    if is_ours { usual } else { temp.join(format!("haft-{user}-{:032x}", unguessable())) }
}

/// A random number. Without the system's generator it is one that at least no other
/// process has.
pub fn unguessable() -> u128 {
    let mut bytes = [0; 16];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(16) => u128::from_ne_bytes(bytes),
        _ => {
            let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
            since.as_nanos() << 32 | u128::from(std::process::id())
        }
    }
}

/// Makes the directory so that only its owner sees into it. One of another name
/// than ours that is there already stays as whoever made it wanted it. What
/// cannot be done is no reason not to work: the session says later what it
/// cannot keep.
pub fn keep_private(dir: &Path) {
    let Ok(meta) = dir.metadata() else {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).ok();
        return;
    };
    let ours = dir.file_name().is_some_and(|it| it == ".haft")
        && std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == meta.uid());
    if ours && meta.is_dir() && meta.mode() & 0o077 != 0 {
        std::fs::set_permissions(dir, Permissions::from_mode(meta.mode() & 0o700)).ok();
    }
}

/// Whether something can be written below a directory that may not be there
/// yet: we may, and there is room. Nothing is tried or made.
pub fn can_be_written(dir: &Path) -> bool {
    may_be_written(dir) && existing(dir).is_some_and(has_room)
}

/// Whether we may write below a directory that may not be there yet.
pub fn may_be_written(dir: &Path) -> bool {
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
    use std::os::unix::fs::symlink;

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
