use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    future::poll_fn,
    io,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use haft_process::ProcessOwner;
use haft_tool::BoxFuture;
use haft_types::{EnvVars, text};
use tokio::{
    io::AsyncWrite,
    process::{ChildStdin, ChildStdout, Command},
    sync::Notify,
};

use super::{
    Connector, OutgoingMessage, PeerInbox, Transport, TransportError,
    process::{ServerPipes, ServerProcess},
};
use crate::jsonrpc::{LineReader, ServerLine};

/// Command of a local server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StdioCommand {
    /// Program name or path, looked up as by a shell.
    pub program: String,
    pub args: Vec<String>,
    /// Environment variables added to the inherited ones.
    pub env: BTreeMap<String, String>,
    /// Working directory; default: that of this process.
    pub cwd: Option<PathBuf>,
    /// Variables that may be inherited; default: those of this process.
    pub variables: Option<EnvVars>,
    /// Which of them are inherited.
    pub inherit: InheritEnv,
    /// The actual server program, if `program` is a wrapper such as a sandbox.
    pub held: Option<String>,
}

/// Returns a search path for a program that is not on `PATH`. May block for seconds; called on a
/// blocking thread.
pub type ProgramFallback = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// Which variables a server inherits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum InheritEnv {
    /// All except credentials that Haft uses itself. A server that needs one of those gets it by name in
    /// its configuration.
    #[default]
    WithoutOwnCredentials,
    /// Only what every program needs: `PATH`, home, locale, temporary directory.
    Basics,
}

const BASICS: &[&str] = &[
    "HOME",
    "LANG",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
];

impl InheritEnv {
    fn keeps(self, name: &str) -> bool {
        match self {
            Self::WithoutOwnCredentials => true,
            Self::Basics => {
                let prefixed = ["LC_", "XDG_"].iter().any(|prefix| name.starts_with(prefix));
                prefixed || BASICS.contains(&name)
            }
        }
    }
}

impl StdioCommand {
    fn variables(&self) -> EnvVars {
        self.variables.clone().unwrap_or_else(EnvVars::of_process)
    }

    /// Returns the program that is missing on the search path, if one is. Reads the disk.
    fn missing(&self) -> Option<&str> {
        let program = self.held.as_deref().unwrap_or(&self.program);
        let path = match self.env.get("PATH") {
            Some(path) => Some(OsString::from(path)),
            None => self.variables().os_text("PATH"),
        };
        let path = path.unwrap_or_default();
        let mut dirs = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
        let is_there = |dir: PathBuf| {
            let about = std::fs::metadata(dir.join(program));
            about.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
        };
        let is_found = program.contains('/') || dirs.any(is_there);
        (!is_found).then_some(program)
    }

    fn command(&self, path: Option<OsString>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear();
        let variables = self.variables();
        let kept =
            variables.inherited().filter(|(name, _)| name.to_str().is_none_or(|it| self.inherit.keeps(it)));
        command.envs(kept).env("CLAUDECODE", "1").envs(&self.env);
        command.envs(path.map(|path| ("PATH", path)));
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }
}

/// Starts one process per connection and communicates over its pipes.
pub(crate) struct StdioConnector {
    pub(crate) server: String,
    pub(crate) command: StdioCommand,
    pub(crate) processes: Arc<ProcessOwner>,
    pub(crate) further_path: Option<ProgramFallback>,
}

impl StdioConnector {
    /// Returns the search path for a program that is not on `PATH`, if known.
    async fn further_path(&self) -> Option<OsString> {
        let (further, command) = (self.further_path.clone()?, self.command.clone());
        let found = tokio::task::spawn_blocking(move || further(command.missing()?));
        found.await.ok().flatten()
    }

    /// Starts the server. If its program is not found, tries the extended search path. A wrapper would
    /// start successfully, so with one the search path is looked up first.
    async fn start(&self, inbox: &PeerInbox) -> io::Result<(ServerProcess, ServerPipes)> {
        let start = |path: Option<OsString>| {
            ServerProcess::start(&self.processes, &self.server, self.command.command(path), inbox)
        };
        if self.command.held.is_some() {
            return start(self.further_path().await);
        }
        let problem = match start(None) {
            Err(problem) if is_not_there(&problem) => problem,
            started => return started,
        };
        match self.further_path().await {
            None => Err(problem),
            path => start(path),
        }
    }
}

/// Whether the error means that the program was not found.
fn is_not_there(problem: &io::Error) -> bool {
    matches!(problem.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

impl Connector for StdioConnector {
    fn open(&self, inbox: PeerInbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let started = self.start(&inbox).await;
            let (process, pipes) = started.map_err(|err| {
                let program = &self.command.program;
                TransportError::Failed(format!(
                    "cannot start `{program}`: {err}. Is it installed and on the PATH?"
                ))
            })?;
            Ok(Stdio::open(process, pipes, inbox) as Arc<dyn Transport>)
        })
    }
}

/// Maximum bytes queued for a server that does not read its input.
const MAX_BACKLOG_BYTES: usize = 64 << 20;

struct Stdio {
    process: Arc<ServerProcess>,
    input: Arc<StdioInput>,
}

/// The pipe to the server's input.
struct StdioInput {
    outbox: Mutex<Outbox>,
    more: Notify,
    inbox: PeerInbox,
}

struct Outbox {
    /// `None` after an error or after closing.
    pipe: Option<ChildStdin>,
    /// Data the pipe did not accept yet; the first item may be partly written.
    backlog: VecDeque<Vec<u8>>,
    written: usize,
    bytes: usize,
}

impl Stdio {
    fn open(process: ServerProcess, pipes: ServerPipes, inbox: PeerInbox) -> Arc<Self> {
        let process = Arc::new(process);
        let outbox = Outbox { pipe: Some(pipes.stdin), backlog: VecDeque::new(), written: 0, bytes: 0 };
        let input =
            Arc::new(StdioInput { outbox: Mutex::new(outbox), more: Notify::new(), inbox: inbox.clone() });
        // The tasks hold weak references: the process ends with the transport.
        tokio::spawn(read(pipes.stdout, Arc::downgrade(&process), inbox));
        tokio::spawn(Arc::clone(&input).write());
        Arc::new(Self { process, input })
    }
}

impl Transport for Stdio {
    fn send(&self, message: OutgoingMessage) -> Result<(), String> {
        let mut line = serde_json::to_vec(&message.message).map_err(|err| err.to_string())?;
        line.push(b'\n');
        self.input.push(line)
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.input.close();
        let process = Arc::clone(&self.process);
        Box::pin(async move { process.stop().await })
    }

    fn pid(&self) -> Option<u32> {
        Some(self.process.pid())
    }

    fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.input.close();
    }
}

impl StdioInput {
    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Vec<u8>) -> Result<(), String> {
        let mut outbox = self.outbox();
        if outbox.pipe.is_none() {
            return Err(CLOSED_INPUT.to_owned());
        }
        if MAX_BACKLOG_BYTES < outbox.bytes + line.len() {
            return Err(String::from("the server does not read its input"));
        }
        let idle = outbox.backlog.is_empty();
        outbox.bytes += line.len();
        outbox.backlog.push_back(line);
        // The pipe nearly always has room: writing here avoids a task switch.
        if idle && outbox.poll_drain(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.more.notify_one();
        }
        if outbox.pipe.is_none() {
            drop(outbox);
            self.broken();
            return Err(CLOSED_INPUT.to_owned());
        }
        Ok(())
    }

    /// Handles a broken input pipe. If the server has exited, its exit is reported shortly; if it still
    /// runs, it is unusable.
    fn broken(&self) {
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(2 * LAST_WORDS).await;
            inbox.closed(CLOSED_INPUT);
        });
    }

    fn close(&self) {
        self.outbox().pipe = None;
        self.more.notify_one();
    }

    /// Writes queued data until the pipe is closed.
    async fn write(self: Arc<Self>) {
        loop {
            self.more.notified().await;
            poll_fn(|cx| self.outbox().poll_drain(cx)).await;
            if self.outbox().pipe.is_none() {
                // Also reached after closing the pipe here, when the result is ignored.
                self.broken();
                return;
            }
        }
    }
}

impl Outbox {
    /// Writes as much as the pipe accepts.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(front) = self.backlog.front() {
            let Some(pipe) = self.pipe.as_mut() else { break };
            match Pin::new(pipe).poll_write(cx, &front[self.written..]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => self.pipe = None,
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    self.bytes -= count;
                    if self.written == front.len() {
                        self.written = 0;
                        self.backlog.pop_front();
                    }
                }
            }
        }
        Poll::Ready(())
    }
}

const CLOSED_INPUT: &str = "the server has closed its input";

/// How long to read remaining output after the process has exited.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Delivers the server's output to the inbox until it ends.
async fn read(stdout: ChildStdout, process: Weak<ServerProcess>, inbox: PeerInbox) {
    let mut lines = LineReader::new(stdout);
    let exit = exit_of(&process);
    tokio::pin!(exit);
    let mut last_words = None;
    loop {
        let line = tokio::select! {
            biased;
            line = lines.next() => line,
            () = &mut exit, if last_words.is_none() => {
                // A grandchild may keep the pipe open.
                last_words = Some(tokio::time::Instant::now() + LAST_WORDS);
                continue;
            }
            () = wait_until(last_words), if last_words.is_some() => break,
        };
        match line {
            Ok(Some(ServerLine::Messages(values))) => {
                values.into_iter().for_each(|value| inbox.deliver(value))
            }
            Ok(Some(ServerLine::Unreadable { id, problem })) => inbox.unreadable(id, problem),
            Ok(Some(ServerLine::Noise(line))) => inbox.noise(&line),
            Ok(None) | Err(_) => break,
        }
    }
    inbox.closed(obituary(&process).await);
}

async fn wait_until(moment: Option<tokio::time::Instant>) {
    if let Some(moment) = moment {
        tokio::time::sleep_until(moment).await;
    }
}

async fn exit_of(process: &Weak<ServerProcess>) {
    let exit = process.upgrade().map(|it| it.exit());
    if let Some(mut exit) = exit {
        let _ = exit.wait_for(Option::is_some).await;
    }
}

/// Describes how the server exited, with its last output.
async fn obituary(process: &Weak<ServerProcess>) -> String {
    let Some(process) = process.upgrade() else { return String::from("the connection was closed") };
    let (how, log) = match process.exit_within(LAST_WORDS).await {
        Some(how) => (format!("the server {how}"), process.final_log().await),
        None => (String::from("the server closed its output"), process.log_tail()),
    };
    let last: Vec<&str> = log.lines().rev().take(5).collect();
    if last.is_empty() {
        return how;
    }
    let last: Vec<&str> = last.into_iter().rev().collect();
    format!("{how}; it last wrote: {}", text::tail(&last.join(" | "), 400))
}
