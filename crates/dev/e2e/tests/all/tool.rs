//! `haft tool`: behaviour scripts rely on.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;
use haft_testkit::haft_binary;

use common::{Haft, text};
use serde_json::{Value, json};

#[test]
fn list_describe_and_version() {
    let haft = Haft::new();
    let list = haft.ok(&["tool", "list"], "");
    assert!(list.lines().any(|line| line.starts_with("TodoWrite ")), "{list}");
    let tools: Vec<Value> = serde_json::from_str(&haft.ok(&["tool", "list", "--json"], "")).unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted() && names.contains(&"Read") && names.contains(&"LS"), "{names:?}");
    assert!(tools.iter().all(|tool| tool["input_schema"]["additionalProperties"] == false));
    let described = haft.ok(&["tool", "describe", "read_file"], "");
    assert!(described.starts_with("Read") && described.contains("file_path"), "{described}");
    assert!(haft.ok(&["--version"], "").starts_with("haft 0."));
    let version: Value = serde_json::from_str(&haft.ok(&["--version", "--json"], "")).unwrap();
    assert_eq!(version["protocols"]["acp"], json!([1]), "{version}");
    assert!(version["channel"].is_string() && version["protocols"]["mcp"].as_array().is_some(), "{version}");
    assert!(haft.ok(&["completions", "bash"], "").contains("_haft"));
    let unknown = haft.run(&["tool", "describe", "Raed"], "");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean Read?"));
}

#[test]
fn call_takes_json_files_and_standard_input() {
    let haft = Haft::new();
    haft.write("a.txt", "one\ntwo\n");
    haft.write("input.json", r#"{"file_path": "a.txt", "limit": "1"}"#);
    let inline = r#"{"file_path": "a.txt", "limit": 1}"#;
    for (args, stdin) in [
        (["tool", "call", "Read", inline, "--json"], ""),
        (["tool", "call", "Read", "@input.json", "--json"], ""),
        (["--json", "tool", "call", "Read", "-"], inline),
    ] {
        let report: Value = serde_json::from_str(&haft.ok(&args, stdin)).unwrap();
        assert_eq!((&report["name"], &report["is_error"]), (&json!("Read"), &json!(false)), "{report}");
        assert!(text(&report).contains("one") && !text(&report).contains("two"), "{report}");
    }
    let failed = haft.run(&["tool", "call", "Read", r#"{"file_path": "missing"}"#, "--json"], "");
    assert_eq!(failed.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(report["is_error"], true);
    for bad in ["{", "@nowhere.json"] {
        assert_eq!(haft.run(&["tool", "call", "Read", bad], "").status.code(), Some(2), "{bad}");
    }
}

#[test]
fn run_keeps_state_from_line_to_line() {
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    let todo = |content: &str| json!({"name": "TodoWrite", "input": {"todos": [{"content": content, "status": "pending", "activeForm": content}]}});
    let edit = json!({"id": "e", "name": "Edit", "input": {"file_path": "a.txt", "old_string": "one", "new_string": "1"}});
    let reports = haft.reports(
        &["--permission-mode", "acceptEdits"],
        &[
            todo("first"),
            json!([todo("second"), {"id": "r", "name": "Read", "input": {"file_path": "a.txt"}}, {"nonsense": 1}]),
            edit,
            json!("not a call"),
        ],
    );
    let ids: Vec<&str> = reports.iter().map(|report| report["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["call-1", "call-2", "r", "call-3", "e", "call-4"]);
    assert_eq!(reports[1]["data"]["oldTodos"][0]["content"], "first");
    assert_eq!(reports[3]["error_kind"], "invalid_input");
    assert_eq!(reports[4]["is_error"], false, "{}", reports[4]);
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "1\n");
}

#[test]
fn unattended_questions_are_denied_with_the_way_out() {
    let haft = Haft::new();
    let write = json!({"name": "Write", "input": {"file_path": "new.txt", "content": "x\n"}});
    let denied = haft.reports(&[], std::slice::from_ref(&write));
    assert_eq!(denied[0]["error_kind"], "denied");
    assert!(text(&denied[0]).contains("nobody is there to ask"), "{}", denied[0]);
    assert!(!haft.ws().join("new.txt").exists());
    let allowed = haft.reports(&["--allowedTools", "Edit(./new.txt) Read"], std::slice::from_ref(&write));
    assert_eq!(allowed[0]["is_error"], false, "{}", allowed[0]);
    let removed = haft.reports(&["--disallowedTools", "Write"], &[write]);
    assert_eq!(removed[0]["error_kind"], "unknown_tool");
}

#[test]
fn looking_at_tools_leaves_nothing_behind() {
    let haft = Haft::new();
    for args in [&["tool", "list"][..], &["tool", "list", "--json"], &["tool", "describe", "Edit"]] {
        let output = haft.run(args, "");
        assert!(output.status.success() && !output.stdout.is_empty(), "{args:?}");
        let left: Vec<_> = std::fs::read_dir(haft.home()).unwrap().flatten().map(|it| it.path()).collect();
        assert!(left.is_empty(), "{args:?} left {left:?}");
    }
}

#[test]
fn a_closed_pipe_is_no_crash() {
    let haft = Haft::new();
    let script = format!("{} tool list --json | head -c 1", haft_binary());
    let output =
        std::process::Command::new("sh").args(["-c", &script]).current_dir(haft.ws()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn changes_can_be_seen_and_taken_back() {
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    let calls = json!([
        {"name": "Read", "input": {"file_path": "a.txt"}},
        {"id": "the-edit", "name": "Edit", "input": {"file_path": "a.txt", "old_string": "one", "new_string": "two"}},
        {"id": "the-write", "name": "Write", "input": {"file_path": "b.txt", "content": "b\n"}},
    ]);
    let reports = haft.reports(&["--permission-mode", "acceptEdits"], &[calls]);
    assert!(reports.iter().all(|report| report["is_error"] == false), "{reports:?}");
    let history = haft.ok(&["history"], "");
    assert_eq!(history.lines().count(), 2, "{history}");
    let diff = haft.ok(&["diff", "the-edit"], "");
    assert!(diff.contains("-one") && diff.contains("+two"), "{diff}");
    haft.ok(&["undo", "the-edit"], "");
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "one\n");
    haft.ok(&["redo"], "");
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "two\n");
    // A file changed by someone else since is not undone.
    haft.write("b.txt", "mine\n");
    let kept = haft.run(&["undo", "the-write"], "");
    assert_eq!(kept.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(haft.ws().join("b.txt")).unwrap(), "mine\n");
}
