//! Directory for temporary files of confined commands.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

/// Deleted when the session ends. Directories of killed sessions are deleted when a later session
/// creates its own.
pub(super) struct ScratchDir(tempfile::TempDir);

const PREFIX: &str = "haft-scratch-";

impl ScratchDir {
    pub(super) fn new() -> io::Result<Self> {
        sweep(&std::env::temp_dir());
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let private = fs::Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix(&prefix).permissions(private).tempdir().map(Self)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Deletes the directories of processes that no longer run.
fn sweep(temp: &Path) {
    let own = fs::metadata("/proc/self").map(|it| it.uid()).ok();
    for entry in fs::read_dir(temp).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|it| it.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        let is_ours = entry.metadata().is_ok_and(|it| it.is_dir() && Some(it.uid()) == own);
        if is_ours && !Path::new("/proc").join(pid.to_string()).exists() {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}
