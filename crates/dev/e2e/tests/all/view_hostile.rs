//! A log with hostile text in every field, in a real browser: while it is read, while it grows, when it
//! is truncated, and as a file.

use std::path::Path;

use serde_json::{Value, json};

use crate::{common::Haft, editor_kits, view_server::Served};

const EVIL: &str = "\"'><script>globalThis.harmed=1</script><img src=http://127.0.0.1:9/x onerror=\"globalThis.harmed=2\">\
    </title></style></pre></details></article><svg onload=\"globalThis.harmed=3\"><iframe srcdoc=\"<script>top.harmed=4</script>\">\
    <a href=\"javascript:globalThis.harmed=5\">x</a>[y](javascript:globalThis.harmed=6) ![z](http://127.0.0.1:9/p.png)\
    <style>*{display:none}</style><base href=http://127.0.0.1:9/><form action=http://127.0.0.1:9/>\u{1b}]8;;javascript:1\u{7}&lt;\u{202e}";

/// Log lines of all types, with hostile text in every text field.
fn lines() -> Vec<Value> {
    let line = |kind: &str, more: Value| {
        let mut line = json!({"type": kind, "uuid": EVIL, "parentUuid": EVIL, "sessionId": EVIL, "cwd": EVIL, "version": EVIL,
            "timestamp": "2026-11-16T23:10:53.109Z", "gitBranch": EVIL});
        for (key, value) in more.as_object().unwrap() {
            line[key] = value.clone();
        }
        line
    };
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3});
    let patch = json!([{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": [format!("-{EVIL}"), format!("+{EVIL}")]}]);
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": EVIL, "data": EVIL}});
    let drawn = json!({"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml",
        "data": "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4="}});
    vec![
        line("user", json!({"message": {"role": "user", "content": EVIL}})),
        line(
            "user",
            json!({"message": {"role": "user", "content": [{"type": "text", "text": EVIL}, picture, drawn]}}),
        ),
        line(
            "assistant",
            json!({"message": {"role": "assistant", "id": EVIL, "model": EVIL, "usage": usage, "content": [
            {"type": "thinking", "thinking": EVIL, "signature": EVIL},
            {"type": "text", "text": format!("# {EVIL}\n\n| a | b |\n|-|-|\n| {EVIL} | 2 |\n\n```{EVIL}\n{EVIL}\n```\n\n- {EVIL}\n> {EVIL}")},
            {"type": "tool_use", "id": EVIL, "name": EVIL, "input": {"command": EVIL, EVIL: {"deep": [EVIL]}}}]}}),
        ),
        line(
            "user",
            json!({"toolUseResult": {"filePath": EVIL, "structuredPatch": patch, "stdout": EVIL, "stderr": EVIL},
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": EVIL, "is_error": true,
                "content": [{"type": "text", "text": EVIL}, picture]}]}}),
        ),
        line(
            "attachment",
            json!({"attachment": {"type": "file", "filename": EVIL, "content": {"file": {"content": EVIL}}}}),
        ),
        line("system", json!({"subtype": "compact_boundary", "content": EVIL})),
        json!({"type": "custom-title", "customTitle": EVIL, "sessionId": EVIL}),
        json!({"type": "haft", "kind": "call", "call": EVIL, "tool": EVIL, "agent": EVIL, "timestamp": "2026-11-16T23:10:53.109Z",
            "micros": {"queue": 1, "hooks": 2, "permission": 3, "run": 4, "after": 5}, "error": EVIL, "denied_by": EVIL, "journal": EVIL,
            "decision": {"behavior": "deny", "source": EVIL, "reason": EVIL, "rule": EVIL, "way_out": EVIL}}),
        json!({"type": "haft", "kind": "asked", "request": 1, "timestamp": "2026-11-16T23:10:53.109Z", "model": EVIL,
            "purpose": EVIL, "usage": usage, "usd": 0.5, "bust": {"request": 1, "cause": EVIL, "detail": EVIL, "tokens": 9}}),
        json!({"type": EVIL, "message": EVIL}),
        json!([EVIL]),
        json!(EVIL),
    ]
}

#[test]
fn a_hostile_log_does_nothing_in_a_browser() {
    let Some(dir) = editor_kits::browser() else { return };
    let haft = Haft::new();
    let text: String = lines().iter().map(|it| format!("{it}\n")).collect();
    haft.write("evil.jsonl", &text);
    let log = haft.ws().join("evil.jsonl");
    // The dashboard reads the file among the user's logs.
    haft.write_home(".haft/projects/-evil/0198f3c2-0000-7000-8000-000000000001.jsonl", &text);
    let page = haft.ws().join("page.html");
    let path = log.display().to_string();
    let exported = haft.run(&["view", &path, "--html", &page.display().to_string()], "");
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let served = Served::start(&haft, &["--no-open", &path]);
    let script = dir.join("page_hostile.mjs");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/page_hostile.mjs");
    std::fs::copy(source, &script).unwrap();
    let checked = std::process::Command::new("node")
        .arg(script)
        .args([&served.url, &path, &page.display().to_string()])
        .env("HOME", haft.home())
        .output()
        .unwrap();
    let (said, noise) = (String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success() && said.starts_with("fine"), "{said}{noise}");
}
