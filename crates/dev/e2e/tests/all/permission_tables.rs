//! `haft permissions test --batch` over the tables of permission tests.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{os::unix::fs::symlink, path::Path};

use common::{Haft, corpus};
use serde_json::{Value, json};

/// Creates the files a row needs.
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
        // A file name that is not UTF-8 affects the tools, not the decision.
        "rawfile" => (),
        other => panic!("unknown op {other}"),
    }
}

/// The rows about files, each in its own directory tree, with their input lines.
fn file_rows(haft: &Haft) -> Vec<(Value, Value)> {
    let (rows, base) = (corpus("file_paths.jsonl"), corpus("file_paths_base.json"));
    let mut out = Vec::new();
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
        out.push((row, question));
    }
    out
}

/// Haft's decisions on these input lines, in order.
fn answers(haft: &Haft, questions: impl Iterator<Item = Value>) -> Vec<Value> {
    let questions: Vec<String> = questions.map(|it| format!("{it}\n")).collect();
    let answers = haft.ok(&["permissions", "test", "--batch"], &questions.concat());
    assert_eq!(answers.lines().count(), questions.len());
    answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn file_paths() {
    let haft = Haft::new();
    let rows = file_rows(&haft);
    let answers = answers(&haft, rows.iter().map(|(_, question)| question.clone()));
    let mut wrong = Vec::new();
    for ((row, _), answer) in rows.iter().zip(answers) {
        let decision = answer["decision"].as_str().unwrap();
        let fits = match row["expect"].as_str().unwrap() {
            "not_allow" => decision != "allow",
            "filtered" => decision == "allow",
            // The tool itself rejects these; its own tests check that.
            "error" | "property" | "never_outside" => true,
            expected => decision == expected,
        };
        if !fits {
            wrong.push(format!("{}: want {}, got {answer}", row["id"], row["expect"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Creates the directory tree the command tables assume, as far as decisions depend on it.
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

/// The rows of a command table, with their input lines.
fn command_rows(haft: &Haft, name: &str) -> Vec<(Value, Value)> {
    let rows = corpus(name);
    let (ws, home) = (haft.ws().join("proj"), haft.ws().join("home"));
    let place = |text: &str| {
        text.replace("/ws/proj", ws.to_str().unwrap()).replace("/home/u", home.to_str().unwrap())
    };
    let rows = rows.lines().map(|row| serde_json::from_str(&place(row)).unwrap());
    let asked = rows.map(|row: Value| {
        let question = json!({
            "tool": "Bash", "input": {"command": row["command"]}, "cwd": row["cwd"], "home": row["home"],
            "mode": row["mode"], "rules": row["rules"],
        });
        (row, question)
    });
    asked.collect()
}

/// The rows of a table with Haft's decisions.
fn judged(name: &str) -> Vec<(Value, String)> {
    let haft = Haft::new();
    command_fixture(&haft);
    let rows = command_rows(&haft, name);
    let answers = answers(&haft, rows.iter().map(|(_, question)| question.clone()));
    let decisions = answers.iter().map(|it| it["decision"].as_str().unwrap().to_owned());
    rows.into_iter().map(|(row, _)| row).zip(decisions).collect()
}

#[test]
fn commands_strict() {
    let rows = judged("bash_permissions.jsonl");
    let wrong = rows.iter().filter(|(row, got)| row["expect"] != got.as_str());
    let wrong: Vec<String> =
        wrong.map(|(row, got)| format!("{} {}: got {got}", row["id"], row["command"])).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn commands_that_must_never_be_allowed() {
    let rows = judged("bash_permissions_min.jsonl");
    let wrong =
        rows.iter().filter(|(row, got)| !row["expect_one_of"].as_array().unwrap().contains(&json!(got)));
    let wrong: Vec<String> = wrong.map(|(row, got)| format!("{}: got {got}", row["id"])).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn harmless_commands_are_rarely_asked_about() {
    let rows = judged("bash_usability_extra.jsonl");
    let asked = rows.iter().filter(|(_, got)| got != "allow");
    let asked: Vec<&Value> = asked.map(|(row, _)| &row["command"]).collect();
    assert!(asked.len() <= 4, "{asked:#?}");
}

/// Rows that look like they evade a deny rule but do not: `find -delete`, `unlink` and `git clean` are
/// other commands than the denied one, and this test's home is not where the last row expects the denied
/// file.
const NOT_HIDDEN: &[&str] =
    &["AM-deny_indirect-017", "AM-deny_indirect-032", "AM-deny_indirect-033", "AM-read_deny_indirect-006"];

/// How strict a decision is.
fn severity(answer: &Value) -> usize {
    let decision = answer["decision"].as_str().unwrap();
    ["allow", "ask", "deny"].iter().position(|it| *it == decision).unwrap()
}

/// Every row of every table in auto mode, with a classifier that allows, blocks or does not answer.
#[test]
fn auto_mode_is_never_looser_than_the_rules() {
    let (files, commands) = (Haft::new(), Haft::new());
    command_fixture(&commands);
    let mut rows = file_rows(&files);
    for name in ["bash_permissions.jsonl", "bash_permissions_min.jsonl", "bash_usability_extra.jsonl"] {
        rows.extend(command_rows(&commands, name));
    }
    let judged = |mode: &str, said: Option<&str>| {
        let question = |(_, question): &(Value, Value)| {
            let mut question = question.clone();
            question["mode"] = json!(mode);
            question["classifier"] = json!(said);
            question
        };
        answers(&commands, rows.iter().map(question))
    };
    let (usual, edits, bypass) =
        (judged("default", None), judged("acceptEdits", None), judged("bypassPermissions", None));
    let (yes, no, nothing) =
        (judged("auto", Some("allow")), judged("auto", Some("block")), judged("auto", Some("ask")));
    let nobody = judged("auto", None);
    let (mut wrong, mut asked, mut left) = (Vec::new(), 0, 0);
    for (at, (row, _)) in rows.iter().enumerate() {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let all = [&usual, &edits, &bypass, &yes, &no, &nothing, &nobody].map(|it| severity(&it[at]));
        let [usual, edits, bypass, yes, no, nothing, nobody] = all;
        let hidden = text("class").ends_with("deny_indirect") && !NOT_HIDDEN.contains(&text("id"));
        let of_a_person = text("class") == "rule_ask" && text("expect") == "ask"
            || text("class") == "protected" && text("expect") == "ask";
        let rules = [
            ("a deny stays a deny", usual != 2 || [yes, no, nothing, nobody] == [2; 4]),
            ("no mode allows more than the one that asks nothing", bypass <= yes),
            ("what is protected, or a rule asks about, is asked", !of_a_person || yes == 1),
            ("what could hide from a deny rule is asked", !hidden || yes != 0),
            ("without a model it is the usual mode", nobody == usual),
            ("without an answer it allows no more than edits", edits <= nothing),
            ("a no is never a yes", nothing <= no),
            ("what runs without the model runs with it", nothing != 0 || yes == 0),
        ];
        let broken = rules.iter().filter(|(_, holds)| !holds);
        wrong.extend(broken.map(|(rule, _)| format!("{}: {rule}: {all:?} {}", row["id"], row["command"])));
        asked += usize::from(nothing == 1);
        left += usize::from(nothing == 1 && yes == 0);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Both outcomes occur often enough, or the comparison above would prove nothing.
    assert!(
        500 < rows.len() && 100 < left && left + 20 < asked,
        "{} rows, {asked} asked, {left} left",
        rows.len()
    );
}
