//! Walls around every command that has no others: what undo needs stays as it
//! is, and where nobody is asked, so does what nobody named.
//!
//! As with [`ReadOnlySandbox`](crate::ReadOnlySandbox), a thread gives this up and
//! starts the commands, so that they cost nothing more. It takes the right to
//! mount. These walls stand in the way of programs that do not know of them; one
//! that runs as root and looks for a way around them finds one.

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

/// What every command is kept from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BaselinePolicy {
    /// Stays as it is, everything below included.
    pub freeze: Vec<PathBuf>,
    /// A home, of which more stays.
    pub home: Option<HomeProtection>,
}

/// What of a home stays.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HomeProtection {
    /// The home, without links: it stays in its place.
    pub path: PathBuf,
    /// Stays as it is, everything below included.
    pub freeze: Vec<PathBuf>,
    /// Can be changed although it is below one of these.
    pub open: Vec<PathBuf>,
}

/// A thread whose commands cannot do that.
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
    /// Builds them, or says what this machine cannot do.
    pub fn build(policy: BaselinePolicy) -> Result<Arc<Self>, String> {
        let wanted = policy.clone();
        let thread = RestrictedThread::build("haft-keeping", move || keep(&wanted))?;
        Ok(Arc::new(Self { policy, thread }))
    }

    /// What they keep out.
    pub fn policy(&self) -> &BaselinePolicy {
        &self.policy
    }

    /// Starts a process behind the walls.
    pub fn start(&self, launch: OwnedSpawnRequest) -> io::Result<Pid> {
        self.thread.run(move || launch.start())?
    }

    /// Runs this behind the walls.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        self.thread.run(work)
    }
}

/// Mounts of this thread's own. What others mount later is seen here, and
/// nothing of ours is seen elsewhere.
fn keep(policy: &BaselinePolicy) -> Result<(), String> {
    leave_namespaces(UnshareFlags::NEWNS).map_err(|err| format!("mounts of its own: {err}"))?;
    let follows = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", follows).map_err(|err| format!("mounts of its own: {err}"))?;
    let failed = |path: &Path, err: io::Error| format!("freeze {}: {err}", path.display());
    let attach = |copy: &OwnedFd, path: &Path| attach_mount(copy, path).map_err(|err| failed(path, err));
    let copied = |path: &Path| copy_of_mount(path).map_err(|err| failed(path, err));
    if let Some(home) = &policy.home {
        // A directory that is a mount cannot be renamed or removed.
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

/// Visible directories of a home that are programs' own: what is in them can be
/// made again.
const OF_PROGRAMS: &[&str] =
    &["go", "snap", "node_modules", "miniconda3", "anaconda3", "miniforge3", "lost+found"];

/// The one hidden directory that nobody can make again and that works as it is.
const KEYS: &str = ".ssh";

/// More names than this are no home that can be looked through.
const MOST: usize = 400;

impl HomeProtection {
    /// What of a home stays while a command works in `roots` and names `named`:
    /// what a person sees there. Nothing where there is nothing to keep, or where
    /// all of it is worked in.
    pub fn new(home: &Path, roots: &[PathBuf], named: &[PathBuf]) -> Option<Self> {
        let path = home.canonicalize().ok()?;
        // What is not there yet is made in a directory that is.
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
            // A link is nothing; where it leads is looked after by its own name.
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
