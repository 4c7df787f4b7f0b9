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

/// One path to restore.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct UndoStep {
    pub(super) path: PathBuf,
    /// Current state, which must not change before it is restored.
    pub(super) current: FileState,
    /// Wanted state.
    pub(super) wanted: FileState,
}

/// Determines for each path the expected current state and the wanted state. `entries` are newest first.
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
            // A pipe, a device or an unreadable file is a conflict of this path only.
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

/// Whether two states count as equal. Different permission bits alone are not a conflict.
fn same(a: &FileState, b: &FileState) -> bool {
    match (a, b) {
        (FileState::File { hash: a, .. }, FileState::File { hash: b, .. }) => a == b,
        (FileState::Directory { .. }, FileState::Directory { .. }) => true,
        (a, b) => a == b,
    }
}

/// Current state of a path. Below a symlink it counts as absent.
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
