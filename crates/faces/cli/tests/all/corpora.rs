//! `haft permissions test --batch` over the shared tables.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

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

/// The tree the command tables were made with, as far as decisions look at it.
fn command_fixture(haft: &Haft) {
    let (ws, home) = (haft.ws().join("proj"), haft.ws().join("home"));
    for dir in ["src", "packages", "my dir", "secrets", "out", ".git"] {
        std::fs::create_dir_all(ws.join(dir)).unwrap();
    }
    std::fs::create_dir_all(home.join(".ssh")).unwrap();
    std::fs::write(ws.join(".env"), "TOKEN=1\n").unwrap();
    std::fs::write(home.join("outside.txt"), "o\n").unwrap();
    symlink(".env", ws.join("linkenv")).unwrap();
    symlink(home.join(".ssh"), ws.join("linkdir")).unwrap();
    symlink(home.join("outside.txt"), ws.join("outlink")).unwrap();
}

/// Rows of a table with the answers of `haft`.
fn judged(name: &str) -> Option<Vec<(Value, String)>> {
    let rows = std::fs::read_to_string(shared(name)?).unwrap();
    let haft = Haft::new();
    command_fixture(&haft);
    let (ws, home) = (haft.ws().join("proj"), haft.ws().join("home"));
    let place = |text: &str| {
        text.replace("/ws/proj", ws.to_str().unwrap()).replace("/home/u", home.to_str().unwrap())
    };
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(&place(row)).unwrap()).collect();
    let question = |row: &Value| {
        let question = json!({
            "tool": "Bash", "input": {"command": row["command"]}, "cwd": row["cwd"], "home": row["home"],
            "mode": row["mode"], "rules": row["rules"],
        });
        format!("{question}\n")
    };
    let questions: String = rows.iter().map(question).collect();
    let answers = haft.ok(&["permissions", "test", "--batch"], &questions);
    assert_eq!(answers.lines().count(), rows.len());
    let decision =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["decision"].as_str().unwrap().to_owned();
    Some(rows.into_iter().zip(answers.lines().map(decision)).collect())
}

#[test]
fn commands_strict() {
    let Some(rows) = judged("bash_permissions.jsonl") else { return };
    let wrong = rows.iter().filter(|(row, got)| row["expect"] != got.as_str());
    let wrong: Vec<String> =
        wrong.map(|(row, got)| format!("{} {}: got {got}", row["id"], row["command"])).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn commands_that_must_never_be_allowed() {
    let Some(rows) = judged("bash_permissions_min.jsonl") else { return };
    let wrong =
        rows.iter().filter(|(row, got)| !row["expect_one_of"].as_array().unwrap().contains(&json!(got)));
    let wrong: Vec<String> = wrong.map(|(row, got)| format!("{}: got {got}", row["id"])).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn harmless_commands_are_rarely_asked_about() {
    let Some(rows) = judged("bash_usability_extra.jsonl") else { return };
    let asked = rows.iter().filter(|(_, got)| got != "allow");
    let asked: Vec<&Value> = asked.map(|(row, _)| &row["command"]).collect();
    assert!(asked.len() <= 4, "{asked:#?}");
}
