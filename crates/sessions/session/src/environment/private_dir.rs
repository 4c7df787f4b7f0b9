//! Haft's own directory is nobody else's: what was said, read and undone is in
//! it.

use std::{
    fs::{DirBuilder, Permissions},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::Path,
};

/// Makes the directory so that only its owner sees into it. One of another name
/// than ours that is there already stays as whoever made it wanted it. What
/// cannot be done is no reason not to work: the session says later what it
/// cannot keep.
pub(super) fn keep(dir: &Path) {
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
