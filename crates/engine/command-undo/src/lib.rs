//! Undo for commands: takes a snapshot of the workspace before and after a command, and writes the
//! difference to the file journal.
//!
//! **Does not know** the tools that run commands: they call [`CommandSnapshots`].
//!
//! **Invariant:** before a command runs, the content of everything it may change is stored, or the note returned
//! for the call says what is not covered.

mod commits;
mod hard_links;
mod path_tree;
mod ports;
mod record;
mod scope;
mod taker;

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haft_bash_analysis::{AnalysisContext, SharedAnalysis};
use haft_shell::{
    own::{LiveProcesses, end_orphans_of},
    run::Shell,
};
use haft_tool::{BoxFuture, CallId, ToolError};
use haft_types::SessionId;
use haft_workspace::{
    AttributeChange, ChangeOrigin, EntryAttachments, FileChange, FileError, FileState, Journal, SessionFiles,
    Workspace,
};

use hard_links::RetainedLinks;
use path_tree::PathTree;
use record::{LeftRecord, PendingRecord, UndoRecord};
use taker::{KnownContents, SkippedPaths, SnapshotTaker, StoredContents, TakeError, TreeSnapshot};

pub use path_tree::SnapshotLimits;
pub use ports::{CommandSnapshots, NoSnapshots, OPAQUE, PendingCommand, UndoCoverage};

/// Takes snapshots around commands and records their changes in the journal.
pub struct JournalCommandUndo {
    inner: Arc<UndoState>,
}

struct UndoState {
    files: Arc<SessionFiles>,
    home: Option<PathBuf>,
    limits: SnapshotLimits,
    git_tool: &'static str,
    record: OnceLock<Option<UndoRecord>>,
    state: Mutex<TreeState>,
}

#[derive(Default)]
struct TreeState {
    /// Contents already in the store, by path and file stamp, so that unchanged files are not read
    /// again.
    known: KnownContents,
    /// Large records of ended sessions, which list known contents. Read when a whole workspace is
    /// scanned.
    unread: Vec<LeftRecord>,
    /// Running commands.
    windows: HashMap<CallId, SnapshotWindow>,
    /// Last number used for a record file.
    number: u64,
    /// The last tree written to disk, with its number.
    written: Option<(u64, Arc<PathTree>)>,
    /// Notes already shown in this session; each is shown once.
    told: Vec<String>,
}

#[derive(Clone)]
struct SnapshotWindow {
    number: u64,
    tree_number: u64,
    tree: Arc<PathTree>,
    pending: PendingRecord,
    /// Hard-linked files, held open so that undo can relink them.
    held: Arc<RetainedLinks>,
    /// Whether the record on disk is complete, so that a later session can finish it after a crash.
    recorded: bool,
}

impl JournalCommandUndo {
    /// Creates the undo of one session. `git_tool` is the name of the git tool: changes inside `.git`
    /// are undone only for that tool.
    pub fn new(
        files: Arc<SessionFiles>,
        home: Option<PathBuf>,
        limits: SnapshotLimits,
        git_tool: &'static str,
    ) -> Self {
        let (record, state) = (OnceLock::new(), Mutex::default());
        Self { inner: Arc::new(UndoState { files, home, limits, git_tool, record, state }) }
    }
}

impl CommandSnapshots for JournalCommandUndo {
    fn before<'a>(&'a self, about: PendingCommand<'a>) -> BoxFuture<'a, Result<UndoCoverage, ToolError>> {
        if about.reads_only {
            return Box::pin(async { Ok(UndoCoverage::Full) });
        }
        let inner = Arc::clone(&self.inner);
        let origin = inner.files.origin(about.call, about.tool);
        let place = AnalysisContext {
            cwd: about.cwd,
            home: inner.home.as_deref(),
            roots: &inner.files.workspace().roots(),
        };
        let reading = about.reading.cloned();
        let reading = reading.unwrap_or_else(|| Arc::new(SharedAnalysis::new(about.command, place)));
        Box::pin(async move {
            let looked = tokio::task::spawn_blocking(move || inner.before(origin, &reading));
            Ok(looked.await.unwrap_or_else(|_| {
                UndoCoverage::Partial(String::from("this cannot be undone: looking at the workspace failed"))
            }))
        })
    }

    fn after<'a>(&'a self, call: &'a CallId) -> BoxFuture<'a, ()> {
        // Most commands have no snapshot; for those this returns without starting a blocking task.
        let is_nothing = self.inner.state.try_lock().is_ok_and(|state| !state.windows.contains_key(call));
        let (inner, call) = (Arc::clone(&self.inner), call.clone());
        Box::pin(async move {
            if is_nothing {
                return;
            }
            tokio::task::spawn_blocking(move || inner.after(&call)).await.ok();
        })
    }
}

/// How long each orphaned process of a killed session may take to end.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(3);

/// Finishes the records of commands whose session was killed while they ran: ends the processes those
/// commands left running, and writes the changes to the journal. Returns the ended processes.
///
/// Call it before the journal is read or another command runs. A record whose processes do not end in
/// time is left for the next call. Blocks. `git_tool` as in [`JournalCommandUndo::new`].
pub fn recover(workspace: &Workspace, git_tool: &str) -> Vec<LiveProcesses> {
    let Ok(journal) = workspace.journal() else { return Vec::new() };
    let registries = Shell::registries(workspace.state_dir());
    let mut ended = Vec::new();
    for left in record::left(journal) {
        let sessions: BTreeSet<&str> = left
            .pending
            .iter()
            .filter_map(|it| it.0.origin.session.as_ref())
            .map(SessionId::as_str)
            .collect();
        let mut all_settled = true;
        for session in sessions {
            let orphans = end_orphans_of(&registries, session, ORPHAN_TIMEOUT);
            all_settled &= orphans.all_ended;
            ended.extend(orphans.found);
        }
        if !all_settled {
            continue;
        }
        for (pending, tree) in &left.pending {
            let taken = SnapshotTaker {
                workspace,
                journal,
                limits: SnapshotLimits::default(),
                known: &mut KnownContents::default(),
            }
            .take(&pending.starts, &SkippedPaths::of(pending), StoredContents::Known);
            if let Ok(now) = taken {
                let held = &RetainedLinks::default();
                let change = FinishedCommand { pending, before: tree, held, git_tool };
                all_settled &= change.write_down(workspace, &now).is_ok();
            }
        }
        if all_settled {
            left.remove();
        }
    }
    ended
}

impl UndoState {
    fn before(&self, origin: ChangeOrigin, reading: &SharedAnalysis) -> UndoCoverage {
        let workspace = self.files.workspace();
        let roots = workspace.roots();
        let inside = roots.clone();
        let scope = scope::scope(&reading.analysis);
        let mut starts = scope.named.clone();
        if scope.anywhere {
            starts.extend(roots);
        }
        let starts = outermost(starts);
        if starts.is_empty() {
            return UndoCoverage::Full;
        }
        let journal = match workspace.journal() {
            Ok(journal) => journal,
            Err(why) => return self.unseen(origin, &why),
        };
        let record = self.record(workspace, journal);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if scope.anywhere {
            state.learn();
        }
        let mut taker = SnapshotTaker { workspace, journal, limits: self.limits, known: &mut state.known };
        let none = SkippedPaths::default();
        let found = match taker.take(&starts, &none, StoredContents::Stored) {
            Ok(taken) => Ok((starts, taken, false)),
            // The workspace is too large; cover at least the paths the command names.
            Err(TakeError::TooMuch) => taker
                .take(&scope.named, &none, StoredContents::Stored)
                .map(|taken| (scope.named.clone(), taken, true)),
            Err(full) => Err(full),
        };
        let room = |taken: &TreeSnapshot| journal.reserve(room_for(&taken.tree)).map_err(|err| err.reason());
        let (starts, taken, over) = match found {
            Ok(found) => match room(&found.1) {
                Ok(()) => found,
                Err(why) => return self.unseen(origin, &why),
            },
            Err(TakeError::TooMuch) => return self.too_much(),
            Err(TakeError::Store(why)) => return self.unseen(origin, &why),
        };
        let mut notes = Vec::new();
        if over {
            let UndoCoverage::Partial(note) = self.too_much() else { return UndoCoverage::Full };
            notes.push(note);
        }
        notes.extend(taken.notes());
        let names = |it: &PathBuf| scope.named.iter().any(|named| it.starts_with(named));
        let elsewhere: Vec<&PathBuf> =
            scope.trees.iter().filter(|tree| !inside.iter().any(|root| tree.starts_with(root))).collect();
        notes.extend(elsewhere.iter().map(|tree| {
            format!("what it changes in {} cannot be undone: that is outside the workspace", tree.display())
        }));
        let urgent = taken.left_out.iter().any(names) || !elsewhere.is_empty();
        let held = Arc::new(RetainedLinks::hold(&taken.tree, journal));
        notes.extend(held.note());
        let TreeSnapshot { tree, left_out, left_objects, .. } = taken;
        let pending = PendingRecord { origin, starts, left_out, left_objects, since: now_millis() };
        let call = pending.origin.call.clone();
        let window = state.begin(pending, tree, held, record);
        state.windows.insert(call, window);
        if urgent {
            // The command names a path that undo cannot restore, so the note is shown every time.
            UndoCoverage::Partial(notes.join("; "))
        } else {
            state.told(notes)
        }
    }

    fn too_much(&self) -> UndoCoverage {
        UndoCoverage::Partial(format!(
            "this cannot be undone: there are more than {} files or {} MiB to keep",
            self.limits.entries,
            self.limits.bytes >> 20
        ))
    }

    /// Marks the command in the journal as not undoable, so that a later undo reports this instead of
    /// restoring an older state. Returns the note to show.
    fn unseen(&self, origin: ChangeOrigin, why: &str) -> UndoCoverage {
        self.files.workspace().record_unrecorded_change(origin);
        UndoCoverage::Partial(format!("this cannot be undone: {why}"))
    }

    /// Returns this session's record on disk. The first call also finishes the records of ended sessions
    /// and takes over the contents they know. `None` if the record cannot be created.
    fn record(&self, workspace: &Workspace, journal: &Journal) -> Option<&UndoRecord> {
        self.record
            .get_or_init(|| {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                for left in record::left(journal) {
                    if left.pending.is_empty() {
                        if left.is_large() {
                            state.unread.push(left)
                        } else {
                            state.known.learn(&left);
                            left.remove();
                        }
                    } else {
                        // It has unfinished commands; [`recover`] below finishes and removes it.
                        state.known.learn(&left)
                    }
                }
                drop(state);
                recover(workspace, self.git_tool);
                UndoRecord::open(journal).ok()
            })
            .as_ref()
    }

    fn after(&self, call: &CallId) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(window) = state.windows.remove(call) else { return };
        let workspace = self.files.workspace();
        let Ok(journal) = workspace.journal() else { return };
        let mut taker = SnapshotTaker { workspace, journal, limits: self.limits, known: &mut state.known };
        // If the command made the workspace exceed the limits, it is still compared.
        taker.limits.entries = taker.limits.entries.saturating_mul(4);
        taker.limits.bytes = taker.limits.bytes.saturating_mul(4);
        let (starts, skipped) = (&window.pending.starts, SkippedPaths::of(&window.pending));
        let SnapshotWindow { pending, tree: before, held, .. } = &window;
        let command = FinishedCommand { pending, before, held, git_tool: self.git_tool };
        match taker.take(starts, &skipped, StoredContents::Known) {
            Ok(taken) => {
                if command.write_down(workspace, &taken).is_err() {
                    if !window.recorded {
                        workspace.record_unrecorded_change(window.pending.origin);
                    }
                    // The record stays on disk, so the next session retries.
                    return;
                }
            }
            Err(_) => workspace.record_unrecorded_change(window.pending.origin.clone()),
        }
        if let Some(record) = self.record.get().and_then(Option::as_ref) {
            record.end(window.number);
            let used = |number: u64| state.windows.values().any(|it| it.tree_number == number);
            let newest = state.written.as_ref().is_some_and(|it| it.0 == window.tree_number);
            if !newest && !used(window.tree_number) {
                record.drop_tree(window.tree_number);
            }
        }
    }
}

impl TreeState {
    /// Reads the large records of ended sessions and deletes them.
    fn learn(&mut self) {
        for left in std::mem::take(&mut self.unread) {
            self.known.learn(&left);
            left.remove();
        }
    }

    fn begin(
        &mut self,
        pending: PendingRecord,
        tree: PathTree,
        held: Arc<RetainedLinks>,
        record: Option<&UndoRecord>,
    ) -> SnapshotWindow {
        let (tree_number, tree, is_kept) = match &self.written {
            Some((number, written)) if **written == tree => (*number, Arc::clone(written), true),
            _ => self.write(tree, record),
        };
        self.number += 1;
        let number = self.number;
        // If this fails, only commands interrupted by a crash cannot be undone.
        let begun = record.is_some_and(|it| it.begin(number, tree_number, &pending).is_ok());
        SnapshotWindow { number, tree_number, tree, pending, held, recorded: is_kept && begun }
    }

    fn write(&mut self, tree: PathTree, record: Option<&UndoRecord>) -> (u64, Arc<PathTree>, bool) {
        self.number += 1;
        let (number, tree) = (self.number, Arc::new(tree));
        let is_kept = record.is_some_and(|it| it.keep(number, &tree).is_ok());
        if let Some(record) = record
            && let Some((old, _)) = self.written.take()
            && !self.windows.values().any(|it| it.tree_number == old)
        {
            record.drop_tree(old);
        }
        self.written = is_kept.then(|| (number, Arc::clone(&tree)));
        (number, tree, is_kept)
    }

    /// Returns the notes that were not shown before, and remembers them.
    fn told(&mut self, notes: Vec<String>) -> UndoCoverage {
        let news: Vec<String> = notes.into_iter().filter(|note| !self.told.contains(note)).collect();
        self.told.extend(news.iter().cloned());
        if news.is_empty() { UndoCoverage::Full } else { UndoCoverage::Partial(news.join("; ")) }
    }
}

/// A command that has ended, with the state before it.
struct FinishedCommand<'a> {
    pending: &'a PendingRecord,
    before: &'a PathTree,
    held: &'a RetainedLinks,
    git_tool: &'a str,
}

impl FinishedCommand<'_> {
    /// Writes the changes to the journal, except those that other calls recorded in the meantime.
    fn write_down(&self, workspace: &Workspace, now: &TreeSnapshot) -> Result<(), FileError> {
        let Self { pending, before, held, git_tool } = self;
        let after = &now.tree;
        let mut changes = differences(before, after, GitChanges::for_origin(&pending.origin, git_tool));
        // Paths skipped in either snapshot are not reported as changed.
        let unseen: Vec<&PathBuf> = pending.left_out.iter().chain(&now.left_out).collect();
        let is_unseen = |path: &Path| {
            unseen
                .iter()
                .any(|it| path.starts_with(it) && (path != it.as_path() || !after.contains_key(path)))
        };
        changes.retain(|change| !is_unseen(&change.path));
        if changes.is_empty() {
            return Ok(());
        }
        let Ok(journal) = workspace.journal() else { return Ok(()) };
        let meanwhile = journal.entries().unwrap_or_default();
        for entry in
            meanwhile.iter().filter(|it| pending.since <= it.time && it.origin.call != pending.origin.call)
        {
            let made: HashMap<&Path, &FileState> =
                entry.changes.iter().map(|it| (it.path.as_path(), &it.after)).collect();
            changes
                .retain(|change| made.get(change.path.as_path()).is_none_or(|after| **after != change.after));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let links = hard_links::linked_names(journal, before, after, &changes);
        held.keep_torn(journal, &links, after);
        let (attributes, commits) = (attributes(before, after, &changes), commits::made(before, after));
        let entry = journal.record(&pending.origin, changes)?;
        journal.record_beside(&entry.id, &EntryAttachments { attributes, links, commits }).ok();
        Ok(())
    }
}

/// Returns the changes of timestamps, owners and other attributes, for changed paths and their parent
/// directories.
fn attributes(before: &PathTree, after: &PathTree, changes: &[FileChange]) -> Vec<AttributeChange> {
    let around = changes.iter().filter_map(|it| it.path.parent());
    let mut paths: Vec<&Path> = changes.iter().map(|it| it.path.as_path()).chain(around).collect();
    paths.sort_unstable();
    paths.dedup();
    let of = |tree: &PathTree, path: &Path| tree.get(path).map(|it| it.attributes.clone());
    let change = |path: &Path| {
        let (before, after) = (of(before, path), of(after, path));
        (before.is_some() || after.is_some()).then(|| AttributeChange {
            path: path.to_owned(),
            before,
            after,
        })
    };
    paths.into_iter().filter_map(change).collect()
}

/// Which changes inside `.git` are recorded for undo.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum GitChanges {
    /// Only if the whole repository was removed.
    Gone,
    /// All except git objects, which are never lost.
    All,
}

impl GitChanges {
    fn for_origin(origin: &ChangeOrigin, git_tool: &str) -> Self {
        if origin.tool == git_tool { Self::All } else { Self::Gone }
    }
}

fn differences(before: &PathTree, after: &PathTree, git_changes: GitChanges) -> Vec<FileChange> {
    let mut changes = Vec::new();
    for (path, old) in before {
        let found = after.get(path);
        let new = found.map_or(FileState::Absent, |node| node.state.clone());
        let given_away = found.is_some_and(|it| it.attributes.differs_from(&old.attributes));
        if new != old.state || given_away || hard_links::is_relinked(old, found) {
            changes.push(FileChange { path: path.clone(), before: old.state.clone(), after: new });
        }
    }
    let created = after.iter().filter(|(path, _)| !before.contains_key(*path)).map(|(path, node)| {
        FileChange { path: path.clone(), before: FileState::Absent, after: node.state.clone() }
    });
    changes.extend(created);
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    // Git updates its own files all the time; only a removed repository is restored.
    let gone: Vec<PathBuf> = changes
        .iter()
        .filter(|it| it.path.ends_with(".git/HEAD") && it.after == FileState::Absent)
        .filter_map(|it| it.path.parent().map(Path::to_owned))
        .collect();
    changes.retain(|change| match git_directory(&change.path) {
        Some(git) if git_changes == GitChanges::All => !change.path.starts_with(git.join("objects")),
        Some(git) => gone.iter().any(|it| it == git),
        None => true,
    });
    changes
}

/// Returns the `.git` directory that contains the path, if any.
fn git_directory(path: &Path) -> Option<&Path> {
    path.ancestors().find(|it| it.file_name().is_some_and(|name| name == ".git"))
}

/// Removes paths that are below another path of the list.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|it| path.starts_with(it)) {
            kept.push(path);
        }
    }
    kept
}

/// Estimates the bytes the journal entry of a command over this tree needs.
fn room_for(tree: &PathTree) -> u64 {
    const LEAST: u64 = 4 << 10;
    const EACH: u64 = 1 << 10;
    const MOST: u64 = 256 << 10;
    (LEAST + EACH * tree.len() as u64).min(MOST)
}

fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
