//! Unsaved editor buffers over the Agent Client Protocol.

use std::{collections::HashMap, path::PathBuf};

use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};

use crate::{common::Haft, editor::EditorClient};

fn read(name: &str) -> Turn {
    Turn::tool("Read", json!({"file_path": name}))
}

fn edit(name: &str, old: &str, new: &str) -> Turn {
    Turn::tool("Edit", json!({"file_path": name, "old_string": old, "new_string": new}))
}

async fn start(haft: &Haft, turns: Vec<Turn>, buffers: &[(&str, &str)]) -> (EditorClient, MockModel, String) {
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let mut editor = EditorClient::start(haft, &model, &["--permission-mode", "acceptEdits"]);
    let buffers: HashMap<PathBuf, String> =
        buffers.iter().map(|(name, text)| (haft.ws().join(name), (*text).to_owned())).collect();
    editor.buffers = Some(buffers);
    editor.begin(json!({"fs": {"readTextFile": true, "writeTextFile": true}})).await;
    let session = editor.new_session(haft).await;
    (editor, model, session)
}

/// Status and text of each call.
fn results(editor: &EditorClient, session: &str) -> Vec<(String, String)> {
    let done = editor.updates_of(session, "tool_call_update");
    let done = done.iter().filter(|it| matches!(it["status"].as_str(), Some("completed" | "failed")));
    done.map(|it| {
        let texts = it["content"].as_array().into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(|it| it["content"]["text"].as_str()).collect();
        (it["status"].as_str().unwrap().to_owned(), format!("{}{}", texts.join("\n"), it["rawOutput"]))
    })
    .collect()
}

fn asked(lines: &[Value], method: &str) -> Vec<String> {
    let asked = lines.iter().filter(|it| it["method"] == method);
    asked.map(|it| it["params"]["path"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_dirty_buffer_is_the_file_and_survives_edits_and_undo() {
    let haft = Haft::new();
    haft.write("a.txt", "one\ntwo\n");
    let turns = vec![
        read("a.txt"),
        edit("a.txt", "one", "three"),
        Turn::tool("Grep", json!({"pattern": "two"})),
        Turn::text("Done."),
    ];
    let (mut editor, _model, session) = start(&haft, turns, &[("a.txt", "one\ntwo\nunsaved\n")]).await;
    editor.prompt(&session, "go").await.unwrap();
    let told = results(&editor, &session);
    assert!(told[0].1.contains("unsaved") && told[0].1.contains("not yet on disk"), "{told:?}");
    assert_eq!(told[1].0, "completed", "{told:?}");
    let path = haft.ws().join("a.txt");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\ntwo\nunsaved\n");
    assert_eq!(editor.buffers.as_ref().unwrap()[&path], "three\ntwo\nunsaved\n");
    let lines = editor.end().await;
    assert_eq!(asked(&lines, "fs/write_text_file"), [path.display().to_string()]);
    haft.ok(&["undo"], "");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\nunsaved\n");
}

/// A permission prompt shows the change against the unsaved buffer. Search results name the files with
/// unsaved changes.
#[tokio::test]
async fn questions_and_searches_know_what_is_unsaved() {
    let haft = Haft::new();
    haft.write("a.rs", "fn one() {}\n");
    let turns = vec![
        read("a.rs"),
        Turn::tool("Search", json!({"query": "one"})),
        edit("a.rs", "typed", "changed"),
        Turn::text("Done."),
    ];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let mut editor = EditorClient::start(&haft, &model, &[]);
    let path = haft.ws().join("a.rs");
    editor.buffers = Some(HashMap::from([(path.clone(), String::from("fn one() {}\n// typed\n"))]));
    editor.begin(json!({"fs": {"readTextFile": true, "writeTextFile": true}})).await;
    let session = editor.new_session(&haft).await;
    editor.prompt(&session, "go").await.unwrap();
    let told = results(&editor, &session);
    let note = format!("the user's editor has unsaved text in {}", path.display());
    assert!(told[1].1.contains(&note), "{told:?}");
    let lines = editor.end().await;
    let asked: Vec<&Value> = lines.iter().filter(|it| it["method"] == "session/request_permission").collect();
    assert_eq!(asked.len(), 1, "{lines:?}");
    let diff = &asked[0]["params"]["toolCall"]["content"][0];
    assert_eq!(diff["oldText"], "fn one() {}\n// typed\n", "{diff}");
    assert_eq!(diff["newText"], "fn one() {}\n// changed\n", "{diff}");
}

#[tokio::test]
async fn an_editor_that_is_behind_loses_and_a_conflict_is_refused_with_both_sides() {
    let haft = Haft::new();
    haft.write("behind.txt", "one\ntwo\nthree\n");
    haft.write("both.txt", "one\ntwo\nthree\n");
    haft.write("latin.txt", "x");
    std::fs::write(haft.ws().join("latin.txt"), b"caf\xe9 au lait, encore un caf\xe9\n").unwrap();
    let sed = |name: &str| Turn::tool("Bash", json!({"command": format!("sed -i s/one/disk/ {name}")}));
    let turns = vec![
        read("behind.txt"),
        sed("behind.txt"),
        read("behind.txt"),
        read("both.txt"),
        sed("both.txt"),
        Turn::text("Now type."),
        edit("both.txt", "two", "ours"),
        read("latin.txt"),
        edit("latin.txt", "lait", "the"),
        Turn::text("Done."),
    ];
    let buffers = [
        ("behind.txt", "one\ntwo\nthree\n"),
        ("both.txt", "one\ntwo\nthree\n"),
        ("latin.txt", "café, typed\n"),
    ];
    let (mut editor, _model, session) = start(&haft, turns, &buffers).await;
    editor.prompt(&session, "go").await.unwrap();
    let told = results(&editor, &session);
    assert!(told[2].1.contains("disk"), "the disk wins: {told:?}");
    let both = haft.ws().join("both.txt");
    editor.buffers.as_mut().unwrap().insert(both.clone(), String::from("one\ntwo\nthree\ntyped\n"));
    editor.prompt(&session, "again").await.unwrap();
    let told = results(&editor, &session)[5..].to_vec();
    assert_eq!(told[0].0, "failed");
    for part in ["+typed", "+disk", "-one"] {
        assert!(told[0].1.contains(part), "{part}: {told:?}");
    }
    assert_eq!(std::fs::read_to_string(&both).unwrap(), "disk\ntwo\nthree\n");
    assert!(told[1].1.contains("not plain UTF-8"), "{told:?}");
    assert_eq!(told[2].0, "failed", "{told:?}");
    let lines = editor.end().await;
    assert_eq!(asked(&lines, "fs/write_text_file"), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_asked_about_what_may_not_be_read_and_a_silent_editor_is_not_waited_for() {
    let haft = Haft::new();
    haft.write(".env", "SECRET=1\n");
    haft.write("a.txt", "one\n");
    haft.write(".haft/settings.json", r#"{"permissions": {"deny": ["Read(.env)"]}}"#);
    let turns = vec![read(".env"), read("a.txt"), read("b.txt"), Turn::text("Done.")];
    let (mut editor, _model, session) = start(&haft, turns, &[]).await;
    haft.write("b.txt", "two\n");
    // From here on the editor does not answer requests for its buffers.
    editor.buffers = None;
    editor.prompt(&session, "go").await.unwrap();
    let told = results(&editor, &session);
    assert_eq!(told[0].0, "failed", "{told:?}");
    assert!(told[1].1.contains("one") && told[1].1.contains("did not say"), "{told:?}");
    assert!(told[2].1.contains("two"), "{told:?}");
    let lines = editor.end().await;
    let paths = asked(&lines, "fs/read_text_file");
    assert_eq!(paths, [haft.ws().join("a.txt").display().to_string()]);
}
