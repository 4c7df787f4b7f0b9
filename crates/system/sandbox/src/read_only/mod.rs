//! Walls around what is believed to only read.
//!
//! A thread gives up, for good and for everything it will ever start, all that
//! a command that only reads has no use for: writing, connecting, running what
//! nobody installed, opening what rules hide. Commands are then started from
//! this thread, so they cost no process more than they did without walls.

mod installed_programs;
mod landlock_rules;
mod seccomp_filter;

use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_process::OwnedSpawnRequest;
pub use installed_programs::installed_programs;
use rustix::process::Pid;

use crate::restricted_thread::RestrictedThread;

/// What a command that only reads is kept from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReadOnlyPolicy {
    /// The only directory it may write in: the session's own temporary files.
    pub scratch: Option<PathBuf>,
    /// What it may not read, everything below included.
    pub hide: Vec<PathBuf>,
    /// Where programs may be started from besides the directories of the
    /// system.
    pub programs: Vec<PathBuf>,
    /// Whom it may talk to.
    pub network: ReadOnlyNetwork,
}

/// Whom a command that only reads may talk to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReadOnlyNetwork {
    /// Nobody.
    #[default]
    Off,
    /// Everybody: it asks a server, and that is what it was let for.
    Open,
}

/// A thread that cannot do more than a command that only reads may.
pub struct ReadOnlySandbox {
    policy: ReadOnlyPolicy,
    /// Directories whose names were granted one by one, and when they changed:
    /// what is new in them needs new walls.
    listed: Vec<(PathBuf, (i64, i64))>,
    thread: RestrictedThread,
}

impl std::fmt::Debug for ReadOnlySandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOnlySandbox").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl ReadOnlySandbox {
    /// Builds them, or says what the kernel cannot do.
    pub fn build(policy: ReadOnlyPolicy) -> Result<Arc<Self>, String> {
        let granted = landlock_rules::ReadOnlyRules::from_policy(&policy);
        let listed = granted.listed.iter().map(|dir| (dir.clone(), changed(dir))).collect();
        let network = policy.network;
        let give_up = move || granted.apply().and_then(|()| seccomp_filter::apply(network));
        let thread = RestrictedThread::build("haft-reading", give_up)?;
        Ok(Arc::new(Self { policy, listed, thread }))
    }

    /// Whether these are still the walls for a policy: it is the same, and so
    /// are the directories in which something is hidden.
    pub fn hold(&self, policy: &ReadOnlyPolicy) -> bool {
        self.policy == *policy && self.listed.iter().all(|(dir, when)| changed(dir) == *when)
    }

    /// What they keep out.
    pub fn policy(&self) -> &ReadOnlyPolicy {
        &self.policy
    }

    /// Starts a process behind the walls.
    pub fn start(&self, launch: OwnedSpawnRequest) -> io::Result<Pid> {
        self.run(move || launch.start())?
    }

    /// Runs this behind the walls. Whatever it starts stays there.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        self.thread.run(work)
    }
}

fn changed(dir: &Path) -> (i64, i64) {
    dir.metadata().map(|meta| (meta.mtime(), meta.mtime_nsec())).unwrap_or_default()
}
