use std::{
    fs::Metadata,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::Path,
};

use rustix::{
    fs::{AtFlags, Mode, mkdirat, renameat, symlinkat, unlinkat},
    io::Errno,
};

use super::{
    Conflict, HistoryItem, UndoError, UndoReport,
    plan_undo::{UndoStep, plan},
    tree_restore,
};
use crate::{
    ChangeOrigin, FileChange, FileError, FileSnapshot, FileState, How, Journal, JournalEntry, LockedFiles,
    OpenFile, PlannedWrite, Workspace,
    commit::temporary_name,
    open_checked::{open_dir, split},
    text::Bytes,
};

/// Bytes reserved in the log for an undo: fixed, and per path.
const ROOM: u64 = 1 << 10;
const ROOM_FOR_EACH: u64 = 1 << 10;

/// Restores what the entries changed. They are newest first.
pub(super) fn restore(
    workspace: &Workspace,
    history: &[HistoryItem],
    entries: Vec<JournalEntry>,
    origin: &ChangeOrigin,
) -> Result<UndoReport, UndoError> {
    let journal = workspace.require_journal()?;
    let paths: Vec<&Path> =
        entries.iter().flat_map(|entry| entry.changes.iter().map(|change| change.path.as_path())).collect();
    let locked = workspace.lock(&paths)?;
    let mut report = UndoReport::default();
    let mut steps = plan(history, &entries, &mut report.conflicts)?;
    // Do not start what cannot be recorded.
    journal.reserve(ROOM + ROOM_FOR_EACH * steps.len() as u64)?;
    keep_current(journal, &steps)?;
    let undone = entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>();
    // Names that were one file are restored together.
    let is_linked = |step: &UndoStep| {
        step.path.symlink_metadata().is_ok_and(|it| it.is_file() && 1 < names(journal, &it))
    };
    let observed =
        |entry: &JournalEntry| entry.how == How::Observed || !journal.beside(&entry.id).links.is_empty();
    if steps.is_empty() && report.conflicts.is_empty() {
        // Everything is already as before. The entries count as undone, so that the next undo finds
        // older ones.
        report.entry = Some(journal.record_as(origin, Vec::new(), undone.clone())?.id);
        report.undone = undone;
        return Ok(report);
    }
    if entries.iter().any(observed) || steps.iter().any(is_linked) {
        return tree_restore::restore((workspace, journal), history, steps, &entries, origin, report);
    }
    let done = before_files(&mut steps, &mut report);
    let (files, others): (Vec<UndoStep>, Vec<UndoStep>) = steps.into_iter().partition(is_about_files);
    let after: Vec<UndoStep> = others.into_iter().filter(|step| !done.contains(step)).collect();
    let after = after_files(after, &mut report, DryRun::Check);
    let further = done.iter().chain(&after).map(to_change).collect();
    let batch = RestoreBatch { locked: &locked, journal, origin };
    report.entry = batch.put_back(files, further, &undone, &mut report)?;
    after_files(after, &mut report, DryRun::Do);
    report.restored.extend(done.into_iter().map(|step| step.path));
    if !report.restored.is_empty() {
        report.undone = undone;
    }
    Ok(report)
}

/// Saves the current content for a redo. Fails before anything is changed if there is no space.
/// Unreadable files become conflicts later.
fn keep_current(journal: &Journal, steps: &[UndoStep]) -> Result<(), FileError> {
    let files = steps.iter().filter(|step| matches!(step.current, FileState::File { .. }));
    for file in files.filter_map(|step| OpenFile::open(&step.path).ok()) {
        journal
            .store_async(&file)
            .map(drop)
            .or_else(|err| if err.is_no_space() { Err(err) } else { Ok(()) })?;
    }
    Ok(())
}

/// Number of hard links, without those in journals.
fn names(journal: &Journal, found: &Metadata) -> u64 {
    match found.nlink() {
        1 => 1,
        all => all.saturating_sub(journal.names_of_ours((found.dev(), found.ino()))),
    }
}

fn is_about_files(step: &UndoStep) -> bool {
    let is_file = |state: &FileState| matches!(state, FileState::File { .. } | FileState::Absent);
    is_file(&step.current) && is_file(&step.wanted)
}

pub(super) fn to_change(step: &UndoStep) -> FileChange {
    FileChange { path: step.path.clone(), before: step.current.clone(), after: step.wanted.clone() }
}

/// Directories are created before the files in them, outermost first, and symlinks are removed where
/// files replace them.
fn before_files(steps: &mut [UndoStep], report: &mut UndoReport) -> Vec<UndoStep> {
    steps.sort_by(|a, b| a.path.cmp(&b.path));
    let mut done = Vec::new();
    for step in steps.iter_mut() {
        let result = match (&step.current, &step.wanted) {
            (FileState::Absent, FileState::Directory { mode }) => {
                beside(&step.path, |dir, name| mkdirat(dir, name, Mode::from_raw_mode(*mode)))
            }
            (FileState::Symlink { .. }, FileState::File { .. }) => {
                beside(&step.path, |dir, name| unlinkat(dir, name, AtFlags::empty()))
            }
            _ => continue,
        };
        match result {
            Ok(()) => {
                done.push(step.clone());
                step.current = FileState::Absent;
            }
            Err(err) => report.conflicts.push(Conflict {
                path: step.path.clone(),
                reason: format!("it could not be put back: {err}"),
            }),
        }
    }
    done.retain(|step| !matches!(step.wanted, FileState::File { .. }));
    done
}

/// Whether to execute or only check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DryRun {
    Check,
    Do,
}

/// Symlinks and directory removals follow after the files, innermost first.
fn after_files(mut steps: Vec<UndoStep>, report: &mut UndoReport, mode: DryRun) -> Vec<UndoStep> {
    steps.sort_by(|a, b| b.path.cmp(&a.path));
    let mut done = Vec::new();
    for step in steps {
        let result = match (&step.current, &step.wanted, mode) {
            (
                FileState::Directory { .. } | FileState::Symlink { .. } | FileState::Absent,
                _,
                DryRun::Check,
            ) => Ok(()),
            (FileState::File { .. }, FileState::Symlink { .. }, DryRun::Check) => Ok(()),
            (FileState::Directory { .. }, FileState::Absent, DryRun::Do) => {
                beside(&step.path, |dir, name| unlinkat(dir, name, AtFlags::REMOVEDIR))
            }
            (FileState::Symlink { .. }, FileState::Absent, DryRun::Do) => {
                beside(&step.path, |dir, name| unlinkat(dir, name, AtFlags::empty()))
            }
            (_, FileState::Symlink { target }, DryRun::Do) => replace_by_link(&step.path, target),
            _ => Err("it has become something else".to_owned()),
        };
        match result {
            Ok(()) => {
                if mode == DryRun::Do {
                    report.restored.push(step.path.clone());
                }
                done.push(step);
            }
            Err(err) => {
                report.conflicts.push(Conflict { path: step.path, reason: format!("it stays: {err}") });
            }
        }
    }
    done
}

/// Atomically replaces a path by a symlink.
pub(super) fn replace_by_link(path: &Path, target: &Path) -> Result<(), String> {
    let temp = temporary_name();
    beside(path, |dir, name| {
        symlinkat(target, dir, &*temp)?;
        renameat(dir, &*temp, dir, name).inspect_err(|_| {
            unlinkat(dir, &*temp, AtFlags::empty()).ok();
        })
    })
}

/// Applies a function to a name in its directory, opened without following symlinks.
pub(super) fn beside(
    path: &Path,
    act: impl FnOnce(&OwnedFd, &Path) -> Result<(), Errno>,
) -> Result<(), String> {
    let (parent, name) = split(path).map_err(|err| err.to_string())?;
    let dir = open_dir(parent).map_err(|err| err.to_string())?;
    act(&dir, name).map_err(|errno| std::io::Error::from(errno).to_string())
}

struct RestoreBatch<'a> {
    locked: &'a LockedFiles<'a>,
    journal: &'a Journal,
    origin: &'a ChangeOrigin,
}

impl RestoreBatch<'_> {
    /// Restores all files in one batch. A file that changes meanwhile becomes a conflict, and the rest
    /// is retried.
    fn put_back(
        &self,
        mut steps: Vec<UndoStep>,
        further: Vec<FileChange>,
        undone: &[crate::EntryId],
        report: &mut UndoReport,
    ) -> Result<Option<crate::EntryId>, UndoError> {
        loop {
            if steps.is_empty() && further.is_empty() {
                return Ok(None);
            }
            let mut bases = Vec::new();
            let mut contents = Vec::new();
            let mut failed = None;
            for (at, step) in steps.iter().enumerate() {
                match self.load(step) {
                    Ok((base, content)) => {
                        bases.push(base);
                        contents.push(content);
                    }
                    Err(err) => {
                        failed = Some((at, err));
                        break;
                    }
                }
            }
            let failed = match failed {
                Some(failed) => failed,
                None => match self.commit(&steps, &bases, contents, &further, undone) {
                    Ok(entry) => {
                        report.restored.extend(steps.into_iter().map(|step| step.path));
                        return Ok(entry);
                    }
                    Err(err) => (err.index, err.error),
                },
            };
            let step = steps.remove(failed.0);
            report.conflicts.push(Conflict { path: step.path, reason: failed.1.to_string() });
        }
    }

    fn load(&self, step: &UndoStep) -> Result<(Option<FileSnapshot>, Option<Vec<u8>>), FileError> {
        let base = self.locked.read(&step.path)?.map(|(snapshot, _)| snapshot);
        if base.as_ref().map(FileSnapshot::hash) != step.current.hash() {
            return Err(FileError::Changed { path: step.path.clone(), expected: step.current.hash() });
        }
        if let Some(base) = &base {
            // What cannot be saved for a redo is kept.
            self.journal.store().keep(base.file(), base.disk_hash())?;
        }
        let content = step.wanted.hash().map(|hash| self.journal.content(&hash)).transpose()?;
        Ok((base, content))
    }

    fn commit(
        &self,
        steps: &[UndoStep],
        bases: &[Option<FileSnapshot>],
        contents: Vec<Option<Vec<u8>>>,
        further: &[FileChange],
        undone: &[crate::EntryId],
    ) -> Result<Option<crate::EntryId>, crate::CommitError> {
        let changes: Vec<PlannedWrite<'_>> = steps
            .iter()
            .zip(bases)
            .zip(contents)
            .map(|((step, base), content)| PlannedWrite {
                path: step.path.clone(),
                base: base.as_ref(),
                content: content.map(Bytes::whole),
                mode: match step.wanted {
                    FileState::File { mode, .. } => Some(mode),
                    _ => None,
                },
            })
            .collect();
        let done = self.locked.commit_as(&changes, self.origin, undone.to_vec(), further.to_vec())?;
        Ok(done.entry)
    }
}
