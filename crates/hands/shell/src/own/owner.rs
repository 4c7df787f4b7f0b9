use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal};

use crate::own::{
    Mark, Process, ProcessId, process,
    registry::{self, Announced, Registry},
    search::{self, Wanted},
};

/// Everything a session's commands have running.
#[derive(Debug)]
pub struct Owner {
    session: String,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    registry: Option<Registry>,
    calls: BTreeMap<String, Call>,
}

#[derive(Debug)]
struct Call {
    call: String,
    command: String,
    mark: Mark,
    since: u64,
    root: Option<ProcessId>,
    seen: HashSet<ProcessId>,
    detached: bool,
}

/// How long the processes of a call may live.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Lifetime {
    /// As long as the session.
    #[default]
    Session,
    /// As long as they like.
    Detached,
}

/// The processes of one call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owned {
    /// The call that started them.
    pub call: String,
    /// Its command line.
    pub command: String,
    /// Whether they go on after the session.
    pub detached: bool,
    /// What lives.
    pub processes: Vec<Process>,
}

impl Owner {
    /// Owns what the commands of `session` start, and writes it down below
    /// `registries`, where [`crate::own::leftovers`] finds it after a crash.
    pub fn open(registries: &Path, session: &str) -> io::Result<Arc<Self>> {
        let registry = Registry::create(registries, session)?;
        Ok(Self::with(session, Some(registry)))
    }

    /// Owns what commands start as long as this process lives, and writes
    /// nothing down.
    pub fn unrecorded(session: &str) -> Arc<Self> {
        Self::with(session, None)
    }

    fn with(session: &str, registry: Option<Registry>) -> Arc<Self> {
        let inner = Mutex::new(Inner { registry, calls: BTreeMap::new() });
        Arc::new(Self { session: session.to_owned(), inner })
    }

    /// Announces a call whose process is about to start.
    pub(crate) fn announce(&self, about: Announced<'_>, lifetime: Lifetime) -> io::Result<Mark> {
        let Announced { call, command, task } = about;
        let mark = Mark::new(&self.session, call);
        let since = process::ticks_since_boot().saturating_sub(1);
        let command = haft_types::text::one_line(command, 200);
        let mut inner = self.inner();
        if let Some(registry) = &mut inner.registry {
            registry.call(Announced { call, command: &command, task }, &mark, since)?;
            if lifetime == Lifetime::Detached {
                registry.detached(&mark)?;
            }
        }
        let entry = Call {
            call: call.to_owned(),
            command,
            mark: mark.clone(),
            since,
            root: None,
            seen: HashSet::new(),
            detached: lifetime == Lifetime::Detached,
        };
        inner.calls.insert(mark.cookie.clone(), entry);
        Ok(mark)
    }

    /// The process of an announced call has started.
    pub(crate) fn started(&self, mark: &Mark, pid: Pid) -> ProcessId {
        mark.put_on(pid);
        let pid = pid.as_raw_pid();
        let id = process::stat(pid).map_or(ProcessId { pid, start: 0 }, |stat| stat.id);
        if let Some(call) = self.inner().calls.get_mut(&mark.cookie) {
            call.root = Some(id);
            call.seen.insert(id);
        }
        id
    }

    /// What lives of one call.
    pub(crate) fn alive(&self, mark: &Mark) -> Vec<ProcessId> {
        let mut inner = self.inner();
        let Some(call) = inner.calls.get_mut(&mark.cookie) else { return Vec::new() };
        let found = search::search(&[call.wanted()]).pop().unwrap_or_default();
        call.seen.extend(found.iter().copied());
        found
    }

    /// Whether an orphan of this call became our child; see
    /// [`adopt_orphans`](crate::own::adopt_orphans).
    pub(crate) fn has_adopted(mark: &Mark, root: ProcessId) -> Option<bool> {
        search::adopted(mark, root)
    }

    /// Sends a signal to all processes of a call; how many there were.
    pub(crate) fn signal(&self, mark: &Mark, signal: Signal) -> usize {
        self.alive(mark).into_iter().filter(|id| search::signal(*id, signal)).count()
    }

    /// Nothing of this call is left.
    pub(crate) fn forget(&self, mark: &Mark) {
        let mut inner = self.inner();
        inner.calls.remove(&mark.cookie);
        let nothing_runs = inner.calls.is_empty();
        if let Some(registry) = &mut inner.registry {
            registry.ended(mark, nothing_runs);
        }
    }

    /// Lets the processes of a call go on after the session.
    pub fn detach(&self, call: &str) -> io::Result<bool> {
        let mut inner = self.inner();
        let marks: Vec<Mark> =
            inner.calls.values().filter(|it| it.call == call).map(|it| it.mark.clone()).collect();
        for mark in &marks {
            if let Some(registry) = &mut inner.registry {
                registry.detached(mark)?;
            }
            if let Some(call) = inner.calls.get_mut(&mark.cookie) {
                call.detached = true;
            }
        }
        Ok(!marks.is_empty())
    }

    /// Everything that runs, by call.
    pub fn list(&self) -> Vec<Owned> {
        let mut inner = self.inner();
        let wanted: Vec<Wanted<'_>> = inner.calls.values().map(Call::wanted).collect();
        let found = search::search(&wanted);
        let mut owned = Vec::new();
        for (call, ids) in inner.calls.values_mut().zip(found) {
            call.seen.extend(ids.iter().copied());
            if !ids.is_empty() {
                let (name, command) = (call.call.clone(), call.command.clone());
                let processes = search::describe(&ids);
                owned.push(Owned { call: name, command, detached: call.detached, processes });
            }
        }
        owned
    }

    /// Ends everything that is not detached; false if something is still there
    /// at the end of the time given. Blocks.
    pub fn end(&self, patience: Duration) -> bool {
        registry::end(|| self.ending(), patience)
    }

    fn ending(&self) -> Vec<ProcessId> {
        let mut inner = self.inner();
        let ending = inner.calls.values().filter(|it| !it.detached);
        let wanted: Vec<Wanted<'_>> = ending.map(Call::wanted).collect();
        let found = search::search(&wanted);
        for (call, ids) in inner.calls.values_mut().filter(|it| !it.detached).zip(&found) {
            call.seen.extend(ids.iter().copied());
        }
        found.into_iter().flatten().collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    fn wanted(&self) -> Wanted<'_> {
        Wanted { mark: &self.mark, since: self.since, seen: Some(&self.seen), root: self.root }
    }
}
