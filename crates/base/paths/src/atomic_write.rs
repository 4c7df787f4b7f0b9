//! Replacing a file so that every reader, at every moment, finds the old content
//! or the new one, and a crash leaves no half-written file under its name.

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

/// The end of the name of every file that is not finished yet.
const UNFINISHED: &str = ".haft-tmp";

/// When new content has to be on the disk itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Durability {
    /// Some time: losing it in a power cut does no harm.
    Whenever,
    /// Before it gets its name: after a power cut the name leads to the old
    /// content or to all of the new one.
    Content,
    /// Before anybody is told that it was written: the new name survives a power
    /// cut, too.
    ContentAndName,
}

/// Which mode a replaced file has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ModeOnReplace {
    /// For the owner alone, whatever it was before.
    Private,
    /// Mode and owner of the old file; this mode if there is none.
    KeptOr(u32),
}

/// Replaces the content of `target`, which is not a link. Its directory exists.
/// An error leaves the old content and nothing else.
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
            // Only root may give files away; for everybody else it is theirs already.
            let _kept = std::os::unix::fs::fchown(&*file, Some(old.uid()), Some(old.gid()));
        }
        let mode = old.as_ref().map_or(mode_if_new, |old| old.mode() & 0o7777);
        // After the owner: a change of owner clears bits of the mode.
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    }
    unfinished.take_place_of(target, durability).map(drop)
}

/// Removes what writers left in a directory that died in the middle. The caller
/// makes sure that nobody else writes there now.
pub fn sweep_unfinished(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if is_unfinished(&entry.file_name()) {
            // If it cannot be removed, the next writer tries again.
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

/// A name beside the target that nobody can guess, so nobody can put something
/// there first.
fn unfinished_name(target: &Path) -> PathBuf {
    let random = || std::hash::RandomState::new().build_hasher().finish();
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{:016x}{:016x}{UNFINISHED}", random(), random()));
    target.with_file_name(name)
}

/// A file that is being written, for its owner alone. Dropping it unfinished
/// removes it.
#[derive(Debug)]
pub struct PendingFile {
    file: File,
    name: PendingFileName,
}

/// The name of an unfinished file, if it has one: a file without a name cannot
/// be left behind. Dropping it removes the file.
#[derive(Debug)]
struct PendingFileName(Option<PathBuf>);

impl PendingFile {
    /// A new file under this name, which must be free and on the file system of
    /// the later target.
    pub fn named(name: PathBuf) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { file: File::from(file), name: PendingFileName(Some(name)) })
    }

    /// A new file beside its later target, without a name where the file system
    /// knows such files: those vanish with a writer that dies.
    pub fn nameless(target: &Path) -> io::Result<Self> {
        let directory = target.parent().ok_or_else(|| io::Error::other("a file needs a directory"))?;
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        // To be read, too: where it cannot get a name it is copied.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
        match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Self { file: File::from(file), name: PendingFileName(None) }),
            Err(_) => Self::named(unfinished_name(target)),
        }
    }

    /// Where the content goes.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Takes the place of the target, in one step. The file comes back for those
    /// who hold a lock on it or want to sync it later.
    pub fn take_place_of(self, target: &Path, durability: Durability) -> io::Result<File> {
        let Self { mut file, mut name } = self;
        match durability {
            Durability::Whenever => {}
            Durability::Content => sync_content(&file)?,
            Durability::ContentAndName => done_or_unknown(file.sync_all())?,
        }
        let beside = match &name.0 {
            Some(beside) => beside.clone(),
            // There is no call that gives a nameless file the name of an
            // existing one, so it is named for a moment.
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

/// The content of a file without a name under a name, where nothing gets a further
/// one.
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

/// Waits until the content of a file is on the disk. A file system that does not
/// know how (some in user space) has done what it can.
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
            // What cannot be removed now is swept by the next writer.
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
    fn modes_and_what_is_left() {
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
    fn only_our_own_unfinished_files_are_swept() {
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
    fn a_failed_write_changes_nothing() {
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
