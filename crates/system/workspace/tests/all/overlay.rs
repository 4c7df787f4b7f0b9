//! Text that an editor has and the disk has not.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_workspace::{
    BufferChange, BufferLookup, EditorOverlay, EmptyContextView, FileError, OpenFile, PlannedWrite,
    SessionFiles, TurnId, UndoTarget, Workspace, text::Bytes,
};

use crate::support::{Scratch, origin};

/// What an editor does when it is asked to write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Saving {
    Saves,
    KeepsInBuffer,
    Formats,
    Refuses,
}

#[derive(Debug)]
struct TestEditor {
    buffers: Mutex<HashMap<PathBuf, String>>,
    saving: Saving,
    /// It does not answer in time.
    is_busy: AtomicBool,
}

impl TestEditor {
    fn on(workspace: &Workspace, saving: Saving) -> Arc<Self> {
        let editor = Arc::new(Self { buffers: Mutex::default(), saving, is_busy: AtomicBool::new(false) });
        workspace.set_overlay(Arc::clone(&editor) as Arc<dyn EditorOverlay>);
        editor
    }

    fn types(&self, path: &Path, text: &str) {
        self.buffers.lock().unwrap().insert(path.to_owned(), text.to_owned());
    }

    fn shows(&self, path: &Path) -> Option<String> {
        self.buffers.lock().unwrap().get(path).cloned()
    }
}

impl EditorOverlay for TestEditor {
    fn content(&self, path: &Path) -> BufferLookup {
        match self.shows(path) {
            _ if self.is_busy.load(Ordering::Relaxed) => BufferLookup::Silent,
            Some(text) => BufferLookup::Text(text),
            None => BufferLookup::Unknown,
        }
    }

    fn replace(&self, path: &Path, old: &str, new: &str) -> BufferChange {
        if self.saving == Saving::Refuses {
            return BufferChange::Failed(String::from("not today"));
        }
        if self.shows(path).as_deref() != Some(old) {
            return BufferChange::Changed;
        }
        let new =
            if self.saving == Saving::Formats { format!("{new}// formatted\n") } else { new.to_owned() };
        self.types(path, &new);
        if self.saving != Saving::KeepsInBuffer {
            fs::write(path, new).unwrap();
        }
        BufferChange::Made
    }
}

fn shown(workspace: &Workspace, path: &Path) -> (String, String) {
    let loaded = workspace.load(OpenFile::open(path).unwrap()).unwrap();
    (String::from_utf8_lossy(&loaded.bytes).into_owned(), loaded.notice.unwrap_or_default())
}

/// Adds a line to what the file is.
fn append(workspace: &Workspace, path: &Path, line: &str, call: &str) -> Result<Vec<String>, FileError> {
    let locked = workspace.lock(&[path]).unwrap();
    let (snapshot, mut bytes) = locked.read(path)?.unwrap();
    bytes.extend(line.as_bytes());
    let change = PlannedWrite {
        path: path.to_owned(),
        base: Some(&snapshot),
        content: Some(Bytes::whole(bytes)),
        mode: None,
    };
    locked.commit(&[change], &origin(call)).map(|it| it.notes).map_err(|it| it.error)
}

#[test]
fn what_an_editor_shows_means_one_of_five_things() {
    // What the disk held when both were the same, what it holds, what is shown.
    for (then, disk, buffer, want, notice) in [
        ("a\n", "a\n", "a\n", "a\n", ""),
        ("a\n", "a\n", "a\nnew\n", "a\nnew\n", "Unsaved"),
        // The editor has not noticed.
        ("a\n", "b\n", "a\n", "b\n", ""),
        // It has noticed, and somebody typed.
        ("a\n1\n2\n3\n", "b\n1\n2\n3\n", "b\n1\n2\n3\nnew\n", "b\n1\n2\n3\nnew\n", "Unsaved"),
        // Somebody typed into what was there before.
        ("a\n1\n2\n3\n", "b\n1\n2\n3\n", "a\n1\n2\n3\nnew\n", "b\n1\n2\n3\n", "-a"),
        ("a\r\nb\r\n", "a\r\nb\r\n", "a\nb\n", "a\r\nb\r\n", ""),
        ("a\r\nb\r\n", "a\r\nb\r\n", "a\r\nb\r\nnew\r\n", "a\r\nb\r\nnew\r\n", "Unsaved"),
        ("a\r\nb\n", "a\r\nb\n", "a\nb\nnew\n", "a\r\nb\n", "line ends are mixed"),
        ("\u{feff}a\n", "\u{feff}a\n", "a\n", "\u{feff}a\n", ""),
        ("\u{feff}a\n", "\u{feff}a\n", "a\nnew\n", "\u{feff}a\n", "not plain UTF-8"),
    ] {
        let scratch = Scratch::new();
        let files = SessionFiles::new(Arc::new(scratch.workspace()), None, EmptyContextView);
        let workspace = files.workspace();
        let path = scratch.file("f", then);
        let editor = TestEditor::on(workspace, Saving::Saves);
        editor.types(&path, then);
        assert_eq!(shown(workspace, &path), (then.to_owned(), String::new()));
        fs::write(&path, disk).unwrap();
        editor.types(&path, buffer);
        // What was clean in this turn is not asked about again; the next one asks.
        files.begin_turn(TurnId::new("next"));
        let (text, said) = shown(workspace, &path);
        assert_eq!(text, want, "{then:?} {disk:?} {buffer:?}: {said}");
        assert!(said.contains(notice) && said.is_empty() == notice.is_empty(), "{buffer:?}: {said}");
    }
}

/// An editor that is busy keeps what was typed: the disk is changed only where nothing was unsaved.
#[test]
fn what_a_busy_editor_has_unsaved_is_not_written_over() {
    for (buffer, is_changed) in [("a\n", true), ("a\nnew\n", false)] {
        let scratch = Scratch::new();
        let files = SessionFiles::new(Arc::new(scratch.workspace()), None, EmptyContextView);
        let path = scratch.file("f", "a\n");
        let editor = TestEditor::on(files.workspace(), Saving::Saves);
        editor.types(&path, buffer);
        shown(files.workspace(), &path);
        editor.is_busy.store(true, Ordering::Relaxed);
        files.begin_turn(TurnId::new("next"));
        assert_eq!(shown(files.workspace(), &path).0, "a\n", "it is shown from the disk");
        let changed = append(files.workspace(), &path, "more\n", "c");
        assert_eq!(changed.is_ok(), is_changed, "{changed:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), if is_changed { "a\nmore\n" } else { "a\n" });
        // When it answers again, everything goes on as before.
        editor.is_busy.store(false, Ordering::Relaxed);
        files.begin_turn(TurnId::new("third"));
        assert!(append(files.workspace(), &path, "last\n", "d").is_ok());
    }
}

/// A file that is too large to be taken over is shown from the disk, and changed only where nothing is unsaved.
#[test]
fn a_large_file_is_not_changed_behind_what_is_unsaved() {
    let large: String = (0..700_000).map(|number| format!("{number}\n")).collect();
    for (buffer, is_changed) in [
        (None, true),
        (Some(large.clone()), true),
        (Some(format!("typed\n{large}")), false),
        (Some(String::from("typed\n")), false),
    ] {
        let scratch = Scratch::new();
        let workspace = scratch.workspace();
        let path = scratch.file("f", &large);
        let editor = TestEditor::on(&workspace, Saving::Saves);
        if let Some(buffer) = &buffer {
            editor.types(&path, buffer);
        }
        assert_eq!(shown(&workspace, &path), (large.clone(), String::new()));
        let changed = append(&workspace, &path, "new\n", "c");
        assert_eq!(changed.is_ok(), is_changed, "{changed:?}");
        if !is_changed {
            assert!(changed.unwrap_err().to_string().contains("too large"));
            assert_eq!(fs::read_to_string(&path).unwrap(), large);
        }
    }
}

#[test]
fn unsaved_text_survives_every_editor_and_comes_back_with_undo() {
    for (saving, on_disk) in [
        (Saving::Saves, "a\nunsaved\nours\n"),
        (Saving::KeepsInBuffer, "a\nunsaved\nours\n"),
        (Saving::Formats, "a\nunsaved\nours\n// formatted\n"),
    ] {
        let scratch = Scratch::new();
        let workspace = scratch.workspace();
        let path = scratch.file("f", "a\n");
        let editor = TestEditor::on(&workspace, saving);
        editor.types(&path, "a\nunsaved\n");
        let notes = append(&workspace, &path, "ours\n", "edit").unwrap();
        assert!(notes.iter().any(|it| it.contains("editor")), "{notes:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), on_disk, "{saving:?}");
        assert_eq!(editor.shows(&path).unwrap(), on_disk);
        let report = workspace.undo(&UndoTarget::Call("edit".into()), &origin("undo")).unwrap();
        assert_eq!((report.restored, report.conflicts), (vec![path.clone()], vec![]), "{saving:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nunsaved\n", "{saving:?}");
        // What was on disk before is there too, under its own id.
        let entries = workspace.journal().unwrap().entries().unwrap();
        let saved = entries.iter().find(|it| it.origin.tool == "unsaved text").unwrap();
        workspace.undo(&UndoTarget::Entry(saved.id.clone()), &origin("undo")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\n", "{saving:?}");
    }
}

#[test]
fn a_batch_that_is_taken_back_leaves_the_typed_text_and_what_was_on_disk() {
    // The second file cannot be changed: it is another one by now, on disk or in the editor.
    for (saving, in_editor, saved) in [
        (Saving::Saves, false, "a\ntyped\n"),
        (Saving::Saves, true, "a\ntyped\n"),
        (Saving::Formats, false, "a\ntyped\n// formatted\n"),
        (Saving::Formats, true, "a\ntyped\n// formatted\n"),
    ] {
        let scratch = Scratch::new();
        let workspace = scratch.workspace();
        let editor = TestEditor::on(&workspace, saving);
        let (typed, other) = (scratch.file("typed", "a\n"), scratch.file("other", "b\n"));
        editor.types(&typed, "a\ntyped\n");
        if in_editor {
            editor.types(&other, "b\ntyped\n");
        }
        let locked = workspace.lock(&[&typed, &other]).unwrap();
        let bases = [&typed, &other].map(|it| locked.read(it).unwrap().unwrap().0);
        if in_editor {
            editor.types(&other, "b\ntyped more\n")
        } else {
            fs::write(&other, "theirs\n").unwrap()
        }
        let changes = [(&typed, &bases[0]), (&other, &bases[1])].map(|(path, base)| PlannedWrite {
            path: path.clone(),
            base: Some(base),
            content: Some(Bytes::whole(b"ours\n".to_vec())),
            mode: None,
        });
        locked.commit(&changes, &origin("batch")).unwrap_err();
        drop(locked);
        assert_eq!(editor.shows(&typed).as_deref(), Some(saved), "{saving:?} {in_editor}");
        assert_eq!(fs::read_to_string(&typed).unwrap(), saved, "{saving:?} {in_editor}");
        let entries = workspace.journal().unwrap().entries().unwrap();
        assert!(!entries.is_empty() && entries.iter().all(|it| it.origin.tool == "unsaved text"));
        let call = UndoTarget::Call("unsaved-batch".into());
        let report = workspace.undo(&call, &origin("undo")).unwrap();
        assert!(report.conflicts.is_empty(), "{saving:?} {in_editor}: {report:?}");
        assert_eq!(fs::read_to_string(&typed).unwrap(), "a\n", "{saving:?} {in_editor}");
    }
}

#[test]
fn an_editor_that_still_shows_a_removed_file_is_behind() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let editor = TestEditor::on(&workspace, Saving::Refuses);
    let path = scratch.file("gone", "a\n");
    editor.types(&path, "a\n");
    shown(&workspace, &path);
    fs::remove_file(&path).unwrap();
    assert!(workspace.lock(&[&path]).unwrap().read(&path).unwrap().is_none());
    // What was typed since is kept.
    editor.types(&path, "a\ntyped\n");
    let refused = workspace.lock(&[&path]).unwrap().read(&path).unwrap_err().to_string();
    assert!(refused.contains("never saved"), "{refused}");
}

#[test]
fn what_cannot_be_brought_together_is_refused_and_nothing_is_written() {
    // Conflict, an editor that refuses, an encoding it would not keep, a new file.
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let editor = TestEditor::on(&workspace, Saving::Refuses);
    let path = scratch.file("conflict", "a\n1\n2\n");
    editor.types(&path, "a\n1\n2\n");
    shown(&workspace, &path);
    fs::write(&path, "b\n1\n2\n").unwrap();
    editor.types(&path, "a\n1\n2\ntyped\n");
    let refused = append(&workspace, &path, "ours\n", "edit").unwrap_err().to_string();
    for part in ["Unsaved in the editor", "+typed", "Changed on disk", "-a", "+b"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    // And it stays refused.
    assert!(append(&workspace, &path, "ours\n", "edit").is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "b\n1\n2\n");
    let plain = scratch.file("plain", "a\n");
    editor.types(&plain, "a\ntyped\n");
    assert!(append(&workspace, &plain, "x", "edit").unwrap_err().to_string().contains("not today"));
    assert_eq!(workspace.unsaved_files(), [path.clone(), plain.clone()]);
    let latin = scratch.root.join("latin");
    fs::write(&latin, b"caf\xe9 au lait, encore un caf\xe9\n").unwrap();
    editor.types(&latin, "café au lait, encore un café et plus\n");
    let refused = append(&workspace, &latin, "x", "edit").unwrap_err().to_string();
    assert!(refused.contains("not plain UTF-8") && refused.contains("save"), "{refused}");
    let new = scratch.root.join("new");
    editor.types(&new, "never saved\n");
    let refused = workspace.lock(&[&new]).unwrap().read(&new).unwrap_err().to_string();
    assert!(refused.contains("never saved"), "{refused}");
    assert!(!new.exists());
}
