//! Removes worktrees after saving their work.

use std::path::{Path, PathBuf};

use haft_workspace::{ChangeOrigin, Workspace};

use crate::{
    OwnerProcess, UnsavedWork, WorktreeManager, WorktreeRecord, WorktreeState, journal_backup::JournalBackup,
    repository::RepositoryInfo,
};

/// A removed worktree.
#[derive(Clone, Debug, Default)]
pub struct RemovedWorktree {
    /// Work that was in it.
    pub found: UnsavedWork,
    /// Refs of the commits that hold its changes.
    pub rescued: Vec<String>,
    /// Journal entry with which `haft undo` restores it.
    pub undo: Option<String>,
    /// Whether its branch was deleted.
    pub branch_removed: bool,
    /// Notes for the user or model.
    pub notes: Vec<String>,
}

/// What to save in the journal before removing a worktree.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RemovalBackup {
    /// Everything, so that it can be restored exactly.
    Everything,
    /// Nothing if no work exists only there, everything otherwise.
    WhatIsOnlyThere,
}

impl WorktreeManager {
    /// Removes a worktree after saving its work as commits and in the journal. On error the worktree is
    /// kept; commits and journal entries made so far remain. For a worktree made by a hook it only saves
    /// the content: the hook removes it. Blocks: runs git.
    pub fn remove(
        &self,
        record: &mut WorktreeRecord,
        kept: RemovalBackup,
        workspace: &Workspace,
        origin: &ChangeOrigin,
    ) -> Result<RemovedWorktree, String> {
        if record.is_of_hook {
            return self.give_up(record, workspace, origin);
        }
        if !record.is_ours {
            return Err(format!("{} was not made by Haft, so it stays", record.path.display()));
        }
        if record.owner.is_alive() && !record.owner.is_this_one() {
            return Err(format!("{} is in use by another process", record.path.display()));
        }
        if record.state == WorktreeState::Making {
            return self.remove_cut_off(record, workspace, origin);
        }
        let found = self.inspect(record)?;
        if !found.obstacles.is_empty() {
            return Err(format!("{} stays: {}", record.path.display(), found.obstacles.join(", ")));
        }
        let repository = self.runner.repository_of(record)?;
        let rescued = self.rescue(record, &found)?;
        record.rescued.extend(rescued.iter().cloned());
        self.registry.write(record)?;
        let branch_goes = found.commits == 0;
        let (undo, mut notes) = if kept == RemovalBackup::WhatIsOnlyThere && found.is_untouched() {
            (None, Vec::new())
        } else {
            keep_files(record, &found, branch_goes, workspace, origin)?
        };
        record.undo.clone_from(&undo);
        self.registry.write(record)?;
        // Loose commits are reachable by a ref now; everything else must be unchanged.
        let again = UnsavedWork { loose: found.loose.clone(), ..self.inspect(record)? };
        if again != found {
            return Err(format!("{} stays: something in it changed just now", record.path.display()));
        }
        let main = self.runner.repository(&record.top)?;
        let line = main.line("worktree").flag("remove").flag("--force").plain(&record.path.to_string_lossy());
        self.runner.run(&record.top, &line.text())?.checked("git could not remove it")?;
        let branch_removed = branch_goes && self.remove_branch(&repository, record, &mut notes);
        record.state = WorktreeState::Removed;
        record.holder = None;
        record.owner = OwnerProcess::none();
        self.registry.write(record)?;
        Ok(RemovedWorktree { found, rescued, undo, branch_removed, notes })
    }

    /// Saves the whole content of a worktree that a hook is about to remove.
    fn give_up(
        &self,
        record: &mut WorktreeRecord,
        workspace: &Workspace,
        origin: &ChangeOrigin,
    ) -> Result<RemovedWorktree, String> {
        let Some(going) = JournalBackup::below([record.path.as_path()]) else {
            return Err(format!("{} stays: there is too much in it to keep", record.path.display()));
        };
        let undo = going.keep(workspace, origin)?;
        record.undo = Some(undo.clone());
        record.state = WorktreeState::Removed;
        record.holder = None;
        record.owner = OwnerProcess::none();
        self.registry.write(record)?;
        Ok(RemovedWorktree { undo: Some(undo), ..RemovedWorktree::default() })
    }

    /// Deletes a branch without own commits.
    pub(crate) fn remove_branch(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
        notes: &mut Vec<String>,
    ) -> bool {
        let Some(branch) = &record.branch else { return false };
        let name = format!("refs/heads/{branch}");
        let main = RepositoryInfo { top: record.top.clone(), ..repository.clone() };
        if !self.has_branch(&main, branch) {
            return false;
        }
        let tip = main.line("rev-parse").flag("--verify").flag("--quiet").plain(&name).text();
        let tip = self.runner.run(&record.top, &tip).map(|it| it.text()).unwrap_or_default();
        let line = main.line("update-ref").flag("-d").plain(&name).plain(&tip).text();
        let gone = self.runner.run(&record.top, &line).is_ok_and(|it| it.code == 0);
        if !gone {
            notes.push(format!("Its branch {branch} stays."));
        }
        gone
    }
}

/// Saves the whole worktree in the journal or, if it is too large, only what exists nowhere else.
fn keep_files(
    record: &WorktreeRecord,
    found: &UnsavedWork,
    branch_goes: bool,
    workspace: &Workspace,
    origin: &ChangeOrigin,
) -> Result<(Option<String>, Vec<String>), String> {
    let mut places: Vec<PathBuf> = vec![record.path.clone(), record.admin_dir.clone()];
    if let Some(branch) = record.branch.as_ref().filter(|_| branch_goes) {
        places.push(record.common_dir.join("refs/heads").join(branch));
        places.push(record.common_dir.join("logs/refs/heads").join(branch));
    }
    if let Some(all) = JournalBackup::below(places.iter().map(PathBuf::as_path)) {
        let all = all.with_emptied(&record.common_dir.join("worktrees"));
        return Ok((Some(all.keep(workspace, origin)?), Vec::new()));
    }
    let only_here = |it: &Path| record.path.join(it);
    let Some(ignored) = JournalBackup::only(found.ignored.iter().map(|it| only_here(&it.path))) else {
        return Err(format!(
            "{} stays: {} ignored file(s) in it are too many or too large to keep",
            record.path.display(),
            found.ignored.len()
        ));
    };
    let note = String::from("It was too large to be brought back whole: what is in commits is only there.");
    if found.ignored.is_empty() {
        Ok((None, vec![note]))
    } else {
        Ok((Some(ignored.keep(workspace, origin)?), vec![note]))
    }
}
