//! Content of files in the editor, saved or not.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    time::{Duration, Instant},
};

use haft_workspace::{BufferChange, BufferLookup, EditorOverlay};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::{client_capabilities::EditorCapabilities, editor::EditorPeer, jsonrpc::AcpError};

/// Timeout for reading a file from the editor.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Timeout for writing a file through the editor.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the editor is not asked again after a timeout.
const LEFT_ALONE: Duration = Duration::from_secs(10);

/// The editor's buffers, for one session. Methods block; call them on blocking threads.
pub(crate) struct EditorBuffers {
    editor: EditorPeer,
    abilities: EditorCapabilities,
    runtime: Handle,
    /// Workspace directories: resolved path and the path the editor uses.
    roots: Vec<(PathBuf, PathBuf)>,
    /// Session id, once it is known.
    session: OnceLock<String>,
    silent_until: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for EditorBuffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EditorBuffers").field("session", &self.session).finish_non_exhaustive()
    }
}

impl EditorBuffers {
    /// Creates the buffers for the directories the editor has opened. Must be called within a Tokio
    /// runtime.
    pub(crate) fn new<'a>(
        editor: EditorPeer,
        abilities: EditorCapabilities,
        roots: impl Iterator<Item = &'a PathBuf>,
    ) -> Self {
        let roots = roots.filter_map(|it| Some((it.canonicalize().ok()?, it.clone())));
        let roots = roots.filter(|(real, named)| real != named).collect();
        let (session, silent_until) = (OnceLock::new(), Mutex::default());
        Self { editor, abilities, runtime: Handle::current(), roots, session, silent_until }
    }

    /// Sets the session id, from when on the editor can be asked.
    pub(crate) fn belong_to(&self, session: &str) {
        self.session.set(session.to_owned()).ok();
    }

    /// Returns the path under which the editor knows a file.
    fn named(&self, path: &Path) -> PathBuf {
        let below = |(real, named): &(PathBuf, PathBuf)| Some(named.join(path.strip_prefix(real).ok()?));
        self.roots.iter().find_map(below).unwrap_or_else(|| path.to_owned())
    }

    /// Sends a request and blocks for at most `patience`; `None` without a response. A request that
    /// timed out is cancelled.
    fn ask(
        &self,
        method: &'static str,
        params: Value,
        patience: Duration,
    ) -> Option<Result<Value, AcpError>> {
        let (sender, receiver) = mpsc::channel();
        let editor = self.editor.clone();
        let asking = self.runtime.spawn(async move {
            sender.send(editor.ask(method, &params).await).ok();
        });
        let answer = receiver.recv_timeout(patience).ok();
        asking.abort();
        answer
    }

    fn is_left_alone(&self) -> bool {
        let until = *self.silent_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }
}

impl EditorOverlay for EditorBuffers {
    fn content(&self, path: &Path) -> BufferLookup {
        let Some(session) = self.session.get() else { return BufferLookup::Unknown };
        if self.is_left_alone() {
            return BufferLookup::Silent;
        }
        let params = json!({"sessionId": session, "path": self.named(path).to_string_lossy()});
        match self.ask("fs/read_text_file", params, READ_TIMEOUT) {
            Some(Ok(answer)) => {
                let text = answer["content"].as_str();
                text.map_or(BufferLookup::Silent, |it| BufferLookup::Text(it.to_owned()))
            }
            Some(Err(_)) => BufferLookup::Unknown,
            None => {
                let until = Instant::now() + LEFT_ALONE;
                *self.silent_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
                BufferLookup::Silent
            }
        }
    }

    fn replace(&self, path: &Path, old: &str, new: &str) -> BufferChange {
        let Some(session) = self.session.get().filter(|_| self.abilities.writes_files) else {
            return BufferChange::Failed(String::from("it cannot be asked to write files"));
        };
        match self.content(path) {
            BufferLookup::Text(text) if text == old => (),
            BufferLookup::Text(_) => return BufferChange::Changed,
            _ => return BufferChange::Failed(String::from("it does not say what it shows")),
        }
        let params =
            json!({"sessionId": session, "path": self.named(path).to_string_lossy(), "content": new});
        match self.ask("fs/write_text_file", params, WRITE_TIMEOUT) {
            Some(Ok(_)) => BufferChange::Made,
            Some(Err(error)) => BufferChange::Failed(error.message),
            None => BufferChange::Failed(String::from("it did not answer")),
        }
    }
}
