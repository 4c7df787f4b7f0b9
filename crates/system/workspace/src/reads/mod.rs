//! Tracks which agent has seen which file content.
//!
//! An edit requires that the agent has seen the text, and replacing a whole file that it has seen all of
//! it. Both are decided by content, not by timestamps: hashes of the file and its lines are kept for the
//! whole session.

mod freshness;
mod printed_lines;
mod recent_contents;
mod seen_lines;
mod shown_calls;

use std::{
    collections::HashMap,
    fmt,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
};

use haft_types::{AgentId, CallId};
use serde::{Deserialize, Serialize};

pub use freshness::{Freshness, WholeFileSeen, count_lines};
pub(crate) use printed_lines::printed_lines;
use recent_contents::RecentReads;
use seen_lines::SeenFile;
pub use seen_lines::{LineHash, line_print};
use shown_calls::ShownReads;

use crate::{ContentHash, FileSnapshot, OpenFile};

/// Which results the next model request still contains. Implemented by the code that builds the request.
pub trait ContextView: Send + Sync {
    /// Whether the complete result of a call will be in the agent's next request.
    fn holds(&self, agent: &AgentId, call: &CallId) -> bool;
}

/// No result is known to be in the request, so everything is shown again.
#[derive(Clone, Copy, Debug)]
pub struct EmptyContextView;

impl ContextView for EmptyContextView {
    fn holds(&self, _agent: &AgentId, _call: &CallId) -> bool {
        false
    }
}

/// Every result stays in the request, as when calls are replayed.
#[derive(Clone, Copy, Debug)]
pub struct FullContextView;

impl ContextView for FullContextView {
    fn holds(&self, _agent: &AgentId, _call: &CallId) -> bool {
        true
    }
}

/// Who reads, and by which call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadBy {
    /// The agent; read state is per agent.
    pub agent: AgentId,
    /// The call whose result shows the text.
    pub call: CallId,
}

/// Lines of a file that were shown.
#[derive(Clone, Debug)]
pub struct LinesView<'a> {
    /// Resolved path.
    pub path: &'a Path,
    /// Hash of the whole file, if known.
    pub version: Option<ContentHash>,
    /// Number of the first line, from 1.
    pub first: u64,
    /// The lines that were shown completely.
    pub lines: Vec<&'a str>,
    /// Number of lines in the file.
    pub total: u64,
    /// Whether part of the range was omitted, so that it does not count as known.
    pub clipped: bool,
    /// The whole text, if available; known lines of an earlier version are located in it.
    pub text: Option<&'a str>,
}

/// Session log record of a view, to restore the read state.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SeenRecord {
    /// Resolved path.
    #[serde(with = "crate::journal::path_serde")]
    pub path: PathBuf,
    /// Hash of the whole file, if it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ContentHash>,
    /// Number of the first line.
    pub first: u64,
    /// Number of lines shown.
    pub count: u64,
    /// Number of lines in the file.
    pub total: u64,
    /// Whether part of the range was omitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clipped: bool,
}

/// An event for listeners such as language servers, indexes and conditional skills.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FileEvent {
    /// A file was read.
    Read { path: PathBuf, viewer: ReadBy },
    /// A file was changed or created.
    Changed { path: PathBuf, viewer: ReadBy },
}

type FileEventListener = Arc<dyn Fn(&FileEvent) + Send + Sync>;

/// Read state of all agents of a session.
pub struct ReadState {
    files: Mutex<HashMap<(AgentId, PathBuf), SeenFile>>,
    shown: Mutex<ShownReads>,
    recent: Mutex<RecentReads>,
    context: Box<dyn ContextView>,
    listeners: RwLock<Vec<FileEventListener>>,
    /// The agent that last wrote each file, with the hash.
    writers: Mutex<HashMap<PathBuf, (AgentId, ContentHash)>>,
    naming: OnceLock<AgentNameFn>,
}

/// Maps an agent id to its display name.
type AgentNameFn = Box<dyn Fn(&AgentId) -> String + Send + Sync>;

impl fmt::Debug for ReadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadState").finish_non_exhaustive()
    }
}

impl ReadState {
    pub fn new(context: impl ContextView + 'static) -> Self {
        Self {
            files: Mutex::default(),
            shown: Mutex::default(),
            recent: Mutex::default(),
            context: Box::new(context),
            listeners: RwLock::default(),
            writers: Mutex::default(),
            naming: OnceLock::new(),
        }
    }

    /// Registers a listener for reads and changes. It must not block.
    pub fn listen(&self, listener: impl Fn(&FileEvent) + Send + Sync + 'static) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(listener));
    }

    /// Notifies the listeners.
    pub fn notify(&self, event: &FileEvent) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(event);
        }
    }

    fn with<T>(&self, agent: &AgentId, path: &Path, act: impl FnOnce(&mut SeenFile) -> T) -> T {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(files.entry((agent.clone(), path.to_owned())).or_default());
        forget_texts(&mut files, path);
        result
    }

    fn peek<T>(&self, agent: &AgentId, path: &Path, look: impl FnOnce(Option<&SeenFile>) -> T) -> T {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        look(files.get(&(agent.clone(), path.to_owned())))
    }

    /// Snapshot of a file whose whole content was just read.
    pub fn snapshot(&self, file: OpenFile, bytes: &[u8]) -> FileSnapshot {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = recent.hash(file.path(), bytes);
        drop(recent);
        FileSnapshot::new(file, hash)
    }

    /// Records that lines were shown. Returns the record for the session log.
    pub fn saw(&self, viewer: &ReadBy, view: &LinesView<'_>) -> SeenRecord {
        self.with(&viewer.agent, view.path, |seen| seen.add(view));
        let count = view.lines.len() as u64;
        if !view.clipped {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.add(viewer, view);
        }
        SeenRecord {
            path: view.path.to_owned(),
            version: view.version,
            first: view.first,
            count,
            total: view.total,
            clipped: view.clipped,
        }
    }

    /// Records lines as known without registering a Read that a later one could refer to, such as lines
    /// in an error message.
    pub fn knows(&self, viewer: &ReadBy, view: &LinesView<'_>) {
        self.with(&viewer.agent, view.path, |seen| seen.add(view));
    }

    /// Restores a record of the session log. Lines count as known while the file is unchanged.
    pub fn restore(&self, viewer: &ReadBy, record: &SeenRecord) {
        self.with(&viewer.agent, &record.path, |seen| seen.restore(record));
    }

    /// Records that the agent wrote this content and therefore knows all of it.
    pub fn wrote(&self, viewer: &ReadBy, path: &Path, version: ContentHash, view: &str) {
        self.with(&viewer.agent, path, |seen| seen.replace(version, view));
        self.note_writer(viewer, path, version);
    }

    /// Records edits by the agent. It knows the new lines; other lines stay known or unknown.
    pub fn edited(&self, viewer: &ReadBy, path: &Path, version: ContentHash, edits: &[LineEdit<'_>]) {
        self.with(&viewer.agent, path, |seen| seen.edit(version, edits));
        self.note_writer(viewer, path, version);
    }

    fn note_writer(&self, viewer: &ReadBy, path: &Path, version: ContentHash) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.insert(path.to_owned(), (viewer.agent.clone(), version));
    }

    /// Sets the display names of agents. Only the first call has an effect.
    pub fn name_agents(&self, naming: impl Fn(&AgentId) -> String + Send + Sync + 'static) {
        self.naming.set(Box::new(naming)).ok();
    }

    /// Display name of the writer of the current content, seen from `viewer`: another agent of the
    /// session, or "someone else".
    pub fn writer(&self, viewer: &AgentId, path: &Path, version: ContentHash) -> String {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = writers.get(path).filter(|(agent, wrote)| agent != viewer && *wrote == version);
        match writer {
            None => String::from("someone else"),
            Some((AgentId::Main, _)) => String::from("the main agent"),
            Some((agent, _)) => {
                let name = self.naming.get().map_or_else(|| agent.to_string(), |naming| naming(agent));
                format!("the agent {name}")
            }
        }
    }

    /// Whether another agent of the session wrote the file after `viewer` last saw it.
    pub fn is_outdated(&self, viewer: &AgentId, path: &Path) -> bool {
        let Some(seen) = self.seen_version(viewer, path) else { return false };
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(path).is_some_and(|(agent, wrote)| agent != viewer && *wrote != seen)
    }

    /// Whether an agent may edit lines of the current content, given what it has seen.
    pub fn freshness(
        &self,
        agent: &AgentId,
        path: &Path,
        current: &CurrentFile<'_>,
        lines: &Range<u64>,
    ) -> Freshness {
        self.peek(agent, path, |seen| freshness::freshness(seen, current, lines))
    }

    /// Hash of the content the agent last saw, if known.
    pub fn seen_version(&self, agent: &AgentId, path: &Path) -> Option<ContentHash> {
        self.peek(agent, path, |seen| seen.and_then(|it| it.version))
    }

    /// The text when the agent last saw all of it, if it is small.
    pub fn seen_text(&self, agent: &AgentId, path: &Path) -> Option<Arc<str>> {
        self.peek(agent, path, |seen| seen.and_then(|it| it.text.clone()))
    }

    /// Whether the agent has seen all of the current content.
    pub fn whole_seen(&self, agent: &AgentId, path: &Path, current: &CurrentFile<'_>) -> WholeFileSeen {
        self.peek(agent, path, |seen| freshness::whole_seen(seen, current))
    }

    /// An earlier call whose result shows at least these lines of the same content and is still in the
    /// request. `None` if the agent saw other content of the file in between.
    pub fn still_shown(&self, agent: &AgentId, view: &LinesView<'_>) -> Option<CallId> {
        if view.version.is_some() && self.seen_version(agent, view.path) != view.version {
            return None;
        }
        let calls = {
            let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.covering(agent, view)
        };
        calls.into_iter().find(|call| self.context.holds(agent, call))
    }
}

/// Maximum bytes of stored texts.
const KEPT_TEXTS: usize = 16 * 1024 * 1024;

/// Drops texts beyond the limit, except that of this file. Line hashes remain; only error messages
/// become less specific.
fn forget_texts(files: &mut HashMap<(AgentId, PathBuf), SeenFile>, path: &Path) {
    let mut total: usize = files.values().map(SeenFile::text_len).sum();
    for ((_, other), seen) in files.iter_mut() {
        if total <= KEPT_TEXTS {
            return;
        }
        if other != path {
            total -= seen.text_len();
            seen.forget_text();
        }
    }
}

/// The current content of a file.
#[derive(Clone, Copy, Debug)]
pub struct CurrentFile<'a> {
    /// Hash of the whole file.
    pub version: ContentHash,
    /// The text as shown to the model.
    pub view: &'a str,
}

/// Replacement of some lines.
#[derive(Clone, Debug)]
pub struct LineEdit<'a> {
    /// Range in the old content, from 1.
    pub old: Range<u64>,
    /// The new lines.
    pub new: Vec<&'a str>,
}
