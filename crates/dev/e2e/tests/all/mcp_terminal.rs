//! Elicitation at a real terminal.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;
use haft_testkit::haft_binary;

use std::{path::Path, process::Command};

use common::Haft;
use serde_json::json;

fn path(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).display().to_string()
}

/// What the server receives when the user types this, and what the user saw.
fn asked(modes: &str, keys: &[(&str, &str)]) -> String {
    let haft = Haft::new();
    let script = path("../../engine/mcp-client/tests/all/support/odd_server.py");
    let entry = json!({"command": "python3", "args": ["-IS", script, modes]});
    haft.ok(&["mcp", "add-json", "-s", "user", "odd", &entry.to_string()], "");
    let output = Command::new("python3")
        .args(["-IS", &path("tests/all/support/typist.py"), &json!(keys).to_string()])
        .args([haft_binary(), "tool", "call", "mcp__odd__echo", "{}", "--allowedTools", "mcp__odd"])
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{keys:?}\n{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    shown
}

#[test]
fn a_person_answers_key_by_key() {
    let answer = "Answer? ";
    for (modes, keys, want) in [
        // Invalid input is reported at once, typed text can be deleted, arrow keys do nothing.
        (
            "form",
            &[
                (answer, "y\r"),
                ("> ", "X\r"),
                ("it must have at least 2", "Osloo\u{7f}\r"),
                ("[2, - for nothing]> ", "12\r"),
                ("it must be 1 to 9", "\u{1b}[A3\r"),
                ("Send this", "y\r"),
            ][..],
            r#""content": {"city": "Oslo", "seats": 3}"#,
        ),
        // Enter accepts a default value; it is shown again when editing.
        (
            "form",
            &[
                (answer, "y\r"),
                ("> ", "Köln\r"),
                ("[2, - for nothing]> ", "\r"),
                ("Send this", "e\r"),
                ("[Köln]> ", "\r"),
                ("[2, - for nothing]> ", "5\r"),
                ("Send this", "y\r"),
            ],
            r#"K\u00f6ln", "seats": 5"#,
        ),
        ("form", &[(answer, "n\r")], r#"{"action": "decline"}"#),
        ("form", &[(answer, "\u{1b}")], r#"{"action": "cancel"}"#),
        ("form", &[(answer, "y\r"), ("> ", "Os\u{3}")], r#"{"action": "cancel"}"#),
        ("page", &[("It leads to ", ""), ("opened it?", "y\r")], r#"{"action": "accept"}"#),
        ("page", &[("https://pay.test/now", ""), ("opened it?", "\u{4}")], r#"{"action": "cancel"}"#),
    ] {
        let shown = asked(modes, keys);
        assert!(shown.contains(want), "{keys:?}: {shown}");
    }
}
