//! Worktrees that cannot lose work.
//!
//! A [`WorktreeManager`] makes git worktrees below `.claude/worktrees` of a
//! repository, knows whose they are ([`WorktreeRecord`]), says what is in one
//! that is nowhere else ([`UnsavedWork`]), and removes them: what was changed is
//! kept first, as commits under `refs/haft/rescue` and in the journal of the
//! files. Everything here blocks.
//!
//! **Does not know** sessions, agents, tools, rules or hooks: who owns a
//! worktree is two texts and a process.
//!
//! **Invariant:** a worktree is written down before git makes it, and only what
//! is written down is ever removed.
//!
//! **Invariant:** before a worktree is removed, every byte in it that is in no
//! other place can be reached by a name. Where that cannot be made sure of, it
//! stays.
//!
//! **Invariant:** no program that a repository names runs: hooks, filters and
//! the like of its own configuration are switched off, and a worktree whose link
//! to its repository was changed is not touched.

mod create;
mod git_runner;
mod include_files;
mod inspect;
mod interrupted;
mod journal_backup;
mod owner_process;
mod remove;
mod repository;
mod rescue_commits;
mod sweep;
mod worktree_record;

pub use create::{CreateWorktree, CreatedWorktree, WorktreeBase, WorktreeContents};
pub use inspect::{ChangedFile, UnsavedWork};
pub use interrupted::InterruptedWorktree;
pub use owner_process::OwnerProcess;
pub use remove::{RemovalBackup, RemovedWorktree};
pub use sweep::SweptWorktrees;
pub use worktree_record::{IncludedFile, WorktreeRecord, WorktreeState, WorktreeUser};

use std::{path::Path, sync::Arc};

use haft_process::ProcessOwner;
use haft_types::EnvVars;

use self::{git_runner::GitRunner, worktree_record::WorktreeRegistry};

/// Makes, knows and removes worktrees.
pub struct WorktreeManager {
    runner: GitRunner,
    registry: WorktreeRegistry,
}

impl WorktreeManager {
    /// Writes down what it does below a state directory. Git runs with these
    /// variables, owned by this owner.
    pub fn new(state: &Path, owner: Arc<ProcessOwner>, variables: &EnvVars) -> Self {
        let registry = WorktreeRegistry::at(state.join("worktrees"));
        Self { runner: GitRunner::new(owner, variables), registry }
    }

    /// All worktrees that are written down, those of other repositories
    /// included, the oldest first.
    pub fn records(&self) -> Vec<WorktreeRecord> {
        self.registry.all()
    }

    /// Those of the repository a directory is in.
    pub fn records_here(&self, dir: &Path) -> Result<Vec<WorktreeRecord>, String> {
        let repository = self.runner.repository(dir)?;
        Ok(self.records().into_iter().filter(|it| it.common_dir == repository.common_dir).collect())
    }

    /// The worktree that somebody works in, if there is one.
    pub fn held_by(&self, session: &str, agent: &str) -> Option<WorktreeRecord> {
        let is_held = |it: &WorktreeRecord| {
            it.state == WorktreeState::Ready
                && it.holder.as_ref().is_some_and(|it| it.session == session && it.agent == agent)
        };
        self.records().into_iter().rev().find(is_held)
    }

    /// This process has a worktree from now on, for somebody or nobody.
    pub fn claim(&self, record: &mut WorktreeRecord, holder: Option<WorktreeUser>) -> Result<(), String> {
        record.owner = OwnerProcess::of_this_one();
        record.holder = holder;
        self.registry.write(record)
    }

    /// Nobody works in a worktree any more; it stays.
    pub fn release(&self, record: &mut WorktreeRecord) -> Result<(), String> {
        record.holder = None;
        record.owner = OwnerProcess::nobody();
        self.registry.write(record)
    }
}
