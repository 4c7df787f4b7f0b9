use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpgid, kill_process_group, waitid};
use tokio::{
    io::unix::AsyncFd,
    process::{Child, Command},
};

use crate::{
    Lifetime, MARK_VARIABLE, ProcessId, ProcessOwner, ProcessTag, SpawnIntent, find_processes, reaper,
};

/// How a tree is started, and who ends it when we cannot.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTreeOptions<'a> {
    /// What is about to start.
    pub about: SpawnIntent<'a>,
    /// What its leader is separated from.
    pub isolation: TreeIsolation,
    /// Who ends it when we are killed.
    pub after_kill: OnParentKilled,
}

/// What the leader of a tree is separated from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TreeIsolation {
    /// It has a session of its own and therefore no terminal.
    OwnSession,
    /// Signals of the keyboard do not reach it, and where we have a terminal, it
    /// cannot write there: it has a session of its own then, else a process
    /// group, which is quicker.
    NoTerminal,
}

/// Who ends a tree when we are killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnParentKilled {
    /// The next session, which reads it in the registry.
    NextSession,
    /// The guardian, at once.
    Guardian,
}

/// A process that was started with pipes, and everything it starts.
///
/// **Invariant:** dropping the tree kills every process of it, also those that
/// left its group, unless [`ProcessTree::release`] let them go.
#[derive(Debug)]
pub struct ProcessTree {
    owner: Arc<ProcessOwner>,
    mark: ProcessTag,
    pid: Pid,
    /// The leader's number, until the leader is waited for: from then on the
    /// number may belong to another process.
    leader: Mutex<Option<Pid>>,
    exit: ExitWaiter,
    after_kill: OnParentKilled,
    released: bool,
}

/// Tells when the leader has ended, without waiting for it.
#[derive(Debug)]
enum ExitWaiter {
    Pidfd(AsyncFd<OwnedFd>),
    /// Kernels without pidfd.
    Ask,
}

/// How often a kernel without pidfd is asked.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// Processes that start while others are killed are found in the next round.
const KILL_ROUNDS: usize = 8;

impl ProcessTree {
    /// Starts `command` and owns what comes of it. The caller takes the pipes it
    /// asked for from the returned child and hands the child to
    /// [`ProcessTree::reap`]. Must be called within a runtime.
    pub fn spawn(
        owner: &Arc<ProcessOwner>,
        plan: ProcessTreeOptions<'_>,
        mut command: Command,
    ) -> io::Result<(Self, Child)> {
        let mark = owner.announce(plan.about, Lifetime::Session)?;
        command.env(MARK_VARIABLE, mark.cookie()).kill_on_drop(true);
        match plan.isolation {
            // Without code between fork and exec the process is started without a
            // copy of us, which would hold the pipes of others meanwhile.
            TreeIsolation::NoTerminal if !has_terminal() => drop(command.process_group(0)),
            TreeIsolation::OwnSession | TreeIsolation::NoTerminal => {
                before_exec(&mut command, mark.clone());
            }
        }
        if plan.after_kill == OnParentKilled::Guardian {
            reaper::expect(&mark);
        }
        let started = spawn_unless_busy(&mut command).and_then(|child| {
            let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
            pid.map(|pid| (child, pid)).ok_or_else(|| io::Error::other("the process has no number"))
        });
        let (child, pid) = started.inspect_err(|_| {
            forget(owner, &mark, plan.after_kill);
        })?;
        owner.started(&mark, pid);
        if plan.after_kill == OnParentKilled::Guardian {
            reaper::watch(&mark, pid);
        }
        let tree = Self {
            owner: Arc::clone(owner),
            mark,
            pid,
            leader: Mutex::new(Some(pid)),
            exit: ExitWaiter::new(pid),
            after_kill: plan.after_kill,
            released: false,
        };
        Ok((tree, child))
    }

    /// The leader's number.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns when the leader has ended; its number stays its own until
    /// [`ProcessTree::reap`]. Safe to cancel.
    pub async fn exited(&self) {
        match &self.exit {
            ExitWaiter::Pidfd(pidfd) => {
                // An error means that the reactor is gone; then nobody is left to wait.
                let _ready = pidfd.readable().await;
            }
            ExitWaiter::Ask => {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                while matches!(waitid(WaitId::Pid(self.pid), options), Ok(None)) {
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            }
        }
    }

    /// Waits for the leader and takes its status. Afterwards no signal goes to
    /// its number.
    pub async fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        self.exited().await;
        *self.leader() = None;
        child.wait().await
    }

    /// Sends a signal to the group, as long as its number cannot mean another
    /// one.
    pub fn signal_group(&self, signal: Signal) {
        let leader = self.leader();
        if let Some(leader) = *leader {
            // ESRCH: everybody is gone already, which is what the caller wants.
            kill_process_group(leader, signal).ok();
        }
    }

    /// Kills everything, also what left the group and what starts meanwhile.
    pub fn kill(&self) {
        self.signal_group(Signal::KILL);
        self.kill_those(|_| true);
    }

    /// Whether processes are left in the group. Costs one system call.
    pub fn lives_in_group(&self) -> bool {
        rustix::process::test_kill_process_group(self.pid).is_ok()
    }

    /// Kills what proves to be ours and is still in the group.
    pub fn kill_in_group(&self) {
        self.kill_those(|id| Pid::from_raw(id.pid).is_some_and(|pid| getpgid(Some(pid)) == Ok(self.pid)));
    }

    /// Lets go of what still runs: nobody ends it, and it is listed no more.
    pub fn release(mut self) {
        self.released = true;
    }

    fn kill_those(&self, chosen: impl Fn(&ProcessId) -> bool) {
        for _ in 0..KILL_ROUNDS {
            let alive = self.owner.alive(&self.mark);
            let killed =
                alive.into_iter().filter(&chosen).filter(|id| find_processes::signal(*id, Signal::KILL));
            if killed.count() == 0 {
                return;
            }
        }
    }

    fn leader(&self) -> MutexGuard<'_, Option<Pid>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if !self.released {
            self.kill();
        }
        forget(&self.owner, &self.mark, self.after_kill);
    }
}

fn forget(owner: &ProcessOwner, mark: &ProcessTag, after_kill: OnParentKilled) {
    if after_kill == OnParentKilled::Guardian {
        reaper::forget(mark);
    }
    owner.forget(mark);
}

impl ExitWaiter {
    fn new(pid: Pid) -> Self {
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK).ok().and_then(register);
        pidfd.map_or(Self::Ask, Self::Pidfd)
    }
}

#[expect(unsafe_code, reason = "tokio has no safe way to register a descriptor")]
pub(crate) fn register(descriptor: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open, owned by the `AsyncFd` and never exchanged.
    unsafe { AsyncFd::register(descriptor) }.ok()
}

/// Whether we have a terminal that what we start could write to.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// A session of its own can only be made by the process itself; then the mark is
/// on it, too, before it can start another one.
#[expect(unsafe_code, reason = "both can only be done between fork and exec")]
fn before_exec(command: &mut Command, mark: ProcessTag) {
    // SAFETY: `setsid` and `prlimit` are async-signal-safe and the closure
    // allocates nothing.
    unsafe {
        command.pre_exec(move || {
            mark.put_on_self();
            rustix::process::setsid().map(drop).map_err(io::Error::from)
        });
    }
}

/// A script that was written a moment ago may still be open for writing in a
/// process that is being forked elsewhere; that passes within milliseconds.
fn spawn_unless_busy(command: &mut Command) -> io::Result<Child> {
    for _ in 0..5 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(2));
            }
            done => return done,
        }
    }
    command.spawn()
}
