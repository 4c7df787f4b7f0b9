//! Processes of a hook: none outlives its timeout.
//!
//! A hook runs in a session of its own without a terminal. [`ProcessTree`] finds and kills its
//! processes; this module decides when.

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

/// Time a hook has to clean up after SIGTERM. Short, because the user waits for a timeout.
const GRACE: Duration = Duration::from_millis(50);

/// Maximum wait for a killed process to disappear; only one stuck in the kernel (such as on a dead
/// network disk) takes longer.
const DEATH: Duration = Duration::from_millis(50);

/// Name of a hook in process lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookName<'a> {
    pub(crate) id: &'a str,
    pub(crate) command: &'a str,
}

/// A running hook. Dropping it kills all its processes, unless its leader has exited and was reaped.
#[derive(Debug)]
pub(crate) struct HookGroup {
    /// Dropped before the child, whose existence reserves the leader's pid until then.
    tree: Option<ProcessTree>,
    child: Child,
    reaped: bool,
}

/// Our ends of a hook's pipes.
pub(crate) struct HookPipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl HookGroup {
    /// Starts a command in a session of its own.
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

    /// Returns when the leader has exited. Cancel-safe.
    pub(crate) async fn exited(&mut self) {
        if let Some(tree) = &self.tree {
            tree.exited().await;
        }
    }

    /// Reaps the leader. Call after [`HookGroup::exited`].
    pub(crate) async fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = match &self.tree {
            Some(tree) => tree.reap(&mut self.child).await,
            None => self.child.wait().await,
        };
        self.reaped = true;
        status
    }

    /// Ends all processes: SIGTERM, then SIGKILL after 50 ms.
    pub(crate) async fn stop(&mut self) {
        self.tree.as_ref().inspect(|tree| tree.signal_group(Signal::TERM));
        let _ended = tokio::time::timeout(GRACE, self.exited()).await;
        self.tree.as_ref().inspect(|tree| tree.kill());
        let _ended = tokio::time::timeout(DEATH, self.exited()).await;
        let _reaped = tokio::time::timeout(DEATH, self.reap()).await;
    }

    /// Processes left in the group after the leader was reaped.
    pub(crate) fn into_leftover(mut self) -> Option<HookStragglers> {
        let tree = self.tree.take_if(|tree| tree.lives_in_group())?;
        Some(HookStragglers(Some(tree)))
    }
}

impl Drop for HookGroup {
    fn drop(&mut self) {
        // If the leader was not reaped, the hook was abandoned and the tree kills everything. Otherwise
        // the hook has ended, and processes that left its group are kept.
        if self.reaped
            && let Some(tree) = self.tree.take()
        {
            tree.release();
        }
    }
}

/// Processes left running when the hook's leader exited, allowed until its timeout. Dropping it kills
/// them.
#[derive(Debug)]
pub(crate) struct HookStragglers(Option<ProcessTree>);

impl HookStragglers {
    /// Waits until the deadline or until no process is left.
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
        // The leader was reaped, so the group id may be reused: the process tag decides.
        if let Some(tree) = self.0.take() {
            if tree.lives_in_group() {
                tree.kill_in_group();
            }
            tree.release();
        }
    }
}
