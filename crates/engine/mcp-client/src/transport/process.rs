use std::{
    collections::VecDeque,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_process::{
    OnParentKilled, ProcessOwner, ProcessPurpose, ProcessTree, ProcessTreeOptions, SpawnIntent, TreeIsolation,
};
use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::watch,
};

use super::PeerInbox;

/// How long to wait for a server to exit after closing its input, and again after SIGTERM.
const LEAVE_ON_EOF: Duration = Duration::from_millis(500);
const LEAVE_ON_TERM: Duration = Duration::from_millis(800);
const LEAVE_ON_KILL: Duration = Duration::from_secs(2);

/// How long to wait for the end of the error output after an exit. Only a descendant that outlives the
/// server and shares its error output takes that long.
const LAST_OUTPUT: Duration = Duration::from_millis(400);

/// A server process and its descendants.
///
/// **Invariant:** when this is dropped, or Haft is killed, the process and its descendants are killed.
pub(super) struct ServerProcess {
    tree: Arc<ProcessTree>,
    exit: watch::Receiver<Option<String>>,
    log: Arc<Mutex<LogTail>>,
    /// Closed when the error output has been read to its end.
    error_output: watch::Receiver<()>,
}

pub(super) struct ServerPipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

impl ServerProcess {
    /// Starts `command` as the leader of its own process group, recorded under the server's name.
    pub(super) fn start(
        owner: &Arc<ProcessOwner>,
        server: &str,
        mut command: Command,
        inbox: &PeerInbox,
    ) -> std::io::Result<(Self, ServerPipes)> {
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let line = command_line(&command);
        let about = SpawnIntent { purpose: ProcessPurpose::Server, call: server, command: &line, task: "" };
        let plan = ProcessTreeOptions {
            about,
            isolation: TreeIsolation::NoTerminal,
            after_kill: OnParentKilled::Guardian,
        };
        let (tree, mut child) = ProcessTree::spawn(owner, plan, command)?;
        let log = Arc::<Mutex<LogTail>>::default();
        let (reading, error_output) = watch::channel(());
        if let Some(stderr) = child.stderr.take() {
            let (log, inbox) = (Arc::clone(&log), inbox.clone());
            tokio::spawn(async move {
                collect(stderr, log, inbox).await;
                drop(reading);
            });
        }
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let tree = Arc::new(tree);
        let process = Self { exit: reap(child, Arc::clone(&tree)), tree, log, error_output };
        match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => Ok((process, ServerPipes { stdin, stdout })),
            _ => Err(std::io::Error::other("the process has no pipes")),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.tree.pid()
    }

    /// Returns the last lines of the error output.
    pub(super) fn log_tail(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    /// Returns the last lines of the error output after an exit, reading it to the end first, because it
    /// explains the exit.
    pub(super) async fn final_log(&self) -> String {
        let mut error_output = self.error_output.clone();
        tokio::time::timeout(LAST_OUTPUT, error_output.changed()).await.ok();
        self.log_tail()
    }

    /// Receives the exit status once the process has exited.
    pub(super) fn exit(&self) -> watch::Receiver<Option<String>> {
        self.exit.clone()
    }

    /// Waits up to `patience` for the exit and returns its status.
    pub(super) async fn exit_within(&self, patience: Duration) -> Option<String> {
        let mut exit = self.exit.clone();
        let ended = tokio::time::timeout(patience, exit.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(status)) => status.clone(),
            // The runtime was shut down, which also killed the process.
            Ok(Err(_)) => Some(String::from("exited")),
            Err(_) => None,
        }
    }

    /// Stops the process and its descendants. The caller has closed its input.
    pub(super) async fn stop(&self) {
        if self.exit_within(LEAVE_ON_EOF).await.is_none() {
            self.tree.signal_group(Signal::TERM);
            if self.exit_within(LEAVE_ON_TERM).await.is_none() {
                self.tree.signal_group(Signal::KILL);
                self.exit_within(LEAVE_ON_KILL).await;
            }
        }
        self.tree.kill();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The reaper task holds the process tree too, so dropping is not enough.
        self.tree.kill();
    }
}

fn command_line(command: &Command) -> String {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Waits for the process in a task of its own, so that it does not stay a zombie.
fn reap(mut child: Child, tree: Arc<ProcessTree>) -> watch::Receiver<Option<String>> {
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        let status = tree.reap(&mut child).await;
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

/// Maximum lines kept of the error output.
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

/// Reads the error output to its end; a full pipe would block the server.
async fn collect(stderr: impl AsyncRead + Unpin, log: Arc<Mutex<LogTail>>, inbox: PeerInbox) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let Ok(available) = reader.fill_buf().await else { return };
        if available.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', available);
        let used = end.map_or(available.len(), |at| at + 1);
        // At most four bytes per character; the rest of a long line is dropped.
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

fn push_line(log: &Mutex<LogTail>, line: &[u8], inbox: &PeerInbox) {
    let text = String::from_utf8_lossy(line);
    if !text.trim().is_empty() {
        let text = haft_types::text::head(text.trim_end(), LOG_LINE_CHARS);
        log.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        inbox.logged(text);
    }
}
