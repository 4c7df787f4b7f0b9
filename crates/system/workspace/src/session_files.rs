use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::{CallId, SessionId};

use crate::{
    ChangeOrigin, ContextView, CurrentFile, FileError, FileEvent, FileSnapshot, LinesView, OpenFile, ReadBy,
    ReadState, TurnId, Workspace, reads::printed_lines, text::Text,
};

/// Larger files are not compared with what a command printed.
const PRINTABLE: u64 = 8 * 1024 * 1024;

/// The files of one session: the workspace, what was seen of it, and which turn
/// it is. File tools are built on this.
#[derive(Debug)]
pub struct SessionFiles {
    workspace: Arc<Workspace>,
    reads: ReadState,
    session: Option<SessionId>,
    turn: Mutex<Option<TurnId>>,
}

impl SessionFiles {
    /// The files of a session that starts now.
    pub fn new(
        workspace: Arc<Workspace>,
        session: Option<SessionId>,
        context: impl ContextView + 'static,
    ) -> Self {
        Self { workspace, reads: ReadState::new(context), session, turn: Mutex::new(None) }
    }

    /// Whose files they are.
    pub fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// The way to the file system.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// What was seen.
    pub fn reads(&self) -> &ReadState {
        &self.reads
    }

    /// A turn starts: changes from now on belong to it.
    pub fn begin_turn(&self, turn: TurnId) {
        self.workspace.forget_clean_buffers();
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
    }

    /// On whose behalf a call changes files now.
    pub fn origin(&self, call: &CallId, tool: &str) -> ChangeOrigin {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ChangeOrigin { session: self.session.clone(), turn, call: call.clone(), tool: tool.to_owned() }
    }

    /// A command that shows a file as it is, such as `cat` or `sed -n`, has
    /// printed this: lines of the file that are in it count as seen.
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
            // Not a Read that a later one could refer to: commands print with
            // decorations and cuts of their own.
            self.reads.knows(viewer, &view);
        }
        if !shown.is_empty() {
            self.reads.notify(&FileEvent::Read { path: path.to_owned(), viewer: viewer.clone() });
        }
        Ok(())
    }

    /// The current content of a file, for questions to the read state.
    pub fn current<'a>(snapshot: &FileSnapshot, text: &'a Text) -> CurrentFile<'a> {
        CurrentFile { version: snapshot.hash(), view: text.view() }
    }
}
