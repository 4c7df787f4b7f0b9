use std::{
    path::{Path, PathBuf},
    sync::{OnceLock, PoisonError, RwLock},
};

use crate::{
    ChangeOrigin, CommitError, CommittedBatch, EntryId, FileChange, FileError, FileSnapshot, How, Journal,
    JournalEntry, JournalLimits, OpenFile, PlannedWrite,
    background_sync::BackgroundSync,
    commit::{CommitContext, commit},
    journal::new_entry,
    overlay::{Buffers, commit_through_editor},
    path_locks::{PathLockGuard, PathLocks},
    pending_entries::PendingEntries,
};

/// Configuration of a workspace.
#[derive(Clone, Debug)]
pub struct WorkspaceConfig {
    /// Haft's state directory, such as `~/.haft`.
    pub state_dir: PathBuf,
    /// Resolved working directory of the session.
    pub root: PathBuf,
    /// Limits of the journal.
    pub limits: JournalLimits,
}

/// Reads and changes the files of a session.
#[derive(Debug)]
pub struct Workspace {
    config: WorkspaceConfig,
    locks: PathLocks,
    /// Opened as soon as possible.
    journal: OnceLock<Journal>,
    unrecorded: PendingEntries,
    roots: RwLock<Vec<PathBuf>>,
    later: BackgroundSync,
    /// State of the editor's buffers.
    pub(crate) buffers: Buffers,
}

impl Workspace {
    /// Opens a workspace. If the journal cannot be opened (full or read-only disk), changes are still
    /// possible: they report that they cannot be undone, and each retries to open it.
    pub fn open(config: WorkspaceConfig) -> Result<Self, FileError> {
        let workspace = Self::with_locks(PathLocks::open(&config.state_dir)?, config);
        // Errors are reported when the journal is needed.
        workspace.journal().ok();
        Ok(workspace)
    }

    /// A workspace for tools that are described but never called; creates nothing on disk.
    pub fn described(config: WorkspaceConfig) -> Self {
        Self::with_locks(PathLocks::unmade(&config.state_dir), config)
    }

    fn with_locks(locks: PathLocks, config: WorkspaceConfig) -> Self {
        let roots = RwLock::new(vec![config.root.clone()]);
        let (journal, unrecorded, later) =
            (OnceLock::new(), PendingEntries::default(), BackgroundSync::default());
        Self { locks, journal, unrecorded, roots, config, later, buffers: Buffers::default() }
    }

    /// Completes or reverts changes of processes that were killed in the middle, and removes their
    /// temporary files.
    pub fn recover(&self) {
        if let Ok(journal) = self.journal() {
            journal.recover(&self.locks);
        }
    }

    /// Working directory of the session.
    pub fn root(&self) -> &Path {
        &self.config.root
    }

    /// Haft's state directory.
    pub fn state_dir(&self) -> &Path {
        &self.config.state_dir
    }

    /// Adds a resolved directory to the roots.
    pub fn add_root(&self, root: PathBuf) {
        let mut roots = self.roots.write().unwrap_or_else(PoisonError::into_inner);
        if !roots.contains(&root) {
            roots.push(root);
        }
    }

    /// The working directory and added directories.
    pub fn roots(&self) -> Vec<PathBuf> {
        self.roots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The journal; the error says why there is none. Retries to open it.
    pub fn journal(&self) -> Result<&Journal, String> {
        let journal = match self.journal.get() {
            Some(journal) => journal,
            None => {
                let opened = Journal::open(&self.config.state_dir, &self.config.root, self.config.limits);
                let opened = opened.map_err(|err| err.reason())?;
                self.journal.get_or_init(|| opened)
            }
        };
        if !self.unrecorded.is_empty() {
            self.unrecorded.flush(journal);
        }
        Ok(journal)
    }

    /// Records that a command ran that may have changed files while nothing could be recorded; it is
    /// added to the log as soon as possible.
    pub fn record_unrecorded_change(&self, origin: ChangeOrigin) {
        self.unrecorded.add(JournalEntry { how: How::Unseen, ..new_entry(origin, Vec::new(), Vec::new()) });
    }

    /// Locks resolved paths against other Haft writers in all processes. First repairs interrupted
    /// changes. Blocks up to ten seconds; then fails with [`FileError::Busy`].
    pub fn lock(&self, paths: &[&Path]) -> Result<LockedFiles<'_>, FileError> {
        self.recover();
        Ok(LockedFiles { workspace: self, _guard: self.locks.acquire(paths)? })
    }
}

/// Locked files. Released on drop.
#[derive(Debug)]
pub struct LockedFiles<'a> {
    pub(crate) workspace: &'a Workspace,
    _guard: PathLockGuard,
}

impl LockedFiles<'_> {
    /// Reads a file to change it; `None` if it does not exist.
    pub fn read(&self, path: &Path) -> Result<Option<(FileSnapshot, Vec<u8>)>, FileError> {
        match OpenFile::open(path) {
            Ok(file) => self.workspace.load_to_change(file).map(Some),
            Err(FileError::NotFound { .. }) => self.workspace.check_new(path).map(|()| None),
            Err(err) => Err(err),
        }
    }

    /// Carries out a batch of changes completely or not at all. Files with unsaved text are changed
    /// through the editor.
    pub fn commit(
        &self,
        changes: &[PlannedWrite<'_>],
        origin: &ChangeOrigin,
    ) -> Result<CommittedBatch, CommitError> {
        if changes.iter().any(|it| it.base.is_some_and(|base| base.unsaved().is_some())) {
            return commit_through_editor(self, changes, origin);
        }
        self.commit_as(changes, origin, Vec::new(), Vec::new())
    }

    pub(crate) fn commit_as(
        &self,
        changes: &[PlannedWrite<'_>],
        origin: &ChangeOrigin,
        undoes: Vec<EntryId>,
        further: Vec<FileChange>,
    ) -> Result<CommittedBatch, CommitError> {
        let roots = self.workspace.roots();
        let journal = self.workspace.journal();
        let Workspace { later, unrecorded, .. } = self.workspace;
        let kept = journal.as_ref().ok().copied();
        let setting =
            CommitContext { roots: &roots, journal: kept, later, origin, undoes, unrecorded, further };
        let mut done = commit(changes, &setting)?;
        if let Err(reason) = journal {
            done.notes.push(format!("this change cannot be undone: {reason}"));
        }
        // There may be room for a log line even if not for contents.
        self.workspace.journal().ok();
        Ok(done)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Last attempt to log pending entries.
        if !self.unrecorded.is_empty() {
            self.journal().ok();
        }
    }
}
