use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::{CallId, SessionId};

use crate::{
    ChangeOrigin, ContextView, CurrentFile, FileError, FileEvent, FileSnapshot, LinesView, OpenFile, ReadBy,
    ReadState, TurnId, Workspace, reads::printed_lines, text::Text,
};

/// Maximum bytes of a file that is compared with printed output.
const PRINTABLE: u64 = 8 * 1024 * 1024;

/// Files of one session: the workspace, what was read, and the current turn. File tools are built on
/// this.
#[derive(Debug)]
pub struct SessionFiles {
    workspace: Arc<Workspace>,
    reads: ReadState,
    session: Option<SessionId>,
    turn: Mutex<Option<TurnId>>,
}

impl SessionFiles {
    pub fn new(
        workspace: Arc<Workspace>,
        session: Option<SessionId>,
        context: impl ContextView + 'static,
    ) -> Self {
        Self { workspace, reads: ReadState::new(context), session, turn: Mutex::new(None) }
    }

    /// The session id.
    pub fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// The read state.
    pub fn reads(&self) -> &ReadState {
        &self.reads
    }

    /// Starts a turn; later changes belong to it.
    pub fn begin_turn(&self, turn: TurnId) {
        self.workspace.forget_clean_buffers();
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
    }

    /// Origin for changes made by a call now.
    pub fn origin(&self, call: &CallId, tool: &str) -> ChangeOrigin {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ChangeOrigin { session: self.session.clone(), turn, call: call.clone(), tool: tool.to_owned() }
    }

    /// Records that a command such as `cat` or `sed -n` printed `output` of a file: lines found in it
    /// count as read.
    pub fn printed(&self, viewer: &ReadBy, path: &Path, output: &str) -> Result<(), FileError> {
        let file = OpenFile::open(path)?;
        if PRINTABLE < file.stamp().len {
            return Ok(());
        }
        let (snapshot, bytes) = FileSnapshot::load(file)?;
        let Ok(text) = Text::decode(bytes) else { return Ok(()) };
        let all: Vec<&str> = text.view().lines().collect();
        let shown = printed_lines(text.view(), output);
        for lines in &shown {
            let index = |line: u64| usize::try_from(line - 1).unwrap_or(usize::MAX).min(all.len());
            let view = LinesView {
                path,
                version: Some(snapshot.hash()),
                first: lines.start,
                lines: all[index(lines.start)..index(lines.end)].to_vec(),
                total: all.len() as u64,
                clipped: false,
                text: Some(text.view()),
            };
            // Not registered as a Read that a later one could refer to, because commands decorate and
            // truncate their output.
            self.reads.knows(viewer, &view);
        }
        if !shown.is_empty() {
            self.reads.notify(&FileEvent::Read { path: path.to_owned(), viewer: viewer.clone() });
        }
        Ok(())
    }

    /// The current content of a file, for queries to the read state.
    pub fn current<'a>(snapshot: &FileSnapshot, text: &'a Text) -> CurrentFile<'a> {
        CurrentFile { version: snapshot.hash(), view: text.view() }
    }
}
