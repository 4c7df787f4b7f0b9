use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use haft_process::{Lifetime, Process, ProcessOwner};
use haft_sandbox::{Confinement, ReadOnlySandbox};
use haft_types::{AgentId, CallId};
use tokio::sync::{Notify, oneshot, watch};

use crate::{
    output::{Excerpt, Mark, OutputView, Spool, binary_kind, excerpt},
    run::pty,
};

/// A command to run.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// The tool call it belongs to.
    pub call: CallId,
    /// The agent that made the call.
    pub agent: AgentId,
    /// The exact text that bash runs.
    pub command: String,
    /// Working directory; must exist.
    pub cwd: PathBuf,
    /// Timeout of the command, counted from its start.
    pub limit: Duration,
    /// Variables set only for this command.
    pub variables: Vec<(String, String)>,
    /// How long its processes may live.
    pub lifetime: Lifetime,
    /// The sandbox, if any.
    pub confinement: Option<Arc<Confinement>>,
    /// The read-only sandbox, for commands believed to only read; then `confinement` is `None`.
    pub reading: Option<Arc<ReadOnlySandbox>>,
    /// Directories that its `rm` refuses to remove, together with their ancestors, whatever its
    /// arguments expand to.
    pub precious: Vec<PathBuf>,
    /// Descriptor that it inherits as number 3, to communicate with us.
    pub channel: Option<Arc<OwnedFd>>,
    /// Whether it gets a terminal.
    pub terminal: TerminalMode,
}

/// Terminal of a command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TerminalMode {
    /// No terminal and no input.
    #[default]
    None,
    /// A terminal of its own; [`Job::send`] types into it.
    Own,
}

/// Why a command was stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// The turn was interrupted.
    Interrupted,
    /// The timeout expired.
    TimedOut,
    /// It exceeded the output limit.
    OutputLimit,
    /// It waited for input from a terminal it does not have.
    WantsTerminal,
    /// A user or agent requested it.
    Asked,
}

/// How the process ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Exit {
    /// Exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// It could not be started; the reason.
    NotStarted(String),
    /// Its exit status is unknown; the reason.
    Lost(String),
    /// It was signalled and has not exited yet.
    Ending,
    /// For a [`FeedJob`]: how it was closed.
    Closed(String),
}

/// Final working directory of the shell.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FinalCwd {
    At(PathBuf),
    /// A directory that was deleted.
    Gone,
    /// Unknown: the shell was killed, replaced itself with `exec`, or the script set its own exit trap.
    Untold,
}

/// Result of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobEnd {
    /// How the process ended.
    pub exit: Exit,
    /// Why we stopped it, if we did.
    pub stopped: Option<Stop>,
    /// Run time.
    pub elapsed: Duration,
    /// Final working directory.
    pub cwd: FinalCwd,
    /// Processes it left running.
    pub left: Vec<Process>,
    /// Whether it was killed for exceeding its memory limit.
    pub out_of_memory: bool,
    /// Sandbox violations, as far as they are known.
    pub violations: Vec<String>,
}

/// State of a command.
#[derive(Clone, Debug)]
pub enum JobPhase {
    /// Its shell runs.
    Running,
    /// Its shell has exited; its other processes may still run and print.
    Ended(Arc<JobEnd>),
    /// No process is left. Never [`Exit::Ending`], unless a process cannot be killed.
    Gone(Arc<JobEnd>),
}

/// Handle of a command. Clones refer to the same job.
#[derive(Clone, Debug)]
pub struct Job(pub(crate) Arc<SharedJob>);

#[derive(Debug)]
pub(crate) struct SharedJob {
    pub(crate) id: String,
    pub(crate) spec: JobSpec,
    pub(crate) owner: Arc<ProcessOwner>,
    pub(crate) started: Instant,
    pub(crate) spool: Mutex<Spool>,
    pub(crate) phase: watch::Sender<JobPhase>,
    pub(crate) printed: watch::Sender<u64>,
    pub(crate) control: Mutex<ControlState>,
    /// Written to when `control` changes. `None` when no process is left: jobs are kept for the whole
    /// session, descriptors are not.
    pub(crate) wake: Mutex<Option<Arc<OwnedFd>>>,
    /// Descriptor to pass to the command as number 3, until it is started.
    pub(crate) channel: Mutex<Option<Arc<OwnedFd>>>,
    /// Notified when `control` changes, for async waiters.
    pub(crate) asked: Notify,
    /// The terminal for input, while the command runs.
    pub(crate) keyboard: Mutex<Option<OwnedFd>>,
}

#[derive(Debug)]
pub(crate) struct ControlState {
    pub(crate) stop: Option<Stop>,
    pub(crate) stop_at: Option<Instant>,
    /// Request to send SIGINT, like Ctrl-C.
    pub(crate) interrupt: bool,
    /// Callers that wait until everything printed so far is in the spool.
    pub(crate) flush: Vec<oneshot::Sender<()>>,
}

impl SharedJob {
    pub(crate) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, ControlState> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The supervisor's wake-up descriptor; `None` when the command is gone.
    pub(crate) fn wake_descriptor(&self) -> Option<Arc<OwnedFd>> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Marks the command as gone and closes its descriptors.
    pub(crate) fn mark_gone(&self, end: Arc<JobEnd>) {
        for held in [&self.wake, &self.channel] {
            held.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        self.keyboard().take();
        self.phase.send_replace(JobPhase::Gone(end));
    }

    pub(crate) fn keyboard(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.keyboard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    /// Task id for users and models.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The command as requested.
    pub fn spec(&self) -> &JobSpec {
        &self.0.spec
    }

    /// Run time so far, or total.
    pub fn elapsed(&self) -> Duration {
        self.end().map_or_else(|| self.0.started.elapsed(), |end| end.elapsed)
    }

    pub fn phase(&self) -> JobPhase {
        self.0.phase.borrow().clone()
    }

    /// The result, once the shell has exited.
    pub fn end(&self) -> Option<Arc<JobEnd>> {
        match self.phase() {
            JobPhase::Running => None,
            JobPhase::Ended(end) | JobPhase::Gone(end) => Some(end),
        }
    }

    /// Waits until the shell has exited.
    pub async fn ended(&self) -> Arc<JobEnd> {
        let mut phase = self.0.phase.subscribe();
        loop {
            if let JobPhase::Ended(end) | JobPhase::Gone(end) = &*phase.borrow_and_update() {
                return Arc::clone(end);
            }
            if phase.changed().await.is_err() {
                return Arc::new(JobEnd::lost(self.0.started.elapsed()));
            }
        }
    }

    /// Waits until no process is left.
    pub async fn gone(&self) {
        let mut phase = self.0.phase.subscribe();
        while !matches!(&*phase.borrow_and_update(), JobPhase::Gone(_)) {
            if phase.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until more than `bytes` bytes were printed, or the command has ended.
    pub async fn printed_more_than(&self, bytes: u64) {
        let mut printed = self.0.printed.subscribe();
        let waiting = async {
            while *printed.borrow_and_update() <= bytes {
                if printed.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = waiting => {}
            _ = self.ended() => {}
        }
    }

    /// Stops the command: SIGTERM, then SIGKILL after a second. Returns at once. The first reason given
    /// is kept.
    pub fn stop(&self, why: Stop) {
        self.0.control().stop.get_or_insert(why);
        self.wake();
    }

    /// Sends SIGINT to its process group, like Ctrl-C. The command may continue.
    pub fn interrupt(&self) {
        self.0.control().interrupt = true;
        self.wake();
    }

    /// Waits until everything printed so far is readable.
    pub async fn flush(&self) {
        let (sender, receiver) = oneshot::channel();
        self.0.control().flush.push(sender);
        self.wake();
        tokio::select! {
            _ = receiver => {}
            () = self.gone() => {}
        }
    }

    /// Changes the timeout, counted from the start of the command.
    pub fn set_limit(&self, limit: Duration) {
        self.0.control().stop_at = self.0.started.checked_add(limit);
        self.wake();
    }

    fn wake(&self) {
        self.0.asked.notify_one();
        if let Some(wake) = self.0.wake_descriptor() {
            rustix::io::write(wake, &1_u64.to_ne_bytes()).ok();
        }
    }

    /// How much was printed.
    pub fn printed(&self) -> Mark {
        let spool = self.0.spool();
        Mark { bytes: spool.total(), lines: spool.newlines() }
    }

    /// The last printed lines, cleaned of control sequences.
    pub fn recent_lines(&self, lines: usize) -> Vec<String> {
        let recent = self.0.spool().recent().to_vec();
        let text = crate::output::clean(&recent);
        let mut last: Vec<String> = text.lines().rev().take(lines).map(str::to_owned).collect();
        last.reverse();
        last
    }

    /// Excerpt of the output.
    pub fn read(&self, view: OutputView) -> Excerpt {
        excerpt(&self.0.spool(), view)
    }

    /// The first raw bytes of the output.
    pub fn raw_head(&self, most: u64) -> Vec<u8> {
        self.0.spool().read_range(0..most).unwrap_or_default()
    }

    /// Up to `most` contiguous raw bytes from position `from` or, if that was dropped, from the first
    /// kept byte after it. Returns the start position and the bytes.
    pub fn raw_from(&self, from: u64, most: u64) -> (u64, Vec<u8>) {
        let spool = self.0.spool();
        let (mut start, mut end) = (from, from.saturating_add(most));
        if let Some(hole) = spool.hole() {
            if hole.contains(&start) {
                start = hole.end;
                end = start.saturating_add(most);
            } else if start < hole.start {
                end = end.min(hole.start);
            }
        }
        (start, spool.read_range(start..end).unwrap_or_default())
    }

    /// Type of a binary output; `None` for text.
    pub fn binary_kind(&self) -> Option<String> {
        binary_kind(&self.0.spool())
    }

    /// Writes the output to disk if necessary and returns the file.
    pub fn persist(&self) -> std::io::Result<PathBuf> {
        self.0.spool().persist().map(PathBuf::from)
    }

    /// The output file, if it is on disk.
    pub fn file(&self) -> Option<PathBuf> {
        self.0.spool().file().map(PathBuf::from)
    }

    /// Number of dropped bytes, and why the output could not be kept completely.
    pub fn loss(&self) -> (u64, Option<String>) {
        let spool = self.0.spool();
        (spool.dropped(), spool.trouble().map(str::to_owned))
    }

    /// Types into the command's terminal. Waits a few seconds for space in the terminal's buffer. Fails
    /// if the command has no terminal or has ended.
    pub async fn send(&self, bytes: Vec<u8>) -> std::io::Result<()> {
        let keyboard = {
            let keyboard = self.0.keyboard();
            keyboard.as_ref().map(OwnedFd::try_clone).transpose()?
        };
        let Some(keyboard) = keyboard else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        tokio::task::spawn_blocking(move || pty::type_all(&keyboard, &bytes)).await?
    }

    /// Whether the terminal echoes input, which programs switch off for passwords and full-screen
    /// interfaces.
    pub fn echoes(&self) -> bool {
        self.0.keyboard().as_ref().is_some_and(pty::echoes)
    }

    /// Waits until the command has printed more than `printed` bytes and then nothing for `pause` (it
    /// probably waits for input), or has ended, or `patience` has passed.
    pub async fn settled(&self, printed: u64, pause: Duration, patience: Duration) {
        let quiet = async {
            let mut seen = printed;
            self.printed_more_than(seen).await;
            while self.end().is_none() {
                seen = self.printed().bytes;
                let more = self.printed_more_than(seen);
                if tokio::time::timeout(pause, more).await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(patience, quiet).await.ok();
    }

    /// Lets its processes outlive the session.
    pub fn detach(&self) -> std::io::Result<bool> {
        self.0.owner.detach(&self.0.spec.call)
    }
}

impl JobEnd {
    /// For a command whose supervisor has died; a bug.
    fn lost(elapsed: Duration) -> Self {
        Self {
            exit: Exit::Lost(String::from("its supervisor is gone")),
            stopped: None,
            elapsed,
            cwd: FinalCwd::Untold,
            left: Vec::new(),
            out_of_memory: false,
            violations: Vec::new(),
        }
    }

    /// Whether it exited with 0 and was not stopped.
    pub fn is_success(&self) -> bool {
        matches!(self.exit, Exit::Code(0) | Exit::Closed(_)) && self.stopped.is_none()
    }
}

/// Writing end of a job without a process: external lines, stored and limited like output of a command.
#[derive(Debug)]
pub struct FeedJob(pub(crate) Arc<SharedJob>);

impl FeedJob {
    /// Appends bytes.
    pub fn write(&self, bytes: &[u8]) {
        let mut spool = self.0.spool();
        spool.write(bytes);
        self.0.printed.send_replace(spool.total());
        if spool.is_over_limit() {
            self.0.control().stop.get_or_insert(Stop::OutputLimit);
            self.0.asked.notify_one();
        }
    }

    /// Waits until the job is stopped or its timeout expires.
    pub async fn asked_to_stop(&self) -> Stop {
        loop {
            let (stop, stop_at) = {
                let control = self.0.control();
                (control.stop, control.stop_at)
            };
            if let Some(why) = stop {
                return why;
            }
            let time = async {
                match stop_at {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.0.asked.notified() => {}
                () = time => return Stop::TimedOut,
            }
        }
    }

    /// Ends the job.
    pub fn end(self, how: String, stopped: Option<Stop>) {
        self.0.spool().settle();
        let end = JobEnd {
            exit: Exit::Closed(how),
            stopped,
            elapsed: self.0.started.elapsed(),
            cwd: FinalCwd::Untold,
            left: Vec::new(),
            out_of_memory: false,
            violations: Vec::new(),
        };
        self.0.mark_gone(Arc::new(end));
    }
}
