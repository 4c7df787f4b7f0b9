//! Git worktrees that cannot lose work.
//!
//! A [`WorktreeManager`] creates git worktrees below `.claude/worktrees` of a repository, tracks who
//! uses them ([`WorktreeRecord`]), reports work that exists only in one ([`UnsavedWork`]), and removes
//! them. Before removal, changes are saved as commits below `refs/haft/rescue` and in the undo journal.
//! All functions block.
//!
//! **Does not know** sessions, agents, tools, rules or hooks: a user of a worktree is two strings and a process.
//!
//! **Invariant:** a worktree is recorded before git creates it, and only recorded worktrees are removed.
//!
//! **Invariant:** before a worktree is removed, every byte that exists only in it is reachable by a name. If that cannot be guaranteed, the worktree is kept.
//!
//! **Invariant:** no program named by a repository runs (hooks, filters and similar are switched off), and a worktree whose link to its repository was changed is not touched.

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

/// Creates, tracks and removes worktrees.
pub struct WorktreeManager {
    runner: GitRunner,
    registry: WorktreeRegistry,
}

impl WorktreeManager {
    /// Stores records below the state directory. Git runs with these variables as a process of `owner`.
    pub fn new(state: &Path, owner: Arc<ProcessOwner>, variables: &EnvVars) -> Self {
        let registry = WorktreeRegistry::at(state.join("worktrees"));
        Self { runner: GitRunner::new(owner, variables), registry }
    }

    /// All recorded worktrees of all repositories, oldest first.
    pub fn records(&self) -> Vec<WorktreeRecord> {
        self.registry.all()
    }

    /// Recorded worktrees of the repository that contains `dir`.
    pub fn records_here(&self, dir: &Path) -> Result<Vec<WorktreeRecord>, String> {
        let repository = self.runner.repository(dir)?;
        Ok(self.records().into_iter().filter(|it| it.common_dir == repository.common_dir).collect())
    }

    /// The worktree that an agent works in, if any.
    pub fn held_by(&self, session: &str, agent: &str) -> Option<WorktreeRecord> {
        let is_held = |it: &WorktreeRecord| {
            it.state == WorktreeState::Ready
                && it.holder.as_ref().is_some_and(|it| it.session == session && it.agent == agent)
        };
        self.records().into_iter().rev().find(is_held)
    }

    /// Makes this process the owner of a worktree, used by `holder` or by nobody.
    pub fn claim(&self, record: &mut WorktreeRecord, holder: Option<WorktreeUser>) -> Result<(), String> {
        record.owner = OwnerProcess::current();
        record.holder = holder;
        self.registry.write(record)
    }

    /// Gives up ownership of a worktree; it is kept on disk.
    pub fn release(&self, record: &mut WorktreeRecord) -> Result<(), String> {
        record.holder = None;
        record.owner = OwnerProcess::none();
        self.registry.write(record)
    }
}
