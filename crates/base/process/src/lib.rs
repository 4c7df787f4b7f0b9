//! Owning processes: commands, hooks and servers of a session, and everything
//! those start.
//!
//! A [`ProcessOwner`] belongs to one session. It gives every process it starts
//! a [`ProcessTag`] that all descendants inherit and none can drop, writes down
//! what runs in a registry that outlives a crash, and ends all of it when the
//! session ends. [`ProcessTree`] is one process with pipes and all its
//! descendants; [`SpawnRequest`] starts a process the way commands need it. A tree
//! whose end cannot wait for the next session is also told to a guardian: a
//! small process that ends it when we are killed.
//!
//! **Does not know** what the processes are for beyond a name
//! ([`ProcessPurpose`]), nor shells, hooks, protocols or sandboxes.
//!
//! **Invariant:** a signal goes only to a process that proved to belong to one
//! of our calls, through a handle that pins exactly that process, or to a group
//! whose leader has not been waited for.
//!
//! **Invariant:** marks, registries and endings belong to a session. Ending one
//! session touches no process of another in the same program.

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

/// Makes this process the parent of every orphan among its descendants, so that
/// a command that detaches itself is noticed at once and its end leaves nothing
/// in the process table. Holds for the whole process: the program decides.
pub fn adopt_orphans() -> std::io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// One variable as an environment holds it; nothing if it cannot be held.
pub fn environment_entry(name: &OsStr, value: &OsStr) -> Option<CString> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

/// A duration as the kernel takes it.
pub fn timespec(duration: std::time::Duration) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
