//! Finding processes by the mark they carry in their environment.

use std::{
    fs,
    hash::{BuildHasher, Hasher},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::group::MARK;

/// Which of the marked processes are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    /// All of them, also those that left the group.
    Everywhere,
    /// Those still in this group.
    Group(Pid),
}

/// A mark nobody else has.
pub(crate) fn new_mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Two randomly keyed hashers of the standard library: unguessable enough to
    // be unique, and no further dependency.
    let random = || std::hash::RandomState::new().build_hasher().finish();
    format!("{}-{count}-{:016x}{:016x}", std::process::id(), random(), random())
}

/// Kills every process that carries the mark, also those that start while we
/// look. Where there is no `/proc`, the signal to the group has to do.
pub(crate) fn kill_all(mark: &str, scope: Scope) {
    let entry = format!("{MARK}={mark}");
    for _ in 0..8 {
        let found = carriers(entry.as_bytes(), scope);
        if found == 0 {
            return;
        }
    }
}

fn carriers(entry: &[u8], scope: Scope) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let ids = processes.flatten().filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(Pid::from_raw).filter(|id| kill_if_marked(*id, entry, scope)).count()
}

/// Kills one process if it carries the mark. The descriptor is opened first: if
/// the number changes hands in between, the signal goes nowhere.
fn kill_if_marked(id: Pid, entry: &[u8], scope: Scope) -> bool {
    let directory = format!("/proc/{}", id.as_raw_nonzero());
    let is_marked = || {
        fs::read(format!("{directory}/environ"))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == entry))
    };
    if !is_marked() {
        return false;
    }
    if let Scope::Group(group) = scope
        && rustix::process::getpgid(Some(id)) != Ok(group)
    {
        return false;
    }
    match rustix::process::pidfd_open(id, PidfdFlags::empty()) {
        Ok(pidfd) => is_marked() && rustix::process::pidfd_send_signal(&pidfd, Signal::KILL).is_ok(),
        Err(_) => rustix::process::kill_process(id, Signal::KILL).is_ok(),
    }
}
