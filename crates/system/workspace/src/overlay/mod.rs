//! Unsaved text in editors.
//!
//! An editor is only asked what it shows of a file: there are no versions and no list of unsaved files.
//! The meaning follows from three contents: what the editor shows, what is on disk, and what was on disk
//! when both were last equal.

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

/// Maximum bytes of unsaved text. Larger files are shown as on disk, and changed only if the editor
/// shows the same.
pub(crate) const MAX_BUFFER_BYTES: usize = 4 << 20;

/// Number of earlier contents remembered per file, to recognise an editor that has not noticed a change.
const MAX_SEEN: usize = 16;

/// Maximum number of files remembered.
const MAX_FILES: usize = 4096;

/// An editor with possibly unsaved text. Both functions block, but with a timeout, and are only called
/// for files that may be read or written.
pub trait EditorOverlay: Send + Sync + fmt::Debug {
    /// The editor's text of a file.
    fn content(&self, path: &Path) -> BufferLookup;

    /// Replaces the text and saves it. Does nothing unless the editor still shows `old`.
    fn replace(&self, path: &Path, old: &str, new: &str) -> BufferChange;
}

/// Answer of the editor about a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BufferLookup {
    /// It shows this text.
    Text(String),
    /// It does not have the file open.
    Unknown,
    /// It did not answer in time.
    Silent,
}

/// Result of a change in an editor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BufferChange {
    Made,
    /// It shows another text by now; nothing was changed.
    Changed,
    /// It failed, for this reason.
    Failed(String),
}

/// A whole file to be shown.
#[derive(Debug)]
pub struct LoadedFile {
    /// Base for a change.
    pub snapshot: FileSnapshot,
    pub bytes: Vec<u8>,
    /// Notice about the source of the text.
    pub notice: Option<String>,
}

/// State of the editor's files.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    overlay: OnceLock<Arc<dyn EditorOverlay>>,
    files: Mutex<HashMap<PathBuf, KnownBuffer>>,
}

/// State of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownBuffer {
    /// Content on disk when the editor last showed the same, or when unsaved text was first seen.
    pub(crate) base: Option<(ContentHash, Option<Arc<str>>)>,
    /// Earlier contents on disk, newest last.
    pub(crate) held: Vec<ContentHash>,
    /// The editor was asked in this turn and had no unsaved text.
    pub(crate) is_clean: bool,
    /// It had unsaved text when it was last asked.
    pub(crate) is_dirty: bool,
}

impl KnownBuffer {
    pub(crate) fn record_disk(&mut self, hash: ContentHash) {
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

    /// Updates the state of a file.
    pub(crate) fn note<T>(&self, path: &Path, change: impl FnOnce(&mut KnownBuffer) -> T) -> T {
        let mut files = self.files();
        if MAX_FILES <= files.len() && !files.contains_key(path) {
            files.retain(|_, it| it.is_dirty);
        }
        change(files.entry(path.to_owned()).or_default())
    }
}

impl Workspace {
    /// Sets the editor to ask about files. Only the first call has an effect.
    pub fn set_overlay(&self, overlay: Arc<dyn EditorOverlay>) {
        self.buffers.overlay.set(overlay).ok();
    }

    /// Whether an editor must be asked before a file is read. Does not block.
    pub fn needs_editor_lookup(&self, path: &Path) -> bool {
        self.buffers.overlay().is_some() && !self.buffers.files().get(path).is_some_and(|it| it.is_clean)
    }

    /// A buffer without unsaved text may have been edited since.
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

    /// Reads a file to show it, including unsaved text.
    pub fn load(&self, file: crate::OpenFile) -> Result<LoadedFile, FileError> {
        let must_ask = self.needs_editor_lookup(file.path());
        let (snapshot, bytes) = FileSnapshot::load(file)?;
        if !must_ask || MAX_BUFFER_BYTES < bytes.len() {
            return Ok(LoadedFile { snapshot, bytes, notice: None });
        }
        Ok(match judge(self, &snapshot, &bytes) {
            BufferState::Clean => LoadedFile { snapshot, bytes, notice: None },
            BufferState::Unsaved(text) => LoadedFile {
                bytes: text.as_bytes().to_vec(),
                snapshot: snapshot.with_editor_text(text),
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

    /// Reads a file to change it, including unsaved text. Fails on a conflict.
    pub(crate) fn load_to_change(&self, file: crate::OpenFile) -> Result<(FileSnapshot, Vec<u8>), FileError> {
        let (snapshot, bytes) = FileSnapshot::load(file)?;
        if self.buffers.overlay().is_none() {
            return Ok((snapshot, bytes));
        }
        let refused =
            |reason: String| Err(FileError::Unsaved { path: snapshot.file().path().to_owned(), reason });
        match judge(self, &snapshot, &bytes) {
            // While the editor does not answer, unsaved text must not be overwritten.
            BufferState::Silent if self.buffers.note(snapshot.file().path(), |known| known.is_dirty) => {
                refused(String::from(
                    "the user's editor had unsaved text in it, and does not say what it shows now. Nothing was written. \
                     Try again in a moment, or ask the user to save it",
                ))
            }
            BufferState::Clean | BufferState::Silent => Ok((snapshot, bytes)),
            BufferState::Unsaved(text) => {
                let bytes = text.as_bytes().to_vec();
                Ok((snapshot.with_editor_text(text), bytes))
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

    /// Check before creating a file: an editor may hold an unsaved file of that name. If it shows the
    /// content before a deletion, it has not noticed the deletion.
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
