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

/// Where a workspace keeps its own files, and which trees are the user's.
#[derive(Clone, Debug)]
pub struct WorkspaceConfig {
    /// Our own directory, such as `~/.haft`.
    pub state_dir: PathBuf,
    /// The directory the session works in, resolved.
    pub root: PathBuf,
    /// What the journal may keep.
    pub limits: JournalLimits,
}

/// The one way to the file system.
#[derive(Debug)]
pub struct Workspace {
    config: WorkspaceConfig,
    locks: PathLocks,
    /// Opened as soon as that works.
    journal: OnceLock<Journal>,
    unrecorded: PendingEntries,
    roots: RwLock<Vec<PathBuf>>,
    later: BackgroundSync,
    /// What an editor shows.
    pub(crate) buffers: Buffers,
}

impl Workspace {
    /// Opens a workspace. A journal that cannot be kept (a full or read-only
    /// home) does not prevent work: changes then say that they cannot be undone,
    /// and it is tried again with each of them.
    pub fn open(config: WorkspaceConfig) -> Result<Self, FileError> {
        let workspace = Self::with_locks(PathLocks::open(&config.state_dir)?, config);
        // What is wrong with it is said by whoever needs it.
        workspace.journal().ok();
        Ok(workspace)
    }

    /// A workspace of tools that are described and never called: nothing is made
    /// on disk for it.
    pub fn described(config: WorkspaceConfig) -> Self {
        Self::with_locks(PathLocks::unmade(&config.state_dir), config)
    }

    fn with_locks(locks: PathLocks, config: WorkspaceConfig) -> Self {
        let roots = RwLock::new(vec![config.root.clone()]);
        let (journal, unrecorded, later) =
            (OnceLock::new(), PendingEntries::default(), BackgroundSync::default());
        Self { locks, journal, unrecorded, roots, config, later, buffers: Buffers::default() }
    }

    /// Puts right what processes left behind that were killed in the middle of a
    /// change: it is completed or taken back, and no temporary file stays.
    pub fn recover(&self) {
        if let Ok(journal) = self.journal() {
            journal.recover(&self.locks);
        }
    }

    /// The directory the session works in.
    pub fn root(&self) -> &Path {
        &self.config.root
    }

    /// Our own directory.
    pub fn state_dir(&self) -> &Path {
        &self.config.state_dir
    }

    /// A further directory (resolved) counts as the user's.
    pub fn add_root(&self, root: PathBuf) {
        let mut roots = self.roots.write().unwrap_or_else(PoisonError::into_inner);
        if !roots.contains(&root) {
            roots.push(root);
        }
    }

    /// The directories that count as the user's.
    pub fn roots(&self) -> Vec<PathBuf> {
        self.roots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The record of changes; the error says why there is none.
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

    /// A command runs that may change something, and nothing can be recorded: that
    /// it ran is listed as soon as possible.
    pub fn note_unseen(&self, origin: ChangeOrigin) {
        self.unrecorded.add(JournalEntry { how: How::Unseen, ..new_entry(origin, Vec::new(), Vec::new()) });
    }

    /// Locks some resolved paths against every other writer of ours, in this
    /// process and in others. Repairs first what a dead one left behind.
    pub fn lock(&self, paths: &[&Path]) -> Result<LockedFiles<'_>, FileError> {
        self.recover();
        Ok(LockedFiles { workspace: self, _guard: self.locks.acquire(paths)? })
    }
}

/// Files that nobody else of us writes meanwhile.
#[derive(Debug)]
pub struct LockedFiles<'a> {
    pub(crate) workspace: &'a Workspace,
    _guard: PathLockGuard,
}

impl LockedFiles<'_> {
    /// Loads a file to change it; `None` when there is none.
    pub fn read(&self, path: &Path) -> Result<Option<(FileSnapshot, Vec<u8>)>, FileError> {
        match OpenFile::open(path) {
            Ok(file) => self.workspace.load_to_change(file).map(Some),
            Err(FileError::NotFound { .. }) => self.workspace.check_new(path).map(|()| None),
            Err(err) => Err(err),
        }
    }

    /// Carries out a batch of changes: all of them or none. What an editor has
    /// unsaved is changed by the editor.
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
        // Perhaps there is room for one line, if not for contents.
        self.workspace.journal().ok();
        Ok(done)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // The last chance to list what could not be recorded.
        if !self.unrecorded.is_empty() {
            self.journal().ok();
        }
    }
}
