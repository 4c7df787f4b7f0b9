//! NotebookEdit: one cell changes, everything else stays byte for byte.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::file_rig;

use file_rig::Rig;
use serde_json::{Value, json};

const INDENTED: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {"tags": [ "a",  "b" ]},
   "source": [
    "# Title\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "c1",
   "metadata": {},
   "outputs": [
    {"name": "stdout", "output_type": "stream", "text": ["1\n"]}
   ],
   "source": [
    "print(1)"
   ]
  }
 ],
 "metadata": {"x":1.50, "y": 1e3},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

fn input(mode: &str, id: Option<&str>, source: &str) -> Value {
    let mut input = json!({ "notebook_path": "n.ipynb", "new_source": source, "edit_mode": mode });
    if let Some(id) = id {
        input["cell_id"] = json!(id);
    }
    if mode == "insert" {
        input["cell_type"] = json!("code");
    }
    input
}

/// Applies one edit and returns the file.
async fn edited(notebook: &str, input: Value) -> String {
    let rig = Rig::new(&[("n.ipynb", notebook)]);
    rig.read("n.ipynb").await;
    rig.run("NotebookEdit", input).await.unwrap();
    let text = rig.text("n.ipynb");
    serde_json::from_str::<Value>(&text).unwrap();
    rig.undo();
    assert_eq!(rig.text("n.ipynb"), notebook);
    text
}

#[tokio::test]
async fn replacing_a_cell_changes_nothing_else() {
    let got = edited(INDENTED, input("replace", Some("c1"), "x = 1\nprint(\"é\")\n")).await;
    let want = INDENTED
        .replace("   \"execution_count\": 7", "   \"execution_count\": null")
        .replace(
            "[\n    {\"name\": \"stdout\", \"output_type\": \"stream\", \"text\": [\"1\\n\"]}\n   ]",
            "[]",
        )
        .replace("    \"print(1)\"\n", "    \"x = 1\\n\",\n    \"print(\\\"é\\\")\\n\"\n");
    assert_eq!(got, want);
    let got = edited(INDENTED, input("replace", Some("intro"), "# New")).await;
    assert_eq!(got, INDENTED.replace("    \"# Title\\n\",\n    \"text\"\n", "    \"# New\"\n"));
    let mut to_markdown = input("replace", Some("c1"), "print(1)");
    to_markdown["cell_type"] = json!("markdown");
    let got: Value = serde_json::from_str(&edited(INDENTED, to_markdown).await).unwrap();
    assert_eq!(
        got["cells"][1],
        json!({ "cell_type": "markdown", "id": "c1", "metadata": {}, "source": ["print(1)"] })
    );
    let mut to_code = input("replace", Some("intro"), "y");
    to_code["cell_type"] = json!("code");
    let got: Value = serde_json::from_str(&edited(INDENTED, to_code).await).unwrap();
    assert_eq!(got["cells"][0]["outputs"], json!([]));
}

#[tokio::test]
async fn inserted_and_deleted_cells_follow_the_formatting() {
    let got = edited(INDENTED, input("insert", Some("intro"), "a = 1\n")).await;
    let at =
        got.find("  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"").unwrap();
    assert!(INDENTED.starts_with(&got[..at]));
    assert!(got.ends_with(&INDENTED[at..]), "{got}");
    assert!(got.contains("   \"outputs\": [],\n   \"source\": [\n    \"a = 1\\n\"\n   ]\n  },\n"), "{got}");
    let got = edited(INDENTED, input("insert", None, "first")).await;
    let value: Value = serde_json::from_str(&got).unwrap();
    assert_eq!(value["cells"][0]["source"], json!(["first"]));
    assert_eq!(value["cells"].as_array().unwrap().len(), 3);
    let got = edited(INDENTED, input("insert", Some("c1"), "last")).await;
    let value: Value = serde_json::from_str(&got).unwrap();
    assert_eq!(value["cells"][2]["source"], json!(["last"]));
    let got = edited(INDENTED, input("delete", Some("intro"), "")).await;
    assert!(got.starts_with("{\n \"cells\": [\n  {\n   \"cell_type\": \"code\""), "{got}");
    let got = edited(INDENTED, input("delete", Some("c1"), "")).await;
    assert!(got.contains("  }\n ],\n \"metadata\""), "{got}");
}

#[tokio::test]
async fn compact_and_empty_notebooks_keep_their_formatting() {
    let compact = r#"{"cells":[{"cell_type":"code","metadata":{},"execution_count":null,"outputs":[],"source":"one"}],"metadata":{},"nbformat":4,"nbformat_minor":4}"#;
    let got = edited(compact, input("replace", Some("cell-0"), "two\nthree")).await;
    assert_eq!(got, compact.replace("\"one\"", "\"two\\nthree\""));
    let got = edited(compact, input("insert", Some("cell-0"), "x")).await;
    assert!(got.contains("},{\"cell_type\":\"code\",\"execution_count\":null,\"metadata\":{},\"outputs\":[],\"source\":[\"x\"]}]"), "{got}");
    let got = edited(compact, input("delete", Some("cell-0"), "")).await;
    assert!(got.contains("\"cells\":[],"), "{got}");
    let empty = "{\n  \"cells\": [],\n  \"metadata\": {},\n  \"nbformat\": 4,\n  \"nbformat_minor\": 5\n}\n";
    let got = edited(empty, input("insert", None, "x")).await;
    assert!(
        got.contains("  \"cells\": [\n    {\n      \"cell_type\": \"code\",")
            && got.contains("\n    }\n  ],\n"),
        "{got}"
    );
    let escaped = INDENTED.replace("text\"", "caf\\u00e9\"");
    let got = edited(&escaped, input("replace", Some("c1"), "é😀")).await;
    assert!(got.contains("\"\\u00e9\\ud83d\\ude00\""), "{got}");
    let crlf = INDENTED.replace('\n', "\r\n");
    let got = edited(&crlf, input("replace", Some("intro"), "a\nb")).await;
    assert_eq!(got.matches('\n').count(), got.matches("\r\n").count());
}

#[tokio::test]
async fn notebook_edit_rejects_unread_and_invalid_notebooks() {
    let rig = Rig::new(&[
        ("n.ipynb", INDENTED),
        ("bad.ipynb", "{"),
        ("v3.ipynb", "{\"worksheets\": []}"),
        ("x.txt", ""),
    ]);
    let said = rig.say("NotebookEdit", input("replace", Some("c1"), "x")).await;
    assert!(said.contains("Read it first"), "{said}");
    for name in ["n.ipynb", "bad.ipynb", "v3.ipynb"] {
        rig.read(name).await;
    }
    let at = |path: &str| {
        let mut input = input("replace", Some("c1"), "x");
        input["notebook_path"] = json!(path);
        input
    };
    for (input, want) in [
        (input("replace", Some("nope"), "x"), "Its cells are: intro, c1."),
        (input("replace", None, "x"), "cell_id is needed"),
        (
            json!({ "notebook_path": "n.ipynb", "new_source": "x", "edit_mode": "insert" }),
            "cell_type is needed",
        ),
        (input("replace", Some("c1"), "print(1)"), "already has this source"),
        (at("bad.ipynb"), "not a valid notebook"),
        (at("v3.ipynb"), "no list of cells"),
        (at("x.txt"), ".ipynb"),
        (at("gone.ipynb"), "does not exist"),
    ] {
        let said = rig.say("NotebookEdit", input.clone()).await;
        assert!(said.starts_with("error: ") && said.contains(want), "{input}: {said}");
    }
    rig.put("n.ipynb", INDENTED.replace("Title", "Other"));
    let said = rig.say("NotebookEdit", input("replace", Some("c1"), "x")).await;
    assert!(said.contains("changed by someone else"), "{said}");
}
