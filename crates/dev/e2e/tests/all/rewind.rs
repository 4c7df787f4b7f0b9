//! A session is rewound: files and conversation.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::process::Stdio;

use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

use crate::common::Haft;

async fn run(haft: &Haft, url: &str, args: &[&str]) -> String {
    let mut command = haft.async_command();
    command.args(args).env("ANTHROPIC_BASE_URL", url).stdin(Stdio::null());
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn files_and_talk_go_back_together_and_nothing_is_lost() {
    let haft = Haft::new();
    haft.write("old.txt", "old\n");
    let write = |name: &str, text: &str| {
        Turn::from_pieces([ReplyPiece::tool("Write", json!({"file_path": name, "content": text}))])
    };
    let command = |line: &str| Turn::from_pieces([ReplyPiece::tool("Bash", json!({"command": line}))]);
    let model = MockModel::start(Script::from_turns([
        write("one.txt", "one"),
        Turn::text("Wrote one."),
        command("echo changed > old.txt; echo two > two.txt"),
        Turn::text("Wrote two."),
        write("three.txt", "three"),
        Turn::text("Wrote three."),
        Turn::text("Again."),
    ]))
    .await
    .unwrap();
    let yes = ["--permission-mode", "bypassPermissions"];
    run(&haft, &model.url(), &[&["-p", "make one"], &yes[..]].concat()).await;
    run(&haft, &model.url(), &[&["-p", "make two", "--continue"], &yes[..]].concat()).await;
    run(&haft, &model.url(), &[&["-p", "make three", "--continue"], &yes[..]].concat()).await;

    let listed = haft.ok(&["rewind", "--json"], "");
    let rows: Vec<Value> = listed.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let texts: Vec<&str> = rows.iter().map(|it| it["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["make one", "make two", "make three"]);
    assert_eq!(rows[1]["files"].as_array().unwrap().len(), 3, "{listed}");

    let told: Value = serde_json::from_str(&haft.ok(&["rewind", "--to", "2", "--json"], "")).unwrap();
    assert!(haft.ws().join("one.txt").exists());
    assert!(!haft.ws().join("two.txt").exists() && !haft.ws().join("three.txt").exists());
    assert_eq!(std::fs::read_to_string(haft.ws().join("old.txt")).unwrap(), "old\n");
    let session = told["session"].as_str().unwrap();
    run(&haft, &model.url(), &["-p", "and now?", "--resume", session]).await;
    let asked = String::from_utf8_lossy(&model.requests().last().unwrap().body).into_owned();
    assert!(asked.contains("make one") && !asked.contains("make two"), "{asked}");
    // The original session still exists unchanged.
    let old = rows[0]["session"].as_str().unwrap();
    assert!(haft.ok(&["sessions", "show", old], "").contains("Wrote three."));
    let wrong = haft.run(&["rewind", "--to", "9"], "");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("there is no message 9"));
}
