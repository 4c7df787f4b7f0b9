//! A hook's processes, owned: none of them outlives its time.
//!
//! The hook runs in a session of its own, so it has no terminal. How its
//! processes are found and ended is the business of [`ProcessTree`]; this says
//! when.

use std::{
    io,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use haft_process::{
    OnParentKilled, ProcessOwner, ProcessPurpose, ProcessTree, ProcessTreeOptions, SpawnIntent, TreeIsolation,
};
use rustix::process::Signal;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// How long a hook may tidy up after SIGTERM. Short, because a timeout is a
/// promise to the person who waits.
const GRACE: Duration = Duration::from_millis(50);

/// How long to wait for a killed process to be gone. Only one that sits in the
/// kernel, on a dead network disk for instance, takes longer.
const DEATH: Duration = Duration::from_millis(50);

/// A hook as lists of processes name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookName<'a> {
    pub(crate) id: &'a str,
    pub(crate) command: &'a str,
}

/// A running hook. Dropping it kills everything it started, unless its leader
/// has ended by itself and was waited for.
#[derive(Debug)]
pub(crate) struct HookGroup {
    /// Taken when the group goes. Dropped before the child, which pins the
    /// number of the leader until then.
    tree: Option<ProcessTree>,
    child: Child,
    reaped: bool,
}

/// The ends of a hook's pipes.
pub(crate) struct HookPipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl HookGroup {
    /// Starts a command in its own session.
    pub(crate) fn spawn(
        owner: &Arc<ProcessOwner>,
        name: HookName<'_>,
        mut command: Command,
    ) -> io::Result<(Self, HookPipes)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let about =
            SpawnIntent { purpose: ProcessPurpose::Hook, call: name.id, command: name.command, task: "" };
        let plan = ProcessTreeOptions {
            about,
            isolation: TreeIsolation::OwnSession,
            after_kill: OnParentKilled::NextSession,
        };
        let (tree, mut child) = ProcessTree::spawn(owner, plan, command)?;
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let group = Self { child, tree: Some(tree), reaped: false };
        let ((stdin, stdout), stderr) = pipes.ok_or_else(|| io::Error::other("the pipes are missing"))?;
        Ok((group, HookPipes { stdin, stdout, stderr }))
    }

    /// Returns when the leader has ended. Safe to cancel.
    pub(crate) async fn exited(&mut self) {
        if let Some(tree) = &self.tree {
            tree.exited().await;
        }
    }

    /// Takes the leader's status. Call after [`HookGroup::exited`].
    pub(crate) async fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = match &self.tree {
            Some(tree) => tree.reap(&mut self.child).await,
            None => self.child.wait().await,
        };
        self.reaped = true;
        status
    }

    /// Ends everything: politely, then not.
    pub(crate) async fn stop(&mut self) {
        self.tree.as_ref().inspect(|tree| tree.signal_group(Signal::TERM));
        let _ended = tokio::time::timeout(GRACE, self.exited()).await;
        self.tree.as_ref().inspect(|tree| tree.kill());
        let _ended = tokio::time::timeout(DEATH, self.exited()).await;
        let _reaped = tokio::time::timeout(DEATH, self.reap()).await;
    }

    /// What lives on in the group after its leader was reaped.
    pub(crate) fn into_leftover(mut self) -> Option<HookStragglers> {
        let tree = self.tree.take_if(|tree| tree.lives_in_group())?;
        Some(HookStragglers(Some(tree)))
    }
}

impl Drop for HookGroup {
    fn drop(&mut self) {
        // A leader that was not waited for was given up by its caller: the tree
        // kills what is left. Otherwise the hook has ended, and what left its
        // group meanwhile did so on purpose.
        if self.reaped
            && let Some(tree) = self.tree.take()
        {
            tree.release();
        }
    }
}

/// What a hook left running when its leader ended, allowed until its time is
/// up. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct HookStragglers(Option<ProcessTree>);

impl HookStragglers {
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
        self.0.as_ref().is_some_and(ProcessTree::lives_in_group)
    }
}

impl Drop for HookStragglers {
    fn drop(&mut self) {
        // The leader is reaped, so the group's number alone proves nothing: the
        // mark decides.
        if let Some(tree) = self.0.take() {
            if tree.lives_in_group() {
                tree.kill_in_group();
            }
            tree.release();
        }
    }
}
