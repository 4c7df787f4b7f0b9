use std::{
    ops::Range,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::{CallId, SessionId};

use crate::{
    ContextView, Current, FileError, FileEvent, OpenFile, Origin, ReadState, Snapshot, TurnId, View, Viewer,
    Workspace, text::Text,
};

/// The files of one session: the workspace, what was seen of it, and which turn
/// it is. File tools are built on this.
#[derive(Debug)]
pub struct Files {
    workspace: Arc<Workspace>,
    reads: ReadState,
    session: Option<SessionId>,
    turn: Mutex<Option<TurnId>>,
}

impl Files {
    /// The files of a session that starts now.
    pub fn new(
        workspace: Arc<Workspace>,
        session: Option<SessionId>,
        context: impl ContextView + 'static,
    ) -> Self {
        Self { workspace, reads: ReadState::new(context), session, turn: Mutex::new(None) }
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
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
    }

    /// On whose behalf a call changes files now.
    pub fn origin(&self, call: &CallId, tool: &str) -> Origin {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Origin { session: self.session.clone(), turn, call: call.clone(), tool: tool.to_owned() }
    }

    /// Something other than Read has shown lines of a file, such as `cat` or
    /// `sed -n`: they count as seen. `lines` of `None` means all of it.
    pub fn shown_otherwise(
        &self,
        viewer: &Viewer,
        path: &Path,
        lines: Option<Range<u64>>,
    ) -> Result<(), FileError> {
        let (snapshot, bytes) = Snapshot::load(OpenFile::open(path)?)?;
        let Ok(text) = Text::decode(bytes) else { return Ok(()) };
        let all: Vec<&str> = text.view().lines().collect();
        let total = all.len() as u64;
        let lines = lines.unwrap_or(1..total + 1);
        let index = |line: u64| usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX).min(all.len());
        let view = View {
            path,
            version: Some(snapshot.hash()),
            first: lines.start.max(1),
            lines: all[index(lines.start)..index(lines.end).max(index(lines.start))].to_vec(),
            total,
            clipped: false,
            text: Some(text.view()),
        };
        self.reads.saw(viewer, &view);
        self.reads.notify(&FileEvent::Read { path: path.to_owned(), viewer: viewer.clone() });
        Ok(())
    }

    /// The current content of a file, for questions to the read state.
    pub fn current<'a>(snapshot: &Snapshot, text: &'a Text) -> Current<'a> {
        Current { version: snapshot.hash(), view: text.view() }
    }
}
