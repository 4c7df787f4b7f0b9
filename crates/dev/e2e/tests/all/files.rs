//! Files through the real binary: what a user sees, and what malicious files can do to the process.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::common;
use haft_testkit::haft_binary;

use std::process::Command;

use common::{Haft, text};
use serde_json::{Value, json};

fn call(haft: &Haft, name: &str, input: &Value) -> String {
    haft.ok(&["--permission-mode", "acceptEdits", "tool", "call", name, &input.to_string()], "")
}

#[test]
fn looking_prints_like_the_usual_commands() {
    let haft = Haft::new();
    haft.write("src/a.txt", "one\ntwo\n\nfour\n");
    haft.write("src/b.txt", "two\n");
    let rows = [
        ("Read", json!({ "file_path": "src/a.txt" }), "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n"),
        ("Read", json!({ "file_path": "src/a.txt", "offset": 2, "limit": 1 }), "     2\ttwo\n"),
        ("Grep", json!({ "pattern": "two", "output_mode": "content" }), "src/a.txt:2:two\nsrc/b.txt:1:two\n"),
        ("Grep", json!({ "pattern": "o", "output_mode": "count" }), "src/a.txt:3\nsrc/b.txt:1\n"),
        ("Grep", json!({ "pattern": "four" }), "src/a.txt\n"),
        ("Grep", json!({ "pattern": "nowhere" }), ""),
        ("Glob", json!({ "pattern": "**/b*" }), "src/b.txt\n"),
        ("LS", json!({}), "./\n└── src/  2 files, 18 B\n    ├── a.txt  14 B\n    └── b.txt  4 B\n"),
    ];
    for (name, input, want) in rows {
        assert_eq!(call(&haft, name, &input), want, "{name} {input}");
    }
    // Remarks go to standard error.
    let none = haft.run(&["tool", "call", "Grep", r#"{"pattern": "nowhere"}"#], "");
    assert!(String::from_utf8_lossy(&none.stderr).contains("0 matches in 2 files"));
    let page = haft.run(&["tool", "call", "Read", r#"{"file_path": "src/a.txt", "limit": 1}"#], "");
    assert!(String::from_utf8_lossy(&page.stderr).contains("Continue with offset=2"));
}

#[test]
fn a_single_call_may_read_first() {
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    let input = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" }).to_string();
    let args = ["--permission-mode", "acceptEdits", "tool", "call", "Edit", &input];
    let refused = haft.run(&args, "");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stdout).contains("Read it first"));
    let mut with_flag = args.to_vec();
    with_flag.push("--read-first");
    let shown = haft.ok(&with_flag, "");
    assert!(shown.contains("-one\n+two\n") && !shown.contains('\u{1b}'), "{shown}");
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "two\n");
    let diff: Value = serde_json::from_str(&haft.ok(&["diff", "--json"], "")).unwrap();
    assert_eq!(diff["tool"], "Edit");
    assert_eq!(diff["changes"][0]["structuredPatch"][0]["lines"], json!(["-one", "+two"]));
}

/// Colours appear on a terminal, but not with `NO_COLOR` or in a pipe.
#[test]
fn colours_are_for_terminals() {
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    let input = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" });
    let line =
        format!("{} --permission-mode acceptEdits tool call Edit --read-first '{input}'", haft_binary());
    let on_terminal = |line: &str, no_color: bool| {
        let mut command = Command::new("script");
        command.args(["-qec", line, "/dev/null"]).current_dir(haft.ws()).env("HOME", haft.home());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        if no_color {
            command.env("NO_COLOR", "1");
        }
        command.stdin(std::process::Stdio::null()).output().ok()
    };
    let Some(output) = on_terminal(&line, false) else {
        return eprintln!("SKIPPED: there is no script(1)");
    };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("\u{1b}[31m-one\u{1b}[m") && shown.contains("\u{1b}[32m+two\u{1b}[m"), "{shown}");
    let grep =
        format!("{} tool call Grep '{{\"pattern\":\"t.o\",\"output_mode\":\"content\"}}'", haft_binary());
    let shown = String::from_utf8_lossy(&on_terminal(&grep, false).unwrap().stdout).into_owned();
    assert!(
        shown.contains("\u{1b}[35ma.txt\u{1b}[0m") && shown.contains("\u{1b}[1;31mtwo\u{1b}[0m"),
        "{shown}"
    );
    let shown = String::from_utf8_lossy(&on_terminal(&grep, true).unwrap().stdout).into_owned();
    assert!(!shown.contains('\u{1b}') && shown.contains("a.txt:1:two"), "{shown}");
}

/// A PDF document with one page, this content and these resources.
fn pdf(content: &[u8], resources: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let mut objects = vec![
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>".to_vec(),
        format!("<</Type/Page/Parent 2 0 R/MediaBox[0 0 60 80]/Contents 4 0 R/Resources {resources}>>")
            .into_bytes(),
        content.to_vec(),
    ];
    objects.extend_from_slice(more);
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut table = String::from("0000000000 65535 f \n");
    for (at, object) in objects.iter().enumerate() {
        table.push_str(&format!("{:010} 00000 n \n", out.len()));
        out.extend(format!("{} 0 obj", at + 1).into_bytes());
        out.extend(object);
        out.extend(b"endobj\n");
    }
    let start = out.len();
    out.extend(
        format!("xref\n0 {}\n{table}trailer<</Root 1 0 R>>\nstartxref\n{start}\n%%EOF", objects.len() + 1)
            .into_bytes(),
    );
    out
}

fn stream(data: &[u8], filter: &str) -> Vec<u8> {
    let head = format!("<</Length {}{filter}>>stream\n", data.len()).into_bytes();
    [&head, data, b"\nendstream "].concat()
}

#[test]
fn hostile_documents_stay_in_their_process() {
    let haft = Haft::new();
    let form = stream(
        b"/F Do /F Do",
        "/Type/XObject/Subtype/Form/BBox[0 0 60 80]/Resources<</XObject<</F 5 0 R>>>>",
    );
    // A dictionary nested deeper than the stack allows.
    let deep = format!("<<{}1{}>>", "/A <<".repeat(60_000), ">>".repeat(60_000));
    let documents = [
        ("self.pdf", pdf(&stream(b"/F Do", ""), "<</XObject<</F 5 0 R>>>>", &[form])),
        ("deep.pdf", pdf(deep.as_bytes(), "<<>>", &[])),
        ("nothing.pdf", b"%PDF-1.4\n".to_vec()),
        ("brackets.pdf", [b"%PDF-1.4\n".to_vec(), vec![b'['; 300_000]].concat()),
    ];
    let mut calls = Vec::new();
    for (name, bytes) in &documents {
        std::fs::write(haft.ws().join(name), bytes).unwrap();
        calls.push(json!({ "id": name, "name": "Read", "input": { "file_path": name } }));
    }
    haft.write("after.txt", "still here\n");
    calls.push(json!({ "name": "Read", "input": { "file_path": "after.txt" } }));
    let reports = haft.reports(&[], &calls);
    assert_eq!(reports.len(), documents.len() + 1);
    for report in &reports[..documents.len()] {
        assert!(!report["content"].as_array().unwrap().is_empty(), "{report}");
    }
    assert_eq!(text(&reports[documents.len()]), "1\tstill here");
}

#[test]
fn the_worker_has_limits() {
    let haft = Haft::new();
    // An image with huge dimensions is refused before decoding; one that is not an image gets an answer,
    // too.
    std::fs::write(haft.ws().join("x.bin"), b"\x89PNG\r\n\x1a\n").unwrap();
    let worker = |task: &str, file: &str| {
        let file = std::fs::File::open(haft.ws().join(file)).unwrap();
        let output = Command::new(haft_binary()).args(["media-worker", task]).stdin(file).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let task = r#"{"Picture":["Png",{"side":2000,"bytes":3600000,"small":512000}]}"#;
    let answer: Value = serde_json::from_str(&worker(task, "x.bin")).unwrap();
    assert!(answer["Err"].as_str().unwrap().contains("cannot be read"), "{answer}");
    assert_eq!(worker("nonsense", "x.bin"), "");
}

/// Lines that a command printed count as read, so the file can be edited.
#[test]
fn what_commands_show_counts_as_read() {
    let text: String = (1..=40).map(|n| format!("line number {n}\n")).collect();
    let rows = [
        ("cat f.txt", true),
        ("cat -n f.txt", true),
        ("nl -ba f.txt", true),
        ("head -n 25 f.txt", true),
        ("tail -n +15 f.txt", true),
        ("sed -n '15,25p' f.txt", true),
        ("grep -n 'number 2' f.txt", true),
        ("grep 'number 2' f.txt", true),
        // Other output, or output that was transformed.
        ("cat f.txt | tr a-z A-Z", false),
        ("wc f.txt", false),
        ("echo 'line number 20'", false),
    ];
    for (command, counts) in rows {
        let haft = Haft::new();
        haft.write("f.txt", &text);
        let bash = json!({ "name": "Bash", "input": { "command": command } });
        let edit = json!({ "name": "Edit", "input": {
            "file_path": "f.txt", "old_string": "line number 20\n", "new_string": "line twenty\n" } });
        let reports = haft.reports(&["--permission-mode", "bypassPermissions"], &[bash, edit]);
        assert_eq!(reports[1]["is_error"], !counts, "{command}: {}", text_of(&reports));
    }
}

fn text_of(reports: &[Value]) -> String {
    reports.iter().map(|report| text(report).to_owned()).collect::<Vec<_>>().join("\n---\n")
}
