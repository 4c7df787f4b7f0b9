//! Finds the processes of calls in `/proc` and signals exactly those.

use std::collections::{HashMap, HashSet};

use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal, waitid,
    },
};

use crate::{Process, ProcessId, ProcessTag, procfs};

/// One call whose processes to find.
pub(crate) struct ProcessQuery<'a> {
    pub(crate) mark: &'a ProcessTag,
    /// Start time of the call, in clock ticks since boot. Older processes do not belong to it.
    pub(crate) since: u64,
    /// Processes already known to descend from the call, even if they have lost the tag since.
    pub(crate) seen: Option<&'a HashSet<ProcessId>>,
    /// The process started for the call. Not reaped here: its owner waits for its exit status.
    pub(crate) root: Option<ProcessId>,
}

/// Returns the living processes of each wanted call, oldest first.
///
/// A process belongs to a call if it carries the call's tag, was seen to belong to it earlier, or
/// descends from a process that does.
pub(crate) fn search(wanted: &[ProcessQuery<'_>]) -> Vec<Vec<ProcessId>> {
    let Some(oldest) = wanted.iter().map(|it| it.since).min() else { return Vec::new() };
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let stats: HashMap<i32, procfs::ProcessStat> = procfs::all_pids()
        .into_iter()
        .filter(|pid| *pid != own)
        .filter_map(procfs::stat)
        .filter(|stat| oldest <= stat.id.start)
        .map(|stat| (stat.id.pid, stat))
        .collect();
    let mut owner: HashMap<i32, usize> = HashMap::new();
    for stat in stats.values() {
        if let Some(at) = wanted.iter().position(|it| belongs(it, *stat)) {
            owner.insert(stat.id.pid, at);
        }
    }
    let mut found = vec![Vec::new(); wanted.len()];
    for stat in stats.values() {
        let Some(at) = inherited(stat.id.pid, &stats, &owner) else { continue };
        if stat.is_dead() {
            if wanted[at].root != Some(stat.id) {
                reap(stat.id.pid, stat.parent, own);
            }
        } else if wanted[at].since <= stat.id.start {
            found[at].push(stat.id);
        }
    }
    for list in &mut found {
        list.sort_by_key(|id| (id.start, id.pid));
    }
    found
}

fn belongs(wanted: &ProcessQuery<'_>, stat: procfs::ProcessStat) -> bool {
    wanted.since <= stat.id.start
        && (wanted.seen.is_some_and(|seen| seen.contains(&stat.id)) || wanted.mark.is_on(stat.id.pid))
}

/// Returns the call of the nearest ancestor that belongs to one.
fn inherited(
    pid: i32,
    stats: &HashMap<i32, procfs::ProcessStat>,
    owner: &HashMap<i32, usize>,
) -> Option<usize> {
    let mut at = pid;
    // Pids can be reused during the walk, so it is bounded against cycles.
    for _ in 0..stats.len() + 1 {
        if let Some(found) = owner.get(&at) {
            return Some(*found);
        }
        at = stats.get(&at)?.parent;
    }
    None
}

/// Reaps a zombie that was reparented to us. Only called for processes of our calls.
fn reap(pid: i32, parent: i32, own: i32) {
    if parent == own
        && let Some(pid) = Pid::from_raw(pid)
    {
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok();
    }
}

/// Whether a living orphan of this call was reparented to us, other than `not`. Cheap: reads our
/// children only. `None` if the kernel does not list them.
pub(crate) fn adopted(mark: &ProcessTag, not: ProcessId) -> Option<bool> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut found = false;
    for pid in procfs::children_of_main_thread()? {
        let Some(stat) = procfs::stat(pid) else { continue };
        if stat.id == not || !mark.is_on(pid) {
            continue;
        }
        if stat.is_dead() {
            reap(pid, stat.parent, own);
        } else {
            found = true;
        }
    }
    Some(found)
}

/// Signals exactly this process. Returns false if it has ended.
pub(crate) fn signal(id: ProcessId, signal: Signal) -> bool {
    let Some(pid) = Pid::from_raw(id.pid) else { return false };
    let is_same = || procfs::stat(id.pid).is_some_and(|stat| stat.id == id && !stat.is_dead());
    // The pidfd pins the process; checking the start time after opening it proves the identity.
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => match is_same().then(|| pidfd_send_signal(handle, signal)) {
            Some(Err(Errno::NOSYS | Errno::PERM)) => kill_process(pid, signal).is_ok(),
            sent => matches!(sent, Some(Ok(()))),
        },
        // Old kernels and strict seccomp filters have no pidfd: check the start time directly before the
        // signal.
        Err(Errno::NOSYS | Errno::PERM) => is_same() && kill_process(pid, signal).is_ok(),
        Err(_) => false,
    }
}

/// Adds the command line to each id; empty for a process that has ended.
pub fn describe(ids: &[ProcessId]) -> Vec<Process> {
    ids.iter().map(|id| Process { id: *id, command: procfs::command_line(id.pid) }).collect()
}
