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
    /// The call it belongs to.
    pub call: CallId,
    /// The agent that called.
    pub agent: AgentId,
    /// Exactly what bash gets.
    pub command: String,
    /// Where it runs. Must exist.
    pub cwd: PathBuf,
    /// When it is stopped at the latest.
    pub limit: Duration,
    /// Variables of this command alone.
    pub variables: Vec<(String, String)>,
    /// How long what it starts may live.
    pub lifetime: Lifetime,
    /// What holds it.
    pub confinement: Option<Arc<Confinement>>,
    /// What holds it where it is believed to only read; no confinement then.
    pub reading: Option<Arc<ReadOnlySandbox>>,
    /// Directories its `rm` refuses to remove, whatever the words become when it
    /// runs: these and everything above them.
    pub precious: Vec<PathBuf>,
    /// A descriptor of ours it gets as its number three, to talk with us.
    pub channel: Option<Arc<OwnedFd>>,
    /// Whether somebody can type.
    pub terminal: TerminalMode,
}

/// What a command finds where people sit at a keyboard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TerminalMode {
    /// Nobody: no terminal, and no input.
    #[default]
    None,
    /// A terminal of its own; [`Job::send`] types.
    Own,
}

/// Why a command was stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// The turn was interrupted.
    Interrupted,
    /// It took too long.
    TimedOut,
    /// It printed too much.
    OutputLimit,
    /// It waited for somebody at a terminal, and there is none.
    WantsTerminal,
    /// Somebody asked for it.
    Asked,
}

/// What became of the process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It could not be started.
    NotStarted(String),
    /// It ran, and how it ended is not known.
    Lost(String),
    /// It was told to end and has not done so yet.
    Ending,
    /// It was a feed, and this is how it closed.
    Closed(String),
}

/// Where the shell was in the end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FinalCwd {
    /// Here.
    At(PathBuf),
    /// In a directory that is gone.
    Gone,
    /// It did not tell: it was killed, replaced itself, or its script has an
    /// exit trap of its own.
    Untold,
}

/// How a command ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobEnd {
    /// What became of the process.
    pub exit: Exit,
    /// Why we stopped it, if we did.
    pub stopped: Option<Stop>,
    /// How long it ran.
    pub elapsed: Duration,
    /// Where the shell was.
    pub cwd: FinalCwd,
    /// What it started and left running.
    pub left: Vec<Process>,
    /// Whether it was ended for taking more memory than it may.
    pub out_of_memory: bool,
    /// What it did or tried that its walls do not allow, as far as they tell.
    pub violations: Vec<String>,
}

/// How far a command is.
#[derive(Clone, Debug)]
pub enum JobPhase {
    /// Its shell runs.
    Running,
    /// Its shell has ended; what it left behind may still run and print.
    Ended(Arc<JobEnd>),
    /// Nothing of it is left. Never [`Exit::Ending`] unless the kernel holds on to it.
    Gone(Arc<JobEnd>),
}

/// A command that runs, or ran. Clones are the same job.
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
    /// Written to when `control` changed. Closed when nothing of the command is
    /// left: jobs are remembered as long as the session, descriptors are not.
    pub(crate) wake: Mutex<Option<Arc<OwnedFd>>>,
    /// What it is to get as its number three, until it has it.
    pub(crate) channel: Mutex<Option<Arc<OwnedFd>>>,
    /// The same for those who wait otherwise.
    pub(crate) asked: Notify,
    /// Where to type, as long as it runs.
    pub(crate) keyboard: Mutex<Option<OwnedFd>>,
}

#[derive(Debug)]
pub(crate) struct ControlState {
    pub(crate) stop: Option<Stop>,
    pub(crate) stop_at: Option<Instant>,
    /// Somebody wants the foreground of the command interrupted, as from a
    /// keyboard.
    pub(crate) interrupt: bool,
    /// Those who wait until everything printed so far is in the spool.
    pub(crate) flush: Vec<oneshot::Sender<()>>,
}

impl SharedJob {
    pub(crate) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, ControlState> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a supervisor hears that `control` changed; nothing once all is over.
    pub(crate) fn wake_descriptor(&self) -> Option<Arc<OwnedFd>> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nothing of it is left, and nothing of ours is kept open for it.
    pub(crate) fn be_gone(&self, end: Arc<JobEnd>) {
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
    /// Its name for people and models.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// What was asked for.
    pub fn spec(&self) -> &JobSpec {
        &self.0.spec
    }

    /// How long it has been running, or ran.
    pub fn elapsed(&self) -> Duration {
        self.end().map_or_else(|| self.0.started.elapsed(), |end| end.elapsed)
    }

    /// How far it is.
    pub fn phase(&self) -> JobPhase {
        self.0.phase.borrow().clone()
    }

    /// How it ended, if it did.
    pub fn end(&self) -> Option<Arc<JobEnd>> {
        match self.phase() {
            JobPhase::Running => None,
            JobPhase::Ended(end) | JobPhase::Gone(end) => Some(end),
        }
    }

    /// Waits until its shell has ended.
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

    /// Waits until nothing of it is left.
    pub async fn gone(&self) {
        let mut phase = self.0.phase.subscribe();
        while !matches!(&*phase.borrow_and_update(), JobPhase::Gone(_)) {
            if phase.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until it has printed more than this many bytes, or has ended.
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

    /// Tells it to end: politely, and after a second not so. Returns at once.
    pub fn stop(&self, why: Stop) {
        self.0.control().stop.get_or_insert(why);
        self.wake();
    }

    /// Interrupts what it does, as from a keyboard. It may go on.
    pub fn interrupt(&self) {
        self.0.control().interrupt = true;
        self.wake();
    }

    /// Waits until everything it has printed so far can be read.
    pub async fn flush(&self) {
        let (sender, receiver) = oneshot::channel();
        self.0.control().flush.push(sender);
        self.wake();
        tokio::select! {
            _ = receiver => {}
            () = self.gone() => {}
        }
    }

    /// Changes when it is stopped at the latest.
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

    /// How much it has printed.
    pub fn printed(&self) -> Mark {
        let spool = self.0.spool();
        Mark { bytes: spool.total(), lines: spool.newlines() }
    }

    /// The last few lines it printed, clean.
    pub fn recent_lines(&self, lines: usize) -> Vec<String> {
        let recent = self.0.spool().recent().to_vec();
        let text = crate::output::clean(&recent);
        let mut last: Vec<String> = text.lines().rev().take(lines).map(str::to_owned).collect();
        last.reverse();
        last
    }

    /// What fits a view of what it printed.
    pub fn read(&self, view: OutputView) -> Excerpt {
        excerpt(&self.0.spool(), view)
    }

    /// The raw beginning of what it printed.
    pub fn raw_head(&self, most: u64) -> Vec<u8> {
        self.0.spool().read_range(0..most).unwrap_or_default()
    }

    /// What it printed and was kept from here on, in one piece, and where that
    /// piece begins.
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

    /// What it printed is this kind of data and no text.
    pub fn binary_kind(&self) -> Option<String> {
        binary_kind(&self.0.spool())
    }

    /// Puts what it printed on disk, if it is not there yet, and says where.
    pub fn persist(&self) -> std::io::Result<PathBuf> {
        self.0.spool().persist().map(PathBuf::from)
    }

    /// Where what it printed is on disk.
    pub fn file(&self) -> Option<PathBuf> {
        self.0.spool().file().map(PathBuf::from)
    }

    /// Why some of what it printed could not be kept, and how many bytes are
    /// missing.
    pub fn loss(&self) -> (u64, Option<String>) {
        let spool = self.0.spool();
        (spool.dropped(), spool.trouble().map(str::to_owned))
    }

    /// Types this at its terminal. Waits a few seconds for room if it does not
    /// read.
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

    /// Whether its terminal shows what is typed, as it does unless a program asks
    /// for a password or takes every key itself.
    pub fn echoes(&self) -> bool {
        self.0.keyboard().as_ref().is_some_and(pty::echoes)
    }

    /// Waits until it has printed more than this many bytes and then nothing for
    /// a while, as a program does that waits for an answer; or has ended; or
    /// until patience is at its end.
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

    /// Lets what it starts go on after the session.
    pub fn detach(&self) -> std::io::Result<bool> {
        self.0.owner.detach(&self.0.spec.call)
    }
}

impl JobEnd {
    /// Of a command whose supervisor is gone; should not happen.
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

    /// Whether it ran to its end and nothing says that it failed.
    pub fn is_success(&self) -> bool {
        matches!(self.exit, Exit::Code(0) | Exit::Closed(_)) && self.stopped.is_none()
    }
}

/// The writing end of a job without a process: lines from elsewhere, kept and
/// bounded as if a command had printed them.
#[derive(Debug)]
pub struct FeedJob(pub(crate) Arc<SharedJob>);

impl FeedJob {
    /// Takes the next bytes.
    pub fn write(&self, bytes: &[u8]) {
        let mut spool = self.0.spool();
        spool.write(bytes);
        self.0.printed.send_replace(spool.total());
        if spool.is_over_limit() {
            self.0.control().stop.get_or_insert(Stop::OutputLimit);
            self.0.asked.notify_one();
        }
    }

    /// Waits until somebody wants it to end, or its time is up.
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

    /// Ends it.
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
        self.0.be_gone(Arc::new(end));
    }
}
