//! Stores task lists on disk: `<lists>/<list>/log.jsonl`, one event per line, appended under a file
//! lock.
//!
//! **Invariant:** an acknowledged change is a complete, synced line of the log. A line that a killed process left incomplete
//! is skipped by readers and truncated by the next writer.
//!
//! **Invariant:** a writer has read everything written before, so two processes never decide on the same state.

use std::{
    collections::HashMap,
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use super::task_board::{TaskBoard, TaskEvent};

/// The user's task lists. A session uses one of them at a time.
#[derive(Debug)]
pub struct TaskLists {
    dir: PathBuf,
    current: RwLock<String>,
    /// Cached content of each list, and how far its log was read.
    known: Mutex<HashMap<String, Arc<Mutex<KnownList>>>>,
}

#[derive(Debug, Default)]
struct KnownList {
    board: TaskBoard,
    /// Device and inode of the file that was read.
    file: Option<(u64, u64)>,
    /// Number of bytes read.
    read: u64,
}

impl TaskLists {
    /// Opens the lists below a directory and selects `current`. Does no I/O.
    pub fn at(dir: PathBuf, current: &str) -> Self {
        Self { dir, current: RwLock::new(list_name(current)), known: Mutex::default() }
    }

    /// Returns the name of the selected list.
    pub fn current(&self) -> String {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Selects another list.
    pub fn switch_to(&self, list: &str) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = list_name(list);
    }

    /// Returns the path of a list's log.
    pub fn path(&self, list: &str) -> PathBuf {
        self.dir.join(list_name(list)).join("log.jsonl")
    }

    /// Archives a list under another name. No-op for a list that was never written. Blocks.
    pub fn put_away(&self, list: &str, as_name: &str) -> io::Result<()> {
        let (from, to) = (self.dir.join(list_name(list)), self.dir.join(list_name(as_name)));
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&list_name(list));
        match std::fs::rename(from, to) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn list(&self, name: &str) -> Arc<Mutex<KnownList>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(name.to_owned()).or_default())
    }

    /// Reads the selected list. A missing file is an empty list. Blocks.
    pub fn board(&self) -> io::Result<TaskBoard> {
        let name = self.current();
        let list = self.list(&name);
        let mut known = list.lock().unwrap_or_else(PoisonError::into_inner);
        match File::open(self.path(&name)) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                *known = KnownList::default();
                Ok(TaskBoard::default())
            }
            Err(err) => Err(err),
            Ok(mut file) => {
                file.lock_shared()?;
                known.catch_up(&mut file)?;
                Ok(known.board.clone())
            }
        }
    }

    /// Changes the selected list atomically: passes its current content to `decide` and appends the
    /// returned events, under the file lock. On an error nothing was changed. Blocks.
    pub fn change<T>(&self, decide: impl FnOnce(&TaskBoard) -> (Vec<TaskEvent>, T)) -> io::Result<T> {
        let name = self.current();
        let path = self.path(&name);
        let list = self.list(&name);
        let mut known = list.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = open_locked(&path)?;
        known.catch_up(&mut file)?;
        let (events, answer) = decide(&known.board);
        if events.is_empty() {
            return Ok(answer);
        }
        // An incomplete line was never acknowledged: its writer is gone, and appending must not complete
        // it.
        file.set_len(known.read)?;
        let mut lines = Vec::new();
        for event in &events {
            serde_json::to_writer(&mut lines, event).map_err(io::Error::other)?;
            lines.push(b'\n');
        }
        let before = file.seek(SeekFrom::End(0))?;
        if let Err(err) = file.write_all(&lines).and_then(|()| file.sync_data()) {
            // A partial write was not acknowledged, so it is undone.
            file.set_len(before).ok();
            return Err(err);
        }
        known.catch_up(&mut file)?;
        Ok(answer)
    }
}

impl KnownList {
    /// Reads what was appended. A replaced or truncated file is read from the beginning.
    fn catch_up(&mut self, file: &mut File) -> io::Result<()> {
        let meta = file.metadata()?;
        let id = (meta.dev(), meta.ino());
        if self.file != Some(id) || meta.len() < self.read {
            *self = Self { file: Some(id), ..Self::default() };
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // An incomplete line may still be being written.
        let whole = text.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
        for line in text[..whole].split(|it| *it == b'\n') {
            if let Ok(event) = serde_json::from_slice::<TaskEvent>(line) {
                self.board.apply(&event);
            }
        }
        self.read += whole as u64;
        Ok(())
    }
}

/// Opens and locks the log. If it was archived meanwhile, creates a new one.
fn open_locked(path: &Path) -> io::Result<File> {
    loop {
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
        let file = match opened {
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        file.lock()?;
        let held = file.metadata()?;
        match std::fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (held.dev(), held.ino()) => return Ok(file),
            _ => (),
        }
    }
}

/// Converts a name to a directory name: letters, digits, `-`, `_` and `.`, at most 100 characters, no
/// leading dot.
fn list_name(name: &str) -> String {
    let fits = |it: char| if it.is_alphanumeric() || "-_.".contains(it) { it } else { '_' };
    let name: String = name.trim().chars().map(fits).take(100).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { String::from("default") } else { name.to_owned() }
}
