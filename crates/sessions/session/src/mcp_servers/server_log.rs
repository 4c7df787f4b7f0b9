//! Logs of MCP servers, for `haft mcp logs`.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use haft_mcp_client::{McpManager, ServerEvent, ServerState, ServerStatus, WeakMcpManager};
use tokio::{
    sync::{
        Notify,
        broadcast::{
            self,
            error::{RecvError, TryRecvError},
        },
    },
    task::JoinHandle,
};

/// Maximum size in bytes; a larger log loses its older half.
const LONGEST: u64 = 256 * 1024;

/// Path of a server's log.
pub fn journal_path(state: &Path, server: &str) -> PathBuf {
    let name: String =
        server.chars().map(|it| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' }).collect();
    state.join("mcp").join("logs").join(format!("{name}.log"))
}

/// Writes the logs while the session runs, so that they survive a kill.
pub(crate) struct ServerLog {
    done: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// Maximum time for writing the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Maximum number of events per write.
const TOGETHER: usize = 512;

impl ServerLog {
    /// Logs events of the manager's servers from now on, in a background task.
    pub(crate) fn keep(manager: &McpManager, state: PathBuf) -> Self {
        let done = Arc::new(Notify::new());
        let keeper = ServerLogWriter {
            events: manager.events(),
            manager: manager.downgrade(),
            state,
            done: Arc::clone(&done),
        };
        let task = tokio::spawn(keeper.keep());
        Self { done, task: Mutex::new(Some(task)) }
    }

    /// Waits until the last lines are written.
    pub(crate) async fn finish(&self) {
        self.done.notify_one();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            tokio::time::timeout(LAST_LINES, task).await.ok();
        }
    }
}

struct ServerLogWriter {
    events: broadcast::Receiver<ServerEvent>,
    manager: WeakMcpManager,
    state: PathBuf,
    done: Arc<Notify>,
}

impl ServerLogWriter {
    async fn keep(mut self) {
        loop {
            let first = tokio::select! {
                event = self.events.recv() => match event {
                    Err(RecvError::Closed) => return,
                    other => Some(other),
                },
                () = self.done.notified() => None,
            };
            let ends = first.is_none();
            let mut lines = BTreeMap::<String, Vec<String>>::new();
            if let Some(Ok(event)) = first {
                self.note(event, &mut lines);
            }
            for _ in 0..TOGETHER {
                match self.events.try_recv() {
                    Ok(event) => self.note(event, &mut lines),
                    // Missed events are lost; the newest matter most.
                    Err(TryRecvError::Lagged(_)) => (),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            for (server, lines) in &lines {
                append(&journal_path(&self.state, server), lines);
            }
            if ends {
                return;
            }
        }
    }

    fn note(&self, event: ServerEvent, lines: &mut BTreeMap<String, Vec<String>>) {
        let (server, said) = match event {
            ServerEvent::State { server, state } => {
                let status = self.manager.upgrade().map(|it| it.status()).unwrap_or_default();
                let status = status.into_iter().find(|it| it.name == server);
                (server, state_lines(&state, status.as_ref()))
            }
            ServerEvent::Output { server, line } => (server, vec![format!("stderr: {line}")]),
            ServerEvent::Log { server, level, message } => (server, vec![format!("[{level}] {message}")]),
            _ => return,
        };
        lines.entry(server).or_default().extend(said);
    }
}

/// Log lines about a state of a server.
fn state_lines(state: &ServerState, status: Option<&ServerStatus>) -> Vec<String> {
    let word = match state {
        ServerState::Cached => return Vec::new(),
        ServerState::Disabled => String::from("stopped"),
        ServerState::Connecting => String::from("starting"),
        ServerState::Ready => match status.and_then(|it| Some((it.connect_time?, it.tools))) {
            Some((took, tools)) => format!("ready after {} ms, {tools} tools", took.as_millis()),
            None => String::from("ready"),
        },
        ServerState::Restarting { attempt } => format!("ended; start {attempt} follows"),
        ServerState::NeedsAuth => String::from("asks for a login"),
        ServerState::Failed => String::from("failed"),
    };
    let why = match state {
        ServerState::Failed | ServerState::Restarting { .. } => status.and_then(|it| it.last_error.clone()),
        _ => None,
    };
    [word].into_iter().chain(why).collect()
}

/// Appends lines. Errors are ignored: only the lines are lost.
fn append(path: &Path, lines: &[String]) {
    let Some(directory) = path.parent().filter(|_| !lines.is_empty()) else { return };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).ok();
    shorten(path);
    let Ok(mut file) = OpenOptions::new().create(true).append(true).mode(0o600).open(path) else { return };
    let now = httpdate::fmt_http_date(SystemTime::now());
    let text: String = lines.iter().map(|line| format!("{now}  {line}\n")).collect();
    file.write_all(text.as_bytes()).ok();
}

fn shorten(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|it| LONGEST < it.len())
        && let Ok(text) = std::fs::read_to_string(path)
    {
        let half = haft_types::text::tail(&text, text.len() / 2);
        let whole_lines = half.split_once('\n').map_or(half, |(_, rest)| rest);
        std::fs::write(path, whole_lines).ok();
    }
}
