//! Atomic file replacement: a reader always sees the complete old or the complete new content, and a
//! crash leaves no partial file under the target name.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    hash::{BuildHasher as _, Hasher as _},
    io::{self, Seek as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
};

/// Suffix of temporary files.
const UNFINISHED: &str = ".haft-tmp";

/// When written data is synced to disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Durability {
    /// Not synced; a power failure may lose it.
    Whenever,
    /// The content is synced before the rename: after a power failure the name has the complete old or
    /// new content.
    Content,
    /// Content and directory are synced before the write returns: the new file survives a power failure.
    ContentAndName,
}

/// Mode and owner of the new file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ModeOnReplace {
    /// Mode 0600, whatever the old mode was.
    Private,
    /// Mode and owner of the old file; this mode if there is none.
    KeptOr(u32),
}

/// Atomically replaces the content of `target`, which must not be a symlink. Its directory must exist.
/// On error the old content stays and the temporary file is removed. Blocks.
pub fn replace_file(
    target: &Path,
    bytes: &[u8],
    mode: ModeOnReplace,
    durability: Durability,
) -> io::Result<()> {
    let mut unfinished = PendingFile::nameless(target)?;
    unfinished.file().write_all(bytes)?;
    if let ModeOnReplace::KeptOr(mode_if_new) = mode {
        let old = fs::metadata(target).ok();
        let file = unfinished.file();
        if let Some(old) = &old {
            // Only root may change the owner; other users already own the new file.
            let _kept = std::os::unix::fs::fchown(&*file, Some(old.uid()), Some(old.gid()));
        }
        let mode = old.as_ref().map_or(mode_if_new, |old| old.mode() & 0o7777);
        // After `fchown`, which clears setuid and setgid bits.
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    }
    unfinished.take_place_of(target, durability).map(drop)
}

/// Removes temporary files that crashed writers left in a directory. The caller must ensure that no
/// other process writes there. Errors are ignored.
pub fn sweep_unfinished(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if is_unfinished(&entry.file_name()) {
            // If it cannot be removed, the next sweep tries again.
            let _gone = fs::remove_file(entry.path());
        }
    }
}

fn is_unfinished(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let middle = name.strip_prefix('.').and_then(|it| it.strip_suffix(UNFINISHED));
    let random = middle.and_then(|it| it.rsplit_once('.')).map(|(_, random)| random);
    random.is_some_and(|it| it.len() == 32 && it.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A random temporary name beside the target, so that another process cannot create it first.
fn unfinished_name(target: &Path) -> PathBuf {
    let random = || std::hash::RandomState::new().build_hasher().finish();
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{:016x}{:016x}{UNFINISHED}", random(), random()));
    target.with_file_name(name)
}

/// A temporary file that is being written, mode 0600. Dropping it before `take_place_of` removes it.
#[derive(Debug)]
pub struct PendingFile {
    file: File,
    name: PendingFileName,
}

/// Path of the temporary file; `None` for an unnamed file (`O_TMPFILE`), which needs no cleanup.
/// Dropping it removes the file.
#[derive(Debug)]
struct PendingFileName(Option<PathBuf>);

impl PendingFile {
    /// Creates a temporary file at `name`, which must not exist and must be on the file system of the
    /// later target.
    pub fn named(name: PathBuf) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { file: File::from(file), name: PendingFileName(Some(name)) })
    }

    /// Creates an unnamed file (`O_TMPFILE`) in the target's directory, which vanishes if the writer
    /// dies. Falls back to a named file where the file system does not support it.
    pub fn nameless(target: &Path) -> io::Result<Self> {
        let directory = target.parent().ok_or_else(|| io::Error::other("a file needs a directory"))?;
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        // Readable too: if it cannot be linked, its content is copied.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
        match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Self { file: File::from(file), name: PendingFileName(None) }),
            Err(_) => Self::named(unfinished_name(target)),
        }
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Renames the file over `target` in one step and returns it, for callers that hold a lock on it.
    /// Syncs as `durability` says.
    pub fn take_place_of(self, target: &Path, durability: Durability) -> io::Result<File> {
        let Self { mut file, mut name } = self;
        match durability {
            Durability::Whenever => {}
            Durability::Content => sync_content(&file)?,
            Durability::ContentAndName => done_or_unknown(file.sync_all())?,
        }
        let beside = match &name.0 {
            Some(beside) => beside.clone(),
            // `linkat` cannot overwrite an existing file, so the file gets a temporary name first.
            None => {
                let beside = unfinished_name(target);
                let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
                match rustix::fs::linkat(CWD, path, CWD, &beside, AtFlags::SYMLINK_FOLLOW) {
                    Ok(()) => name.0 = Some(beside.clone()),
                    Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOENT) => {
                        let mut copy = copied(file, &beside, durability)?;
                        file = copy.0;
                        name.0 = copy.1.0.take();
                    }
                    Err(errno) => return Err(errno.into()),
                }
                beside
            }
        };
        fs::rename(beside, target)?;
        name.0 = None;
        if durability == Durability::ContentAndName {
            done_or_unknown(File::open(target.parent().unwrap_or(Path::new(".")))?.sync_all())?;
        }
        Ok(file)
    }
}

/// Copies an unnamed file to the name `beside`, for file systems where `linkat` fails.
fn copied(mut from: File, beside: &Path, durability: Durability) -> io::Result<(File, PendingFileName)> {
    let PendingFile { mut file, name } = PendingFile::named(beside.to_owned())?;
    from.rewind()?;
    io::copy(&mut from, &mut file)?;
    file.set_permissions(from.metadata()?.permissions())?;
    if durability != Durability::Whenever {
        sync_content(&file)?;
    }
    Ok((file, name))
}

/// Waits until the content of a file is on disk. Returns `Ok` if the file system does not support
/// syncing (some FUSE file systems).
pub fn sync_content(file: &File) -> io::Result<()> {
    done_or_unknown(file.sync_data())
}

fn done_or_unknown(synced: io::Result<()>) -> io::Result<()> {
    match synced.as_ref().err().and_then(Errno::from_io_error) {
        Some(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        _ => synced,
    }
}

impl Drop for PendingFileName {
    fn drop(&mut self) {
        if let Some(name) = &self.0 {
            // The next sweep retries.
            let _gone = fs::remove_file(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
    fn replace_file_sets_mode_and_leaves_no_temporary_file() {
        for (mode, before, after) in [
            (ModeOnReplace::KeptOr(0o644), None, 0o644),
            (ModeOnReplace::KeptOr(0o600), Some(0o640), 0o640),
            (ModeOnReplace::KeptOr(0o600), Some(0o755), 0o755),
            (ModeOnReplace::Private, None, 0o600),
            (ModeOnReplace::Private, Some(0o666), 0o600),
        ] {
            for durability in [Durability::Whenever, Durability::Content, Durability::ContentAndName] {
                let directory = tempfile::tempdir().unwrap();
                let target = directory.path().join("f");
                if let Some(before) = before {
                    fs::write(&target, "old").unwrap();
                    fs::set_permissions(&target, fs::Permissions::from_mode(before)).unwrap();
                }
                replace_file(&target, b"new", mode, durability).unwrap();
                assert_eq!(fs::read(&target).unwrap(), b"new");
                assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, after, "{mode:?} {before:?}");
                assert_eq!(names(directory.path()), ["f"]);
            }
        }
    }

    #[test]
    fn sweep_unfinished_removes_only_temporary_files_of_haft() {
        let directory = tempfile::tempdir().unwrap();
        let ours = unfinished_name(&directory.path().join("settings.json"));
        fs::write(ours, "").unwrap();
        let others = [".a.0123.haft-tmp", ".x.haft-tmp", "a.haft-tmp", "settings.json"];
        for name in others {
            fs::write(directory.path().join(name), "").unwrap();
        }
        sweep_unfinished(directory.path());
        assert_eq!(names(directory.path()), others);
    }

    #[test]
    fn failed_replace_file_keeps_old_content() {
        let directory = tempfile::tempdir().unwrap();
        // A directory cannot be replaced by a file.
        let target = directory.path().join("d");
        fs::create_dir(&target).unwrap();
        replace_file(&target, b"x", ModeOnReplace::Private, Durability::ContentAndName).unwrap_err();
        let named = PendingFile::named(directory.path().join("temporary")).unwrap();
        named.take_place_of(&target, Durability::Whenever).unwrap_err();
        drop(PendingFile::named(directory.path().join("temporary")).unwrap());
        assert_eq!(names(directory.path()), ["d"]);
    }
}
