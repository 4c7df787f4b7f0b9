//! Workspaces of jobs: created by each worker and deleted with it, so that late writes of a lost worker
//! have no effect.

mod create;
mod git;
mod run_command;
mod setup;

use std::path::{Path, PathBuf};

pub(crate) use create::make_workspace;
pub(crate) use git::{changes_since, push_branch};
pub(crate) use run_command::{FleetGit, run_command};
pub(crate) use setup::{SetupContext, run_setup};

/// A workspace that is ready for use.
#[derive(Clone, Debug)]
pub(crate) struct RunWorkspace {
    /// Working directory of the session.
    pub(crate) dir: PathBuf,
    /// Its original state, for patches.
    pub(crate) base: WorkspaceBase,
    /// Where its files are stored.
    pub(crate) home: WorkspaceHome,
}

/// Where the files of a workspace are stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum WorkspaceHome {
    /// With the run: created by each worker and deleted afterwards.
    Run,
    /// In an existing directory of the worker, which is neither restored nor deleted.
    Worker,
    /// On this tool host, independent of the worker.
    Host(String),
}

impl RunWorkspace {
    /// Whether its files stay in place when the run moves.
    pub(crate) fn is_lasting(&self) -> bool {
        self.home != WorkspaceHome::Run
    }
}

/// The original state of a workspace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum WorkspaceBase {
    /// A commit of its repository.
    Commit(String),
    /// A tree in a private repository beside it.
    Tree { git_dir: PathBuf, tree: String },
    /// Empty. The private repository is created on demand.
    Nothing {
        /// Path of the repository to create.
        git_dir: PathBuf,
    },
    /// Unknown, so changes cannot be determined.
    Unknown,
}

impl WorkspaceBase {
    /// Returns the commit, which a worker that takes over starts from as well.
    pub(crate) fn commit(&self) -> Option<&str> {
        match self {
            Self::Commit(commit) => Some(commit),
            Self::Tree { .. } | Self::Nothing { .. } | Self::Unknown => None,
        }
    }

    /// Returns a base that git can diff against; `None` if that is impossible.
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
    /// Creates the paths for a run and epoch below a root; each epoch has its own.
    pub(crate) fn new(root: &Path, run: &str, epoch: u64) -> Self {
        Self { root: root.to_owned(), run: root.join("runs").join(format!("{run}-{epoch}")) }
    }

    /// Returns the directory that contains everything of the run.
    pub(crate) fn run(&self) -> &Path {
        &self.run
    }

    /// Returns it and those of earlier epochs, which are no longer in use.
    pub(crate) fn run_and_earlier(&self) -> Vec<PathBuf> {
        let mut all = self.earlier();
        all.push(self.run.clone());
        all
    }

    /// Returns the directories of earlier epochs, newest last.
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

    /// Moves the undo journal of the previous epoch here. Needed for a persistent workspace directory,
    /// where it describes existing changes.
    pub(crate) fn take_journal_over(&self) {
        if let Some(last) = self.earlier().pop() {
            std::fs::create_dir_all(self.state()).ok();
            std::fs::rename(last.join("state/journal"), self.state().join("journal")).ok();
        }
    }

    /// Working directory of the session.
    pub(crate) fn work(&self) -> PathBuf {
        self.run.join("work")
    }

    /// Haft's state directory for the session.
    pub(crate) fn state(&self) -> PathBuf {
        self.run.join("state")
    }

    /// Git mirrors shared by several runs.
    pub(crate) fn mirrors(&self) -> PathBuf {
        self.root.join("mirrors")
    }

    /// Caches of setup results, by key.
    pub(crate) fn caches(&self) -> PathBuf {
        self.root.join("caches")
    }
}
