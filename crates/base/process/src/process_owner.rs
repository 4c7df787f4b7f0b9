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

/// Everything a session's commands, hooks and servers have running.
///
/// The default one writes nothing down: it is for those who run without a
/// session that could be looked at from outside.
#[derive(Debug, Default)]
pub struct ProcessOwner {
    session: String,
    owned: Mutex<OwnedCalls>,
}

#[derive(Debug, Default)]
struct OwnedCalls {
    registry: Option<ProcessRegistry>,
    /// By the cookie of the mark.
    calls: BTreeMap<String, OwnedCall>,
    /// Whether everything was ended: nothing that would be ended starts any more.
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
    /// As long as the session.
    #[default]
    Session,
    /// As long as the session, and no longer than this process: the guardian ends
    /// them when we are killed.
    Guarded,
    /// As long as they like.
    Detached,
}

/// The processes of one call, hook or server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnedProcesses {
    /// What they were started for.
    pub purpose: ProcessPurpose,
    /// The call, the hook or the server that started them.
    pub call: String,
    /// Its command line.
    pub command: String,
    /// Whether they go on after the session.
    pub detached: bool,
    /// What lives.
    pub processes: Vec<Process>,
}

impl ProcessOwner {
    /// Owns what `session` starts, and writes it down below `registries`, where
    /// [`crate::leftovers`] finds it after a crash.
    pub fn open(registries: &Path, session: &str) -> io::Result<Arc<Self>> {
        let registry = ProcessRegistry::create(registries, session)?;
        Ok(Self::with(session, Some(registry)))
    }

    /// Owns what commands start as long as this process lives, and writes
    /// nothing down.
    pub fn unrecorded(session: &str) -> Arc<Self> {
        Self::with(session, None)
    }

    fn with(session: &str, registry: Option<ProcessRegistry>) -> Arc<Self> {
        let owned = Mutex::new(OwnedCalls { registry, calls: BTreeMap::new(), is_over: false });
        Arc::new(Self { session: session.to_owned(), owned })
    }

    /// Announces a process that is about to start, and makes its mark. Must
    /// succeed before the process starts: what is not written down could not be
    /// ended after a crash. The caller calls [`Self::started`] or
    /// [`Self::forget`] next.
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

    /// The announced process has started.
    pub fn started(&self, mark: &ProcessTag, pid: Pid) -> ProcessId {
        mark.put_on(pid);
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

    /// What lives of one announced process and its descendants. Reads the whole
    /// process table; nobody waits for a lock meanwhile.
    pub fn alive(&self, mark: &ProcessTag) -> Vec<ProcessId> {
        let Some(call) = self.owned().calls.get(&mark.cookie).cloned() else { return Vec::new() };
        self.search(&[call]).pop().unwrap_or_default()
    }

    /// What lives of each call, which is remembered as theirs.
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

    /// Whether an orphan of this call became our child; see
    /// [`adopt_orphans`](crate::adopt_orphans).
    pub fn has_adopted(mark: &ProcessTag, root: ProcessId) -> Option<bool> {
        find_processes::adopted(mark, root)
    }

    /// Sends a signal to all processes of a call; how many there were.
    pub fn signal(&self, mark: &ProcessTag, signal: Signal) -> usize {
        self.alive(mark).into_iter().filter(|id| find_processes::signal(*id, signal)).count()
    }

    /// Nothing of this call is left, or nobody cares any more.
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

    /// Lets the processes of a call go on after the session.
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

    /// Everything that runs, by what started it.
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

    /// Ends everything that is not detached, and lets nothing more of that kind
    /// start; false if something is still there at the end of the time given.
    /// Blocks.
    pub fn end(&self, patience: Duration) -> bool {
        self.owned().is_over = true;
        let deadline = Instant::now() + patience;
        // What was announced before is about to start, or to be forgotten.
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
