//! Small file systems that fill up quickly.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::skip;

/// A file system of a few megabytes, unmounted with the test.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub fn mount(megabytes: u32) -> Option<Self> {
        let dir = tempfile::TempDir::new().unwrap();
        let size = format!("size={megabytes}m,mode=777");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).status();
        if mounted.is_ok_and(|it| it.success()) {
            return Some(Self(dir));
        }
        skip("no file system can be mounted here: a full disk is not tried");
        None
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A file that fills a file system; deleted on drop.
pub struct Ballast(PathBuf);

impl Ballast {
    pub fn fill(disk: &Path, leave: u64) -> Self {
        let ballast = disk.join("ballast");
        let free = rustix::fs::statvfs(disk).map(|it| it.f_bavail * it.f_frsize).unwrap();
        // Other writers only fill it a little earlier.
        match std::fs::write(&ballast, vec![1_u8; free.saturating_sub(leave) as usize]) {
            Err(err) if err.kind() == std::io::ErrorKind::StorageFull => (),
            filled => filled.unwrap(),
        }
        Self(ballast)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
