//! Undo of changes to hard-linked files, with names inside and outside the workspace.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use haft_workspace::{
    EntryAttachments, FileChange, FileObject, LinkedName, OpenFile, RetainedObject, UndoReport, UndoTarget,
    Workspace,
};

use crate::support::{Scratch, origin, origin_in, put_as, remove_as};

/// One step of a scenario. Names are relative to the scratch directory.
#[derive(Clone, Copy, Debug)]
enum LinkStep {
    /// A change through the workspace.
    Put(&'static str, &'static str),
    Remove(&'static str),
    /// A change by another process, which undo must not revert.
    Mode(&'static str, u32),
    Unlink(&'static str),
    /// A change by a command, which is only observed.
    Command(fn(&Path)),
}

use LinkStep::{Command, Mode, Put, Remove, Unlink};

/// Content, mode and hard-linked names by file.
type Picture = BTreeMap<String, (u32, Vec<u8>, Vec<String>)>;

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()) {
        if path.symlink_metadata().unwrap().is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn picture(top: &Path) -> Picture {
    let mut found = Vec::new();
    files(&top.join("ws"), &mut found);
    files(&top.join("out"), &mut found);
    let id = |path: &Path| {
        let meta = path.symlink_metadata().unwrap();
        (meta.dev(), meta.ino())
    };
    let short = |path: &Path| path.strip_prefix(top).unwrap().display().to_string();
    let seen = |path: &PathBuf| {
        let same = found.iter().filter(|it| id(it) == id(path)).map(|it| short(it));
        let mut names: Vec<String> = same.collect();
        names.sort();
        let mode = path.symlink_metadata().unwrap().mode();
        (short(path), (mode, fs::read(path).unwrap(), names))
    };
    found.iter().map(seen).collect()
}

fn furnish(top: &Path) {
    fs::create_dir_all(top.join("out")).unwrap();
    fs::create_dir_all(top.join("ws/sub")).unwrap();
    for (name, text) in [("ws/a", "one"), ("ws/c", "one"), ("out/store", "kept"), ("out/mixed", "mixed")] {
        fs::write(top.join(name), text).unwrap();
    }
    for (from, to) in [
        ("ws/a", "ws/b"),
        ("ws/a", "ws/sub/a"),
        ("out/store", "ws/shared"),
        ("out/mixed", "ws/m1"),
        ("out/mixed", "ws/sub/m2"),
    ] {
        fs::hard_link(top.join(from), top.join(to)).unwrap();
    }
    fs::set_permissions(top.join("out/store"), fs::Permissions::from_mode(0o640)).unwrap();
}

/// Records what a command does to the files of the workspace, like a command snapshot.
fn observe(workspace: &Workspace, call: &str, act: impl FnOnce()) {
    let journal = workspace.journal().unwrap();
    let look = || {
        let mut found = Vec::new();
        files(workspace.root(), &mut found);
        let state = |path: PathBuf| {
            let state = journal.store_async(&OpenFile::open(&path).unwrap()).unwrap();
            let meta = path.metadata().unwrap();
            (path, (state, FileObject::of(&meta), meta.nlink()))
        };
        found.into_iter().map(state).collect::<BTreeMap<_, _>>()
    };
    let before = look();
    let held: Vec<RetainedObject> =
        before.iter().filter_map(|(path, it)| RetainedObject::open(path, it.1)).collect();
    act();
    let after = look();
    let absent = haft_workspace::FileState::Absent;
    let names: std::collections::BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let mut changes = Vec::new();
    for path in names {
        let (old, new) = (before.get(path), after.get(path));
        if old.map(|it| (&it.0, it.1)) != new.map(|it| (&it.0, it.1)) {
            let state = |it: Option<&(haft_workspace::FileState, FileObject, u64)>| {
                it.map_or(absent.clone(), |it| it.0.clone())
            };
            changes.push(FileChange { path: path.clone(), before: state(old), after: state(new) });
        }
    }
    let linked = before.iter().filter(|(_, it)| 1 < it.2);
    let links = linked.map(|(path, it)| {
        let after = after.get(path).map(|it| it.1);
        LinkedName { path: path.clone(), before: Some(it.1), after, elsewhere: true }
    });
    for it in &held {
        // An object whose last name is gone cannot be kept; nothing depends on it.
        journal.retain_inode(it);
    }
    let entry = journal.record(&origin_in("t", call), changes).unwrap();
    journal
        .record_beside(&entry.id, &EntryAttachments { links: links.collect(), ..EntryAttachments::default() })
        .unwrap();
}

struct Linked {
    scratch: Scratch,
    workspace: Workspace,
}

impl Linked {
    fn new() -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.workspace();
        let linked = Self { scratch, workspace };
        furnish(linked.top());
        linked
    }

    fn top(&self) -> &Path {
        self.scratch.root.parent().unwrap()
    }

    /// Executes a step. Returns the call id if it can be undone.
    fn act(&self, at: usize, step: LinkStep) -> Option<String> {
        let call = format!("call{at}");
        let path = |name: &str| self.top().join(name);
        match step {
            Put(name, text) => {
                drop(put_as(&self.workspace, &path(name), text.as_bytes(), &origin_in("t", &call)).unwrap())
            }
            Remove(name) => drop(remove_as(&self.workspace, &path(name), &origin_in("t", &call)).unwrap()),
            Command(act) => observe(&self.workspace, &call, || act(self.top())),
            Mode(name, mode) => {
                fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
                return None;
            }
            Unlink(name) => {
                fs::remove_file(path(name)).unwrap();
                return None;
            }
        }
        Some(call)
    }

    fn undo(&self, call: &str) -> UndoReport {
        let report = self.workspace.undo(&UndoTarget::Call(call.into()), &origin("undo")).unwrap();
        assert_eq!(report.conflicts, [], "{call}");
        report
    }
}

/// Undoing all changes one by one restores contents, modes and hard links, inside and outside.
#[test]
fn undo_restores_hard_links() {
    let rows: &[&[LinkStep]] = &[
        &[Put("ws/a", "two")],
        &[Put("ws/b", "two"), Put("ws/a", "three")],
        &[Put("ws/sub/a", "two"), Remove("ws/a")],
        &[Remove("ws/a")],
        &[Remove("ws/a"), Remove("ws/b"), Remove("ws/sub/a")],
        &[Remove("ws/a"), Put("ws/a", "new"), Put("ws/b", "other")],
        &[Put("ws/shared", "two")],
        &[Put("ws/shared", "two"), Put("ws/shared", "three")],
        &[Remove("ws/shared")],
        &[Remove("ws/shared"), Put("ws/shared", "kept")],
        &[Put("ws/m1", "two")],
        &[Put("ws/m1", "two"), Put("ws/sub/m2", "two")],
        &[Remove("ws/m1"), Put("ws/sub/m2", "two")],
        &[Remove("ws/m1"), Remove("ws/sub/m2")],
        &[Command(|top| fs::remove_file(top.join("ws/a")).unwrap()), Put("ws/b", "two")],
        &[Put("ws/b", "two"), Command(|top| fs::remove_file(top.join("ws/a")).unwrap())],
        &[Put("ws/a", "two"), Command(|top| fs::write(top.join("ws/b"), "three").unwrap())],
        &[Command(|top| fs::remove_file(top.join("ws/shared")).unwrap()), Put("ws/shared", "kept")],
        &[Put("ws/shared", "x"), Command(|top| fs::rename(top.join("ws/c"), top.join("ws/shared")).unwrap())],
        &[Command(|top| fs::write(top.join("ws/shared"), "in place").unwrap()), Put("ws/shared", "two")],
        &[Command(|top| {
            fs::remove_file(top.join("ws/m1")).unwrap();
            fs::remove_file(top.join("ws/sub/m2")).unwrap();
        })],
        &[Command(|top| {
            fs::write(top.join("ws/new"), "mixed").unwrap();
            fs::rename(top.join("ws/new"), top.join("ws/m1")).unwrap();
        })],
    ];
    for row in rows {
        let linked = Linked::new();
        let before = picture(linked.top());
        let calls: Vec<String> =
            row.iter().enumerate().filter_map(|(at, step)| linked.act(at, *step)).collect();
        let after = picture(linked.top());
        assert_ne!(before, after, "{row:?}");
        for call in calls.iter().rev() {
            assert_eq!(linked.undo(call).untied, Vec::<PathBuf>::new(), "{row:?}");
        }
        assert_eq!(picture(linked.top()), before, "undo of {row:?}");
        // Undo and redo all at once.
        let linked = Linked::new();
        for (at, step) in row.iter().enumerate() {
            linked.act(at, *step);
        }
        let turn = UndoTarget::Turn(haft_workspace::TurnId::new("t"));
        for _ in 0..2 {
            let report = linked.workspace.undo(&turn, &origin("undo")).unwrap();
            assert_eq!((report.conflicts, report.untied), (vec![], vec![]), "{row:?}");
            assert_eq!(picture(linked.top()), before, "undo at once of {row:?}");
            let report = linked.workspace.redo(&origin("redo")).unwrap();
            assert_eq!(report.conflicts, [], "{row:?}");
            // The intermediate content of an outside name is not restored by redo.
            let inside = |mut all: Picture| {
                all.retain(|name, _| name.starts_with("ws/"));
                all
            };
            assert_eq!(inside(picture(linked.top())), inside(after.clone()), "redo of {row:?}");
        }
    }
}

/// Changes by others to an outside name stay, and links that cannot be restored are reported.
#[test]
fn undo_never_overwrites_other_hard_link() {
    for (steps, want_other, untied) in [
        // Steps; content and mode of the outside name; whether the link is lost for good.
        (vec![Put("ws/shared", "two"), Mode("out/store", 0o600)], Some(("kept", 0o600)), true),
        (vec![Put("ws/shared", "two"), Unlink("out/store")], None, false),
        (vec![Remove("ws/shared"), Mode("out/store", 0o600)], Some(("kept", 0o600)), true),
    ] {
        let linked = Linked::new();
        let calls: Vec<String> =
            steps.iter().enumerate().filter_map(|(at, step)| linked.act(at, *step)).collect();
        let report = linked.undo(&calls[0]);
        let shared = linked.top().join("ws/shared");
        assert_eq!(fs::read(&shared).unwrap(), b"kept", "{steps:?}");
        assert_eq!(shared.metadata().unwrap().mode() & 0o777, 0o640, "{steps:?}");
        let other = linked.top().join("out/store");
        let found = other.metadata().ok().map(|it| it.mode() & 0o777);
        assert_eq!(found, want_other.map(|it| it.1), "{steps:?}");
        if let Some((text, _)) = want_other {
            assert_eq!(fs::read_to_string(&other).unwrap(), text, "{steps:?}");
        }
        assert_eq!(report.untied == [shared], untied, "{steps:?}: {:?}", report.untied);
    }
}

/// Names in the journal do not count as other names: a file whose names are all in the workspace is
/// still recognised as such.
#[test]
fn journal_hard_links_do_not_count_as_other_names() {
    let linked = Linked::new();
    linked.act(0, Remove("ws/b"));
    let done = put_as(&linked.workspace, &linked.top().join("ws/a"), b"two", &origin("next")).unwrap();
    assert_eq!(done.notes, Vec::<String>::new());
    assert_eq!(fs::read(linked.top().join("ws/sub/a")).unwrap(), b"two");
    linked.undo("next");
    linked.undo("call0");
    assert_eq!(picture(linked.top())["ws/b"].2, ["ws/a", "ws/b", "ws/sub/a"]);
}
