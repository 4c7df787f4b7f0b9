//! Looking at the disk before and after a command, and keeping contents.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use haft_workspace::{Attributes, FileObject, FileState, Journal, OpenFile, Workspace, hash_file};

use super::{
    record::{Left, PendingRecord},
    tree::{FileStamp, Found, LimitExceeded, PathNode, PathTree, SnapshotLimits, Walk},
};

/// What was kept, and when the store was last seen to hold it.
#[derive(Default)]
pub(super) struct Known {
    pub(super) files: HashMap<PathBuf, (FileStamp, FileState, Attributes)>,
    /// The times of the store's directories: whatever is added or removed
    /// changes them.
    store: Vec<Option<SystemTime>>,
}

/// What was found, and what of it cannot be brought back.
pub(super) struct TreeSnapshot {
    pub(super) tree: PathTree,
    /// Too large or not readable: the content is not known.
    pub(super) left_out: Vec<PathBuf>,
    /// The same, wherever a command moves it.
    pub(super) left_objects: Vec<FileObject>,
    /// How many at the end of `left_out` could not be read.
    unreadable: usize,
}

impl TreeSnapshot {
    /// What is said about it before the command runs.
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

/// What nothing is known of, and what is therefore not looked at either when the
/// command has ended: it would seem to be new.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    pub(super) paths: HashSet<PathBuf>,
    pub(super) objects: HashSet<FileObject>,
}

impl Skipped {
    pub(super) fn of(pending: &PendingRecord) -> Self {
        Self {
            paths: pending.left_out.iter().cloned().collect(),
            objects: pending.left_objects.iter().copied().collect(),
        }
    }
}

/// What has to be known of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum StoredContents {
    /// Its content is in the store, for an undo.
    Stored,
    /// Its fingerprint is known. An undo stores what it replaces by itself.
    Known,
}

/// Why a tree could not be taken.
#[derive(Debug)]
pub(super) enum TakeError {
    /// There is more than the limits allow.
    TooMuch,
    /// The store does not take a content.
    Store(String),
}

impl From<LimitExceeded> for TakeError {
    fn from(LimitExceeded: LimitExceeded) -> Self {
        Self::TooMuch
    }
}

/// From so many files on it is worth looking at the directories of the store.
const MANY: usize = 512;

impl Known {
    /// Takes over what a session knew that is gone.
    pub(super) fn learn(&mut self, left: &Left) {
        for (path, node) in left.last().into_iter().flatten() {
            if let Some(stamp) = node.stamp {
                self.files.insert(path, (stamp, node.state, node.attributes));
            }
        }
    }
}

/// Looks at the disk and keeps contents.
pub(super) struct SnapshotTaker<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) journal: &'a Journal,
    pub(super) limits: SnapshotLimits,
    pub(super) known: &'a mut Known,
}

impl SnapshotTaker<'_> {
    /// Everything at and below some places.
    pub(super) fn take(
        &mut self,
        starts: &[PathBuf],
        skipped: &Skipped,
        contents: StoredContents,
    ) -> Result<TreeSnapshot, TakeError> {
        let now = now();
        let except = [self.workspace.state_dir().to_owned()];
        let mut limits = self.limits;
        let device = |path: &Path| fs::metadata(path).map(|it| it.dev()).ok();
        let store = device(self.journal.dir());
        if starts.iter().any(|start| device(start).is_some_and(|it| Some(it) != store)) {
            // Nothing gets a second name on another disk.
            limits.objects = limits.generated;
        }
        let mut walk = Walk::new(limits, &except, skipped);
        let roots = self.workspace.roots();
        for start in starts {
            walk.add(start)?;
            if !roots.contains(start) {
                walk.add_around(start);
            }
        }
        // Looking whether each of a few contents is there is less work than looking at the whole store.
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
        // What was there and could not be seen must not look new afterwards.
        left_out.append(&mut unreadable);
        if looks_at_store {
            self.known.store = match self.journal.store_times() {
                after if after == times => times,
                // What we added ourselves is looked at once more.
                _ => Vec::new(),
            };
        }
        let object = |path: &PathBuf| fs::symlink_metadata(path).ok().map(|it| FileObject::of(&it));
        let left_objects = left_out.iter().filter_map(object).collect();
        Ok(TreeSnapshot { tree: nodes.into_iter().collect(), left_out, left_objects, unreadable: count })
    }

    /// The content of a file; `None` where it cannot be read.
    fn content(
        &mut self,
        found: &Found,
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
            if found.immutable { self.journal.keep_immutable(&file) } else { self.journal.keep_soon(&file) };
        let state = match kept {
            Ok(state) => state,
            Err(err) => {
                self.known.files.remove(&found.path);
                // What can be read and not kept is the fault of the store.
                let Ok(hash) = hash_file(&found.path) else { return Ok(None) };
                if contents == StoredContents::Stored {
                    return Err(TakeError::Store(err.reason()));
                }
                let state = FileState::File { hash, len: file.stamp().len, mode: found.mode() };
                return Ok(Some((state, attributes)));
            }
        };
        // A change in the same tick of the clock would not show.
        let Ok(stamp) = fs::symlink_metadata(&found.path).map(|it| FileStamp::from_metadata(&it)) else {
            return Ok(None);
        };
        // A second name is a change, too, and not one of the content.
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
