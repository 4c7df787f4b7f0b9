//! Replacing a file so that every reader, at every moment, finds the old text
//! or the new one, and a crash leaves nothing behind.

use std::{
    ffi::OsString,
    fs::{self, File},
    hash::{BuildHasher, Hasher},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// The end of the name of every file that is not finished yet.
const UNFINISHED: &str = ".haft-tmp";

/// When a new text has to be on the disk itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Durability {
    /// Before anybody is told that it was written.
    Now,
    /// Some time: losing it in a power cut does no harm.
    Whenever,
}

/// Replaces `target`. The caller holds the lock of its directory, and `target`
/// is not a link. Mode and owner of the old file are kept.
pub(crate) fn replace(target: &Path, bytes: &[u8], mode_if_new: u32, when: Durability) -> io::Result<()> {
    let directory = target.parent().ok_or_else(|| io::Error::other("a file needs a directory"))?;
    let old = fs::metadata(target).ok();
    let mode = old.as_ref().map_or(mode_if_new, |old| old.mode() & 0o7777);
    let unfinished = UnfinishedFile::create(directory, target)?;
    let mut file = &unfinished.file;
    file.write_all(bytes)?;
    if let Some(old) = &old {
        // Only root may give files away; for everybody else it is theirs already.
        let _kept = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
    }
    // After the owner: a change of owner clears bits of the mode.
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    if when == Durability::Now {
        file.sync_all()?;
    }
    unfinished.become_(target)?;
    match when {
        // The new name has to survive a power cut too.
        Durability::Now => File::open(directory)?.sync_all(),
        Durability::Whenever => Ok(()),
    }
}

/// Removes what writers left that died in the middle. The caller holds the lock
/// of the directory, so whatever is unfinished belongs to nobody.
pub(crate) fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if is_unfinished(&entry.file_name()) {
            // If it cannot be removed, the next writer tries again.
            let _gone = fs::remove_file(entry.path());
        }
    }
}

fn is_unfinished(name: &std::ffi::OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let middle = name.strip_prefix('.').and_then(|it| it.strip_suffix(UNFINISHED));
    let random = middle.and_then(|it| it.rsplit_once('.')).map(|(_, random)| random);
    random.is_some_and(|it| it.len() == 32 && it.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A name nobody can guess, so nobody can put something there first.
fn unfinished_name(target: &Path) -> OsString {
    let random = || std::hash::RandomState::new().build_hasher().finish();
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{:016x}{:016x}{UNFINISHED}", random(), random()));
    name
}

/// A file that is being written. Dropping it unfinished removes it.
struct UnfinishedFile {
    file: File,
    /// Its name, if it has one: a file without a name cannot be left behind.
    named: Option<PathBuf>,
    directory: PathBuf,
}

impl UnfinishedFile {
    fn create(directory: &Path, target: &Path) -> io::Result<Self> {
        let private = Mode::RUSR | Mode::WUSR;
        let directory = directory.to_owned();
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(&directory, flags | OFlags::TMPFILE, private) {
            return Ok(Self { file: File::from(file), named: None, directory });
        }
        // File systems without nameless files.
        let name = directory.join(unfinished_name(target));
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&name, flags, private)?;
        Ok(Self { file: File::from(file), named: Some(name), directory })
    }

    /// Takes the place of the target, in one step.
    fn become_(mut self, target: &Path) -> io::Result<()> {
        let name = match self.named.take() {
            Some(name) => name,
            // There is no call that gives a nameless file the name of an
            // existing one, so it is named for a moment.
            None => {
                let name = self.directory.join(unfinished_name(target));
                link(&self.file, &name)?;
                name
            }
        };
        self.named = Some(name.clone());
        fs::rename(&name, target)?;
        self.named = None;
        Ok(())
    }
}

fn link(file: &File, name: &Path) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(rustix::fs::linkat(CWD, path, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if let Some(name) = &self.named {
            // What cannot be removed now is swept by the next writer.
            let _gone = fs::remove_file(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("f");
        replace(&target, b"one", 0o600, Durability::Now).unwrap();
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&target, b"two", 0o600, Durability::Whenever).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"two");
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o640);
        assert_eq!(names(directory.path()), ["f"]);
    }

    #[test]
    fn only_our_own_unfinished_files_are_swept() {
        let directory = tempfile::tempdir().unwrap();
        let ours = unfinished_name(Path::new("settings.json"));
        for name in
            [&*ours.to_string_lossy(), ".x.haft-tmp", "a.haft-tmp", ".a.0123.haft-tmp", "settings.json"]
        {
            fs::write(directory.path().join(name), "").unwrap();
        }
        sweep(directory.path());
        assert_eq!(
            names(directory.path()),
            [".a.0123.haft-tmp", ".x.haft-tmp", "a.haft-tmp", "settings.json"]
        );
    }

    #[test]
    fn a_failed_write_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        // A directory cannot be replaced by a file.
        let target = directory.path().join("d");
        fs::create_dir(&target).unwrap();
        replace(&target, b"x", 0o600, Durability::Now).unwrap_err();
        assert_eq!(names(directory.path()), ["d"]);
    }
}
