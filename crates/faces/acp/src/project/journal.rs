//! What commands changed, from the record of changes.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead as _, BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::CallId;
use haft_workspace::{Entry as JournalEntry, FileChange, FileState, Journal, JournalLimits, text::Text};
use serde_json::Value;

use super::diffs::diff;

/// Most files of one call that are shown.
const MOST_FILES: usize = 20;

/// Largest file that is shown, in bytes.
const LARGEST: u64 = 4 << 20;

/// Looks up what calls changed. Entries are read once; what was added since is
/// read when somebody asks.
#[derive(Clone)]
pub(crate) struct JournalView {
    state_dir: PathBuf,
    root: PathBuf,
    read: Arc<Mutex<ReadJournal>>,
}

#[derive(Default)]
struct ReadJournal {
    journal: Option<Journal>,
    offset: u64,
    by_call: HashMap<String, Vec<FileChange>>,
}

impl JournalView {
    pub(crate) fn new(state_dir: PathBuf, root: &Path) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { state_dir, root, read: Arc::default() }
    }

    /// The diffs of what a call changed. Waits for the disk.
    pub(crate) fn diffs(&self, call: &CallId) -> Vec<Value> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.journal.is_none() {
            read.journal = Journal::open(&self.state_dir, &self.root, JournalLimits::default()).ok();
        }
        read.take_news();
        let Some(journal) = &read.journal else { return Vec::new() };
        let changes = read.by_call.get(call.as_str()).into_iter().flatten();
        changes.filter_map(|change| shown(journal, change)).take(MOST_FILES).collect()
    }
}

impl ReadJournal {
    fn take_news(&mut self) {
        let Some(journal) = &self.journal else { return };
        let Ok(mut file) = File::open(journal.dir().join("log.jsonl")) else { return };
        // One that is shorter than before was pruned: it is read anew.
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
                self.by_call.entry(call).or_default().extend(entry.changes);
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

/// The text of a file; `Some(None)` where there was none, nothing where it is no
/// text or no longer kept.
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
