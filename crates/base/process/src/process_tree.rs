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

/// How to start a tree.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTreeOptions<'a> {
    pub about: SpawnIntent<'a>,
    /// Isolation of the leader from our terminal and process group.
    pub isolation: TreeIsolation,
    /// Who ends the tree if we are killed.
    pub after_kill: OnParentKilled,
}

/// Isolation of the leader from our terminal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TreeIsolation {
    /// A session of its own, hence no controlling terminal.
    OwnSession,
    /// No keyboard signals and no access to our terminal. Uses a new session if we have a terminal, else
    /// only a new process group, which is faster to start.
    NoTerminal,
}

/// Who ends a tree if this process is killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnParentKilled {
    /// The next session, which finds it in the registry.
    NextSession,
    /// The guardian process, immediately.
    Guardian,
}

/// A process started with pipes, and all its descendants.
///
/// **Invariant:** dropping the tree kills all its processes, also those that left the process group, unless [`ProcessTree::release`] was called.
#[derive(Debug)]
pub struct ProcessTree {
    owner: Arc<ProcessOwner>,
    mark: ProcessTag,
    pid: Pid,
    /// Pid of the leader until it is reaped; afterwards the pid may belong to another process.
    leader: Mutex<Option<Pid>>,
    exit: ExitWaiter,
    after_kill: OnParentKilled,
    released: bool,
}

/// Notices the exit of the leader without reaping it.
#[derive(Debug)]
enum ExitWaiter {
    Pidfd(AsyncFd<OwnedFd>),
    /// Polling, for kernels without pidfd.
    Ask,
}

/// Polling interval on kernels without pidfd.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// Maximum number of kill rounds; processes that start during one round are found in the next.
const KILL_ROUNDS: usize = 8;

impl ProcessTree {
    /// Starts `command` as a tree owned by `owner`. The caller takes the pipes from the returned child
    /// and later passes the child to [`ProcessTree::reap`]. Must be called within a tokio runtime.
    pub fn spawn(
        owner: &Arc<ProcessOwner>,
        plan: ProcessTreeOptions<'_>,
        mut command: Command,
    ) -> io::Result<(Self, Child)> {
        let mark = owner.announce(plan.about, Lifetime::Session)?;
        command.env(MARK_VARIABLE, mark.cookie()).kill_on_drop(true);
        match plan.isolation {
            // Without a `pre_exec` closure the process is started without a fork of us, whose copy would
            // hold other processes' pipes open.
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

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns when the leader has exited. The pid stays reserved until [`ProcessTree::reap`].
    /// Cancel-safe.
    pub async fn exited(&self) {
        match &self.exit {
            ExitWaiter::Pidfd(pidfd) => {
                // An error means that the runtime is shutting down.
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

    /// Reaps the leader and returns its exit status. Afterwards no signal goes to its pid.
    pub async fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        self.exited().await;
        *self.leader() = None;
        child.wait().await
    }

    /// Signals the process group, unless the leader was reaped and the group id may be reused.
    pub fn signal_group(&self, signal: Signal) {
        let leader = self.leader();
        if let Some(leader) = *leader {
            // ESRCH means that all processes have exited.
            kill_process_group(leader, signal).ok();
        }
    }

    /// Kills all processes of the tree, also those outside the group and those started meanwhile.
    pub fn kill(&self) {
        self.signal_group(Signal::KILL);
        self.kill_those(|_| true);
    }

    /// Whether the process group has members. One system call.
    pub fn lives_in_group(&self) -> bool {
        rustix::process::test_kill_process_group(self.pid).is_ok()
    }

    /// Kills the tree's processes that are still in the group.
    pub fn kill_in_group(&self) {
        self.kill_those(|id| Pid::from_raw(id.pid).is_some_and(|pid| getpgid(Some(pid)) == Ok(self.pid)));
    }

    /// Stops owning the tree: its processes keep running and are no longer listed.
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

/// Whether we have a controlling terminal that a child could write to.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// A process can only create a session for itself. The tag is set in the same step, before the process
/// can start another one.
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

/// Retries on `ETXTBSY`: a freshly written script may still be open for writing in a concurrently forked
/// process. Passes within milliseconds.
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
