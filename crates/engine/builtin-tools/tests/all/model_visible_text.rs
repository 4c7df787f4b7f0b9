//! Every text a model reads from the file tools, verbatim, so that each change is reviewed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::file_rig;

use file_rig::Rig;
use haft_builtin_tools::read::ReadLimits;
use serde_json::{Value, json};

#[test]
fn file_tool_descriptions_match_snapshot() {
    let rig = Rig::new(&[]);
    let told: Vec<Value> = rig
        .tools
        .iter()
        .map(|(name, tool)| {
            let spec = tool.spec();
            json!({ "name": name, "description": spec.description, "input": spec.input_schema })
        })
        .collect();
    insta::assert_json_snapshot!(told);
}

/// Replaces ids, which are random.
fn without_ids(said: &str) -> String {
    let mark = "Undo id: ";
    match said.find(mark) {
        None => said.to_owned(),
        Some(at) => {
            let end = at + mark.len();
            let id = said[end..].bytes().take_while(u8::is_ascii_alphanumeric).count();
            format!("{}ID{}", &said[..end], &said[end + id..])
        }
    }
}

#[tokio::test]
async fn file_tool_results_and_errors_match_snapshot() {
    let limits = ReadLimits { max_tokens: 400, max_lines: 20, ..ReadLimits::default() };
    let long: String = (1..=200).map(|n| format!("entry {n}\n")).collect();
    let notebook = json!({ "cells": [
        { "cell_type": "code", "id": "a", "metadata": {}, "source": "1 + 1", "outputs": [
            { "output_type": "execute_result", "data": { "text/plain": "2" } } ] },
        { "cell_type": "markdown", "id": "b", "metadata": {}, "source": ["# Title"] } ],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5 });
    let rig = Rig::with_limits(
        &[
            (
                "src/main.py",
                "def greet(name):\n    return f\"Hello, {name}\"\n\ndef part(name):\n    return name\n",
            ),
            ("long.txt", &long),
            ("wide.txt", &"x".repeat(3000)),
            ("n.ipynb", &notebook.to_string()),
            ("empty", ""),
        ],
        limits,
    );
    rig.put("latin.txt", b"caf\xe9\r\nbar\r\n");
    rig.put("data.bin", b"\x7fELF\x02\x01\x01\0\0\0");
    let edit =
        |old: &str, new: &str| json!({ "file_path": "src/main.py", "old_string": old, "new_string": new });
    let calls = [
        ("Edit", edit("name", "x")),
        ("Read", json!({ "file_path": "src/main.py" })),
        ("Edit", edit("return name", "return name.strip()")),
        ("Edit", edit("return nane.strip()", "x")),
        ("Edit", edit("name", "person")),
        (
            "Edit",
            edit(
                "def greet(name):\n  return f\"Hello, {name}\"",
                "def greet(name):\n  return f\"Hi, {name}\"",
            ),
        ),
        ("Edit", edit("nothing like it at all", "x")),
        ("Read", json!({ "file_path": "long.txt" })),
        ("Read", json!({ "file_path": "long.txt", "offset": 190 })),
        ("Read", json!({ "file_path": "long.txt", "offset": 999 })),
        ("Write", json!({ "file_path": "long.txt", "content": "short\n" })),
        ("Read", json!({ "file_path": "wide.txt", "column": 2990 })),
        ("Read", json!({ "file_path": "latin.txt" })),
        ("Edit", json!({ "file_path": "latin.txt", "old_string": "bar", "new_string": "日本" })),
        ("Read", json!({ "file_path": "data.bin" })),
        ("Read", json!({ "file_path": "n.ipynb" })),
        ("Read", json!({ "file_path": "empty" })),
        ("Read", json!({ "file_path": "src" })),
        ("Read", json!({ "file_path": "src/mian.py" })),
        ("Read", json!({ "file_path": "/dev/zero" })),
        ("Read", json!({ "file_path": "src/main.py", "pages": "1-3" })),
        ("Write", json!({ "file_path": "new/file.txt", "content": "one\ntwo\n" })),
        ("Write", json!({ "file_path": "new/file.txt", "content": "# ... rest of file unchanged ...\n" })),
        ("Write", json!({ "file_path": "new/file.txt", "content": "" })),
        (
            "MultiEdit",
            json!({ "file_path": "new/file.txt", "edits": [
                { "old_string": "one", "new_string": "1" }, { "old_string": "three", "new_string": "3" } ] }),
        ),
        (
            "MultiEdit",
            json!({ "file_path": "new/file.txt", "edits": [
                { "old_string": "one", "new_string": "1" }, { "old_string": "two", "new_string": "2" } ] }),
        ),
        ("NotebookEdit", json!({ "notebook_path": "n.ipynb", "cell_id": "a", "new_source": "2 + 2" })),
        ("NotebookEdit", json!({ "notebook_path": "n.ipynb", "cell_id": "zz", "new_source": "" })),
    ];
    let mut told = String::new();
    for (name, input) in calls {
        let said = without_ids(&rig.say(name, input.clone()).await);
        told.push_str(&format!(">>> {name} {input}\n{said}\n\n"));
    }
    insta::assert_snapshot!(told);
}
