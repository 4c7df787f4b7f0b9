//! Sandbox for commands that are believed to only read.
//!
//! A thread irrevocably gives up what such commands do not need: writing, connecting, running programs
//! that are not installed, and opening hidden files. Commands are started from this thread, so there is
//! no extra process per command.

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

/// Restrictions of read-only commands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReadOnlyPolicy {
    /// The only writable directory: the session's temporary files.
    pub scratch: Option<PathBuf>,
    /// Unreadable paths, everything below included.
    pub hide: Vec<PathBuf>,
    /// Directories from which programs may be started, in addition to the system's.
    pub programs: Vec<PathBuf>,
    /// Network access.
    pub network: ReadOnlyNetwork,
}

/// Network access of a read-only command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReadOnlyNetwork {
    /// None.
    #[default]
    Off,
    /// Unrestricted, for commands that query a server.
    Open,
}

/// A thread whose child processes can only read.
pub struct ReadOnlySandbox {
    policy: ReadOnlyPolicy,
    /// Directories whose entries were granted one by one, with their change times. If one changes, the
    /// sandbox must be rebuilt.
    listed: Vec<(PathBuf, (i64, i64))>,
    thread: RestrictedThread,
}

impl std::fmt::Debug for ReadOnlySandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOnlySandbox").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl ReadOnlySandbox {
    /// Starts the thread with these restrictions. The error names what the kernel does not support.
    pub fn build(policy: ReadOnlyPolicy) -> Result<Arc<Self>, String> {
        let granted = landlock_rules::ReadOnlyRules::from_policy(&policy);
        let listed = granted.listed.iter().map(|dir| (dir.clone(), changed(dir))).collect();
        let network = policy.network;
        let give_up = move || granted.apply().and_then(|()| seccomp_filter::apply(network));
        let thread = RestrictedThread::build("haft-reading", give_up)?;
        Ok(Arc::new(Self { policy, listed, thread }))
    }

    /// Whether this sandbox is still valid for `policy`: the policy is equal and the directories that
    /// contain hidden paths are unchanged.
    pub fn hold(&self, policy: &ReadOnlyPolicy) -> bool {
        self.policy == *policy && self.listed.iter().all(|(dir, when)| changed(dir) == *when)
    }

    pub fn policy(&self) -> &ReadOnlyPolicy {
        &self.policy
    }

    /// Starts a process in the sandbox. Blocks until it is started.
    pub fn start(&self, launch: OwnedSpawnRequest) -> io::Result<Pid> {
        self.run(move || launch.start())?
    }

    /// Runs a closure on the restricted thread and waits for its result. Processes it starts inherit the
    /// restrictions.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        self.thread.run(work)
    }
}

fn changed(dir: &Path) -> (i64, i64) {
    dir.metadata().map(|meta| (meta.mtime(), meta.mtime_nsec())).unwrap_or_default()
}
