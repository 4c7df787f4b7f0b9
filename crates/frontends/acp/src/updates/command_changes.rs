//! Changes of commands, from the undo journal.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead as _, BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_types::{CallId, SessionId};
use haft_workspace::{FileChange, FileState, Journal, JournalEntry, JournalLimits, text::Text};
use serde_json::Value;

use super::diffs::diff;

/// Maximum files shown per call.
const MAX_FILES: usize = 20;

/// Maximum bytes of a file that is shown.
const LARGEST: u64 = 4 << 20;

/// Finds the changes of a session's calls in the journal. Reads each entry once, on demand.
#[derive(Clone)]
pub(crate) struct JournalView {
    state_dir: PathBuf,
    root: PathBuf,
    session: SessionId,
    read: Arc<Mutex<ReadJournal>>,
}

#[derive(Default)]
struct ReadJournal {
    journal: Option<Journal>,
    offset: u64,
    /// A list, because some models reuse call ids in every session.
    by_call: HashMap<String, Vec<CallChanges>>,
}

struct CallChanges {
    session: Option<SessionId>,
    changes: Vec<FileChange>,
}

impl JournalView {
    pub(crate) fn new(state_dir: PathBuf, root: &Path, session: SessionId) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { state_dir, root, session, read: Arc::default() }
    }

    /// Returns the diffs of a call of this session. Blocks.
    pub(crate) fn diffs(&self, call: &CallId) -> Vec<Value> {
        self.newest().diffs(call, &self.session, false)
    }

    /// Returns the changes in the journal so far. Blocks.
    pub(crate) fn in_log(&self) -> LoggedChanges<'_> {
        LoggedChanges { read: self.newest(), session: &self.session }
    }

    fn newest(&self) -> MutexGuard<'_, ReadJournal> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.journal.is_none() {
            read.journal = Journal::open(&self.state_dir, &self.root, JournalLimits::default()).ok();
        }
        read.take_news();
        read
    }
}

/// A snapshot of the changes in the journal.
pub(crate) struct LoggedChanges<'a> {
    read: MutexGuard<'a, ReadJournal>,
    session: &'a SessionId,
}

impl LoggedChanges<'_> {
    /// Returns the diffs of a call, which may belong to the session this one was forked from.
    pub(crate) fn diffs(&self, call: &CallId) -> Vec<Value> {
        self.read.diffs(call, self.session, true)
    }
}

impl ReadJournal {
    fn diffs(&self, call: &CallId, session: &SessionId, by_others: bool) -> Vec<Value> {
        let Some(journal) = &self.journal else { return Vec::new() };
        let made = self.by_call.get(call.as_str()).map(Vec::as_slice).unwrap_or_default();
        let own = Some(session);
        let other = made.last().and_then(|it| it.session.as_ref()).filter(|_| by_others);
        let whose = if made.iter().any(|it| it.session.as_ref() == own) { own } else { other };
        let of_one = made.iter().filter(|it| whose.is_some() && it.session.as_ref() == whose);
        let changes = of_one.flat_map(|it| &it.changes);
        changes.filter_map(|change| shown(journal, change)).take(MAX_FILES).collect()
    }

    fn take_news(&mut self) {
        let Some(journal) = &self.journal else { return };
        let path = journal.dir().join("log.jsonl");
        if path.metadata().is_ok_and(|it| it.len() == self.offset) {
            return;
        }
        let Ok(mut file) = File::open(path) else { return };
        // A journal that became shorter was pruned: read it again.
        if file.metadata().is_ok_and(|it| it.len() < self.offset) {
            (self.offset, self.by_call) = (0, HashMap::new());
        }
        if file.seek(SeekFrom::Start(self.offset)).is_err() {
            return;
        }
        let (mut lines, mut line) = (BufReader::new(file), Vec::new());
        while lines.read_until(b'\n', &mut line).is_ok_and(|it| 0 < it) {
            if line.last() != Some(&b'\n') {
                return;
            }
            self.offset += line.len() as u64;
            if let Ok(entry) = serde_json::from_slice::<JournalEntry>(&line) {
                let call = entry.origin.call.as_str().to_owned();
                let made = CallChanges { session: entry.origin.session, changes: entry.changes };
                self.by_call.entry(call).or_default().push(made);
            }
            line.clear();
        }
    }
}

fn shown(journal: &Journal, change: &FileChange) -> Option<Value> {
    let old = content(journal, &change.before)?;
    let new = content(journal, &change.after)?;
    Some(diff(&change.path, old.as_deref(), new.as_deref().unwrap_or_default()))
}

/// Returns the text of a file; `Some(None)` if it did not exist, `None` if it is not text or no longer
/// stored.
fn content(journal: &Journal, state: &FileState) -> Option<Option<String>> {
    match state {
        FileState::Absent => Some(None),
        FileState::File { hash, len, .. } if *len <= LARGEST => {
            let text = Text::decode(journal.content(hash).ok()?).ok()?;
            Some(Some(text.literal(&text.raw()[text.encoding().bom_bytes().len()..])))
        }
        FileState::File { .. } | FileState::Symlink { .. } | FileState::Directory { .. } => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use haft_workspace::ChangeOrigin;

    use super::*;

    #[test]
    fn changes_of_other_session_with_same_call_id_are_ignored() {
        let dir = std::env::temp_dir().join(format!("haft-journal-view-{}", uuid::Uuid::new_v4()));
        let root = dir.join("root");
        std::fs::create_dir_all(&root).unwrap();
        let journal = Journal::open(&dir, &root.canonicalize().unwrap(), JournalLimits::default()).unwrap();
        for (session, call, path) in
            [("one", "call_0", "/a"), ("two", "call_0", "/b"), ("two", "call_1", "/c")]
        {
            let origin = ChangeOrigin {
                session: Some(session.into()),
                turn: None,
                call: call.into(),
                tool: String::from("Bash"),
            };
            let (before, after) = (FileState::Absent, FileState::Absent);
            journal.record(&origin, vec![FileChange { path: path.into(), before, after }]).unwrap();
        }
        let view = |session: &str| JournalView::new(dir.clone(), &root, session.into());
        let paths = |diffs: Vec<Value>| diffs.iter().map(|it| it["path"].to_string()).collect::<Vec<_>>();
        for (session, call, live, logged) in [
            ("one", "call_0", vec!["\"/a\""], vec!["\"/a\""]),
            ("two", "call_0", vec!["\"/b\""], vec!["\"/b\""]),
            ("one", "call_1", vec![], vec!["\"/c\""]),
            ("fork", "call_0", vec![], vec!["\"/b\""]),
            ("one", "call_2", vec![], vec![]),
        ] {
            assert_eq!(paths(view(session).diffs(&call.into())), live, "{session} {call}");
            assert_eq!(paths(view(session).in_log().diffs(&call.into())), logged, "{session} {call}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
