use std::{
    collections::VecDeque,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, kill_process_group, prlimit};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::watch,
};

use super::{Inbox, guardian};

/// How long a server has to leave after the end of its input, and then after
/// the polite signal.
const LEAVE_ON_EOF: Duration = Duration::from_millis(500);
const LEAVE_ON_TERM: Duration = Duration::from_millis(800);
const LEAVE_ON_KILL: Duration = Duration::from_secs(2);

/// A server process with everything it started.
///
/// **Invariant:** when this is dropped, or when we are killed, the process, its
/// group and whatever carries its mark are gone.
pub(super) struct ServerProcess {
    pid: u32,
    mark: String,
    exit: watch::Receiver<Option<String>>,
    log: Arc<Mutex<LogTail>>,
}

/// The pipes of a fresh process.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

impl ServerProcess {
    /// Starts `command` as the leader of a group of its own.
    pub(super) fn start(mut command: Command, inbox: &Inbox) -> std::io::Result<(Self, Pipes)> {
        let mark = fresh_mark();
        guardian::expect(&mark);
        command
            .env(guardian::MARKER, &mark)
            .process_group(0)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().inspect_err(|_| guardian::forget(&mark))?;
        let pid = child.id().unwrap_or_default();
        put_tag(pid, &mark);
        guardian::watch(&mark, pid);
        let log = Arc::<Mutex<LogTail>>::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(collect(stderr, Arc::clone(&log), inbox.clone()));
        }
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let process = Self { pid, mark, exit: reap(child), log };
        match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => Ok((process, Pipes { stdin, stdout })),
            _ => Err(std::io::Error::other("the process has no pipes")),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// The last lines of the error output.
    pub(super) fn log_tail(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    /// Says how it ended, once it has.
    pub(super) fn exit(&self) -> watch::Receiver<Option<String>> {
        self.exit.clone()
    }

    /// Waits a moment for the exit and says how it was.
    pub(super) async fn exit_within(&self, patience: Duration) -> Option<String> {
        let mut exit = self.exit.clone();
        let ended = tokio::time::timeout(patience, exit.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(status)) => status.clone(),
            // The reaper went with its runtime, and the process with it.
            Ok(Err(_)) => Some(String::from("exited")),
            Err(_) => None,
        }
    }

    /// Ends the process and everything it started. Its input is closed already.
    pub(super) async fn stop(&self) {
        if self.exit_within(LEAVE_ON_EOF).await.is_none() {
            self.signal_group(Signal::TERM);
            if self.exit_within(LEAVE_ON_TERM).await.is_none() {
                self.signal_group(Signal::KILL);
                self.exit_within(LEAVE_ON_KILL).await;
            }
        }
        self.sweep();
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// What is left of the group, and what left the group.
    fn sweep(&self) {
        self.signal_group(Signal::KILL);
        for pid in marked_processes(&self.mark) {
            let _ = kill_process(pid, Signal::KILL);
        }
        guardian::forget(&self.mark);
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.sweep();
    }
}

/// Waits for the process in a task of its own, so that it never stays a zombie.
fn reap(mut child: Child) -> watch::Receiver<Option<String>> {
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        let status = child.wait().await;
        let _ = sender.send(Some(status.map_or_else(|err| err.to_string(), describe)));
    });
    receiver
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => String::from("ended"),
    }
}

/// A limit of real-time CPU time from here on limits nothing: 73,000 years.
const NO_LIMIT: u64 = 1 << 61;
/// How many different marks there are.
const MARKS: u64 = 1 << 48;

/// A number below the limit we have ourselves, which may be the mark of somebody
/// who started us.
fn fresh_mark() -> String {
    use std::hash::{BuildHasher, Hasher};
    // Unique, not secret: the standard hasher's random keys are enough.
    let random = std::hash::RandomState::new().build_hasher().finish();
    let ours = getrlimit(Resource::Rttime).maximum.unwrap_or(u64::MAX >> 1).min(u64::MAX >> 1);
    ours.max(NO_LIMIT + MARKS).saturating_sub(1 + random % MARKS).to_string()
}

/// The mark is in the environment, which a process may drop, and a limit that
/// limits nothing, which nobody drops and every child inherits. Where the
/// system does not let us, the environment has to do.
fn put_tag(pid: u32, mark: &str) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let (Some(pid), Ok(tag)) = (pid, mark.parse::<u64>()) {
        let limit = Rlimit { current: Some(tag), maximum: Some(tag) };
        let _ = prlimit(Some(pid), Resource::Rttime, limit);
    }
}

fn has_tag(pid: i32, mark: &str) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let line = limits.lines().find(|it| it.starts_with("Max realtime timeout"));
    line.is_some_and(|it| it.split_whitespace().any(|word| word == mark))
}

/// Processes that carry the mark. Only where `/proc` exists.
fn marked_processes(mark: &str) -> Vec<Pid> {
    let wanted = format!("{}={mark}", guardian::MARKER);
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()) || has_tag(*pid, mark)
    })
    .filter_map(Pid::from_raw)
    .collect()
}

/// How much of the error output is kept.
const LOG_LINES: usize = 100;
const LOG_LINE_CHARS: usize = 500;

#[derive(Default)]
struct LogTail(VecDeque<String>);

impl LogTail {
    fn push(&mut self, line: &str) {
        if LOG_LINES <= self.0.len() {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    fn text(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Reads until the end whatever comes: a full pipe would block the server.
async fn collect(stderr: impl AsyncRead + Unpin, log: Arc<Mutex<LogTail>>, inbox: Inbox) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let Ok(available) = reader.fill_buf().await else { return };
        if available.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', available);
        let used = end.map_or(available.len(), |at| at + 1);
        // Four bytes per character at most; the rest of a long line is dropped.
        let room = (4 * LOG_LINE_CHARS).saturating_sub(line.len());
        line.extend_from_slice(&available[..used.min(room)]);
        reader.consume(used);
        if end.is_some() {
            push_line(&log, &line, &inbox);
            line.clear();
        }
    }
    push_line(&log, &line, &inbox);
}

fn push_line(log: &Mutex<LogTail>, line: &[u8], inbox: &Inbox) {
    let text = String::from_utf8_lossy(line);
    if !text.trim().is_empty() {
        let text = haft_types::text::head(text.trim_end(), LOG_LINE_CHARS);
        log.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        inbox.logged(text);
    }
}
