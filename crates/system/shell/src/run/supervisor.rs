//! Supervises a command: one thread from its start until no process is left.

use std::{
    os::fd::{AsRawFd as _, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_process::{ProcessId, ProcessOwner, ProcessTag, describe, timespec};
use haft_sandbox::SandboxCleanup;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid},
};

use crate::run::job::{Exit, FinalCwd, JobEnd, JobPhase, SharedJob, Stop, TerminalMode};

/// Time to read remaining output after the shell has exited.
const DRAIN: Duration = Duration::from_millis(50);
/// Time after which a stopped command is reported, ended or not.
const REPORT: Duration = Duration::from_millis(200);
/// Time between SIGTERM and SIGKILL; shorter after a timeout.
const TIMEOUT: Duration = Duration::from_secs(1);
const SHORT_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum time to kill processes; survivors are stuck in the kernel.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Polling interval while stopping.
const LOOK: Duration = Duration::from_millis(20);
/// Interval of checks whether a silent command waits for input: at first, and later.
const WATCH: Duration = Duration::from_millis(500);
const WATCH_LATER: Duration = Duration::from_secs(5);
/// Messages of editors that continue without a terminal.
const WATCHED_WORDS: [&[u8]; 1] = [b"Warning: Input is not from a terminal"];
/// Polling interval for remaining processes if nothing reports their end.
const LOOK_AT_LEFT: Duration = Duration::from_secs(5);
/// Commands that run longer may be in the background: files they create against the sandbox policy are
/// removed at once instead of at their end.
const UNATTENDED: Duration = Duration::from_secs(5);

fn contains(text: &[u8], words: &[u8]) -> bool {
    text.len() < 8_192 && text.windows(words.len()).any(|it| it == words)
}

/// A started process and our ends of its pipes.
pub(crate) struct StartedJob {
    pub(crate) pid: Pid,
    pub(crate) root: ProcessId,
    pub(crate) mark: ProcessTag,
    /// Pipe with its output.
    pub(crate) output: OwnedFd,
    /// Pipe with the final working directory; closed when no process holds it any more.
    pub(crate) status: OwnedFd,
    /// Control group with its memory limit.
    pub(crate) cgroup: Option<crate::run::cgroup::Cgroup>,
    /// Cleanup of its sandbox.
    pub(crate) guard: Option<SandboxCleanup>,
}

pub(crate) struct Supervisor {
    shared: Arc<SharedJob>,
    process: StartedJob,
    /// Readable when `control` changed.
    wake: Arc<OwnedFd>,
    shell: ShellHandle,
    output_open: bool,
    exit: Option<(Exit, Instant)>,
    stopping: Option<StopSequence>,
    /// Data read from the status pipe.
    status: Vec<u8>,
    status_open: bool,
    /// The result, once reported.
    end: Option<Arc<JobEnd>>,
    left: Vec<ProcessId>,
    looked: Instant,
    /// Time of the next check whether it waits for input, and bytes printed at the last one.
    watch: (Instant, u64),
    buf: Vec<u8>,
}

struct StopSequence {
    why: Stop,
    since: Instant,
    /// No process was alive at the last check.
    all_gone: bool,
}

/// The shell process until it is reaped; afterwards its pid may be reused.
enum ShellHandle {
    /// Readable when it has exited.
    Pidfd(OwnedFd),
    /// Without pidfd (old kernels, strict filters) it is polled every [`LOOK`].
    Polled,
    Reaped,
}

impl ShellHandle {
    fn of(pid: Pid) -> Self {
        pidfd_open(pid, PidfdFlags::empty()).map_or(Self::Polled, Self::Pidfd)
    }

    fn is_reaped(&self) -> bool {
        matches!(self, Self::Reaped)
    }

    fn is_polled(&self) -> bool {
        matches!(self, Self::Polled)
    }
}

impl Supervisor {
    /// For a running process: must not fail, because nothing else would supervise it.
    pub(crate) fn new(shared: Arc<SharedJob>, process: StartedJob, wake: Arc<OwnedFd>) -> Self {
        Self {
            wake,
            shared,
            shell: ShellHandle::of(process.pid),
            process,
            output_open: true,
            exit: None,
            stopping: None,
            status: Vec::new(),
            status_open: true,
            end: None,
            left: Vec::new(),
            looked: Instant::now(),
            watch: (Instant::now() + WATCH, 0),
            buf: vec![0; 128 << 10],
        }
    }

    pub(crate) fn run(mut self) {
        loop {
            self.obey();
            self.press(Instant::now());
            self.report(Instant::now());
            if self.is_done() {
                break;
            }
            self.wait_for_something();
        }
        if self.stopping.as_ref().is_none_or(|it| it.all_gone) {
            self.shared.owner.forget(&self.process.mark);
        }
        // Once more, for processes that were left running.
        self.take_back();
        drop(self.process.guard.take());
        drop(self.process.cgroup.take());
        self.shared.spool().settle();
        if let Some(mut end) = self.end.take() {
            if let (Exit::Ending, Some((exit, _))) = (&end.exit, self.exit.take()) {
                Arc::make_mut(&mut end).exit = exit;
            }
            self.shared.mark_gone(end);
        }
    }

    /// Handles requests and enforces limits.
    fn obey(&mut self) {
        let (interrupt, flush) = {
            let mut control = self.shared.control();
            (std::mem::take(&mut control.interrupt), std::mem::take(&mut control.flush))
        };
        if interrupt && !self.shell.is_reaped() {
            kill_process_group(self.process.pid, Signal::INT).ok();
        }
        if !flush.is_empty() {
            self.read_output(usize::MAX);
            for waiting in flush {
                waiting.send(()).ok();
            }
        }
        if self.stopping.is_some() {
            return;
        }
        let (asked, stop_at) = {
            let control = self.shared.control();
            (control.stop, control.stop_at)
        };
        // The timeout applies to the shell; processes it left may run as long as the session.
        let stop_at = stop_at.filter(|_| self.exit.is_none());
        let too_long = stop_at.is_some_and(|at| at <= Instant::now()).then_some(Stop::TimedOut);
        let too_much = self.shared.spool().is_over_limit().then_some(Stop::OutputLimit);
        let too_hopeful = self.waits_for_person().then_some(Stop::WantsTerminal);
        if let Some(why) = asked.or(too_much).or(too_long).or(too_hopeful) {
            self.signal(Signal::TERM);
            // A stopped process does not handle signals.
            self.signal(Signal::CONT);
            self.stopping = Some(StopSequence { why, since: Instant::now(), all_gone: false });
        }
    }

    /// Some editors that find no terminal read keys from their standard output, and would wait forever.
    fn waits_for_person(&mut self) -> bool {
        let now = Instant::now();
        if self.exit.is_some() || now < self.watch.0 || self.shared.spec.terminal == TerminalMode::Own {
            return false;
        }
        let (printed, complains) = {
            let spool = self.shared.spool();
            let recent = spool.recent();
            // It prints a warning and continues after a delay.
            (spool.total(), WATCHED_WORDS.iter().any(|words| contains(recent, words)))
        };
        if complains && self.shared.started.elapsed() < WATCH_LATER {
            return true;
        }
        let silent = printed == self.watch.1;
        let pause = if self.shared.started.elapsed() < WATCH_LATER * 2 { WATCH } else { WATCH_LATER };
        self.watch = (now + pause, printed);
        if !silent {
            return false;
        }
        let link = |pid: i32, fd: i32| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok();
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let Some(ours) = link(own, self.process.output.as_raw_fd()) else { return false };
        self.shared.owner.alive(&self.process.mark).iter().any(|id| link(id.pid, 0).as_ref() == Some(&ours))
    }

    /// Continues stopping.
    fn press(&mut self, now: Instant) {
        let Some(stopping) = &self.stopping else { return };
        if stopping.all_gone {
            return;
        }
        let patience = if stopping.why == Stop::TimedOut { SHORT_TIMEOUT } else { TIMEOUT };
        if patience <= now - stopping.since {
            self.signal(Signal::KILL);
        }
        let others = self.shared.owner.alive(&self.process.mark);
        let all_gone = others.iter().all(|id| *id == self.process.root) && self.exit.is_some();
        if let Some(stopping) = &mut self.stopping {
            stopping.all_gone = all_gone;
        }
    }

    fn signal(&self, signal: Signal) {
        // Signal the group directly, as long as its id cannot be reused.
        if !self.shell.is_reaped() {
            kill_process_group(self.process.pid, signal).ok();
        }
        self.shared.owner.signal(&self.process.mark, signal);
    }

    /// Reports the result once it is known.
    fn report(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        let overdue = self.stopping.as_ref().is_some_and(|it| it.all_gone || REPORT <= now - it.since);
        let ended = self.exit.as_ref().is_some_and(|(_, at)| !self.output_open || DRAIN <= now - *at);
        if !(overdue || ended && self.stopping.is_none()) {
            return;
        }
        // On a busy machine, scanning processes may have taken all that time.
        self.reap();
        self.read_output(usize::MAX);
        self.read_status();
        self.look_for_left();
        if self.exit.is_some() && self.left.is_empty() && self.stopping.as_ref().is_none_or(|it| it.all_gone)
        {
            // Before the result is reported, so that the next command sees what this one wrote.
            self.process.guard.as_mut().map(SandboxCleanup::release_layers);
        }
        let (mut exit, at) = self.exit.clone().unwrap_or((Exit::Ending, now));
        if let Some(why) = self.status.strip_prefix(b"!") {
            exit = Exit::NotStarted(format!("the sandbox could not {}", String::from_utf8_lossy(why)));
        }
        let end = Arc::new(JobEnd {
            exit,
            stopped: self.stopping.as_ref().map(|it| it.why),
            elapsed: at - self.shared.started,
            cwd: self.cwd(),
            left: describe(&self.left),
            out_of_memory: self.process.cgroup.as_ref().is_some_and(|it| it.ran_out()),
            violations: self.process.guard.as_ref().map(SandboxCleanup::violations).unwrap_or_default(),
        });
        tracing::debug!(task = self.shared.id, exit = ?end.exit, stopped = ?end.stopped, took = ?end.elapsed, left = end.left.len(), "the command has ended");
        self.end = Some(Arc::clone(&end));
        self.shared.keyboard().take();
        self.shared.phase.send_replace(JobPhase::Ended(end));
    }

    /// Whether no call waits for it, or may stop waiting.
    fn is_unattended(&self) -> bool {
        self.end.is_some() || UNATTENDED <= self.shared.started.elapsed()
    }

    /// Removes files created against the sandbox policy and says so in the output, because the result
    /// may already have been reported.
    fn take_back(&mut self) {
        let lines = self.process.guard.as_ref().map(SandboxCleanup::take_back).unwrap_or_default();
        for line in lines {
            let mut spool = self.shared.spool();
            spool.write(format!("\nblocked by sandbox: {line}\n").as_bytes());
            self.shared.printed.send_replace(spool.total());
        }
    }

    fn is_done(&self) -> bool {
        if self.end.is_none() {
            return false;
        }
        if let Some(stopping) = &self.stopping {
            return stopping.all_gone || GIVE_UP <= stopping.since.elapsed();
        }
        self.left.is_empty()
    }

    fn wait_for_something(&mut self) {
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        let output = self.output_open.then(|| {
            fds.push(PollFd::new(&self.process.output, PollFlags::IN));
            fds.len() - 1
        });
        let ended = if let ShellHandle::Pidfd(handle) = &self.shell {
            fds.push(PollFd::new(handle, PollFlags::IN));
            Some(fds.len() - 1)
        } else {
            None
        };
        // Before the end the pipe may contain a line; after it only closing matters.
        if self.end.is_some() && self.status_open {
            fds.push(PollFd::new(&self.process.status, PollFlags::empty()));
        }
        let guard =
            self.process.guard.as_ref().filter(|_| self.is_unattended()).and_then(SandboxCleanup::watch);
        let created = guard.as_ref().map(|watch| {
            fds.push(PollFd::new(watch, PollFlags::IN));
            fds.len() - 1
        });
        let timeout = self.until_next_look().map(timespec);
        let ready = poll(&mut fds, timeout.as_ref()).is_ok();
        let is_ready = |at: Option<usize>| ready && at.is_some_and(|at| !fds[at].revents().is_empty());
        let (readable, ended, woken) = (is_ready(output), is_ready(ended), is_ready(Some(0)));
        let created = is_ready(created);
        drop(fds);
        if created {
            self.take_back();
        }
        if woken {
            rustix::io::read(&self.wake, &mut [0_u8; 8]).ok();
        }
        if readable {
            self.read_output(8);
        }
        if ended || self.shell.is_polled() {
            self.reap();
        }
        if self.end.is_some()
            && self.stopping.is_none()
            && (!readable || LOOK_AT_LEFT <= self.looked.elapsed())
        {
            self.read_status();
            self.look_for_left();
        }
    }

    fn until_next_look(&self) -> Option<Duration> {
        let now = Instant::now();
        if self.stopping.is_some() || self.shell.is_polled() {
            return Some(LOOK);
        }
        if self.end.is_some() {
            return Some(LOOK_AT_LEFT);
        }
        let drained = self.exit.as_ref().map(|(_, at)| *at + DRAIN);
        let limit = self.shared.control().stop_at.filter(|_| self.exit.is_none());
        let watch = self.exit.is_none().then_some(self.watch.0);
        let guarded = self.process.guard.is_some() && !self.is_unattended();
        let unattended = guarded.then(|| self.shared.started + UNATTENDED);
        let next = drained.into_iter().chain(limit).chain(watch).chain(unattended).min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Reads available output, at most `times` times.
    fn read_output(&mut self, times: usize) {
        for _ in 0..times {
            if !self.output_open {
                return;
            }
            match rustix::io::read(&self.process.output, &mut self.buf[..]) {
                Ok(0) => self.output_open = false,
                Ok(len) => {
                    let mut spool = self.shared.spool();
                    spool.write(&self.buf[..len]);
                    let over = spool.is_over_limit();
                    self.shared.printed.send_replace(spool.total());
                    if over {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.output_open = false,
            }
        }
    }

    fn read_status(&mut self) {
        let mut buf = [0_u8; 4096];
        while self.status_open && self.status.len() < 64 << 10 {
            match rustix::io::read(&self.process.status, &mut buf) {
                Ok(0) => self.status_open = false,
                Ok(len) => self.status.extend_from_slice(&buf[..len]),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn reap(&mut self) {
        if self.shell.is_reaped() {
            return;
        }
        // Wait by pid, which is not reused before; kernels without pidfd have no other way.
        let waited = waitid(WaitId::Pid(self.process.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        let exit = match waited {
            Ok(None) | Err(Errno::INTR) => return,
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, signal) => Exit::Signal(signal.unwrap_or_default()),
            },
            Err(err) => Exit::Lost(err.to_string()),
        };
        self.shell = ShellHandle::Reaped;
        self.exit = Some((exit, Instant::now()));
    }

    /// Finds the processes that still run. Cheap if no pipe is open and no orphan was reparented to us.
    fn look_for_left(&mut self) {
        self.looked = Instant::now();
        let adopted = ProcessOwner::has_adopted(&self.process.mark, self.process.root).unwrap_or(false);
        let held = self.status_open || self.output_open || !self.shell.is_reaped();
        self.left = if held || adopted || !self.left.is_empty() {
            let alive = self.shared.owner.alive(&self.process.mark);
            alive.into_iter().filter(|id| *id != self.process.root).collect()
        } else {
            Vec::new()
        };
    }

    /// The shell writes a dot and then its directory, if it can determine it.
    fn cwd(&self) -> FinalCwd {
        use std::os::unix::ffi::OsStringExt as _;
        let Some(told) = self.status.strip_prefix(b".") else { return FinalCwd::Untold };
        match told.strip_suffix(b"\n") {
            Some(path) if path.starts_with(b"/") => {
                FinalCwd::At(PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())))
            }
            _ => FinalCwd::Gone,
        }
    }
}
