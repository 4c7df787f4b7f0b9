use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, OFlags, readlinkat, statat},
    io::Errno,
};

use super::{Conflict, EntryState, HistoryItem};
use crate::{
    FileError, FileState, JournalEntry, OpenFile, hash_file,
    open_checked::{open_no_links, split},
};

/// One path that is to be put back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct UndoStep {
    pub(super) path: PathBuf,
    /// What is there now, and must still be when it is put back.
    pub(super) current: FileState,
    /// What is to be there.
    pub(super) wanted: FileState,
}

/// Works out for each path what it must be now and what it becomes. `entries`
/// are newest first.
pub(super) fn plan(
    history: &[HistoryItem],
    entries: &[JournalEntry],
    conflicts: &mut Vec<Conflict>,
) -> Result<Vec<UndoStep>, FileError> {
    let mut steps: Vec<UndoStep> = Vec::new();
    let mut broken: HashSet<&Path> = HashSet::new();
    let mut places: HashMap<&Path, usize> = HashMap::new();
    for change in entries.iter().flat_map(|entry| entry.changes.iter().rev()) {
        if broken.contains(change.path.as_path()) {
            continue;
        }
        match places.get(change.path.as_path()).and_then(|at| steps.get_mut(*at)) {
            None => {
                let (path, current, wanted) =
                    (change.path.clone(), change.after.clone(), change.before.clone());
                places.insert(&change.path, steps.len());
                steps.push(UndoStep { path, current, wanted });
            }
            Some(step) if same(&step.wanted, &change.after) => step.wanted = change.before.clone(),
            Some(_) => {
                let reason = "somebody else changed it between the calls; it goes back only to that change";
                conflicts.push(Conflict { path: change.path.clone(), reason: reason.to_owned() });
                broken.insert(&change.path);
            }
        }
    }
    let mut ready = Vec::new();
    for mut step in steps {
        let found = match state_of(&step.path) {
            Ok(found) => found,
            // A pipe, a device, something unreadable: one path, not the whole undo.
            Err(err) => {
                conflicts.push(Conflict { path: step.path, reason: err.to_string() });
                continue;
            }
        };
        if same(&found, &step.current) {
            step.current = found;
            ready.push(step);
        } else if !same(&found, &step.wanted) {
            conflicts.push(Conflict { reason: reason(history, entries, &step), path: step.path });
        }
    }
    Ok(ready)
}

fn reason(history: &[HistoryItem], entries: &[JournalEntry], step: &UndoStep) -> String {
    let later = history.iter().find(|item| {
        item.standing == EntryState::InEffect
            && !entries.iter().any(|entry| entry.id == item.entry.id)
            && item.entry.changes.iter().any(|change| change.path == step.path)
    });
    match later {
        Some(item) => {
            let origin = &item.entry.origin;
            format!("a later call changed it too ({} {}); undo that first", origin.tool, origin.call)
        }
        None => "it was changed by somebody else since; it stays as it is".to_owned(),
    }
}

/// Whether two states are the same to an undo. Permission bits alone are no
/// reason to refuse.
fn same(a: &FileState, b: &FileState) -> bool {
    match (a, b) {
        (FileState::File { hash: a, .. }, FileState::File { hash: b, .. }) => a == b,
        (FileState::Directory { .. }, FileState::Directory { .. }) => true,
        (a, b) => a == b,
    }
}

/// What is at a path. Behind a link is another place: nothing that is reached
/// through one is at this path.
pub(super) fn state_of(path: &Path) -> Result<FileState, FileError> {
    let failed = |errno| FileError::from_errno(path, "read", errno);
    let (parent, name) = split(path)?;
    let found = open_no_links(parent, OFlags::PATH | OFlags::DIRECTORY)
        .and_then(|dir| Ok((statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?, dir)));
    let (found, dir) = match found {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(FileState::Absent),
        Err(errno) => return Err(failed(errno)),
    };
    let mode = found.st_mode & 0o7777;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Symlink => {
            let target = readlinkat(&dir, name, Vec::new()).map_err(failed)?;
            Ok(FileState::Symlink { target: PathBuf::from(OsString::from_vec(target.into_bytes())) })
        }
        FileType::Directory => Ok(FileState::Directory { mode }),
        _ => {
            let file = OpenFile::open(path)?;
            Ok(FileState::File { hash: hash_file(path)?, len: file.stamp().len, mode })
        }
    }
}
