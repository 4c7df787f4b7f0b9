//! Takes snapshots of the file system and stores contents.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use haft_workspace::{Attributes, FileObject, FileState, Journal, OpenFile, Workspace, hash_file};

use super::{
    path_tree::{FileStamp, FoundFile, LimitExceeded, PathNode, PathTree, SnapshotLimits, SnapshotWalk},
    record::{LeftRecord, PendingRecord},
};

/// The contents known to be in the store, by path and stamp.
#[derive(Default)]
pub(super) struct KnownContents {
    pub(super) files: HashMap<PathBuf, (FileStamp, FileState, Attributes)>,
    /// Modification times of the store's directories when the contents were last verified; any addition
    /// or removal changes them.
    store: Vec<Option<SystemTime>>,
}

/// A snapshot, with the paths that undo cannot restore.
pub(super) struct TreeSnapshot {
    pub(super) tree: PathTree,
    /// Paths that are too large or not readable, so their content is not stored.
    pub(super) left_out: Vec<PathBuf>,
    /// Identity of the files in `left_out`, so that they are recognised after a move.
    pub(super) left_objects: Vec<FileObject>,
    /// How many entries at the end of `left_out` are unreadable rather than too large.
    unreadable: usize,
}

impl TreeSnapshot {
    /// Returns the notes to show before the command runs.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let large: Vec<String> = self
            .left_out
            .iter()
            .take(self.left_out.len() - self.unreadable)
            .map(|it| it.display().to_string())
            .collect();
        if !large.is_empty() {
            notes.push(format!("undo does not cover {}", large.join(", ")));
        }
        if 0 < self.unreadable {
            notes.push(format!("undo does not cover {} paths that cannot be read", self.unreadable));
        }
        notes
    }
}

/// What the snapshot before the command left out. The snapshot after it skips the same, which would
/// otherwise look newly created.
#[derive(Debug, Default)]
pub(super) struct SkippedPaths {
    pub(super) paths: HashSet<PathBuf>,
    pub(super) objects: HashSet<FileObject>,
}

impl SkippedPaths {
    pub(super) fn of(pending: &PendingRecord) -> Self {
        Self {
            paths: pending.left_out.iter().cloned().collect(),
            objects: pending.left_objects.iter().copied().collect(),
        }
    }
}

/// What a snapshot does with file contents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum StoredContents {
    /// The content must be in the store, for a later undo. Otherwise taking the snapshot fails.
    Stored,
    /// The hash is enough: undo stores the content that it replaces.
    Known,
}

/// Why a snapshot could not be taken.
#[derive(Debug)]
pub(super) enum TakeError {
    /// The limits were exceeded.
    TooMuch,
    /// A content could not be stored; the text gives the reason.
    Store(String),
}

impl From<LimitExceeded> for TakeError {
    fn from(LimitExceeded: LimitExceeded) -> Self {
        Self::TooMuch
    }
}

/// Number of files above which checking the store's directories is cheaper than checking each content.
const MANY: usize = 512;

impl KnownContents {
    /// Takes over the known contents of an ended session.
    pub(super) fn learn(&mut self, left: &LeftRecord) {
        for (path, node) in left.last().into_iter().flatten() {
            if let Some(stamp) = node.stamp {
                self.files.insert(path, (stamp, node.state, node.attributes));
            }
        }
    }
}

/// Takes snapshots and stores the contents of files.
pub(super) struct SnapshotTaker<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) journal: &'a Journal,
    pub(super) limits: SnapshotLimits,
    pub(super) known: &'a mut KnownContents,
}

impl SnapshotTaker<'_> {
    /// Takes a snapshot of everything at and below `starts`. Blocks on the file system.
    pub(super) fn take(
        &mut self,
        starts: &[PathBuf],
        skipped: &SkippedPaths,
        contents: StoredContents,
    ) -> Result<TreeSnapshot, TakeError> {
        let now = now();
        let except = [self.workspace.state_dir().to_owned()];
        let mut limits = self.limits;
        let device = |path: &Path| fs::metadata(path).map(|it| it.dev()).ok();
        let store = device(self.journal.dir());
        if starts.iter().any(|start| device(start).is_some_and(|it| Some(it) != store)) {
            // Hard links to another file system are impossible.
            limits.objects = limits.generated;
        }
        let mut walk = SnapshotWalk::new(limits, &except, skipped);
        let roots = self.workspace.roots();
        for start in starts {
            walk.add(start)?;
            if !roots.contains(start) {
                walk.add_around(start);
            }
        }
        // For a few files it is cheaper to check each content.
        let looks_at_store = MANY < walk.files.len();
        let times = if looks_at_store { self.journal.store_times() } else { Vec::new() };
        let untouched = looks_at_store && self.known.store == times;
        let mut nodes = walk.others;
        let (mut left_out, mut unreadable) = (walk.left_out, walk.unreadable);
        for found in walk.files {
            match self.content(&found, now, untouched, contents)? {
                Some((state, attributes)) => {
                    nodes.push((found.path, PathNode { state, stamp: Some(found.stamp), attributes }));
                }
                None => unreadable.push(found.path),
            }
        }
        let count = unreadable.len();
        // Files that existed but could not be read must not look new afterwards.
        left_out.append(&mut unreadable);
        if looks_at_store {
            self.known.store = match self.journal.store_times() {
                after if after == times => times,
                // This snapshot itself added contents, so the next one checks again.
                _ => Vec::new(),
            };
        }
        let object = |path: &PathBuf| fs::symlink_metadata(path).ok().map(|it| FileObject::of(&it));
        let left_objects = left_out.iter().filter_map(object).collect();
        Ok(TreeSnapshot { tree: nodes.into_iter().collect(), left_out, left_objects, unreadable: count })
    }

    /// Returns the state of a file, storing its content; `None` if it cannot be read.
    fn content(
        &mut self,
        found: &FoundFile,
        now: (i64, i64),
        untouched: bool,
        contents: StoredContents,
    ) -> Result<Option<(FileState, Attributes)>, TakeError> {
        if let Some((stamp, state, attributes)) = self.known.files.get(&found.path)
            && *stamp == found.stamp
            && let FileState::File { hash, len, .. } = state
            && (untouched || self.journal.has(hash, *len))
        {
            let state = FileState::File { hash: *hash, len: *len, mode: found.mode() };
            return Ok(Some((state, attributes.clone())));
        }
        let Ok(file) = OpenFile::open(&found.path) else { return Ok(None) };
        let attributes = Attributes::read(&found.path, &found.meta);
        let kept =
            if found.immutable { self.journal.store_by_link(&file) } else { self.journal.store_async(&file) };
        let state = match kept {
            Ok(state) => state,
            Err(err) => {
                self.known.files.remove(&found.path);
                // If the file can be read but not stored, the store is at fault.
                let Ok(hash) = hash_file(&found.path) else { return Ok(None) };
                if contents == StoredContents::Stored {
                    return Err(TakeError::Store(err.reason()));
                }
                let state = FileState::File { hash, len: file.stamp().len, mode: found.mode() };
                return Ok(Some((state, attributes)));
            }
        };
        // The file may have changed while it was read.
        let Ok(stamp) = fs::symlink_metadata(&found.path).map(|it| FileStamp::from_metadata(&it)) else {
            return Ok(None);
        };
        // Hard-linking into the store changes the stamp but not the content.
        let same = stamp == found.stamp || (found.immutable && stamp.has_content_of(&found.stamp));
        if same && (found.immutable || stamp.is_settled(now)) {
            self.known.files.insert(found.path.clone(), (stamp, state.clone(), attributes.clone()));
        } else {
            self.known.files.remove(&found.path);
        }
        Ok(Some((state, attributes)))
    }
}

fn now() -> (i64, i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(now.as_secs()).unwrap_or(i64::MAX), i64::from(now.subsec_nanos()))
}
