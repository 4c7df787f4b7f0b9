use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use crate::{
    Process, ProcessId, ProcessPurpose, ProcessTag, SpawnIntent,
    find_processes::{self, ProcessQuery},
    procfs, reaper,
    registry::{ProcessRegistry, end_all},
};

/// The running processes of one session: commands, hooks and servers.
///
/// The default owner keeps no registry; it is for callers without a session that others can inspect.
#[derive(Debug, Default)]
pub struct ProcessOwner {
    session: String,
    owned: Mutex<OwnedCalls>,
}

#[derive(Debug, Default)]
struct OwnedCalls {
    registry: Option<ProcessRegistry>,
    /// By the cookie of the tag.
    calls: BTreeMap<String, OwnedCall>,
    /// Whether [`ProcessOwner::end`] was called; from then on only detached processes may start.
    is_over: bool,
}

#[derive(Clone, Debug)]
struct OwnedCall {
    purpose: ProcessPurpose,
    call: String,
    command: String,
    mark: ProcessTag,
    since: u64,
    root: Option<ProcessId>,
    seen: HashSet<ProcessId>,
    detached: bool,
    guarded: bool,
}

/// How long processes may live.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Lifetime {
    /// Until the session ends.
    #[default]
    Session,
    /// Until the session ends, and no longer than this process: the guardian ends them if we are killed.
    Guarded,
    /// Unlimited; the session's end does not end them.
    Detached,
}

/// The running processes of one call, hook or server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnedProcesses {
    pub purpose: ProcessPurpose,
    /// Id or name of the call, hook or server that started them.
    pub call: String,
    pub command: String,
    /// Whether they outlive the session.
    pub detached: bool,
    /// The living processes.
    pub processes: Vec<Process>,
}

impl ProcessOwner {
    /// Opens the registry of `session` in the directory `registries`, where [`crate::leftovers`] finds
    /// it after a crash. Fails if another process has the session open. Blocks briefly for the lock.
    pub fn open(registries: &Path, session: &str) -> io::Result<Arc<Self>> {
        let registry = ProcessRegistry::create(registries, session)?;
        Ok(Self::with(session, Some(registry)))
    }

    /// Creates an owner without a registry.
    pub fn unrecorded(session: &str) -> Arc<Self> {
        Self::with(session, None)
    }

    fn with(session: &str, registry: Option<ProcessRegistry>) -> Arc<Self> {
        let owned = Mutex::new(OwnedCalls { registry, calls: BTreeMap::new(), is_over: false });
        Arc::new(Self { session: session.to_owned(), owned })
    }

    /// Creates the tag for a process that is about to start and records it in the registry. Must succeed
    /// before the process starts: an unrecorded process could not be ended after a crash. The caller
    /// must then call [`Self::started`] or [`Self::forget`].
    pub fn announce(&self, about: SpawnIntent<'_>, lifetime: Lifetime) -> io::Result<ProcessTag> {
        let SpawnIntent { purpose, call, command, task } = about;
        let mark = ProcessTag::new(&self.session, call);
        let since = procfs::ticks_since_boot().saturating_sub(1);
        let command = haft_types::text::one_line(command, 200);
        let mut owned = self.owned();
        if owned.is_over && lifetime != Lifetime::Detached {
            return Err(io::Error::other("its session has ended"));
        }
        if let Some(registry) = &mut owned.registry {
            registry.call(SpawnIntent { purpose, call, command: &command, task }, &mark, since)?;
            if lifetime == Lifetime::Detached {
                registry.detached(&mark)?;
            }
        }
        let announced = OwnedCall {
            purpose,
            call: call.to_owned(),
            command,
            mark: mark.clone(),
            since,
            root: None,
            seen: HashSet::new(),
            detached: lifetime == Lifetime::Detached,
            guarded: lifetime == Lifetime::Guarded,
        };
        owned.calls.insert(mark.cookie.clone(), announced);
        drop(owned);
        if lifetime == Lifetime::Guarded {
            reaper::expect(&mark);
        }
        Ok(mark)
    }

    /// Records the pid of an announced process and sets its tag.
    pub fn started(&self, mark: &ProcessTag, pid: Pid) -> ProcessId {
        mark.apply_to(pid);
        let group = pid;
        let pid = pid.as_raw_pid();
        let id = procfs::stat(pid).map_or(ProcessId { pid, start: 0 }, |stat| stat.id);
        let mut guarded = false;
        if let Some(call) = self.owned().calls.get_mut(&mark.cookie) {
            call.root = Some(id);
            call.seen.insert(id);
            guarded = call.guarded;
        }
        if guarded {
            reaper::watch(mark, group);
        }
        id
    }

    /// Returns the living processes of one announced process. Scans the whole process table, without
    /// holding the lock.
    pub fn alive(&self, mark: &ProcessTag) -> Vec<ProcessId> {
        let Some(call) = self.owned().calls.get(&mark.cookie).cloned() else { return Vec::new() };
        self.search(&[call]).pop().unwrap_or_default()
    }

    /// Finds the living processes of each call and remembers them as seen.
    fn search(&self, calls: &[OwnedCall]) -> Vec<Vec<ProcessId>> {
        let wanted: Vec<ProcessQuery<'_>> = calls.iter().map(OwnedCall::wanted).collect();
        let found = find_processes::search(&wanted);
        let mut owned = self.owned();
        for (call, ids) in calls.iter().zip(&found) {
            if let Some(call) = owned.calls.get_mut(&call.mark.cookie) {
                call.seen.extend(ids.iter().copied());
            }
        }
        found
    }

    /// Whether an orphan of this call was reparented to us; see [`adopt_orphans`](crate::adopt_orphans).
    pub fn has_adopted(mark: &ProcessTag, root: ProcessId) -> Option<bool> {
        find_processes::adopted(mark, root)
    }

    /// Signals all processes of a call. Returns the number signalled.
    pub fn signal(&self, mark: &ProcessTag, signal: Signal) -> usize {
        self.alive(mark).into_iter().filter(|id| find_processes::signal(*id, signal)).count()
    }

    /// Drops a call: its processes are no longer listed or ended by this owner.
    pub fn forget(&self, mark: &ProcessTag) {
        let mut owned = self.owned();
        let gone = owned.calls.remove(&mark.cookie);
        let nothing_runs = owned.calls.is_empty();
        if let Some(registry) = &mut owned.registry {
            registry.ended(mark, nothing_runs);
        }
        drop(owned);
        if gone.is_some_and(|it| it.guarded) {
            reaper::forget(mark);
        }
    }

    /// Marks the processes of a call as detached, so that they outlive the session. Returns false if the
    /// call is unknown.
    pub fn detach(&self, call: &str) -> io::Result<bool> {
        let mut owned = self.owned();
        let marks: Vec<ProcessTag> =
            owned.calls.values().filter(|it| it.call == call).map(|it| it.mark.clone()).collect();
        for mark in &marks {
            if let Some(registry) = &mut owned.registry {
                registry.detached(mark)?;
            }
            if let Some(call) = owned.calls.get_mut(&mark.cookie) {
                call.detached = true;
            }
        }
        Ok(!marks.is_empty())
    }

    /// Lists all running processes, grouped by call.
    pub fn list(&self) -> Vec<OwnedProcesses> {
        let calls: Vec<OwnedCall> = self.owned().calls.values().cloned().collect();
        let found = self.search(&calls);
        let living = calls.into_iter().zip(found).filter(|(_, ids)| !ids.is_empty());
        living
            .map(|(OwnedCall { purpose, call, command, detached, .. }, ids)| {
                let processes = find_processes::describe(&ids);
                OwnedProcesses { purpose, call, command, detached, processes }
            })
            .collect()
    }

    /// Ends all processes that are not detached and rejects new ones. Returns false if some still run
    /// after `patience`. Blocks.
    pub fn end(&self, patience: Duration) -> bool {
        self.owned().is_over = true;
        let deadline = Instant::now() + patience;
        // Wait for announced processes to be started or forgotten.
        while self.owned().calls.values().any(OwnedCall::is_starting) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ending = || {
            let owned = self.owned();
            let calls: Vec<OwnedCall> = owned.calls.values().filter(|it| !it.detached).cloned().collect();
            drop(owned);
            self.search(&calls).into_iter().flatten().collect()
        };
        end_all(ending, patience)
    }

    fn owned(&self) -> MutexGuard<'_, OwnedCalls> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnedCall {
    fn is_starting(&self) -> bool {
        self.root.is_none() && !self.detached
    }

    fn wanted(&self) -> ProcessQuery<'_> {
        ProcessQuery { mark: &self.mark, since: self.since, seen: Some(&self.seen), root: self.root }
    }
}
