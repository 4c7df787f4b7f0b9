//! MultiEdit: all or nothing, in order, across files.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::file_rig;

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use file_rig::Rig;
use serde_json::{Value, json};

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "file_path": path, "old_string": old, "new_string": new })
}

async fn three_files() -> Rig {
    let rig = Rig::new(&[("a", "one\ntwo\n"), ("b", "three\nfour\n"), ("c", "five\nsix\n")]);
    for name in ["a", "b", "c"] {
        rig.read(name).await;
    }
    rig
}

fn contents(rig: &Rig) -> [String; 3] {
    ["a", "b", "c"].map(|name| rig.text(name))
}

#[tokio::test]
async fn edits_apply_in_order_across_files() {
    let rig = three_files().await;
    let edits = json!([
        edit("a", "one", "uno"),
        edit("b", "three", "tres\nextra"),
        edit("b", "extra", "more"),
        edit("new/d", "", "fresh\n"),
        edit("new/d", "fresh", "FRESH"),
        edit("c", "six", "seis"),
    ]);
    let output = rig.run("MultiEdit", json!({ "edits": edits })).await.unwrap();
    assert_eq!(contents(&rig), ["uno\ntwo\n", "tres\nmore\nfour\n", "five\nseis\n"].map(str::to_owned));
    assert_eq!(rig.text("new/d"), "FRESH\n");
    assert_eq!(output.data["files"].as_array().unwrap().len(), 4);
    assert!(output.data["edits"].as_array().unwrap().iter().all(|it| it["status"] == "ok"));
    // One change and one undo; the new content counts as seen.
    rig.run("Edit", edit("b", "more", "MORE")).await.unwrap();
    rig.undo();
    rig.undo();
    assert_eq!(contents(&rig), ["one\ntwo\n", "three\nfour\n", "five\nsix\n"].map(str::to_owned));
    assert!(!rig.path("new").exists());
}

#[tokio::test]
async fn edits_with_one_file_path_apply_to_that_file() {
    let rig = three_files().await;
    let input = json!({ "file_path": "a", "edits": [
        { "old_string": "one", "new_string": "1" },
        { "old_string": "two", "new_string": "2", "replace_all": true },
    ] });
    rig.run("MultiEdit", input).await.unwrap();
    assert_eq!(rig.text("a"), "1\n2\n");
}

#[tokio::test]
async fn one_failed_edit_prevents_all_changes() {
    let rig = three_files().await;
    let before = contents(&rig);
    let edits = |fourth: Value| {
        json!([
            edit("a", "one", "uno"),
            edit("b", "three", "tres"),
            edit("b", "four", "cuatro"),
            fourth,
            edit("c", "six", "seis")
        ])
    };
    for (fourth, want) in [
        (edit("c", "seven", "siete"), "edit 4 ($WS/c): not_found"),
        (edit("b", "three", "3"), "edit 4 ($WS/b): consumed by edit 2"),
        (edit("a", "o", "0"), "edit 4 ($WS/a): ambiguous"),
        (edit("gone", "x", "y"), "edit 4 ($WS/gone): not_found"),
    ] {
        let said = rig.say("MultiEdit", json!({ "edits": edits(fourth) })).await;
        assert!(said.contains("No edit was made") && said.contains(want), "{said}");
        assert!(said.contains("edit 1 ($WS/a): ok"), "{said}");
        assert_eq!(contents(&rig), before);
    }
    // A file that cannot be written prevents all changes.
    fs::set_permissions(rig.path("c"), fs::Permissions::from_mode(0o444)).unwrap();
    let said = rig.say("MultiEdit", json!({ "edits": edits(edit("a", "two", "dos")) })).await;
    assert!(said.contains("No edit was made") && said.contains("read-only"), "{said}");
    assert_eq!(contents(&rig), before);
    assert_eq!(rig.litter(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn partial_applies_the_edits_that_match() {
    let rig = three_files().await;
    let edits = json!([edit("a", "one", "uno"), edit("b", "nope", "x"), edit("c", "six", "seis")]);
    let said = rig.say("MultiEdit", json!({ "edits": edits, "partial": true })).await;
    assert!(said.contains("Made 2 of 3 edits") && said.contains("edit 2 ($WS/b): not_found"), "{said}");
    assert_eq!(contents(&rig), ["uno\ntwo\n", "three\nfour\n", "five\nseis\n"].map(str::to_owned));
}

#[tokio::test]
async fn changes_since_the_read_are_named() {
    let rig = three_files().await;
    fs::write(rig.path("b"), "3\nfour\n").unwrap();
    let edits = json!([edit("a", "one", "uno"), edit("b", "three", "tres")]);
    let said = rig.say("MultiEdit", json!({ "edits": edits })).await;
    assert!(said.contains("edit 2 ($WS/b): drifted") && said.contains("1\t3"), "{said}");
    assert_eq!(rig.text("a"), "one\ntwo\n");
    // Changed elsewhere in the file: the edit is made.
    let edits = json!([edit("a", "one", "uno"), edit("b", "four", "cuatro")]);
    rig.run("MultiEdit", json!({ "edits": edits })).await.unwrap();
    assert_eq!(rig.text("b"), "3\ncuatro\n");
}

#[tokio::test]
async fn multi_edit_rejects_invalid_input() {
    let rig = three_files().await;
    for (input, want) in [
        (json!({ "edits": [] }), "edits"),
        (json!({ "edits": [{ "old_string": "a", "new_string": "b" }] }), "no file"),
        (json!({ "edits": [edit("a", "x", "x")] }), "the same"),
        (json!({ "edits": [edit("", "x", "y")] }), "empty"),
    ] {
        let said = rig.say("MultiEdit", input).await;
        assert!(said.starts_with("error: ") && said.contains(want), "{said}");
    }
}

#[tokio::test]
async fn settings_stay_valid_after_all_edits() {
    let rig = Rig::new(&[(".mcp.json", "{ \"mcpServers\": {} }\n"), ("a", "x\n")]);
    rig.read(".mcp.json").await;
    rig.read("a").await;
    // Invalid in between is accepted, invalid at the end is not.
    let edits = json!([edit(".mcp.json", "{}", "{"), edit("a", "x", "y")]);
    let said = rig.say("MultiEdit", json!({ "edits": edits, "partial": true })).await;
    assert!(said.contains("invalid_settings"), "{said}");
    assert_eq!(rig.text("a"), "x\n");
    let edits = json!([edit(".mcp.json", "{}", "{ \"s\":"), edit(".mcp.json", "{ \"s\":", "{ \"s\": {} }")]);
    rig.run("MultiEdit", json!({ "edits": edits })).await.unwrap();
}
