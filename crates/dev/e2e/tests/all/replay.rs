//! A run is recorded once and replayed without the model.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::path::PathBuf;

use common::Haft;
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::json;

const RULES: &[&str] = &["--permission-mode", "acceptEdits", "--allowedTools", "Bash(sh check.sh)"];

/// Looks like an API key but is not one.
fn secret() -> String {
    format!("sk-{}", "a1B2".repeat(8))
}

fn project() -> Haft {
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    haft.write(
        "check.sh",
        &format!(
            "pwd; cat a.txt; echo {}
",
            secret()
        ),
    );
    haft.write("CLAUDE.md", "Be terse.");
    haft
}

fn script() -> Script {
    let check = || ReplyPiece::tool("Bash", json!({"command": "sh check.sh"}));
    Script::from_turns([
        Turn::from_pieces([
            ReplyPiece::thinking("hm"),
            ReplyPiece::text("Looking."),
            ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
            check(),
        ]),
        Turn::from_pieces([
            ReplyPiece::tool("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
            ReplyPiece::tool("Bash", json!({"command": "make install"})),
            ReplyPiece::tool("Write", json!({"file_path": "sub/b.txt", "content": "new\n"})),
        ]),
        Turn::from_pieces([check()]),
        Turn::text("Changed it."),
    ])
}

async fn haft(haft: &Haft, model: Option<&MockModel>, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = haft.async_command();
    command.args(args).stdin(std::process::Stdio::null());
    if let Some(model) = model {
        command.env("ANTHROPIC_BASE_URL", model.url());
    }
    let output = command.output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

async fn recorded(dir: &tempfile::TempDir) -> PathBuf {
    let first = project();
    let cassette = dir.path().join("run.cassette");
    let model = MockModel::start(script()).await.unwrap();
    let args =
        [&["-p", "change it", "--record", cassette.to_str().unwrap(), "--allow-denials"], RULES].concat();
    let (code, stdout, stderr) = haft(&first, Some(&model), &args).await;
    assert_eq!((code, stdout.as_str()), (Some(0), "Changed it.\n"), "{stderr}");
    let text = std::fs::read_to_string(&cassette).unwrap();
    assert!(!text.contains(first.dir.path().to_str().unwrap()), "a path of the recording machine");
    assert!(!text.contains(&secret()) && text.contains("«secret»"), "a secret");
    cassette
}

fn tree(haft: &Haft) -> Vec<(String, Vec<u8>)> {
    ["a.txt", "sub/b.txt", "check.sh"]
        .map(|name| (name.to_owned(), std::fs::read(haft.ws().join(name)).unwrap_or_default()))
        .to_vec()
}

#[tokio::test]
async fn twenty_replays_are_byte_identical() {
    let dir = tempfile::tempdir().unwrap();
    let cassette = recorded(&dir).await;
    let file = cassette.to_str().unwrap();
    for (tools, rules) in [("recorded", &[][..]), ("real", RULES)] {
        let mut transcripts = std::collections::BTreeSet::new();
        for round in 0..20 {
            let again = project();
            let args = [&["replay", file, "--tools", tools], rules].concat();
            let (code, stdout, stderr) = haft(&again, None, &args).await;
            // Like the recorded run: one call was denied, hence exit code 3.
            assert_eq!((code, stderr.as_str()), (Some(3), ""), "{tools} {round}: {stdout}");
            let want: &[u8] = if tools == "real" { b"two\n" } else { b"one\n" };
            assert_eq!(tree(&again)[0].1, want, "{tools} {round}");
            assert!(stdout.ends_with('\n') && stdout.contains("\"end\":\"completed\""), "{stdout}");
            transcripts.insert(stdout);
        }
        assert_eq!(transcripts.len(), 1, "{tools}");
    }
}

#[tokio::test]
async fn a_miss_names_the_first_field_that_differs() {
    let dir = tempfile::tempdir().unwrap();
    let cassette = recorded(&dir).await;
    let text = std::fs::read_to_string(&cassette).unwrap();
    let changed = dir.path().join("changed.cassette");
    for (from, to, want) in [
        ("Reads a file", "Rreads a file", "differs first at tools["),
        ("Be terse.", "Be verbose.", "differs first at system["),
    ] {
        // Only exchanges are changed: the header holds the settings of the run.
        let at = text.find("\"exchange\"").unwrap();
        let (header, rest) = text.split_at(at);
        if !rest.contains(from) {
            continue;
        }
        std::fs::write(&changed, format!("{header}{}", rest.replacen(from, to, 1))).unwrap();
        let again = project();
        let (code, _, stderr) = haft(&again, None, &["replay", changed.to_str().unwrap()]).await;
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("replay miss") && stderr.contains(want), "{stderr}");
    }
    let edited = project();
    edited.write("a.txt", "one and more\n");
    let args = [&["replay", cassette.to_str().unwrap(), "--tools", "real"], RULES].concat();
    let (code, _, stderr) = haft(&edited, None, &args).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("differs first at messages["), "{stderr}");
}

#[tokio::test]
async fn a_fork_goes_on_with_another_model() {
    let dir = tempfile::tempdir().unwrap();
    let cassette = recorded(&dir).await;
    let other = MockModel::start(Script::from_turns([
        Turn::tool("Write", json!({"file_path": "c.txt", "content": "forked\n"})),
        Turn::text("Went elsewhere."),
    ]))
    .await
    .unwrap();
    let again = project();
    let args = [&["replay", cassette.to_str().unwrap(), "--fork-at", "2", "--tools", "real"], RULES].concat();
    let (code, stdout, stderr) = haft(&again, Some(&other), &args).await;
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stdout.contains("Went elsewhere."), "{stdout}");
    assert_eq!(std::fs::read(again.ws().join("c.txt")).unwrap(), b"forked\n");
    assert_eq!(tree(&again)[0].1, b"two\n");
    assert_eq!((other.refusals(), other.count()), (vec![], 2));
}

#[tokio::test]
async fn other_files_are_neither_overwritten_nor_played() {
    let haft_ = project();
    let model = MockModel::start(Script::from_turns([Turn::text("no")])).await.unwrap();
    let (code, _, stderr) = haft(&haft_, Some(&model), &["-p", "x", "--record", "a.txt"]).await;
    assert_eq!(code, Some(2));
    assert!(stderr.contains("is no cassette"), "{stderr}");
    assert_eq!(std::fs::read(haft_.ws().join("a.txt")).unwrap(), b"one\n");
    let (code, _, stderr) = haft(&haft_, None, &["replay", "a.txt"]).await;
    assert_eq!(code, Some(2));
    assert!(stderr.contains("line 1 is not of a cassette"), "{stderr}");
}

/// A server with one tool that logs its input.
pub const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    method, answer = ask["method"], {}
    if method == "initialize":
        answer = {"protocolVersion": ask["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "own", "version": "1"}}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
        answer = {"tools": [{"name": "shout", "description": "Shouts a word", "inputSchema": schema}]}
    elif method == "tools/call":
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps(ask["params"]) + "\n")
        answer = {"content": [{"type": "text", "text": ask["params"]["arguments"]["word"].upper()}]}
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": answer}), flush=True)
"#;

/// A run that called MCP tools, declared or found by search, is replayed without the server.
#[tokio::test]
async fn calls_of_servers_are_played_again_without_the_server() {
    for searched in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (first, cassette) = (project(), dir.path().join("run.cassette"));
        let (script, asked) = (dir.path().join("server.py"), dir.path().join("asked"));
        std::fs::write(&script, SERVER).unwrap();
        let servers = json!({"mcpServers": {"own": {"command": "python3", "args": [script, asked],
            "alwaysLoad": !searched}}});
        let mut turns =
            vec![Turn::tool("mcp__own__shout", json!({"word": "hey"})), Turn::text("It shouted.")];
        if searched {
            turns.insert(0, Turn::tool("ToolSearch", json!({"query": "select:mcp__own__shout"})));
        }
        let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
        let servers = servers.to_string();
        let args = [
            "-p",
            "go",
            "--record",
            cassette.to_str().unwrap(),
            "--mcp-config",
            &servers,
            // The first call needs the server, so wait until it has started.
            "--mcp-wait",
            "120",
            "--allowedTools",
            "mcp__own",
        ];
        let (code, stdout, stderr) = haft(&first, Some(&model), &args).await;
        assert_eq!((code, stdout.as_str()), (Some(0), "It shouted.\n"), "{searched}: {stderr}");
        assert_eq!(std::fs::read_to_string(&asked).unwrap().lines().count(), 1);
        let again = project();
        let (code, stdout, stderr) = haft(&again, None, &["replay", cassette.to_str().unwrap()]).await;
        assert_eq!(code, Some(0), "{searched}: {stdout}{stderr}");
        assert!(stdout.contains("HEY") && stdout.contains("It shouted."), "{searched}: {stdout}{stderr}");
        assert_eq!(std::fs::read_to_string(&asked).unwrap().lines().count(), 1, "nobody was asked again");
    }
}
