//! `haft permissions test --batch` over the shared tables.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

mod common;

use std::{os::unix::fs::symlink, path::Path};

use common::{Haft, shared};
use serde_json::{Value, json};

/// Makes what a row asks for.
fn prepare(op: &Value) {
    let text = |key: &str| op[key].as_str().unwrap_or_default();
    let path = Path::new(text("path"));
    if let Some(parent) = path.parent().filter(|_| op["path"].is_string()) {
        std::fs::create_dir_all(parent).unwrap();
    }
    match text("op") {
        "dir" => std::fs::create_dir_all(path).unwrap(),
        "file" => std::fs::write(path, text("content")).unwrap(),
        "symlink" => symlink(text("target"), path).unwrap(),
        "hardlink" => std::fs::hard_link(text("target"), path).unwrap(),
        "fifo" => {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        }
        "socket" => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        "sparse" => std::fs::File::create(path).unwrap().set_len(1 << 30).unwrap(),
        // A name that is not UTF-8: matters to the tools, not to the decision.
        "rawfile" => (),
        other => panic!("unknown op {other}"),
    }
}

#[test]
fn file_paths() {
    let (Some(rows), Some(base)) = (shared("file_paths.jsonl"), shared("file_paths_base.json")) else {
        return;
    };
    let (rows, base) = (std::fs::read_to_string(rows).unwrap(), std::fs::read_to_string(base).unwrap());
    let haft = Haft::new();
    let (mut questions, mut wanted) = (String::new(), Vec::new());
    for (idx, row) in rows.lines().enumerate() {
        let dir = haft.ws().join(idx.to_string());
        let place = |text: &str| {
            let mut text = text.to_owned();
            for (name, sub) in
                [("$WSLINK", "wslink"), ("$WS", "ws"), ("$HOME", "home"), ("$OUT", "out"), ("$ADD", "add")]
            {
                text = text.replace(name, dir.join(sub).to_str().unwrap());
            }
            text
        };
        let setup: Vec<Value> = serde_json::from_str(&place(&base)).unwrap();
        let row: Value = serde_json::from_str(&place(row)).unwrap();
        setup.iter().chain(row["setup"].as_array().unwrap()).for_each(prepare);
        let question = json!({
            "tool": row["tool"], "input": row["input"], "cwd": row["cwd"], "home": dir.join("home"),
            "mode": row["mode"], "rules": row["rules"], "additional_dirs": row["additional_dirs"],
        });
        questions.push_str(&format!("{question}\n"));
        wanted.push(row);
    }
    let answers = haft.ok(&["permissions", "test", "--batch"], &questions);
    let mut wrong = Vec::new();
    for (row, answer) in wanted.iter().zip(answers.lines()) {
        let answer: Value = serde_json::from_str(answer).unwrap();
        let decision = answer["decision"].as_str().unwrap();
        let fits = match row["expect"].as_str().unwrap() {
            "not_allow" => decision != "allow",
            "filtered" => decision == "allow",
            // The tool itself refuses these; its own tests show it.
            "error" | "property" | "never_outside" => true,
            expected => decision == expected,
        };
        if !fits {
            wrong.push(format!("{}: want {}, got {answer}", row["id"], row["expect"]));
        }
    }
    assert_eq!(answers.lines().count(), wanted.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}
