//! Where a job works: made anew for every worker that has it, and thrown away
//! with it, so that what a lost worker still writes reaches nobody.

mod create;
mod git;
mod run_command;
mod setup;

use std::path::{Path, PathBuf};

pub(crate) use create::make_workspace;
pub(crate) use git::{changes_since, push_branch};
pub(crate) use run_command::{FleetGit, run_command};
pub(crate) use setup::{SetupContext, run_setup};

/// A workspace that is ready.
#[derive(Clone, Debug)]
pub(crate) struct RunWorkspace {
    /// Where the session works.
    pub(crate) dir: PathBuf,
    /// What it began from, for patches.
    pub(crate) base: WorkspaceBase,
    /// Where its files live.
    pub(crate) home: WorkspaceHome,
}

/// Where the files of a workspace live.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum WorkspaceHome {
    /// With the run: made by every worker, thrown away after it.
    Run,
    /// In a directory of the worker itself, which is neither restored nor removed.
    Worker,
    /// On this tool host, whoever the worker is.
    Host(String),
}

impl RunWorkspace {
    /// Whether its files stay where they are when the run moves on.
    pub(crate) fn is_lasting(&self) -> bool {
        self.home != WorkspaceHome::Run
    }
}

/// What a workspace began from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum WorkspaceBase {
    /// A commit of the repository in it.
    Commit(String),
    /// A tree in a repository of ours beside it.
    Tree {
        /// The repository.
        git_dir: PathBuf,
        /// The tree.
        tree: String,
    },
    /// Nothing: everything in it is new. The repository of ours is made when it is
    /// needed.
    Nothing {
        /// Where it is then.
        git_dir: PathBuf,
    },
    /// Nothing that changes could be compared with.
    Unknown,
}

impl WorkspaceBase {
    /// The commit, for the log: who takes over begins from the same.
    pub(crate) fn commit(&self) -> Option<&str> {
        match self {
            Self::Commit(commit) => Some(commit),
            Self::Tree { .. } | Self::Nothing { .. } | Self::Unknown => None,
        }
    }

    /// A base that git can compare with; none while there is nothing to compare.
    pub(crate) async fn comparable(&self, dir: &Path) -> Result<Option<Self>, String> {
        let Self::Nothing { git_dir } = self else {
            return Ok((*self != Self::Unknown).then(|| self.clone()));
        };
        let is_empty = std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
        if is_empty && !git_dir.exists() {
            return Ok(None);
        }
        create::empty_tree(git_dir).await.map(Some)
    }
}

/// Directories of one run at one worker.
#[derive(Clone, Debug)]
pub(crate) struct RunDirs {
    root: PathBuf,
    run: PathBuf,
}

impl RunDirs {
    /// Those of a run and epoch below a root. No other epoch has the same.
    pub(crate) fn new(root: &Path, run: &str, epoch: u64) -> Self {
        Self { root: root.to_owned(), run: root.join("runs").join(format!("{run}-{epoch}")) }
    }

    /// Everything of the run.
    pub(crate) fn run(&self) -> &Path {
        &self.run
    }

    /// The same and those of earlier epochs, which nobody has any more.
    pub(crate) fn run_and_earlier(&self) -> Vec<PathBuf> {
        let mut all = self.earlier();
        all.push(self.run.clone());
        all
    }

    /// Directories of the run at earlier epochs, the newest last.
    fn earlier(&self) -> Vec<PathBuf> {
        let runs = self.root.join("runs");
        let own = self.run.file_name().and_then(|it| it.to_str()).and_then(|it| it.rsplit_once('-'));
        let Some((run, epoch)) = own else { return Vec::new() };
        let own: u64 = epoch.parse().unwrap_or_default();
        let entries = std::fs::read_dir(&runs).into_iter().flatten().flatten();
        let mut found: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| {
                let name = entry.file_name();
                let (other, epoch) = name.to_str()?.rsplit_once('-')?;
                let epoch: u64 = epoch.parse().ok()?;
                (other == run && epoch < own).then(|| (epoch, entry.path()))
            })
            .collect();
        found.sort();
        found.into_iter().map(|(_, path)| path).collect()
    }

    /// A directory that stays where it is has its journal at the worker before: what
    /// it knows about calls and how to take them back is needed here.
    pub(crate) fn take_journal_over(&self) {
        if let Some(last) = self.earlier().pop() {
            std::fs::create_dir_all(self.state()).ok();
            std::fs::rename(last.join("state/journal"), self.state().join("journal")).ok();
        }
    }

    /// Where the session works.
    pub(crate) fn work(&self) -> PathBuf {
        self.run.join("work")
    }

    /// Haft's own directory for the session.
    pub(crate) fn state(&self) -> PathBuf {
        self.run.join("state")
    }

    /// Repositories that several runs share.
    pub(crate) fn mirrors(&self) -> PathBuf {
        self.root.join("mirrors")
    }

    /// What setups made, by key.
    pub(crate) fn caches(&self) -> PathBuf {
        self.root.join("caches")
    }
}
