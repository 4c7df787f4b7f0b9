//! Small mistakes of models in tool input are repaired without costing a turn.

use crate::common::{Haft, text};
use serde_json::{Value, json};

/// A call as a model made it, and text its result must contain.
struct Slip(&'static str, Value, &'static str);

#[test]
fn names_and_parameters_that_are_nearly_right() {
    let haft = Haft::new();
    haft.write("src/deep/lib.rs", "fn answer() {}\n");
    haft.write("notes.txt", "answer: 42\n");
    let slips = [
        Slip("bash", json!({"command": "echo o''k"}), "ok"),
        Slip("BASH", json!({"Command": "echo o''k"}), "ok"),
        Slip("BashTool", json!({"cmd": "echo o''k"}), "ok"),
        Slip("run_shell", json!({"script": "echo o''k", "timeout": 5}), "ok"),
        Slip("execute_command", json!({"cmd": "echo o''k", "timeout_ms": 5000}), "ok"),
        Slip("FileReadTool", json!({"filePath": "notes.txt"}), "answer: 42"),
        Slip("read-file", json!({"path": "notes.txt"}), "notes.txt"),
        Slip("Read", json!({"FILE_PATH": "/src/deep/lib.rs"}), "fn answer"),
        Slip("Read", json!({"file_path": "/src/deep/lib.rs", "pages": ""}), "lib.rs"),
        Slip("Read", json!({"file_path": "src/./deep/../deep/lib.rs"}), "ws/src/deep/lib.rs"),
        Slip("grep_search", json!({"pattern": "answer", "include": "*.rs"}), "lib.rs"),
        Slip(
            "GrepTool",
            json!({"regex": "answer", "directory": "/src", "outputMode": "content"}),
            "fn answer",
        ),
        Slip("glob", json!({"glob": "**/*.rs", "dir": "src"}), "lib.rs"),
        Slip("ls", json!({"directory": "/src/deep"}), "lib.rs"),
        Slip("TaskStopTool", json!({"id": "bash_9"}), "no task bash_9"),
    ];
    let lines: Vec<Value> = slips.iter().map(|it| json!({"name": it.0, "input": it.1})).collect();
    let reports = haft.reports(&["--permission-mode", "dontAsk"], &lines);
    assert_eq!(reports.len(), slips.len());
    for (slip, report) in slips.iter().zip(&reports) {
        assert!(text(report).contains(slip.2), "{} {}: {report}", slip.0, slip.1);
    }
}

/// Ambiguous or duplicate input is an error and not guessed.
#[test]
fn what_is_not_certain_is_said() {
    let haft = Haft::new();
    haft.write("etc/hosts", "of the workspace\n");
    let rows = [
        (
            json!({"name": "Bash", "input": {"command": "echo a", "cmd": "echo b"}}),
            "`cmd` is not a known parameter",
        ),
        (json!({"name": "Grep", "input": {"pattern": "a", "glob": "*.a", "include": "*.b"}}), "`include`"),
        (json!({"name": "Bash", "input": {"command": "echo a", "timeout": 0}}), "at least 1 millisecond"),
        (json!({"name": "TodoWrite", "input": {}}), r#"{"todos":[{"content""#),
        (json!({"name": "Frobnicate", "input": {}}), "There is no tool named Frobnicate"),
        // A path that exists from the root is taken literally.
        (
            json!({"name": "Read", "input": {"file_path": "/etc/hosts"}}),
            "/etc/hosts is outside the workspace",
        ),
        (
            json!({"name": "Read", "input": {"file_path": "/srcc/x.rs"}}),
            "/srcc/x.rs is outside the workspace",
        ),
    ];
    let lines: Vec<Value> = rows.iter().map(|it| it.0.clone()).collect();
    let reports = haft.reports(&[], &lines);
    for ((call, want), report) in rows.iter().zip(&reports) {
        assert!(text(report).contains(want), "{call}: {report}");
        assert_eq!(report["is_error"], true, "{call}");
    }
}

/// An impossible edit is reported as invalid input, for hooks and programs that distinguish error kinds.
#[test]
fn edits_that_cannot_be_made_are_invalid_input() {
    let haft = Haft::new();
    haft.write("a.txt", "same\nsame\n");
    haft.write("unread.txt", "x\n");
    haft.write(".haft/settings.json", "{}\n");
    let edit = |file: &str, old: &str| json!({"name": "Edit", "input": {"file_path": file, "old_string": old, "new_string": "new"}});
    let read = |file: &str| json!({"name": "Read", "input": {"file_path": file}});
    let lines = [
        edit("unread.txt", "x"),
        read("a.txt"),
        edit("a.txt", "absent"),
        edit("a.txt", "same"),
        edit("missing.txt", "x"),
        json!({"name": "Write", "input": {"file_path": "unread.txt", "content": "y"}}),
        json!({"name": "MultiEdit", "input": {"file_path": "a.txt", "edits": [{"old_string": "absent", "new_string": "b"}]}}),
        json!({"name": "Write", "input": {"file_path": ".mcp.json", "content": "{"}}),
    ];
    let reports = haft.reports(&["--permission-mode", "bypassPermissions"], &lines);
    for (line, report) in lines.iter().zip(&reports).filter(|it| it.0["name"] != "Read") {
        assert_eq!(report["error_kind"], "invalid_input", "{line}: {report}");
    }
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "same\nsame\n");
}

/// A long file that fits is returned at once; a huge single line does not fill the context window.
#[test]
fn read_shows_what_fits() {
    let haft = Haft::new();
    let many: String = (1..=4321).map(|n| format!("{n}\n")).collect();
    haft.write("many.txt", &many);
    let wide = "ab".repeat(120_000);
    haft.write("wide.json", &wide);
    let huge: String = (1..=40_000).map(|n| format!("line number {n}\n")).collect();
    haft.write("huge.txt", &huge);
    let read = |input: Value| json!({"name": "Read", "input": input});
    let reports = haft.reports(
        &[],
        &[
            read(json!({"file_path": "many.txt"})),
            read(json!({"file_path": "wide.json"})),
            read(json!({"file_path": "huge.txt"})),
            read(json!({"file_path": "wide.json", "offset": 1, "column": 10_001})),
        ],
    );
    assert!(text(&reports[0]).ends_with("4321\t4321"), "{}", text(&reports[0]));
    let first = text(&reports[1]);
    assert!(first.len() < 11_000 && first.contains("offset=1 column=10001"), "{} {first}", first.len());
    assert!(text(&reports[2]).contains("lines 1-2000 of 40000. Continue with offset=2001"));
    assert!(text(&reports[3]).contains("column=20001"), "{}", text(&reports[3]).len());
}
