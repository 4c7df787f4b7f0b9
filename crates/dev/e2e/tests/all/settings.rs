//! Settings, rules, hooks and trust through the real binary.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use common::{Haft, text};
use serde_json::{Value, json};

#[test]
fn rules_of_every_layer_count_and_are_listed_with_their_source() {
    let haft = Haft::new();
    haft.write("a.txt", "secret\n");
    haft.write_home(".claude/settings.json", r#"{"permissions": {"deny": ["Read(./a.txt)"]}}"#);
    haft.write_home(".haft/settings.json", r#"{"permissions": {"allow": ["Edit(./out/**)"]}}"#);
    let listed = haft.ok(&["permissions", "list", "--allowedTools", "Bash(ls *)"], "");
    for part in ["Read(./a.txt)", ".claude/settings.json", "Edit(./out/**)", "Bash(ls *)", "the command line"]
    {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let reports = haft.reports(&[], &[json!({"name": "Read", "input": {"file_path": "a.txt"}})]);
    assert_eq!(reports[0]["error_kind"], "denied", "{}", reports[0]);
    let explained = haft.run(&["permissions", "explain", "Read", r#"{"file_path": "a.txt"}"#], "");
    assert_eq!(explained.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&explained.stdout).starts_with("deny: "));
}

#[test]
fn hooks_of_the_user_run_and_can_deny() {
    let haft = Haft::new();
    haft.write("a.txt", "x\n");
    let hook = r#"{"hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [{"type": "command", "command": "echo no reading today >&2; exit 2"}]}]}}"#;
    haft.write_home(".haft/settings.json", hook);
    let reports = haft.reports(&[], &[json!({"name": "Read", "input": {"file_path": "a.txt"}})]);
    assert_eq!(reports[0]["error_kind"], "denied", "{}", reports[0]);
    assert!(text(&reports[0]).contains("no reading today"), "{}", reports[0]);
}

#[test]
fn the_condition_of_a_hook_is_a_rule() {
    let haft = Haft::new();
    haft.write("a.txt", "x\n");
    haft.write("b.txt", "y\n");
    let hook = r#"{"hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [{"type": "command", "command": "exit 2", "if": "Read(./a.txt)"}]}]}}"#;
    haft.write_home(".haft/settings.json", hook);
    let read = |name: &str| json!({"name": "Read", "input": {"file_path": name}});
    let reports = haft.reports(&[], &[read("a.txt"), read("b.txt")]);
    assert_eq!(
        (&reports[0]["error_kind"], &reports[1]["is_error"]),
        (&json!("denied"), &json!(false)),
        "{reports:?}"
    );
}

#[test]
fn a_project_runs_nothing_before_it_is_trusted() {
    let haft = Haft::new();
    haft.write("a.txt", "x\n");
    let hook = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch ran"}]}]}, "permissions": {"allow": ["Edit"], "deny": ["Read(./b.txt)"]}}"#;
    haft.write(".claude/settings.json", hook);
    haft.write("b.txt", "y\n");
    let read = |name: &str| json!({"name": "Read", "input": {"file_path": name}});
    let before = haft.reports(
        &[],
        &[
            read("a.txt"),
            read("b.txt"),
            json!({"name": "Write", "input": {"file_path": "c.txt", "content": "c"}}),
        ],
    );
    assert_eq!(before[0]["is_error"], false, "{}", before[0]);
    // Settings that restrict apply at once; those that grant wait for trust.
    assert_eq!((&before[1]["error_kind"], &before[2]["error_kind"]), (&json!("denied"), &json!("denied")));
    assert!(!haft.ws().join("ran").exists());
    assert_eq!(haft.run(&["trust"], "").status.code(), Some(2));
    let shown = haft.ok(&["trust", "--yes"], "");
    assert!(shown.contains("run a hook") && shown.contains("touch ran"), "{shown}");
    haft.reports(&[], &[read("a.txt")]);
    assert!(haft.ws().join("ran").exists());
    // A changed hook needs trust again.
    std::fs::remove_file(haft.ws().join("ran")).unwrap();
    haft.write(".claude/settings.json", &hook.replace("touch ran", "touch ran; true"));
    haft.reports(&[], &[read("a.txt")]);
    assert!(!haft.ws().join("ran").exists());
}

#[test]
fn a_broken_file_is_reported_with_its_place_and_left_alone() {
    let haft = Haft::new();
    haft.write_home(".haft/settings.json", "{\n  \"model\": \"a\",\n  oops\n}");
    let output = haft.run(&["tool", "call", "Config", r#"{"setting": "model"}"#], "");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("settings.json:3:"), "{stderr}");
    assert!(std::fs::read_to_string(haft.home().join(".haft/settings.json")).unwrap().contains("oops"));
}

#[test]
fn config_reads_and_changes_what_a_model_may() {
    let haft = Haft::new();
    let config = |input: serde_json::Value| json!({"name": "Config", "input": input});
    let reports = haft.reports(
        &["--allowedTools", "Config"],
        &[
            config(json!({"setting": "theme"})),
            config(json!({"setting": "theme", "value": "dark"})),
            config(json!({"setting": "theme"})),
            config(json!({"setting": "hooks", "value": "x"})),
            config(json!({"setting": "thme"})),
        ],
    );
    assert!(text(&reports[0]).starts_with("theme = null"), "{}", reports[0]);
    assert_eq!(reports[1]["is_error"], false, "{}", reports[1]);
    assert!(text(&reports[2]).starts_with("theme = \"dark\""), "{}", reports[2]);
    assert_eq!(reports[3]["error_kind"], "invalid_input");
    assert!(text(&reports[4]).contains("did you mean theme"), "{}", reports[4]);
}

/// Changing a setting asks, and is denied in plan mode, because it outlives the session. Reading one
/// never asks.
#[test]
fn changing_a_setting_needs_a_yes() {
    let rows: [(&[&str], bool); 6] = [
        (&[], false),
        (&["--permission-mode", "acceptEdits"], false),
        (&["--permission-mode", "plan"], false),
        (&["--permission-mode", "plan", "--allowedTools", "Config"], false),
        (&["--permission-mode", "dontAsk", "--allowedTools", "Config"], true),
        (&["--allowedTools", "Config"], true),
    ];
    for (flags, changes) in rows {
        let haft = Haft::new();
        let config = |input: serde_json::Value| json!({"name": "Config", "input": input});
        let change = json!({"setting": "cleanupPeriodDays", "value": 1});
        let reports = haft.reports(flags, &[config(json!({"setting": "theme"})), config(change)]);
        assert_eq!(reports[0]["is_error"], false, "{flags:?}: {}", reports[0]);
        assert_eq!(reports[1]["is_error"], !changes, "{flags:?}: {}", reports[1]);
        assert_eq!(haft.home().join(".haft/settings.json").exists(), changes, "{flags:?}");
    }
}

/// If a hook (such as a formatter) changes the file a tool wrote, the result says so; otherwise it does
/// not mention it.
#[test]
fn a_file_that_a_hook_rewrote_is_named_in_the_result() {
    for (command, is_told) in [
        ("tr a-z A-Z < note.txt > t && mv t note.txt", true),
        ("rm note.txt", true),
        ("cat note.txt > t && cp t note.txt", false),
        ("true", false),
    ] {
        let haft = Haft::new();
        haft.write("note.txt", "one\n");
        let hook = json!({"type": "command", "command": command});
        let hooks = json!({"hooks": {"PostToolUse": [{"matcher": "Edit|Write", "hooks": [hook]}]}});
        haft.write_home(".haft/settings.json", &hooks.to_string());
        let path = haft.ws().join("note.txt");
        let lines = [
            json!({"id": "read", "name": "Read", "input": {"file_path": path}}),
            json!({"id": "edit", "name": "Edit", "input": {"file_path": path, "old_string": "one", "new_string": "two"}}),
        ];
        let reports = haft.reports(&["--permission-mode", "acceptEdits"], &lines);
        let said = reports[1]["content"].to_string();
        assert_eq!(reports[1]["is_error"], false, "{said}");
        assert_eq!(said.contains("A hook changed"), is_told, "{command}: {said}");
    }
}

/// Hooks get the normalised path, however the model wrote it.
#[test]
fn hooks_see_paths_without_detours() {
    for (tool, path, meant) in [
        ("Read", "sub/../note.txt", "note.txt"),
        ("Read", "./sub//./../sub/x.txt", "sub/x.txt"),
        ("Read", "sub/../../ws/note.txt", "note.txt"),
        ("Write", "sub/../new.txt", "new.txt"),
    ] {
        let haft = Haft::new();
        haft.write("note.txt", "one\n");
        haft.write("sub/x.txt", "x\n");
        let seen = haft.dir.path().join("seen.json");
        let hook = json!({"type": "command", "command": format!("cat > '{}'", seen.display())});
        let hooks = json!({"hooks": {"PreToolUse": [{"matcher": tool, "hooks": [hook]}]}});
        haft.write_home(".haft/settings.json", &hooks.to_string());
        let mut call = json!({"id": "1", "name": tool, "input": {"file_path": path}});
        if tool == "Write" {
            call["input"]["content"] = json!("x");
        }
        haft.reports(&["--permission-mode", "acceptEdits"], &[call]);
        let told: Value = serde_json::from_str(&std::fs::read_to_string(&seen).unwrap()).unwrap();
        assert_eq!(told["tool_input"]["file_path"], json!(haft.ws().join(meant)), "{path}");
    }
}

/// If the user entered the workspace through a symlink, paths through that link belong to it. Other
/// links, or links only the model names, do not.
#[test]
fn a_workspace_is_known_by_the_link_one_came_by() {
    let haft = Haft::new();
    haft.write("a.txt", "a");
    let link = haft.dir.path().join("by-link");
    std::os::unix::fs::symlink(haft.ws(), &link).unwrap();
    let elsewhere = haft.dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("a.txt"), "secret").unwrap();
    for (pwd, file, code) in [
        (&link, link.join("a.txt"), 0),
        (&haft.ws(), link.join("a.txt"), 1),
        (&elsewhere, elsewhere.join("a.txt"), 1),
        (&link, elsewhere.join("a.txt"), 1),
        (&link, haft.ws().join("a.txt"), 0),
    ] {
        for (tool, input) in [
            ("Read", serde_json::json!({"file_path": file})),
            ("Bash", serde_json::json!({"command": format!("cat {}", file.display())})),
        ] {
            let output = haft
                .command()
                .args(["permissions", "explain", tool, &input.to_string()])
                .env("PWD", pwd)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(
                output.status.code(),
                Some(code),
                "{} {tool} {}: {text}",
                pwd.display(),
                file.display()
            );
        }
    }
}
