//! Something empty in the place of a protected path that is not there, for as
//! long as a confined command runs: what exists can be protected.

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

/// How often a path is looked at again that other sessions place and take away.
const PLACING_ATTEMPTS: usize = 100;

/// Long enough for whoever is just taking a stand-in away.
const PLACING_PAUSE: Duration = Duration::from_millis(2);

/// No stand-in has more bytes.
const MAX_STAND_IN_BYTES: u64 = 64;

/// The stand-ins of a session. Commands that run at the same time share them.
#[derive(Debug)]
pub(crate) struct Placeholders {
    placed: Mutex<HashMap<PathBuf, PlacedPlaceholder>>,
    /// What was placed, on disk: whoever comes after a crash removes it.
    journal: Mutex<File>,
}

#[derive(Debug)]
struct PlacedPlaceholder {
    users: usize,
    /// Which file or directory it is, to remove that and nothing else.
    inode: (u64, u64),
}

/// What a policy protects, made to exist.
#[derive(Debug)]
pub(crate) struct PlaceholderGuard {
    owner: Arc<Placeholders>,
    /// Stand-ins this command uses.
    used: Vec<PathBuf>,
    /// What may be another session's stand-in, locked: it stays while this is held.
    foreign: Vec<File>,
    /// Paths that were not there and must not be there afterwards.
    absent: Vec<PathBuf>,
    /// Tells when something is created where they would be.
    watch: Option<OwnedFd>,
}

impl Placeholders {
    /// Stand-ins of this session, written down below `dir`. Removes what
    /// sessions that are gone left.
    pub(crate) fn open(dir: &Path, session: &str) -> io::Result<Arc<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        sweep(dir);
        let path = dir.join(haft_process::file_name_of_id(session));
        let file = File::options().create(true).append(true).mode(0o600).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Arc::new(Self { placed: Mutex::default(), journal: Mutex::new(file) }))
    }

    /// Makes every path of a policy exist that has to, and says which paths the
    /// helper can protect now. A link on the way to a path is protected too, and
    /// so is where it leads. What is said to be there stays until the returned
    /// [`PlaceholderGuard`] is dropped, whoever placed it.
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
        // Held to the end, so that no command that ends takes away what was just
        // seen. Declared after `held`, which takes the lock when it is dropped.
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        for protected in protect {
            let (links, real) = followed(&protected.path);
            paths.extend(links);
            if held.used.iter().any(|used| real.starts_with(used)) {
                // Nothing can be created in a stand-in.
                continue;
            }
            // Another command of this session may have placed it, or something above it.
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

    /// Puts a stand-in where the path begins not to exist; `None` where there is
    /// no directory to put it in, so that nothing can be created either.
    fn place(
        &self,
        placed: &mut HashMap<PathBuf, PlacedPlaceholder>,
        real: &Path,
        kind: PathKind,
        held: &mut PlaceholderGuard,
    ) -> io::Result<Option<PathBuf>> {
        // Another session may take away or place something at any moment.
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
                // Nobody can create it here, so nobody has to be kept from it.
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

    /// Places it and writes that down.
    fn create(&self, path: &Path, kind: PathKind) -> io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.push(0);
        create(path, kind)?;
        journal.write_all(&line).inspect_err(|_| {
            remove(path, None);
        })
    }

    /// One command less uses this. The last one takes it away, unless a command
    /// of another session relies on it: then it stays until somebody can.
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
    /// Whether something is at this path and no session will take it away before
    /// this is dropped.
    fn stays(&mut self, path: &Path) -> bool {
        let Ok(meta) = path.symlink_metadata() else { return false };
        let may_be_stand_in = meta.is_dir() || meta.is_file() && meta.len() <= MAX_STAND_IN_BYTES;
        if !may_be_stand_in {
            return true;
        }
        match locked(path, FlockOperation::NonBlockingLockShared) {
            Ok(file) => {
                // What was opened may have been taken away before it was locked.
                let is_same = file.metadata().is_ok_and(|it| inode(&it) == inode(&meta));
                let is_there = path.symlink_metadata().is_ok_and(|it| inode(&it) == inode(&meta));
                if is_same && is_there {
                    self.foreign.push(file);
                }
                is_same && is_there
            }
            // Somebody is taking it away, or has.
            Err(err) if matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotFound) => false,
            // No stand-in of ours is unreadable, and some file systems lock nothing.
            Err(_) => true,
        }
    }

    /// Readable when something was created where nothing may be.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// Forgets what the watch has told so far, and watches directories that have
    /// appeared meanwhile.
    pub(crate) fn look_away(&self) {
        let Some(watch) = &self.watch else { return };
        let mut events = [0_u8; 4096];
        while rustix::io::read(watch, &mut events).is_ok_and(|len| 0 < len) {}
        watch_directories(watch, &self.absent);
    }

    /// Takes away what should not have been created, into this directory, and
    /// says what it was.
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

/// Tells of everything that appears in the directories of these paths, or where
/// those would be.
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

/// The links on the way to a path, and where they lead in the end, as far as
/// there is anything.
fn followed(path: &Path) -> (Vec<PathBuf>, PathBuf) {
    const MOST: usize = 40;
    let parts = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|it| it.as_os_str().to_owned()).collect()
    };
    let mut links = Vec::new();
    let mut real = PathBuf::from("/");
    // What is left to walk, the next part last.
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

/// What says nothing in a file of this name.
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

/// A file or directory, locked in this way: shared by who relies on a stand-in,
/// alone by who takes it away.
fn locked(path: &Path, how: FlockOperation) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    flock(&file, how)?;
    Ok(file)
}

/// Removes a stand-in that is still one. `false` if it has to stay because a
/// command of another session relies on it.
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
        // Fails if there is something in it, as it should.
        std::fs::remove_dir(path).ok();
    } else if std::fs::read(path)
        .is_ok_and(|text| text == empty(path) || text.trim_ascii() == b"{}" || text.is_empty())
    {
        std::fs::remove_file(path).ok();
    }
    true
}

/// Removes the stand-ins of sessions that are gone, where they are still empty.
fn sweep(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(file) = File::options().read(true).open(entry.path()) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let paths = std::fs::read(entry.path()).unwrap_or_default();
        let mut is_done = true;
        // Inner ones first.
        for path in paths.split(|it| *it == 0).rev().filter(|it| !it.is_empty()) {
            is_done &= remove(Path::new(OsStr::from_bytes(path)), None);
        }
        if is_done {
            std::fs::remove_file(entry.path()).ok();
        }
    }
}
