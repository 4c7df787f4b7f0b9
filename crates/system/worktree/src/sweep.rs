//! Removes abandoned worktrees without work.

use std::path::Path;

use haft_workspace::{ChangeOrigin, Workspace};

use crate::{RemovalBackup, WorktreeManager, WorktreeRecord, WorktreeState, interrupted::BranchCleanup};

/// Worktrees of killed sessions.
#[derive(Clone, Debug, Default)]
pub struct SweptWorktrees {
    /// Removed: no work in them.
    pub removed: Vec<WorktreeRecord>,
    /// Kept, with a description of their work.
    pub left: Vec<(WorktreeRecord, String)>,
}

impl WorktreeManager {
    /// Removes worktrees of the repository around `dir` that belong to other sessions, whose process has
    /// ended, and that contain no work of their own. All others are kept.
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
            // Another process may have claimed it or be claiming it.
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
                // Another process removed it.
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
