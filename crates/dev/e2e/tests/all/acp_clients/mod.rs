//! Third-party clients drive whole turns through `haft acp`.
#![allow(clippy::print_stderr, reason = "test code")]

use std::path::Path;

use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

use crate::{acp_random::EditorDice, common::Haft, editor_kits, hosts::executable};

async fn stage() -> (Haft, MockModel) {
    let haft = Haft::new();
    haft.write("a.txt", "one\ntwo\n");
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "three"});
    let read = Turn::tool("Read", json!({"file_path": "a.txt"}));
    let script = Script::from_turns([read, Turn::tool("Edit", edit), Turn::text("Changed it.")]);
    (haft, MockModel::start(script).await.unwrap())
}

/// Runs a client; returns its output.
async fn run(mut client: tokio::process::Command, haft: &Haft, model: &MockModel) -> String {
    let client = client
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("HAFT", executable())
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("ANTHROPIC_API_KEY", "key")
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    let limit = std::time::Duration::from_secs(300);
    let output = tokio::time::timeout(limit, client.output()).await.expect("the client hangs").unwrap();
    let (said, noise) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{noise}");
    said.into_owned()
}

fn check_report(said: &str, haft: &Haft) {
    let report: Value =
        serde_json::from_str(said.lines().last().unwrap()).unwrap_or_else(|err| panic!("{err}: {said}"));
    assert_eq!(report["stopReason"], "end_turn", "{report}");
    assert_eq!(report["words"], "Changed it.", "{report}");
    assert_eq!(report["asked"], 1, "{report}");
    assert_eq!(report["diffs"], json!([["one\ntwo\n", "three\ntwo\n"]]), "{report}");
    assert_eq!(report["replayed"], "Changed it.", "{report}");
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "three\ntwo\n");
}

#[tokio::test]
async fn typescript_sdk() {
    let Some(dir) = editor_kits::node() else { return };
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/acp_clients/client.mjs");
    // Node resolves modules relative to the script's directory.
    std::fs::copy(cases, dir.join("client.mjs")).unwrap();
    let (haft, model) = stage().await;
    let mut client = tokio::process::Command::new("node");
    client.arg(dir.join("client.mjs"));
    check_report(&run(client, &haft, &model).await, &haft);
}

#[tokio::test]
async fn python_sdk() {
    let Some(python) = editor_kits::python() else { return };
    let (haft, model) = stage().await;
    let mut client = tokio::process::Command::new(python);
    client.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/acp_clients/client.py"));
    check_report(&run(client, &haft, &model).await, &haft);
}

#[tokio::test]
async fn acpx() {
    let Some(dir) = editor_kits::node() else { return };
    let (haft, model) = stage().await;
    let mut client = tokio::process::Command::new("node");
    client.arg(dir.join("node_modules/.bin/acpx"));
    client.args([
        "--agent",
        &format!("{} acp", executable()),
        "--approve-all",
        "--format",
        "json",
        "exec",
        "go",
    ]);
    let said = run(client, &haft, &model).await;
    assert!(said.contains("Changed it."), "{said}");
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "three\ntwo\n");
}

/// Emacs with an unsaved buffer. `acp.el` is not in an accessible registry: set `HAFT_ACP_EL` to its
/// directory to run this test.
#[tokio::test]
async fn emacs() {
    let dir = std::env::var_os("HAFT_ACP_EL").filter(|it| Path::new(it).join("acp.el").is_file());
    let (Some(dir), true) = (dir, Path::new("/usr/bin/emacs").exists()) else {
        eprintln!("SKIPPED: Emacs, or acp.el in the directory HAFT_ACP_EL names, is not there");
        return;
    };
    let (haft, model) = stage().await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/acp_clients/client.el");
    let mut client = tokio::process::Command::new("/usr/bin/emacs");
    client.args(["--batch", "-Q", "-L"]).arg(dir).arg("-l").arg(script);
    let said = run(client, &haft, &model).await;
    let report: Value =
        serde_json::from_str(said.lines().last().unwrap()).unwrap_or_else(|err| panic!("{err}: {said}"));
    let want = "three\ntwo\ntyped\n";
    assert_eq!(
        report,
        json!({"stopReason": "end_turn", "words": "Changed it.", "asked": 1, "diffs": [want], "errors": []}),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), want);
}

/// Concurrent sessions on one connection.
const SESSIONS: usize = 20;

/// A random turn of the model, for an editor whose files are in different states.
fn random_turn(dice: &mut EditorDice) -> Turn {
    let mut pieces = Vec::new();
    if dice.roll(4) == 0 {
        pieces.push(ReplyPiece::thinking("hm, let me see"));
    }
    if dice.roll(2) == 0 {
        pieces.push(ReplyPiece::text("Now something happens. "));
    }
    for _ in 0..=dice.roll(3) {
        let file = dice.pick(&[
            "clean.txt",
            "unsaved.txt",
            "behind.txt",
            "conflict.txt",
            "latin.txt",
            "marked.txt",
            "wide.txt",
            "windows.txt",
            "mixed.txt",
        ]);
        let (old, new) = if dice.roll(2) == 0 { ("one", "uno") } else { ("uno", "one") };
        pieces.push(match dice.roll(8) {
            0..=2 => ReplyPiece::tool("Read", json!({"file_path": file})),
            3 | 4 => {
                ReplyPiece::tool("Edit", json!({"file_path": file, "old_string": old, "new_string": new}))
            }
            5 => ReplyPiece::tool(
                "Bash",
                json!({"command": dice.pick(&["echo hi; sleep 0.1; echo ho", "cat *.txt"])}),
            ),
            6 => ReplyPiece::tool("Grep", json!({"pattern": "TYPED|one"})),
            _ => ReplyPiece::tool("Write", json!({"file_path": "over.txt", "content": "all of it\n"})),
        });
    }
    Turn::from_pieces(pieces)
}

/// A third-party client with random behaviour. `HAFT_EDITOR_SEEDS` sets the number of runs.
#[tokio::test]
async fn random_editor() {
    let (Some(python), Some(node)) = (editor_kits::python(), editor_kits::node()) else { return };
    let seeds = std::env::var("HAFT_EDITOR_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(2);
    for seed in 1..=seeds {
        let mut dice = EditorDice::new(seed * 13 + 5);
        let mut turns: Vec<Turn> = (0..15 * SESSIONS)
            .map(|_| if dice.roll(3) == 0 { Turn::text("That is it.") } else { random_turn(&mut dice) })
            .collect();
        turns.push(Turn::text("Nothing more.").always());
        let (haft, model) = (Haft::new(), MockModel::start(Script::from_turns(turns)).await.unwrap());
        let mut client = tokio::process::Command::new(&python);
        client.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/acp_clients/random_editor.py"));
        client.arg(node.join("node_modules/@agentclientprotocol/sdk/schema/v1/schema.unstable.json"));
        client.args([seed.to_string(), SESSIONS.to_string()]);
        let said = run(client, &haft, &model).await;
        assert!(said.starts_with("fine"), "seed {seed}: {said}");
    }
}
