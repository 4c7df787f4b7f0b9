//! Sandbox for every command that has no other: keeps read-only what undo needs and, in modes without
//! prompts, parts of the home directory that the command does not name.
//!
//! As with [`ReadOnlySandbox`](crate::ReadOnlySandbox), a restricted thread starts the commands, so
//! there is no cost per command. Needs the right to mount (root). Protects against programs that do not
//! know of it; a program that runs as root and looks for a way out finds one.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_process::OwnedSpawnRequest;
use rustix::{
    mount::{MountPropagationFlags, mount_change},
    process::Pid,
    thread::UnshareFlags,
};

use crate::{
    helper::{attach_mount, copy_of_mount, leave_namespaces, read_only_mount},
    restricted_thread::RestrictedThread,
};

/// What the baseline sandbox keeps read-only.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BaselinePolicy {
    /// Read-only paths, everything below included.
    pub freeze: Vec<PathBuf>,
    /// Protection of the home directory, if any.
    pub home: Option<HomeProtection>,
}

/// Which parts of a home directory are read-only.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HomeProtection {
    /// The home directory without symlinks. It cannot be renamed or removed.
    pub path: PathBuf,
    /// Read-only paths, everything below included.
    pub freeze: Vec<PathBuf>,
    /// Paths below `freeze` that stay writable.
    pub open: Vec<PathBuf>,
}

/// A thread whose child processes run in the baseline sandbox.
pub struct BaselineSandbox {
    policy: BaselinePolicy,
    thread: RestrictedThread,
}

impl std::fmt::Debug for BaselineSandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaselineSandbox").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl BaselineSandbox {
    /// Starts the thread and creates its mounts. The error names what the machine does not support.
    pub fn build(policy: BaselinePolicy) -> Result<Arc<Self>, String> {
        let wanted = policy.clone();
        let thread = RestrictedThread::build("haft-keeping", move || keep(&wanted))?;
        Ok(Arc::new(Self { policy, thread }))
    }

    pub fn policy(&self) -> &BaselinePolicy {
        &self.policy
    }

    /// Starts a process in the sandbox. Blocks until it is started.
    pub fn start(&self, launch: OwnedSpawnRequest) -> io::Result<Pid> {
        self.thread.run(move || launch.start())?
    }

    /// Runs a closure on the sandboxed thread and waits for its result.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        self.thread.run(work)
    }
}

/// Creates the thread's own mount namespace. Later mounts outside are visible inside, but not the
/// reverse.
fn keep(policy: &BaselinePolicy) -> Result<(), String> {
    leave_namespaces(UnshareFlags::NEWNS).map_err(|err| format!("mounts of its own: {err}"))?;
    let follows = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", follows).map_err(|err| format!("mounts of its own: {err}"))?;
    let failed = |path: &Path, err: io::Error| format!("freeze {}: {err}", path.display());
    let attach = |copy: &OwnedFd, path: &Path| attach_mount(copy, path).map_err(|err| failed(path, err));
    let copied = |path: &Path| copy_of_mount(path).map_err(|err| failed(path, err));
    if let Some(home) = &policy.home {
        // A mount point cannot be renamed or removed.
        attach(&copied(&home.path)?, &home.path)?;
        let open: Vec<(&PathBuf, OwnedFd)> =
            home.open.iter().map(|path| Ok((path, copied(path)?))).collect::<Result<_, String>>()?;
        for path in &home.freeze {
            freeze(path).map_err(|err| failed(path, err))?;
        }
        for (path, copy) in &open {
            attach(copy, path)?;
        }
    }
    policy.freeze.iter().try_for_each(|path| freeze(path).map_err(|err| failed(path, err)))
}

fn freeze(path: &Path) -> io::Result<()> {
    let copy = copy_of_mount(path)?;
    read_only_mount(copy.as_fd())?;
    attach_mount(&copy, path)
}

/// Visible directories that programs create in a home directory and can create again.
const OF_PROGRAMS: &[&str] =
    &["go", "snap", "node_modules", "miniconda3", "anaconda3", "miniforge3", "lost+found"];

/// The one hidden directory that cannot be recreated and works read-only.
const KEYS: &str = ".ssh";

/// Maximum number of entries in a home directory; a larger one is not protected.
const MOST: usize = 400;

impl HomeProtection {
    /// Selects what is read-only while a command works in `roots` and names the paths in `named`: the
    /// visible entries of the home directory and `.ssh`. `None` if there is nothing to protect, if the
    /// whole home is worked in, or if it has too many entries. Reads the disk.
    pub fn new(home: &Path, roots: &[PathBuf], named: &[PathBuf]) -> Option<Self> {
        let path = home.canonicalize().ok()?;
        // For a path that does not exist yet, the directory in which it is created.
        let made_in = |it: &PathBuf| it.parent()?.canonicalize().ok().filter(|dir| *dir != path);
        let real = |it: &PathBuf| it.canonicalize().ok().or_else(|| made_in(it));
        let worked_in: Vec<PathBuf> = roots.iter().chain(named).filter_map(real).collect();
        if path.parent().is_none() || worked_in.iter().any(|it| path.starts_with(it)) {
            return None;
        }
        let (mut freeze, mut seen) = (Vec::new(), 0);
        for entry in std::fs::read_dir(&path).ok()?.flatten() {
            seen += 1;
            let (name, place) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let is_seen = !name.starts_with('.') && !OF_PROGRAMS.contains(&&*name);
            // Symlinks are skipped; their targets are protected under their own names.
            let is_real = entry.file_type().is_ok_and(|it| it.is_dir() || it.is_file());
            if is_real && (is_seen || name == KEYS) && !worked_in.contains(&place) {
                freeze.push(place);
            }
        }
        let is_person = freeze.iter().any(|it| it.file_name().is_some_and(|name| name != KEYS));
        let has_more = freeze.iter().any(|it| !worked_in.iter().any(|root| root.starts_with(it)));
        if MOST < seen || !is_person || !has_more {
            return None;
        }
        let is_inside = |it: &PathBuf| freeze.iter().any(|kept| it.starts_with(kept));
        let mut open: Vec<PathBuf> = worked_in.into_iter().filter(is_inside).collect();
        for list in [&mut freeze, &mut open] {
            list.sort();
            list.dedup();
        }
        Some(Self { path, freeze, open })
    }
}
