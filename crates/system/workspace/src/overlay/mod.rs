//! Text that an editor shows and the disk does not have yet.
//!
//! An editor is asked what it shows of a file, never more: it has no versions and
//! no list of what is unsaved. What its answer means follows from three contents:
//! what it shows, what the disk holds, and what the disk held when both were last
//! the same.

mod compare;
mod editor_write;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

pub(crate) use compare::{BufferState, judge};
pub(crate) use editor_write::commit_through_editor;

use crate::{ContentHash, FileError, FileSnapshot, Workspace};

/// Larger files are shown as they are on disk, and changed only if an editor shows
/// the same.
pub(crate) const MAX_BUFFER_BYTES: usize = 4 << 20;

/// Contents of one file that are remembered, to know an editor that is behind.
const MAX_SEEN: usize = 16;

/// Files that are remembered.
const MAX_FILES: usize = 4096;

/// An editor with text that may not be on the disk. Both functions wait for it,
/// but not for ever, and are called only for files that may be read or written.
pub trait EditorOverlay: Send + Sync + fmt::Debug {
    /// What the editor shows of a file.
    fn content(&self, path: &Path) -> BufferLookup;

    /// Puts a text where another one is, and saves it. Nothing is changed unless
    /// the editor still shows `old`.
    fn replace(&self, path: &Path, old: &str, new: &str) -> BufferChange;
}

/// What an editor says about a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BufferLookup {
    /// It shows this.
    Text(String),
    /// It has nothing to say about it.
    Unknown,
    /// It did not answer in time.
    Silent,
}

/// What became of a change in an editor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BufferChange {
    /// It took it.
    Made,
    /// It shows another text by now; nothing was changed.
    Changed,
    /// It could not, and this is why.
    Failed(String),
}

/// A whole file, as it is to be shown.
#[derive(Debug)]
pub struct LoadedFile {
    /// What a change would be made for.
    pub snapshot: FileSnapshot,
    /// Its content.
    pub bytes: Vec<u8>,
    /// What has to be said about where it comes from.
    pub notice: Option<String>,
}

/// What is known of the files of an editor.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    overlay: OnceLock<Arc<dyn EditorOverlay>>,
    files: Mutex<HashMap<PathBuf, KnownBuffer>>,
}

/// What is known of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownBuffer {
    /// What the disk held when it and the editor were last the same, or when what
    /// is unsaved was first seen.
    pub(crate) base: Option<(ContentHash, Option<Arc<str>>)>,
    /// What the disk held at any time, the newest last.
    pub(crate) held: Vec<ContentHash>,
    /// The editor was asked in this turn and had nothing unsaved.
    pub(crate) is_clean: bool,
    /// It had something unsaved when it was last asked.
    pub(crate) is_dirty: bool,
}

impl KnownBuffer {
    pub(crate) fn saw_disk(&mut self, hash: ContentHash) {
        self.held.retain(|it| *it != hash);
        self.held.push(hash);
        if MAX_SEEN < self.held.len() {
            self.held.remove(0);
        }
    }

    pub(crate) fn is_same(&mut self, hash: ContentHash, text: Option<&str>) {
        self.base = Some((hash, text.map(Arc::from)));
        (self.is_clean, self.is_dirty) = (true, false);
    }
}

impl Buffers {
    pub(crate) fn overlay(&self) -> Option<&Arc<dyn EditorOverlay>> {
        self.overlay.get()
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, KnownBuffer>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a file.
    pub(crate) fn note<T>(&self, path: &Path, change: impl FnOnce(&mut KnownBuffer) -> T) -> T {
        let mut files = self.files();
        if MAX_FILES <= files.len() && !files.contains_key(path) {
            files.retain(|_, it| it.is_dirty);
        }
        change(files.entry(path.to_owned()).or_default())
    }
}

impl Workspace {
    /// From now on an editor is asked about files. There is one at most; a second
    /// is ignored.
    pub fn set_overlay(&self, overlay: Arc<dyn EditorOverlay>) {
        self.buffers.overlay.set(overlay).ok();
    }

    /// Whether an editor has to be asked before a file is read. Takes no waiting.
    pub fn must_ask_editor(&self, path: &Path) -> bool {
        self.buffers.overlay().is_some() && !self.buffers.files().get(path).is_some_and(|it| it.is_clean)
    }

    /// What was clean may have been typed into since.
    pub(crate) fn forget_clean_buffers(&self) {
        self.buffers.files().values_mut().for_each(|it| it.is_clean = false);
    }

    /// Files that had unsaved text when the editor was last asked.
    pub fn unsaved_files(&self) -> Vec<PathBuf> {
        let files = self.buffers.files();
        let mut unsaved: Vec<PathBuf> =
            files.iter().filter(|(_, known)| known.is_dirty).map(|(path, _)| path.clone()).collect();
        unsaved.sort();
        unsaved
    }

    /// Loads a file to show it: what an editor has unsaved is the file.
    pub fn load(&self, file: crate::OpenFile) -> Result<LoadedFile, FileError> {
        let must_ask = self.must_ask_editor(file.path());
        let (snapshot, bytes) = FileSnapshot::load(file)?;
        if !must_ask || MAX_BUFFER_BYTES < bytes.len() {
            return Ok(LoadedFile { snapshot, bytes, notice: None });
        }
        Ok(match judge(self, &snapshot, &bytes) {
            BufferState::Clean => LoadedFile { snapshot, bytes, notice: None },
            BufferState::Unsaved(text) => LoadedFile {
                bytes: text.as_bytes().to_vec(),
                snapshot: snapshot.shown_as(text),
                notice: Some(String::from(
                    "[Unsaved: this is the text in the user's editor, not yet on disk. Edit and Write go through the \
                     editor; commands see the file on disk.]",
                )),
            },
            BufferState::Conflict(sides) => {
                let notice = format!(
                    "[The user's editor has unsaved text in this file, and the file on disk has changed since. This \
                     is the disk; it cannot be edited until the user has saved or reloaded it.\n{sides}]"
                );
                LoadedFile { snapshot, bytes, notice: Some(notice) }
            }
            BufferState::Unusable(why) => {
                let notice = format!(
                    "[The user's editor has unsaved text in this file that cannot be taken over ({why}). This is the \
                     disk; ask the user to save before it is edited.]"
                );
                LoadedFile { snapshot, bytes, notice: Some(notice) }
            }
            BufferState::Silent => LoadedFile {
                snapshot,
                bytes,
                notice: Some(String::from(
                    "[The user's editor did not say what it shows of this file; this is the file on disk.]",
                )),
            },
        })
    }

    /// Loads a file to change it: what an editor has unsaved is the file, and what
    /// cannot be brought together is refused.
    pub(crate) fn load_to_change(&self, file: crate::OpenFile) -> Result<(FileSnapshot, Vec<u8>), FileError> {
        let (snapshot, bytes) = FileSnapshot::load(file)?;
        if self.buffers.overlay().is_none() {
            return Ok((snapshot, bytes));
        }
        let refused =
            |reason: String| Err(FileError::Unsaved { path: snapshot.file().path().to_owned(), reason });
        match judge(self, &snapshot, &bytes) {
            // What was typed is not written over because the editor is busy.
            BufferState::Silent if self.buffers.note(snapshot.file().path(), |known| known.is_dirty) => {
                refused(String::from(
                    "the user's editor had unsaved text in it, and does not say what it shows now. Nothing was written. \
                     Try again in a moment, or ask the user to save it",
                ))
            }
            BufferState::Clean | BufferState::Silent => Ok((snapshot, bytes)),
            BufferState::Unsaved(text) => {
                let bytes = text.as_bytes().to_vec();
                Ok((snapshot.shown_as(text), bytes))
            }
            BufferState::Conflict(sides) => refused(format!(
                "the user's editor has unsaved text in it, and the file on disk has changed since. Nothing was \
                 written. Ask the user to save or to reload the file.\n{sides}"
            )),
            BufferState::Unusable(why) => refused(format!(
                "the user's editor has unsaved text in it that cannot be taken over ({why}). Nothing was written. Ask \
                 the user to save it"
            )),
        }
    }

    /// A file is about to be made; an editor may hold one of that name that was
    /// never saved. One that shows what was there before the file was removed is
    /// behind.
    pub(crate) fn check_new(&self, path: &Path) -> Result<(), FileError> {
        let Some(overlay) = self.buffers.overlay() else { return Ok(()) };
        let is_behind = |text: &str| {
            let shown = ContentHash::hash(text.as_bytes());
            self.buffers.files().get(path).is_some_and(|it| it.held.contains(&shown))
        };
        match overlay.content(path) {
            BufferLookup::Text(text) if !text.trim().is_empty() && !is_behind(&text) => {
                Err(FileError::Unsaved {
                    path: path.to_owned(),
                    reason: String::from(
                        "the user's editor has a new file of this name that was never saved. Nothing was written. Ask the \
                     user to save it, then Read it",
                    ),
                })
            }
            _ => Ok(()),
        }
    }
}
