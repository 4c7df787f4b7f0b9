//! Undoes what a command did to whole trees: files, symlinks, directories and modes, each as a separate
//! step. Idempotent, so an interrupted undo is simply repeated.

use std::{
    collections::HashSet,
    fs::{self, File},
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};

use super::{
    Conflict, HistoryItem, UndoError, UndoReport, attributes,
    hard_links::TargetLinks,
    plan_undo::UndoStep,
    restore::{beside, replace_by_link, to_change},
};
use crate::{
    ChangeOrigin, EntryAttachments, EntryId, FileChange, FileState, Journal, JournalEntry, OpenFile,
    Workspace,
    commit::{copy_attributes, temporary_name},
    open_checked::{open_dir, split},
};

/// Restores everything as far as possible, and records it.
pub(super) fn restore(
    (workspace, journal): (&Workspace, &Journal),
    history: &[HistoryItem],
    mut steps: Vec<UndoStep>,
    entries: &[JournalEntry],
    origin: &ChangeOrigin,
    mut report: UndoReport,
) -> Result<UndoReport, UndoError> {
    steps.sort_by(|a, b| a.path.cmp(&b.path));
    let undone: Vec<EntryId> = entries.iter().map(|entry| entry.id.clone()).collect();
    let attributes = attributes::TargetAttributes::collect(journal, &undone);
    let links = TargetLinks::collect(journal, history, entries, workspace.roots());
    let held = links.hold();
    let mut work = TreeRestore { journal, links: &links, failed: HashSet::new(), report: &mut report };
    // Outermost first, because a directory must be accessible to work in it.
    for step in steps.iter().filter(|step| is_directory(&step.current) && is_directory(&step.wanted)) {
        work.attempt(step, |_| open_up(&step.path));
    }
    // Innermost first, because a directory must be empty to be removed.
    for step in steps.iter().rev().filter(|step| makes_room(step)) {
        work.attempt(step, |work| work.remove(step));
    }
    // Existing paths first: missing ones may be hard links to them.
    let is_there =
        |step: &&UndoStep| matches!(step.current, FileState::File { .. } | FileState::Symlink { .. });
    let (there, gone): (Vec<&UndoStep>, Vec<&UndoStep>) =
        steps.iter().filter(|step| step.wanted != FileState::Absent).partition(is_there);
    for step in there.into_iter().chain(gone) {
        work.attempt(step, |work| work.create(step).inspect(|()| links.note_placed(&step.path)));
    }
    // A read-only directory gets its mode after its content.
    for step in steps.iter().rev() {
        if let FileState::Directory { mode } = step.wanted {
            work.attempt(step, |_| set_mode(&step.path, mode));
        }
    }
    links.keep_torn(&held);
    let failed = work.failed;
    let done: Vec<&UndoStep> = steps.iter().filter(|step| !failed.contains(&step.path)).collect();
    if done.is_empty() {
        return Ok(report);
    }
    let changes: Vec<FileChange> = done.iter().map(|step| to_change(step)).collect();
    let entry = journal.record_as(origin, changes, undone.clone())?.id;
    let restored: HashSet<&Path> = done.iter().map(|step| step.path.as_path()).collect();
    // For a redo; without it, only contents and modes are restored.
    report.commits = undone.iter().flat_map(|id| journal.beside(id).commits).collect();
    report.untied = restored.iter().filter(|it| links.is_untied(it)).map(|it| it.to_path_buf()).collect();
    report.untied.sort();
    let (attributes, links) = (attributes.apply(&restored), links.for_redo());
    let beside = EntryAttachments { attributes, links, commits: Vec::new() };
    journal.record_beside(&entry, &beside).ok();
    report.entry = Some(entry);
    report.restored = done.into_iter().map(|step| step.path.clone()).collect();
    report.undone = undone;
    Ok(report)
}

/// Whether the current object must be removed before another can be created.
fn makes_room(step: &UndoStep) -> bool {
    match (&step.current, &step.wanted) {
        (FileState::Absent, _) => false,
        (_, FileState::Absent) => true,
        // A rename replaces a file or symlink.
        (current, wanted) => is_directory(current) != is_directory(wanted),
    }
}

struct TreeRestore<'a> {
    journal: &'a Journal,
    links: &'a TargetLinks<'a>,
    /// Paths that are kept.
    failed: HashSet<PathBuf>,
    report: &'a mut UndoReport,
}

impl TreeRestore<'_> {
    fn attempt(&mut self, step: &UndoStep, act: impl FnOnce(&Self) -> Result<(), String>) {
        if self.failed.contains(&step.path) {
            return;
        }
        if let Err(reason) = act(self) {
            let reason = format!("it could not be put back: {reason}");
            self.report.conflicts.push(Conflict { path: step.path.clone(), reason });
            self.failed.insert(step.path.clone());
        }
    }

    fn remove(&self, step: &UndoStep) -> Result<(), String> {
        if let FileState::File { .. } = step.current {
            // For a redo.
            let file = OpenFile::open(&step.path).map_err(|err| err.to_string())?;
            let kept = self.journal.store_async(&file).map_err(|err| err.to_string())?;
            if kept.hash() != step.current.hash() {
                return Err(String::from("it was changed just now"));
            }
        }
        let flags = match step.current {
            FileState::Directory { .. } => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        beside(&step.path, |dir, name| unlinkat(dir, name, flags))
    }

    fn create(&self, step: &UndoStep) -> Result<(), String> {
        match (&step.current, &step.wanted) {
            (FileState::Directory { .. }, FileState::Directory { .. }) => Ok(()),
            (_, FileState::Directory { .. }) => {
                beside(&step.path, |dir, name| mkdirat(dir, name, Mode::RWXU))
            }
            (_, FileState::Symlink { .. }) if self.links.link(&step.path, &step.wanted) => Ok(()),
            (FileState::Symlink { target: now }, FileState::Symlink { target }) if now == target => {
                // Content is already right; it only needs replacing if it is now linked with names it
                // was not linked with before.
                if self.links.is_foreign(&step.path) { replace_by_link(&step.path, target) } else { Ok(()) }
            }
            (_, FileState::Symlink { target }) => replace_by_link(&step.path, target),
            (_, FileState::File { hash, mode, .. }) => self.create_file(step, hash, *mode),
            (_, FileState::Absent) => Ok(()),
        }
    }

    fn create_file(&self, step: &UndoStep, hash: &crate::ContentHash, mode: u32) -> Result<(), String> {
        if let FileState::File { .. } = step.current {
            let file = OpenFile::open(&step.path).map_err(|err| err.to_string())?;
            let kept = self.journal.store_async(&file).map_err(|err| err.to_string())?;
            // It may already have been restored through another name.
            let is_back = kept.hash() == Some(*hash);
            if is_back && !self.links.is_foreign(&step.path) {
                // It may have been detached from its other names.
                if !self.links.is_the_same(&step.path) {
                    self.links.link(&step.path, &step.wanted);
                }
                return set_mode(&step.path, mode);
            }
            let is_ours = self.links.has_written(&step.path, kept.hash());
            if !is_back && !is_ours && kept.hash() != step.current.hash() {
                return Err(String::from("it was changed just now"));
            }
            if let Some(done) = self.links.overwrite(&step.path, hash) {
                return done.and_then(|()| set_mode(&step.path, mode));
            }
        }
        if self.links.link(&step.path, &step.wanted) {
            return Ok(());
        }
        let (parent, name) = split(&step.path).map_err(|err| err.to_string())?;
        let dir = open_dir(parent).map_err(|err| err.to_string())?;
        let old = matches!(step.current, FileState::File { .. }).then(|| OpenFile::open(&step.path));
        self.write(&dir, name, hash, (mode, old.and_then(Result::ok).as_ref()))
    }

    /// Writes a whole file atomically, with the given mode and otherwise the owner and attributes of the
    /// file it replaces.
    fn write(
        &self,
        dir: &OwnedFd,
        name: &Path,
        hash: &crate::ContentHash,
        (mode, old): (u32, Option<&OpenFile>),
    ) -> Result<(), String> {
        let temp = temporary_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let told = |err: std::io::Error| err.to_string();
        let fd = openat(dir, &*temp, flags, Mode::RUSR | Mode::WUSR).map_err(|err| told(err.into()))?;
        let mut file = File::from(fd);
        let done = self
            .journal
            .write_content(hash, &mut file)
            .map_err(|err| err.to_string())
            .and_then(|()| {
                // As far as permitted; content and mode are restored in any case.
                old.map(|old| copy_attributes(old, &file, Some(mode)).ok());
                file.set_permissions(fs::Permissions::from_mode(mode)).map_err(told)
            })
            .and_then(|()| renameat(dir, &*temp, dir, name).map_err(|err| told(err.into())));
        done.inspect_err(|_| {
            unlinkat(dir, &*temp, AtFlags::empty()).ok();
        })
    }
}

fn is_directory(state: &FileState) -> bool {
    matches!(state, FileState::Directory { .. })
}

/// Makes a directory of ours accessible.
fn open_up(path: &Path) -> Result<(), String> {
    let mode = fs::symlink_metadata(path).map_err(|err| err.to_string())?.mode() & 0o7777;
    if mode & 0o700 == 0o700 { Ok(()) } else { set_mode(path, mode | 0o700) }
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    let found = fs::symlink_metadata(path).map_err(|err| err.to_string())?;
    if found.is_symlink() {
        return Err(String::from("a link is there now"));
    }
    if found.mode() & 0o7777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|err| err.to_string())
}
