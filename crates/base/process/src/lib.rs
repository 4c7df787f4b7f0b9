//! Process ownership: commands, hooks and servers of a session, and all their descendants.
//!
//! A [`ProcessOwner`] belongs to one session. It gives every process it starts a [`ProcessTag`] that all
//! descendants inherit and cannot drop, records running processes in a registry that survives a crash,
//! and ends them all when the session ends. [`ProcessTree`] is one process with pipes and all its
//! descendants; [`SpawnRequest`] starts a process the way shell commands need it. A guarded tree must
//! not outlive this process: a small guardian process ends it if we are killed.
//!
//! **Does not know** what the processes are for beyond a label ([`ProcessPurpose`]), nor shells, hooks, protocols or sandboxes.
//!
//! **Invariant:** a signal goes only to a process that provably belongs to one of our calls, through a pidfd that pins it, or to a process group whose leader has not been reaped.
//!
//! **Invariant:** tags, registries and shutdown belong to one session. Ending a session touches no process of another session in the same program.

mod capture_output;
mod find_processes;
mod locked_file;
mod process_owner;
mod process_tag;
mod process_tree;
mod procfs;
mod reaper;
mod registry;
mod spawn;
mod wall_clock_sleep;

use std::{
    ffi::{CString, OsStr},
    os::unix::ffi::OsStrExt as _,
};

pub use capture_output::{CapturedOutput, OutputCapture};
pub use find_processes::describe;
pub use locked_file::{file_name_of_id, lock_session_file};
pub use process_owner::{Lifetime, OwnedProcesses, ProcessOwner};
pub use process_tag::{MARK_VARIABLE, ProcessTag};
pub use process_tree::{OnParentKilled, ProcessTree, ProcessTreeOptions, TreeIsolation};
pub use procfs::{Process, ProcessId, resident_bytes};
pub use registry::{
    LiveProcesses, ProcessPurpose, SessionOrphans, SpawnIntent, end_all, end_leftovers, end_orphans_of,
    everything, leftovers,
};
pub use spawn::{OwnedSpawnRequest, SpawnRequest};
pub use wall_clock_sleep::until_wall_clock;

/// Makes this process a child subreaper: orphaned descendants are reparented to it, so that a command
/// that daemonises is noticed at once and leaves no zombie. Affects the whole process, so only the
/// program's entry point should call it.
pub fn adopt_orphans() -> std::io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Builds a `NAME=VALUE` entry; `None` if it contains a NUL byte.
pub fn environment_entry(name: &OsStr, value: &OsStr) -> Option<CString> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

/// Converts to the kernel's `timespec`.
pub fn timespec(duration: std::time::Duration) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
