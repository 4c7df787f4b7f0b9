//! Placeholders: empty files or directories at protected paths that do not exist, for as long as a
//! sandboxed command runs, because only what exists can be mounted read-only.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::{DirBuilder, File, Metadata},
    io::{self, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
        },
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, inotify};

use crate::{IfMissing, PathKind, Protected};

/// Attempts at a path that other sessions create and remove concurrently.
const PLACING_ATTEMPTS: usize = 100;

/// Pause between attempts, long enough for another session to finish removing a placeholder.
const PLACING_PAUSE: Duration = Duration::from_millis(2);

/// Maximum size of a placeholder file in bytes.
const MAX_STAND_IN_BYTES: u64 = 64;

/// The placeholders of a session, shared by its concurrent commands.
#[derive(Debug)]
pub(crate) struct Placeholders {
    placed: Mutex<HashMap<PathBuf, PlacedPlaceholder>>,
    /// On-disk list of the placeholders, so that a later session can remove them after a crash.
    journal: Mutex<File>,
}

#[derive(Debug)]
struct PlacedPlaceholder {
    users: usize,
    /// Device and inode, so that only the placeholder itself is removed.
    inode: (u64, u64),
}

/// The placeholders of one command.
#[derive(Debug)]
pub(crate) struct PlaceholderGuard {
    owner: Arc<Placeholders>,
    /// Placeholders this command uses.
    used: Vec<PathBuf>,
    /// Shared locks on what may be another session's placeholders, so that they stay.
    foreign: Vec<File>,
    /// Paths that did not exist and must not exist afterwards.
    absent: Vec<PathBuf>,
    /// inotify descriptor that reports files created at these paths.
    watch: Option<OwnedFd>,
}

impl Placeholders {
    /// Opens the session's list below `dir` and removes placeholders of sessions that no longer run.
    pub(crate) fn open(dir: &Path, session: &str) -> io::Result<Arc<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        sweep(dir);
        let path = dir.join(haft_process::file_name_of_id(session));
        let file = File::options().create(true).append(true).mode(0o600).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Arc::new(Self { placed: Mutex::default(), journal: Mutex::new(file) }))
    }

    /// Creates placeholders for all protected paths that need them. Returns the paths that the helper
    /// can make read-only: symlinks on the way to a path, and its target. They exist until the returned
    /// [`PlaceholderGuard`] is dropped.
    pub(crate) fn hold(
        self: &Arc<Self>,
        protect: &[Protected],
    ) -> io::Result<(PlaceholderGuard, Vec<PathBuf>)> {
        let mut held = PlaceholderGuard {
            owner: Arc::clone(self),
            used: Vec::new(),
            foreign: Vec::new(),
            absent: Vec::new(),
            watch: None,
        };
        let mut paths = Vec::new();
        // Held to the end, so that a command that ends cannot remove a placeholder that was just found.
        // Declared after `held`, whose drop takes the lock.
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        for protected in protect {
            let (links, real) = followed(&protected.path);
            paths.extend(links);
            if held.used.iter().any(|used| real.starts_with(used)) {
                // Nothing can be created in a placeholder.
                continue;
            }
            // Another command of this session may have placed it or a parent.
            let own = real.ancestors().find(|it| placed.get(*it).is_some_and(|own| own.is_at(it)));
            if let Some((path, own)) = own.and_then(|path| Some((path, placed.get_mut(path)?))) {
                own.users += 1;
                held.used.push(path.to_owned());
                paths.push(path.to_owned());
            } else if held.stays(&real) {
                paths.push(real);
            } else if protected.absent == IfMissing::TakeBack {
                held.absent.push(real);
            } else if let Some(path) = self.place(&mut placed, &real, protected.kind, &mut held)? {
                paths.push(path);
            }
        }
        paths.sort();
        paths.dedup();
        drop(placed);
        held.watch = watched(&held.absent);
        Ok((held, paths))
    }

    /// Creates a placeholder at the first missing component of the path. `None` if no directory exists
    /// to put it in, so that nothing can be created there either.
    fn place(
        &self,
        placed: &mut HashMap<PathBuf, PlacedPlaceholder>,
        real: &Path,
        kind: PathKind,
        held: &mut PlaceholderGuard,
    ) -> io::Result<Option<PathBuf>> {
        // Another session may remove or create it concurrently.
        for attempt in 0..PLACING_ATTEMPTS {
            if 0 < attempt {
                std::thread::sleep(PLACING_PAUSE);
            }
            let missing = real.ancestors().take_while(|it| it.symlink_metadata().is_err());
            let Some(path) = missing.last() else {
                if held.stays(real) {
                    return Ok(Some(real.to_owned()));
                }
                continue;
            };
            let parent = path.parent().and_then(|it| it.symlink_metadata().ok());
            if !parent.is_some_and(|meta| meta.is_dir()) {
                return Ok(None);
            }
            let kind = if path == real { kind } else { PathKind::Directory };
            match self.create(path, kind) {
                Ok(()) => {}
                Err(err) if matches!(err.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
                    continue;
                }
                // The user cannot create it here, so it needs no protection.
                Err(err)
                    if matches!(
                        err.kind(),
                        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                    ) =>
                {
                    return Ok(None);
                }
                Err(err) => return Err(err),
            }
            let meta = path.symlink_metadata()?;
            placed.insert(path.to_owned(), PlacedPlaceholder { users: 1, inode: inode(&meta) });
            held.used.push(path.to_owned());
            return Ok(Some(path.to_owned()));
        }
        Err(io::Error::other(format!("{} comes and goes", real.display())))
    }

    /// Creates a placeholder and records it on disk.
    fn create(&self, path: &Path, kind: PathKind) -> io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.push(0);
        create(path, kind)?;
        journal.write_all(&line).inspect_err(|_| {
            remove(path, None);
        })
    }

    /// Drops one use. The last one removes the placeholder, unless a command of another session relies
    /// on it; then a later sweep does.
    fn release(&self, path: &Path) {
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(it) = placed.get_mut(path) else { return };
        it.users = it.users.saturating_sub(1);
        if it.users == 0 && remove(path, Some(it.inode)) {
            placed.remove(path);
        }
    }
}

impl PlacedPlaceholder {
    fn is_at(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok_and(|meta| inode(&meta) == self.inode)
    }
}

impl PlaceholderGuard {
    /// Whether something exists at this path that no session will remove before this guard is dropped.
    fn stays(&mut self, path: &Path) -> bool {
        let Ok(meta) = path.symlink_metadata() else { return false };
        let may_be_stand_in = meta.is_dir() || meta.is_file() && meta.len() <= MAX_STAND_IN_BYTES;
        if !may_be_stand_in {
            return true;
        }
        match locked(path, FlockOperation::NonBlockingLockShared) {
            Ok(file) => {
                // It may have been removed between opening and locking.
                let is_same = file.metadata().is_ok_and(|it| inode(&it) == inode(&meta));
                let is_there = path.symlink_metadata().is_ok_and(|it| inode(&it) == inode(&meta));
                if is_same && is_there {
                    self.foreign.push(file);
                }
                is_same && is_there
            }
            // Another session is removing it or has removed it.
            Err(err) if matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotFound) => false,
            // Our placeholders are readable, and some file systems do not support locks.
            Err(_) => true,
        }
    }

    /// Becomes readable when something may have been created at a protected path.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// Discards pending events and watches directories created meanwhile.
    pub(crate) fn reset_watch(&self) {
        let Some(watch) = &self.watch else { return };
        let mut events = [0_u8; 4096];
        while rustix::io::read(watch, &mut events).is_ok_and(|len| 0 < len) {}
        watch_directories(watch, &self.absent);
    }

    /// Moves what was created at protected paths to `quarantine`, or deletes it if that fails. Returns
    /// the paths.
    pub(crate) fn take_back(&self, quarantine: &Path) -> Vec<PathBuf> {
        let created = self.absent.iter().filter(|path| path.symlink_metadata().is_ok());
        let mut taken = Vec::new();
        for path in created {
            let name = path.to_string_lossy().replace('/', "_");
            let number = std::process::id();
            let place =
                (0..100).map(|it| quarantine.join(format!("{number}-{it}{name}"))).find(|it| !it.exists());
            DirBuilder::new().recursive(true).mode(0o700).create(quarantine).ok();
            let moved = place.is_some_and(|place| std::fs::rename(path, place).is_ok());
            let gone = moved || std::fs::remove_file(path).is_ok() || std::fs::remove_dir_all(path).is_ok();
            if gone {
                taken.push(path.clone());
            }
        }
        taken
    }
}

/// Watches the parent directories of these paths, or their nearest existing ancestors.
fn watched(paths: &[PathBuf]) -> Option<OwnedFd> {
    if paths.is_empty() {
        return None;
    }
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
    watch_directories(&watch, paths);
    Some(watch)
}

fn watch_directories(watch: &OwnedFd, paths: &[PathBuf]) {
    let there = |path: &PathBuf| path.ancestors().skip(1).find(|it| it.is_dir()).map(Path::to_owned);
    let mut dirs: Vec<PathBuf> = paths.iter().filter_map(there).collect();
    dirs.sort();
    dirs.dedup();
    let appears = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR;
    for dir in dirs {
        inotify::add_watch(watch, &dir, appears).ok();
    }
}

impl Drop for PlaceholderGuard {
    fn drop(&mut self) {
        for path in &self.used {
            self.owner.release(path);
        }
    }
}

/// The symlinks on the way to a path and the final target, as far as it exists.
fn followed(path: &Path) -> (Vec<PathBuf>, PathBuf) {
    const MOST: usize = 40;
    let parts = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|it| it.as_os_str().to_owned()).collect()
    };
    let mut links = Vec::new();
    let mut real = PathBuf::from("/");
    // Remaining components, the next one last.
    let mut rest = parts(path);
    while let Some(part) = rest.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) if links.len() < MOST => {
                links.push(next);
                rest.extend(parts(&target));
            }
            _ => real = next,
        }
    }
    (links, real)
}

fn create(path: &Path, kind: PathKind) -> io::Result<()> {
    if kind == PathKind::Directory {
        return DirBuilder::new().mode(0o755).create(path);
    }
    let mut file = File::options().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(empty(path))
}

/// Neutral content for a file of this name.
fn empty(path: &Path) -> &'static [u8] {
    if path.file_name().is_some_and(|it| it == ".mcp.json") {
        b"{\"mcpServers\": {}}\n"
    } else if path.extension().is_some_and(|it| it == "json") {
        b"{}\n"
    } else {
        b""
    }
}

fn inode(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// Opens and locks a file or directory: shared to rely on a placeholder, exclusive to remove it.
fn locked(path: &Path, how: FlockOperation) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    flock(&file, how)?;
    Ok(file)
}

/// Removes a placeholder if it is still empty. `false` if a command of another session relies on it.
fn remove(path: &Path, placed: Option<(u64, u64)>) -> bool {
    let Ok(meta) = path.symlink_metadata() else { return true };
    if placed.is_some_and(|placed| inode(&meta) != placed) {
        return true;
    }
    let _lock = match locked(path, FlockOperation::NonBlockingLockExclusive) {
        Err(err) if err.kind() == io::ErrorKind::WouldBlock => return false,
        lock => lock.ok(),
    };
    if meta.is_dir() {
        // Fails, as intended, if it is not empty.
        std::fs::remove_dir(path).ok();
    } else if std::fs::read(path)
        .is_ok_and(|text| text == empty(path) || text.trim_ascii() == b"{}" || text.is_empty())
    {
        std::fs::remove_file(path).ok();
    }
    true
}

/// Removes placeholders of sessions that no longer run, if they are still empty.
fn sweep(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(file) = File::options().read(true).open(entry.path()) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let paths = std::fs::read(entry.path()).unwrap_or_default();
        let mut is_done = true;
        // Nested ones first.
        for path in paths.split(|it| *it == 0).rev().filter(|it| !it.is_empty()) {
            is_done &= remove(Path::new(OsStr::from_bytes(path)), None);
        }
        if is_done {
            std::fs::remove_file(entry.path()).ok();
        }
    }
}
