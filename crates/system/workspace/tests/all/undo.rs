//! Undo reverts changes and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::support;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use haft_workspace::{
    ContentHash, EntryState, FileChange, FileState, JournalLimits, OpenFile, TurnId, UndoTarget, Workspace,
    WorkspaceConfig,
};
use support::{Scratch, origin, origin_in, put_as, remove_as};

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn undo(workspace: &Workspace, target: &UndoTarget) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let report = workspace.undo(target, &origin("undo")).unwrap();
    let mut restored = report.restored;
    restored.sort();
    (restored, report.conflicts.into_iter().map(|it| it.path).collect())
}

#[test]
fn undo_and_redo_restore_every_kind_of_change() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let edited = scratch.file("edited", "one\n");
    fs::set_permissions(&edited, fs::Permissions::from_mode(0o750)).unwrap();
    let removed = scratch.file("removed", "gone\n");
    let created = scratch.root.join("deep/er/created");
    put_as(&workspace, &edited, b"two\n", &origin("edit")).unwrap();
    put_as(&workspace, &created, b"fresh\n", &origin("create")).unwrap();
    remove_as(&workspace, &removed, &origin("remove")).unwrap();

    for call in ["edit", "create", "remove"] {
        let (restored, conflicts) = undo(&workspace, &UndoTarget::Call(call.into()));
        assert!(!restored.is_empty() && conflicts.is_empty(), "{call}");
    }
    assert_eq!(read(&edited).as_deref(), Some("one\n"));
    assert_eq!(fs::metadata(&edited).unwrap().mode() & 0o777, 0o750);
    assert_eq!(read(&removed).as_deref(), Some("gone\n"));
    assert_eq!(scratch.names(), ["edited", "removed"]);

    // Redo reverts the undos one by one.
    for _ in 0..3 {
        assert_eq!(workspace.redo(&origin("redo")).unwrap().conflicts, []);
    }
    assert!(workspace.redo(&origin("redo")).is_err());
    assert_eq!(read(&edited).as_deref(), Some("two\n"));
    assert_eq!(fs::metadata(&edited).unwrap().mode() & 0o777, 0o750);
    assert_eq!(read(&created).as_deref(), Some("fresh\n"));
    assert!(!removed.exists());

    // And again.
    let (_, conflicts) = undo(&workspace, &UndoTarget::Last);
    assert_eq!(conflicts, Vec::<PathBuf>::new());
    assert_eq!(read(&removed).as_deref(), Some("gone\n"));
    let standing: Vec<EntryState> = workspace.history().unwrap().iter().map(|it| it.standing).collect();
    assert_eq!(standing.iter().filter(|it| **it == EntryState::InEffect).count(), 2);
}

#[test]
fn undo_never_overwrites_later_changes() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let (a, b) = (scratch.file("a", "1"), scratch.file("b", "1"));
    put_as(&workspace, &a, b"2", &origin_in("t1", "c1")).unwrap();
    put_as(&workspace, &b, b"2", &origin_in("t1", "c2")).unwrap();
    fs::write(&b, "the user's").unwrap();
    let (restored, conflicts) = undo(&workspace, &UndoTarget::Turn(TurnId::new("t1")));
    assert_eq!((restored, conflicts), (vec![a.clone()], vec![b.clone()]));
    assert_eq!((read(&a).as_deref(), read(&b).as_deref()), (Some("1"), Some("the user's")));

    // A created file that the user has edited stays, with its directory.
    let made = scratch.root.join("dir/made");
    put_as(&workspace, &made, b"x", &origin("c3")).unwrap();
    fs::write(scratch.root.join("dir/other"), "y").unwrap();
    let report = workspace.undo(&UndoTarget::Call("c3".into()), &origin("undo")).unwrap();
    assert_eq!(report.restored, std::slice::from_ref(&made));
    assert_eq!(report.conflicts.len(), 1, "{:?}", report.conflicts);
    assert!(!made.exists() && scratch.root.join("dir/other").exists());
}

#[test]
fn undo_keeps_edits_made_between_calls() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let path = scratch.file("f", "1");
    put_as(&workspace, &path, b"2", &origin_in("t", "c1")).unwrap();
    fs::write(&path, "2 and the user's").unwrap();
    put_as(&workspace, &path, b"3 and the user's", &origin_in("t", "c2")).unwrap();
    let (restored, conflicts) = undo(&workspace, &UndoTarget::Turn(TurnId::new("t")));
    assert_eq!((restored, conflicts), (vec![path.clone()], vec![path.clone()]));
    assert_eq!(read(&path).as_deref(), Some("2 and the user's"));
}

#[test]
fn undo_of_earlier_call_conflicts_with_later_one() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let path = scratch.file("f", "1");
    put_as(&workspace, &path, b"2", &origin_in("t1", "c1")).unwrap();
    put_as(&workspace, &path, b"3", &origin_in("t2", "c2")).unwrap();
    let report = workspace.undo(&UndoTarget::Call("c1".into()), &origin("undo")).unwrap();
    assert!(report.conflicts[0].reason.contains("Test c2"), "{:?}", report.conflicts);
    assert_eq!(read(&path).as_deref(), Some("3"));
    let (_, conflicts) = undo(&workspace, &UndoTarget::SinceTurn(TurnId::new("t1")));
    assert_eq!(conflicts, Vec::<PathBuf>::new());
    assert_eq!(read(&path).as_deref(), Some("1"));
}

#[test]
fn recorded_command_changes_are_undone() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let journal = workspace.journal().unwrap();
    let old = scratch.file("a/old", "kept");
    let script = scratch.file("script", "#!/bin/sh\n");
    let link = scratch.root.join("link");
    symlink("script", &link).unwrap();
    let before = journal.keep_file(&OpenFile::open(&old).unwrap()).unwrap();
    let script_before = journal.keep_file(&OpenFile::open(&script).unwrap()).unwrap();
    // The command: rm -r a; chmod +x script; rm link; ln -s a b; echo > new.
    fs::remove_dir_all(scratch.root.join("a")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(&link).unwrap();
    symlink("a", scratch.root.join("b")).unwrap();
    let new = scratch.file("new", "\n");
    let mut script_after = script_before.clone();
    if let FileState::File { mode, .. } = &mut script_after {
        *mode = 0o755;
    }
    let change = |path: &Path, before, after| FileChange { path: path.to_owned(), before, after };
    let target = |text: &str| FileState::Symlink { target: text.into() };
    let new_state = FileState::File { hash: ContentHash::hash(b"\n"), len: 1, mode: 0o644 };
    journal
        .record(
            &origin("bash"),
            vec![
                change(&old, before, FileState::Absent),
                change(&scratch.root.join("a"), FileState::Directory { mode: 0o755 }, FileState::Absent),
                change(&script, script_before, script_after),
                change(&link, target("script"), FileState::Absent),
                change(&scratch.root.join("b"), FileState::Absent, target("a")),
                change(&new, FileState::Absent, new_state),
            ],
        )
        .unwrap();
    let (restored, conflicts) = undo(&workspace, &UndoTarget::Call("bash".into()));
    assert_eq!(conflicts, Vec::<PathBuf>::new());
    assert_eq!(restored.len(), 6);
    assert_eq!(scratch.names(), ["a", "a/old", "link", "script"]);
    assert_eq!(read(&old).as_deref(), Some("kept"));
    assert_eq!(fs::metadata(&script).unwrap().mode() & 0o777, 0o644);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("script"));
    assert_eq!(workspace.redo(&origin("redo")).unwrap().conflicts, []);
    assert_eq!(scratch.names(), ["b", "new", "script"]);
    assert_eq!(fs::metadata(&script).unwrap().mode() & 0o777, 0o755);
}

#[test]
fn entry_log_skips_truncated_and_invalid_lines() {
    let scratch = Scratch::new();
    let path = scratch.file("f", "0");
    for n in 1..=5 {
        put_as(&scratch.workspace(), &path, n.to_string().as_bytes(), &origin(&format!("c{n}"))).unwrap();
    }
    let workspace = scratch.workspace();
    let log = workspace.journal().unwrap().dir().join("log.jsonl");
    let whole = fs::read(&log).unwrap();
    let starts: Vec<usize> = std::iter::once(0)
        .chain(whole.iter().enumerate().filter(|it| *it.1 == b'\n').map(|it| it.0 + 1))
        .collect();
    for cut in starts[3]..whole.len() {
        fs::write(&log, &whole[..cut]).unwrap();
        let kept = workspace.history().unwrap().len();
        let complete = starts.iter().filter(|it| **it != 0 && **it <= cut).count();
        // A line without only its line end is complete.
        assert!(kept == complete || kept == complete + 1, "{cut}");
        let entry = workspace.journal().unwrap().record(&origin("next"), Vec::new()).unwrap();
        assert_eq!(workspace.history().unwrap()[0].entry, entry, "{cut}");
        assert_eq!(workspace.history().unwrap().len(), kept + 1, "{cut}");
    }
    fs::write(&log, [&whole[..], &[0; 4096], b"\n{\"id\":\n", &whole[..starts[1]]].concat()).unwrap();
    assert_eq!(workspace.history().unwrap().len(), 6);
}

#[test]
fn journal_prunes_by_quota_and_lifetime() {
    let scratch = Scratch::new();
    let path = scratch.file("f", "0");
    let open = |quota, lifetime| {
        let limits = JournalLimits { quota, lifetime: Duration::from_secs(lifetime) };
        let config = WorkspaceConfig { state_dir: scratch.state.clone(), root: scratch.root.clone(), limits };
        Workspace::open(config).unwrap()
    };
    let workspace = open(1 << 30, 3600);
    for n in 0..10_u8 {
        put_as(&workspace, &path, &vec![b'a' + n; 10_000], &origin(&format!("c{n}"))).unwrap();
    }
    assert_eq!(workspace.history().unwrap().len(), 10);
    let small = open(35_000, 3600);
    small.journal().unwrap().prune();
    let left: Vec<String> =
        small.history().unwrap().iter().map(|it| it.entry.origin.call.to_string()).collect();
    assert_eq!(left, ["c9", "c8"]);
    let (restored, _) = undo(&small, &UndoTarget::Last);
    assert_eq!(restored.len(), 1);
    open(1 << 30, 0).journal().unwrap().prune();
    assert_eq!(small.history().unwrap().len(), 0);
}

#[test]
fn journal_directories_are_private() {
    let scratch = Scratch::new();
    put_as(&scratch.workspace(), &scratch.file("f", "0"), b"1", &origin("c")).unwrap();
    let mut todo = vec![scratch.state.join("journal"), scratch.state.join("locks")];
    while let Some(path) = todo.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        assert_eq!(found.mode() & 0o077, 0, "{path:?} {:o}", found.mode());
        if found.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|it| it.unwrap().path()));
        }
    }
}

#[test]
fn large_replaced_file_is_stored_by_hard_link() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let content = vec![b'x'; 6 * 1024 * 1024];
    let path = scratch.file("large", &content);
    let inode = fs::metadata(&path).unwrap().ino();
    put_as(&workspace, &path, b"small", &origin("c")).unwrap();
    let hash = ContentHash::hash(&content);
    let digits = hash.to_string();
    let kept = workspace.journal().unwrap().dir().join("objects").join(&digits[..2]).join(&digits[2..]);
    assert_eq!(fs::metadata(kept).unwrap().ino(), inode);
    undo(&workspace, &UndoTarget::Last);
    assert_eq!(fs::read(&path).unwrap(), content);
}

/// A change made while nothing could be recorded is not skipped: undo finds it first, reports why it
/// cannot be reverted, and keeps older changes.
#[test]
fn unrecorded_change_is_found_first_by_undo() {
    for in_the_way in ["journal", "journal/*/objects", "journal/*/active"] {
        let scratch = Scratch::new();
        let (older, newer) = (scratch.file("older", "0"), scratch.file("newer", "another"));
        put_as(&scratch.workspace(), &older, b"1", &origin("older")).unwrap();
        // A file blocks the path of our directory.
        let mut blocked = scratch.state.join("journal");
        if let Some(below) = in_the_way.strip_prefix("journal/*/") {
            blocked = fs::read_dir(&blocked).unwrap().next().unwrap().unwrap().path().join(below);
        }
        let aside = scratch.state.join("aside");
        fs::rename(&blocked, &aside).unwrap();
        fs::write(&blocked, "").unwrap();
        let workspace = scratch.workspace();
        let done = put_as(&workspace, &newer, b"1", &origin("newer")).unwrap();
        let notes = done.notes.join("; ");
        assert!(notes.contains("cannot be undone") && !notes.contains("nothing was changed"), "{notes}");
        assert_eq!((done.entry, fs::read(&newer).unwrap()), (None, b"1".to_vec()));
        fs::remove_file(&blocked).unwrap();
        fs::rename(&aside, &blocked).unwrap();
        drop(workspace);
        let workspace = scratch.workspace();
        let calls: Vec<String> =
            workspace.history().unwrap().iter().map(|it| it.entry.origin.call.to_string()).collect();
        assert_eq!(calls, ["newer", "older"], "{in_the_way}");
        let (restored, conflicts) = undo(&workspace, &UndoTarget::Last);
        assert_eq!((restored.len(), conflicts.len()), (0, 1), "{in_the_way}: {conflicts:?}");
        assert_eq!(fs::read(&older).unwrap(), b"1", "an older change was taken back");
        let (restored, _) = undo(&workspace, &UndoTarget::Call("older".into()));
        assert_eq!((restored.len(), fs::read(&older).unwrap()), (1, b"0".to_vec()));
    }
}

/// A command that ran while nothing could be recorded is listed: undo finds it first and reports why it
/// cannot be reverted.
#[test]
fn unrecorded_command_is_found_first_by_undo() {
    let scratch = Scratch::new();
    let older = scratch.file("older", "0");
    put_as(&scratch.workspace(), &older, b"1", &origin("older")).unwrap();
    let journal = scratch.state.join("journal");
    let aside = scratch.state.join("aside");
    fs::rename(&journal, &aside).unwrap();
    fs::write(&journal, "").unwrap();
    let workspace = scratch.workspace();
    workspace.record_unrecorded_change(origin("command"));
    fs::remove_file(&journal).unwrap();
    fs::rename(&aside, &journal).unwrap();
    drop(workspace);
    let workspace = scratch.workspace();
    let refused = workspace.undo(&UndoTarget::Last, &origin("undo")).unwrap_err().to_string();
    assert!(refused.contains("ran while nothing could be recorded"), "{refused}");
    assert_eq!(fs::read(&older).unwrap(), b"1", "an older change was taken back");
    let (restored, _) = undo(&workspace, &UndoTarget::Call("older".into()));
    assert_eq!((restored.len(), fs::read(&older).unwrap()), (1, b"0".to_vec()));
}
