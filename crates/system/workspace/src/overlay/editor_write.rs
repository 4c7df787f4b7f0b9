//! Changes files with unsaved text through the editor, and checks the result.
//!
//! The journal gets two changes: one from the content on disk to the unsaved text, and one, made by the
//! call, from the unsaved text to the new one. Undoing the call's change restores the unsaved text; the
//! other change, which nobody requested, is undone only by its own id.

use std::path::Path;

use super::BufferChange;
use crate::{
    ChangeOrigin, CommitError, CommittedBatch, CommittedFile, ContentHash, FileChange, FileError,
    FileSnapshot, FileState, Journal, LockedFiles, OpenFile, PlannedWrite, text::Bytes,
};

/// Tool name of the change that writes unsaved text to disk.
const UNSAVED: &str = "unsaved text";

/// A change made by an editor.
struct EditorChange<'a> {
    index: usize,
    path: &'a Path,
    old: &'a str,
    new: String,
    /// Content on disk before, if it could be saved.
    before: Option<FileState>,
    /// State on disk now.
    found: DiskState,
}

/// Content on disk after an editor made a change.
enum DiskState {
    /// The new text.
    Saved,
    /// The old content: the editor has not saved.
    Untouched,
    /// Something else: the editor modifies what it saves.
    Other(Vec<u8>),
}

/// Carries out a batch in which some files have unsaved text.
pub(crate) fn commit_through_editor(
    locked: &LockedFiles<'_>,
    changes: &[PlannedWrite<'_>],
    origin: &ChangeOrigin,
) -> Result<CommittedBatch, CommitError> {
    let is_unsaved = |it: &PlannedWrite<'_>| it.base.is_some_and(|base| base.unsaved().is_some());
    let mut made: Vec<EditorChange<'_>> = Vec::new();
    for (index, change) in changes.iter().enumerate().filter(|(_, it)| is_unsaved(it)) {
        match through_editor(locked, index, change) {
            Ok(done) => made.push(done),
            Err(error) => {
                take_back(locked, &made, origin, AlreadyRecorded::No);
                return Err(CommitError { index, error });
            }
        }
    }
    let mut done = CommittedBatch { entry: None, files: empty(changes), notes: Vec::new() };
    let further: Vec<FileChange> =
        made.iter().filter_map(|it| settle(locked, it, origin, &mut done)).collect();
    let rest: Vec<(usize, &PlannedWrite<'_>)> =
        changes.iter().enumerate().filter(|(_, it)| !is_unsaved(it)).collect();
    if rest.is_empty() {
        if let (Ok(journal), false) = (locked.workspace.journal(), further.is_empty()) {
            match journal.record(origin, further) {
                Ok(entry) => done.entry = Some(entry.id),
                Err(err) => done.notes.push(format!("this change cannot be undone: {}", err.reason())),
            }
        }
        return Ok(done);
    }
    let plain: Vec<PlannedWrite<'_>> = rest
        .iter()
        .map(|(_, it)| PlannedWrite {
            path: it.path.clone(),
            base: it.base,
            content: it.content.clone(),
            mode: it.mode,
        })
        .collect();
    match locked.commit_as(&plain, origin, Vec::new(), further) {
        Ok(committed) => {
            done.entry = committed.entry.or(done.entry);
            done.notes.extend(committed.notes);
            for ((index, _), file) in rest.iter().zip(committed.files) {
                done.files[*index] = file;
            }
            Ok(done)
        }
        Err(error) => {
            take_back(locked, &made, origin, AlreadyRecorded::Yes);
            Err(CommitError { index: rest[error.index].0, error: error.error })
        }
    }
}

fn empty(changes: &[PlannedWrite<'_>]) -> Vec<CommittedFile> {
    changes.iter().map(|_| CommittedFile { hash: None, len: 0 }).collect()
}

/// Asks the editor to make a change.
fn through_editor<'a>(
    locked: &LockedFiles<'_>,
    index: usize,
    change: &'a PlannedWrite<'_>,
) -> Result<EditorChange<'a>, FileError> {
    let path = change.path.as_path();
    let refused = |reason: String| FileError::Unsaved { path: path.to_owned(), reason };
    let (Some(base), Some(content)) = (change.base, &change.content) else {
        return Err(refused(String::from("the user's editor has unsaved text in it; it was not removed")));
    };
    let old = base.unsaved().unwrap_or_default();
    let Ok(new) = String::from_utf8(content.to_vec()) else {
        return Err(refused(String::from(
            "the user's editor has unsaved text in it, and the new text is not UTF-8; it was not changed",
        )));
    };
    let overlay = locked.workspace.buffers.overlay();
    let Some(overlay) = overlay else {
        return Err(refused(String::from("the editor that has unsaved text in it is gone")));
    };
    if !base.is_current(&OpenFile::open(path)?)? {
        return Err(FileError::Changed { path: path.to_owned(), expected: Some(base.disk_hash()) });
    }
    // Saved first, because the editor may write into the file that is open here.
    let before = locked.workspace.journal().ok().and_then(|it| it.keep_file(base.file()).ok());
    match overlay.replace(path, old, &new) {
        BufferChange::Made => (),
        BufferChange::Changed => {
            return Err(FileError::Changed { path: path.to_owned(), expected: Some(base.hash()) });
        }
        BufferChange::Failed(why) => {
            return Err(refused(format!(
                "the user's editor has unsaved text in it and did not take the change ({why}). Ask the user to save \
                 it, then try again"
            )));
        }
    }
    let bytes = OpenFile::open(path)?.read_all(crate::MAX_EDITABLE)?;
    let hash = ContentHash::hash(&bytes);
    let found = if hash == ContentHash::hash(new.as_bytes()) {
        DiskState::Saved
    } else if hash == base.disk_hash() {
        DiskState::Untouched
    } else {
        DiskState::Other(bytes)
    };
    Ok(EditorChange { index, path, old, new, before, found })
}

/// Records what the editor did and saves what it did not. Returns the call's change if it is not
/// recorded yet.
fn settle(
    locked: &LockedFiles<'_>,
    made: &EditorChange<'_>,
    origin: &ChangeOrigin,
    done: &mut CommittedBatch,
) -> Option<FileChange> {
    let own = unsaved_origin(origin);
    let note = match &made.found {
        DiskState::Saved | DiskState::Untouched => {
            "the user's editor had unsaved text in this file; it is kept, and saved with this change."
        }
        DiskState::Other(_) => {
            "the user's editor changed the text further when it saved this file; Read it before the next edit."
        }
    };
    done.notes.push(note.to_owned());
    let saved = match &made.found {
        DiskState::Saved | DiskState::Untouched => made.new.as_bytes(),
        DiskState::Other(bytes) => bytes,
    };
    let hash = ContentHash::hash(saved);
    done.files[made.index] = CommittedFile { hash: Some(hash), len: saved.len() as u64 };
    locked.workspace.buffers.note(made.path, |known| {
        known.record_disk(hash);
        known.is_same(hash, std::str::from_utf8(saved).ok());
    });
    if matches!(made.found, DiskState::Untouched) {
        let done_so =
            save(locked, made.path, made.old, &own).and_then(|_| save(locked, made.path, &made.new, origin));
        match done_so {
            Ok(committed) => done.entry = committed.entry,
            Err(err) => done.notes.push(format!("it is in the editor, but not on disk: {}", err.reason())),
        }
        return None;
    }
    let (Ok(journal), Some(before)) = (locked.workspace.journal(), made.before.clone()) else {
        done.notes.push(String::from("this change cannot be undone: what was there could not be kept"));
        return None;
    };
    let mode = match before {
        FileState::File { mode, .. } => mode,
        _ => 0o644,
    };
    let unsaved = kept(journal, made.old.as_bytes(), mode)?;
    let after = kept(journal, saved, mode)?;
    let saving = FileChange { path: made.path.to_owned(), before, after: unsaved.clone() };
    journal.record(&own, vec![saving]).ok();
    Some(FileChange { path: made.path.to_owned(), before: unsaved, after })
}

/// Origin of the change that writes unsaved text to disk: nobody requested it.
fn unsaved_origin(origin: &ChangeOrigin) -> ChangeOrigin {
    ChangeOrigin {
        session: None,
        turn: None,
        call: format!("unsaved-{}", origin.call.as_str()).into(),
        tool: UNSAVED.to_owned(),
    }
}

fn kept(journal: &Journal, bytes: &[u8], mode: u32) -> Option<FileState> {
    let hash = journal.keep_bytes(bytes).ok()?;
    Some(FileState::File { hash, len: bytes.len() as u64, mode })
}

/// Writes a text to disk like any other change.
fn save(
    locked: &LockedFiles<'_>,
    path: &Path,
    text: &str,
    origin: &ChangeOrigin,
) -> Result<CommittedBatch, FileError> {
    let (base, _) = FileSnapshot::load(OpenFile::open(path)?)?;
    let content = Some(Bytes::whole(text.as_bytes()));
    let change = PlannedWrite { path: path.to_owned(), base: Some(&base), content, mode: None };
    locked.commit_as(&[change], origin, Vec::new(), Vec::new()).map_err(|err| err.error)
}

/// Whether writing the unsaved text to disk was already recorded.
#[derive(Clone, Copy)]
enum AlreadyRecorded {
    Yes,
    No,
}

/// Restores the unsaved texts in the editor. If that saves them, the previous content on disk is
/// recorded.
fn take_back(
    locked: &LockedFiles<'_>,
    made: &[EditorChange<'_>],
    origin: &ChangeOrigin,
    settled: AlreadyRecorded,
) {
    let Some(overlay) = locked.workspace.buffers.overlay() else { return };
    for change in made {
        let shown = match &change.found {
            DiskState::Other(bytes) => std::str::from_utf8(bytes).unwrap_or(&change.new),
            DiskState::Saved | DiskState::Untouched => &change.new,
        };
        overlay.replace(change.path, shown, change.old);
        let (Ok(journal), Some(disk)) = (locked.workspace.journal(), change.before.clone()) else { continue };
        let before = match (settled, &disk) {
            (AlreadyRecorded::Yes, FileState::File { mode, .. }) => {
                kept(journal, change.old.as_bytes(), *mode).unwrap_or(disk)
            }
            _ => disk,
        };
        let after = OpenFile::open(change.path).and_then(|file| journal.keep_file(&file));
        if let Ok(after) = after
            && after != before
        {
            let saving = FileChange { path: change.path.to_owned(), before, after };
            journal.record(&unsaved_origin(origin), vec![saving]).ok();
        }
    }
}
