//! Clearing away worktrees that nobody has any more and nothing is in.

use std::path::Path;

use haft_workspace::{ChangeOrigin, Workspace};

use crate::{RemovalBackup, WorktreeManager, WorktreeRecord, WorktreeState, interrupted::BranchCleanup};

/// What became of worktrees that killed sessions left.
#[derive(Clone, Debug, Default)]
pub struct SweptWorktrees {
    /// Those that are gone: nothing was in them.
    pub removed: Vec<WorktreeRecord>,
    /// Those with something in them, and what that is.
    pub left: Vec<(WorktreeRecord, String)>,
}

impl WorktreeManager {
    /// Clears away worktrees of the repository around a directory that were made
    /// for other sessions, whose process is gone, and that hold nothing that is
    /// not elsewhere. All others stay.
    pub fn sweep(
        &self,
        dir: &Path,
        session: &str,
        workspace: &Workspace,
        origin: &ChangeOrigin,
    ) -> SweptWorktrees {
        let mut swept = SweptWorktrees::default();
        let all = self.records();
        if all.iter().all(|it| it.state == WorktreeState::Removed) {
            return swept;
        }
        let Ok(repository) = self.runner.repository(dir) else { return swept };
        let is_meant = |record: &WorktreeRecord| {
            record.common_dir == repository.common_dir
                && record.state != WorktreeState::Removed
                && record.is_ours
                && !record.is_kept
                && (record.session != session || record.state == WorktreeState::Making)
                && !record.owner.is_alive()
        };
        for path in all.into_iter().filter(|it| is_meant(it)).map(|it| it.path) {
            // Somebody may have taken it since, or be about to.
            let Some(_lock) = self.registry.try_lock(&path) else { continue };
            let Some(mut record) = self.registry.read(&path).filter(|it| is_meant(it)) else { continue };
            if record.state == WorktreeState::Making {
                let was_there = record.is_there();
                match self.clear_untouched(&record) {
                    Ok(branch) => {
                        if branch != BranchCleanup::Empty {
                            self.registry.forget(&record);
                        }
                        swept.removed.extend(Some(record).filter(|_| was_there));
                    }
                    Err(why) => swept.left.push((record, why)),
                }
                continue;
            }
            if !record.is_there() {
                // Somebody else removed it.
                continue;
            }
            let found = match self.inspect(&record) {
                Ok(found) => found,
                Err(why) => {
                    swept.left.push((record, why));
                    continue;
                }
            };
            if !found.is_untouched() {
                swept.left.push((record, found.words()));
                continue;
            }
            match self.remove(&mut record, RemovalBackup::WhatIsOnlyThere, workspace, origin) {
                Ok(_) => swept.removed.push(record),
                Err(why) => swept.left.push((record, why)),
            }
        }
        swept
    }
}
