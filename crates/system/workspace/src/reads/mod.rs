//! What has been seen of which file.
//!
//! An edit needs text that the model has seen, and a whole file may only be
//! replaced by someone who has seen all of it. Both are questions about
//! content, never about times: what was seen is remembered as fingerprints of
//! the file and of its lines, for as long as the session lives.

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

/// Which results the next request still contains. Whoever builds the request
/// knows; the read state only asks.
pub trait ContextView: Send + Sync {
    /// Whether the result of that call will be in the agent's next request, in
    /// full.
    fn holds(&self, agent: &AgentId, call: &CallId) -> bool;
}

/// Nothing is known to be in the request, so everything is shown again.
#[derive(Clone, Copy, Debug)]
pub struct EmptyContextView;

impl ContextView for EmptyContextView {
    fn holds(&self, _agent: &AgentId, _call: &CallId) -> bool {
        false
    }
}

/// Every result stays in the request, as in a program that plays calls one
/// after the other.
#[derive(Clone, Copy, Debug)]
pub struct FullContextView;

impl ContextView for FullContextView {
    fn holds(&self, _agent: &AgentId, _call: &CallId) -> bool {
        true
    }
}

/// Who looks, and by which call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadBy {
    /// The agent: what one has seen, another has not.
    pub agent: AgentId,
    /// The call whose result shows it.
    pub call: CallId,
}

/// Lines of a file that were shown.
#[derive(Clone, Debug)]
pub struct LinesView<'a> {
    /// The resolved path.
    pub path: &'a Path,
    /// The content of the whole file, where it is known.
    pub version: Option<ContentHash>,
    /// The first line shown; lines count from one.
    pub first: u64,
    /// Every line that was shown in full.
    pub lines: Vec<&'a str>,
    /// How many lines the file has.
    pub total: u64,
    /// Whether something within these lines was left out, so that they do not
    /// count as known.
    pub clipped: bool,
    /// All of the text, where it is at hand: what is known of an earlier version
    /// is found again in it.
    pub text: Option<&'a str>,
}

/// What is written into the session log about a view, to restore the state from
/// there.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SeenRecord {
    /// The resolved path.
    #[serde(with = "crate::journal::path_serde")]
    pub path: PathBuf,
    /// The content of the whole file, where it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ContentHash>,
    /// The first line shown.
    pub first: u64,
    /// How many lines were shown.
    pub count: u64,
    /// How many lines the file had.
    pub total: u64,
    /// Whether something within these lines was left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clipped: bool,
}

/// Something happened to a file that others may want to know: a language
/// server, an index, conditional skills.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FileEvent {
    /// It was read.
    Read {
        /// The resolved path.
        path: PathBuf,
        /// Who read it.
        viewer: ReadBy,
    },
    /// It was changed or created.
    Changed {
        /// The resolved path.
        path: PathBuf,
        /// Who changed it.
        viewer: ReadBy,
    },
}

type FileEventListener = Arc<dyn Fn(&FileEvent) + Send + Sync>;

/// What every agent of a session has seen.
pub struct ReadState {
    files: Mutex<HashMap<(AgentId, PathBuf), SeenFile>>,
    shown: Mutex<ShownReads>,
    recent: Mutex<RecentReads>,
    context: Box<dyn ContextView>,
    listeners: RwLock<Vec<FileEventListener>>,
    /// Who of the session wrote a file last, and what.
    writers: Mutex<HashMap<PathBuf, (AgentId, ContentHash)>>,
    naming: OnceLock<AgentNameFn>,
}

/// What agents are called.
type AgentNameFn = Box<dyn Fn(&AgentId) -> String + Send + Sync>;

impl fmt::Debug for ReadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadState").finish_non_exhaustive()
    }
}

impl ReadState {
    /// An empty state.
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

    /// Calls this after every read and change. A listener must be quick.
    pub fn listen(&self, listener: impl Fn(&FileEvent) + Send + Sync + 'static) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(listener));
    }

    /// Tells the listeners.
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

    /// The snapshot of a file whose whole content has just been read.
    pub fn snapshot(&self, file: OpenFile, bytes: &[u8]) -> FileSnapshot {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = recent.hash(file.path(), bytes);
        drop(recent);
        FileSnapshot::new(file, hash)
    }

    /// Some lines were shown.
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

    /// Some lines became known without being a Read that a later one could refer
    /// to, such as those an error message shows.
    pub fn knows(&self, viewer: &ReadBy, view: &LinesView<'_>) {
        self.with(&viewer.agent, view.path, |seen| seen.add(view));
    }

    /// Takes up what the session log says was shown. Lines are known again as
    /// long as the file is the same.
    pub fn restore(&self, viewer: &ReadBy, record: &SeenRecord) {
        self.with(&viewer.agent, &record.path, |seen| seen.restore(record));
    }

    /// The agent itself wrote this content, so it knows all of it.
    pub fn wrote(&self, viewer: &ReadBy, path: &Path, version: ContentHash, view: &str) {
        self.with(&viewer.agent, path, |seen| seen.replace(version, view));
        self.note_writer(viewer, path, version);
    }

    /// The agent changed some lines of a file. It knows what it wrote; of the
    /// rest it knows what it knew.
    pub fn edited(&self, viewer: &ReadBy, path: &Path, version: ContentHash, edits: &[LineEdit<'_>]) {
        self.with(&viewer.agent, path, |seen| seen.edit(version, edits));
        self.note_writer(viewer, path, version);
    }

    fn note_writer(&self, viewer: &ReadBy, path: &Path, version: ContentHash) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.insert(path.to_owned(), (viewer.agent.clone(), version));
    }

    /// Agents are called like this. The first who says so is heard.
    pub fn name_agents(&self, naming: impl Fn(&AgentId) -> String + Send + Sync + 'static) {
        self.naming.set(Box::new(naming)).ok();
    }

    /// Who wrote what a file holds now, for an agent that did not: another agent
    /// of the session, or somebody else.
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

    /// Whether an agent of the session wrote a file after another had seen it.
    pub fn is_outdated(&self, viewer: &AgentId, path: &Path) -> bool {
        let Some(seen) = self.seen_version(viewer, path) else { return false };
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(path).is_some_and(|(agent, wrote)| agent != viewer && *wrote != seen)
    }

    /// Whether lines of the current content may be edited by someone who has
    /// seen what this agent has seen.
    pub fn freshness(
        &self,
        agent: &AgentId,
        path: &Path,
        current: &CurrentFile<'_>,
        lines: &Range<u64>,
    ) -> Freshness {
        self.peek(agent, path, |seen| freshness::freshness(seen, current, lines))
    }

    /// The content a file was last seen with, where that is known.
    pub fn seen_version(&self, agent: &AgentId, path: &Path) -> Option<ContentHash> {
        self.peek(agent, path, |seen| seen.and_then(|it| it.version))
    }

    /// The text a file had when all of it was last seen, if it is small.
    pub fn seen_text(&self, agent: &AgentId, path: &Path) -> Option<Arc<str>> {
        self.peek(agent, path, |seen| seen.and_then(|it| it.text.clone()))
    }

    /// Whether all of the current content has been seen.
    pub fn whole_seen(&self, agent: &AgentId, path: &Path, current: &CurrentFile<'_>) -> WholeFileSeen {
        self.peek(agent, path, |seen| freshness::whole_seen(seen, current))
    }

    /// An earlier call whose result still shows exactly these lines of exactly
    /// this content, and is still in the request. A file that was something else
    /// in between is shown again, even if it is back to what it was.
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

/// How much text is kept altogether.
const KEPT_TEXTS: usize = 16 * 1024 * 1024;

/// Drops texts beyond the bound, but not the one of this file: fingerprints of
/// lines remain, and only errors get less helpful.
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

/// A file as it is now.
#[derive(Clone, Copy, Debug)]
pub struct CurrentFile<'a> {
    /// The fingerprint of the whole file.
    pub version: ContentHash,
    /// The text as a model sees it.
    pub view: &'a str,
}

/// Some lines were replaced by others.
#[derive(Clone, Debug)]
pub struct LineEdit<'a> {
    /// Lines of the old content; lines count from one.
    pub old: Range<u64>,
    /// The lines that came.
    pub new: Vec<&'a str>,
}
