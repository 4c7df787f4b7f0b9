//! A hook's processes, owned: none of them outlives its time.
//!
//! The hook runs in a session of its own (so it has no terminal) whose process
//! group is signalled as a whole. What leaves the group with `setsid` is still
//! known by a random mark in its environment.

use std::{
    io,
    os::fd::OwnedFd,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal};
use tokio::{
    io::unix::AsyncFd,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

use crate::marked;

/// The variable that carries the mark.
pub(crate) const MARK: &str = "HAFT_HOOK_RUN";

/// How long a hook may tidy up after SIGTERM. Short, because a timeout is a
/// promise to the person who waits.
const GRACE: Duration = Duration::from_millis(50);

/// How long to wait for a killed process to be gone. Only one that sits in the
/// kernel, on a dead network disk for instance, takes longer.
const DEATH: Duration = Duration::from_millis(50);

/// A running hook. Dropping it kills everything it started.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    id: Option<Pid>,
    mark: String,
    exit: ExitWatch,
    /// Whether the leader has been waited for: from then on its number may
    /// belong to somebody else.
    reaped: bool,
}

/// The ends of a hook's pipes.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// Tells when the leader has ended, without reaping it: until it is reaped its
/// number cannot be given to another process, so signals reach only ours.
#[derive(Debug)]
enum ExitWatch {
    Pidfd(AsyncFd<OwnedFd>),
    /// Kernels without pidfd.
    Wait,
}

impl Group {
    /// Starts a command in its own session.
    pub(crate) fn spawn(mut command: Command) -> io::Result<(Self, Pipes)> {
        let mark = marked::new_mark();
        command.env(MARK, &mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        own_session(&mut command);
        let mut child = spawn_unless_busy(&mut command)?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let group = Self { child, id, mark, exit: ExitWatch::of(id), reaped: false };
        let ((stdin, stdout), stderr) = pipes.ok_or_else(|| io::Error::other("the pipes are missing"))?;
        Ok((group, Pipes { stdin, stdout, stderr }))
    }

    /// Returns when the leader has ended. Safe to cancel.
    pub(crate) async fn exited(&mut self) {
        match &self.exit {
            ExitWatch::Pidfd(pidfd) => {
                // An error means that the reactor is gone; then nobody is left to wait.
                let _ready = pidfd.readable().await;
            }
            ExitWatch::Wait => {
                let _status = self.child.wait().await;
                self.reaped = true;
            }
        }
    }

    /// Takes the leader's status. Call after [`Group::exited`].
    pub(crate) async fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.reaped = true;
        status
    }

    /// Whether processes of the group live on after their leader was reaped.
    pub(crate) fn left_something(&self) -> bool {
        self.id.is_some_and(|id| rustix::process::test_kill_process_group(id).is_ok())
    }

    /// Ends everything: politely, then not.
    pub(crate) async fn stop(&mut self) {
        self.signal(Signal::TERM);
        let _ended = tokio::time::timeout(GRACE, self.exited()).await;
        self.kill();
        let _ended = tokio::time::timeout(DEATH, self.exited()).await;
        let _reaped = tokio::time::timeout(DEATH, self.reap()).await;
    }

    /// Lets go of what the hook left running, to be ended by [`Leftover`].
    pub(crate) fn into_leftover(mut self) -> Leftover {
        Leftover { group: self.id.take(), mark: std::mem::take(&mut self.mark) }
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id.filter(|_| !self.reaped) {
            // ESRCH: everybody is gone already, which is what we want.
            let _gone = rustix::process::kill_process_group(id, signal);
        }
    }

    fn kill(&self) {
        self.signal(Signal::KILL);
        if !self.mark.is_empty() {
            marked::kill_all(&self.mark, marked::Scope::Everywhere);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // `id` is taken when the group ended by itself; otherwise somebody
        // stopped waiting for it.
        if self.id.is_some() && !self.reaped {
            self.kill();
        }
    }
}

/// What a hook left running when its leader ended, allowed until its time is
/// up. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Leftover {
    group: Option<Pid>,
    mark: String,
}

impl Leftover {
    /// Waits until the time is up or nothing is left.
    pub(crate) async fn until(self, deadline: tokio::time::Instant) {
        let mut pause = Duration::from_millis(50);
        while tokio::time::Instant::now() < deadline && self.lives() {
            let next = (tokio::time::Instant::now() + pause).min(deadline);
            tokio::time::sleep_until(next).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    fn lives(&self) -> bool {
        self.group.is_some_and(|id| rustix::process::test_kill_process_group(id).is_ok())
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        // The leader is reaped, so the group's number alone proves nothing: the
        // mark decides.
        if let Some(group) = self.group.filter(|_| self.lives()) {
            marked::kill_all(&self.mark, marked::Scope::Group(group));
        }
    }
}

impl ExitWatch {
    fn of(id: Option<Pid>) -> Self {
        let open = |id| rustix::process::pidfd_open(id, rustix::process::PidfdFlags::NONBLOCK);
        let pidfd = id.and_then(|id| open(id).ok()).and_then(register);
        pidfd.map_or(Self::Wait, Self::Pidfd)
    }
}

#[expect(unsafe_code, reason = "tokio has no safe way to register a descriptor")]
fn register(descriptor: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open, owned by the `AsyncFd` and never exchanged.
    unsafe { AsyncFd::register(descriptor) }.ok()
}

#[expect(unsafe_code, reason = "a session of its own can only be made between fork and exec")]
fn own_session(command: &mut Command) {
    // SAFETY: `setsid` is async-signal-safe and the closure allocates nothing.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from));
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
