//! A session of ten thousand calls in a real browser: the page and the fetched data stay small.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{common::Haft, editor_kits, view_server::Served};

const CALLS: usize = 10_000;

/// A log with this many calls, a prompt before every fiftieth and text before every fifth.
fn log() -> String {
    let mut out = String::new();
    let mut line = |kind: &str, message: Value| {
        let line = json!({"type": kind, "uuid": "u", "sessionId": "s", "cwd": "/x", "version": "1",
            "timestamp": "2026-11-16T23:10:53.109Z", "message": message});
        writeln!(out, "{line}").unwrap();
    };
    for call in 0..CALLS {
        if call % 50 == 0 {
            line("user", json!({"role": "user", "content": format!("Prompt before call {call}")}));
        }
        let answer = |block: Value| {
            json!({"role": "assistant", "id": format!("m{call}"), "model": "claude-opus-4-5", "content": [block],
                "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 20_000}})
        };
        if call % 5 == 0 {
            line("assistant", answer(json!({"type": "text", "text": format!("Now **step {call}**.")})));
        }
        let input = json!({"pattern": format!("needle{call}")});
        line(
            "assistant",
            answer(json!({"type": "tool_use", "id": format!("c{call}"), "name": "Grep", "input": input})),
        );
        let result =
            json!({"type": "tool_result", "tool_use_id": format!("c{call}"), "content": "x\n".repeat(150)});
        line("user", json!({"role": "user", "content": [result]}));
    }
    out
}

/// Runs a browser script on a log with this many calls; returns its output.
fn in_a_browser(script: &str, arguments: &[&str]) -> Option<String> {
    let dir = editor_kits::browser()?;
    let haft = Haft::new();
    haft.write("large.jsonl", &log());
    let path = haft.ws().join("large.jsonl").display().to_string();
    let served = Served::start(&haft, &["--no-open", &path]);
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support").join(script);
    std::fs::copy(source, dir.join(script)).unwrap();
    let checked = std::process::Command::new("node")
        .arg(dir.join(script))
        .arg(&served.url)
        .args(arguments)
        .env("HOME", haft.home())
        .output()
        .unwrap();
    let (said, noise) = (String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success(), "{said}{noise}");
    Some(said.into_owned())
}

#[test]
fn a_browser_goes_through_ten_thousand_calls() {
    let wanted = 5_001 + (5_001 / 50 + 1) + (5_001 / 5 + 1);
    let said = in_a_browser("page_large.mjs", &[&CALLS.to_string(), "needle5001", &wanted.to_string()]);
    assert!(said.as_deref().is_none_or(|it| it.starts_with("fine")), "{said:?}");
}

/// Rows that appear and disappear while scrolling cause one layout per frame.
#[test]
fn scrolling_forces_no_layout() {
    let said = in_a_browser("page_frames.mjs", &["strict"]);
    assert!(said.as_deref().is_none_or(|it| it.starts_with("longest task")), "{said:?}");
}
