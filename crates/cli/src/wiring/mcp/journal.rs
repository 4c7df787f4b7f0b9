//! What happened to servers, kept for `haft mcp logs`.

use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use haft_mcp::{Event, Manager, ServerState, ServerStatus};
use tokio::sync::broadcast::error::RecvError;

/// A longer one loses its older half.
const LONGEST: u64 = 256 * 1024;

/// Where the journal of a server is.
pub(crate) fn journal_path(state: &Path, server: &str) -> PathBuf {
    let name: String =
        server.chars().map(|it| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' }).collect();
    state.join("mcp").join("logs").join(format!("{name}.log"))
}

/// The journals of one session. Clones write the same ones.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Kept>);

struct Kept {
    state: PathBuf,
    /// What of every server's own output is written already.
    told: Mutex<HashMap<String, String>>,
}

impl Journal {
    /// Writes down what happens to the manager's servers from now on.
    pub(crate) fn keep(manager: &Manager, state: PathBuf) -> Self {
        let journal = Self(Arc::new(Kept { state, told: Mutex::default() }));
        let (mut events, weak, me) = (manager.events(), manager.downgrade(), journal.clone());
        tokio::spawn(async move {
            loop {
                let event = match events.recv().await {
                    Ok(event) => event,
                    Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => return,
                };
                let Some(manager) = weak.upgrade() else { return };
                me.note(&manager, event);
            }
        });
        journal
    }

    fn note(&self, manager: &Manager, event: Event) {
        match event {
            Event::State { server, state } => {
                if let Some(status) = manager.status().into_iter().find(|it| it.name == server) {
                    let mut lines = state_lines(&state, &status);
                    lines.extend(self.output_lines(&status));
                    self.append(&server, &lines);
                }
            }
            Event::Log { server, level, message } => self.append(&server, &[format!("[{level}] {message}")]),
            _ => (),
        }
    }

    /// The session is over: what servers wrote last.
    pub(crate) fn finish(&self, manager: &Manager) {
        for status in manager.status() {
            self.append(&status.name, &self.output_lines(&status));
        }
    }

    /// What the server itself wrote since the last time.
    fn output_lines(&self, status: &ServerStatus) -> Vec<String> {
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.insert(status.name.clone(), status.log_tail.clone()).unwrap_or_default();
        let fresh = status.log_tail.strip_prefix(before.as_str()).unwrap_or(&status.log_tail);
        fresh.lines().filter(|it| !it.trim().is_empty()).map(|it| format!("stderr: {it}")).collect()
    }

    fn append(&self, server: &str, lines: &[String]) {
        append(&journal_path(&self.0.state, server), lines);
    }
}

/// The state in words, and why.
fn state_lines(state: &ServerState, status: &ServerStatus) -> Vec<String> {
    let word = match state {
        ServerState::Cached => return Vec::new(),
        ServerState::Disabled => String::from("stopped"),
        ServerState::Connecting => String::from("starting"),
        ServerState::Ready => match status.connect_time {
            Some(took) => format!("ready after {} ms, {} tools", took.as_millis(), status.tools),
            None => String::from("ready"),
        },
        ServerState::Restarting { attempt } => format!("ended; start {attempt} follows"),
        ServerState::NeedsAuth => String::from("asks for a login"),
        ServerState::Failed => String::from("failed"),
    };
    let why = match state {
        ServerState::Failed | ServerState::Restarting { .. } => status.last_error.clone(),
        _ => None,
    };
    [word].into_iter().chain(why).collect()
}

/// Losing a line of the journal costs nobody anything but the line.
fn append(path: &Path, lines: &[String]) {
    let Some(directory) = path.parent().filter(|_| !lines.is_empty()) else { return };
    std::fs::create_dir_all(directory).ok();
    shorten(path);
    let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) else { return };
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
