//! What `haft new tool` writes: it compiles, its own tests pass, and its server
//! answers an MCP client.
#![allow(clippy::unwrap_used, dead_code, missing_docs, unreachable_pub, reason = "test code")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

#[path = "../../cli/src/new_command/tool.rs.txt"]
mod template_tool;

mod server {
    use super::template_tool;

    include!("../../cli/src/new_command/server.rs.txt");

    /// The program itself, where a test runner can start it.
    pub(super) fn run() {
        main().unwrap();
    }
}

/// Is the server when the test below starts it, and nothing else.
#[test]
fn serve() {
    if std::env::var_os(SERVES).is_some() {
        server::run();
    }
}

/// Says that this process is the server.
const SERVES: &str = "HAFT_TEMPLATE_SERVES";

#[test]
fn the_server_answers_a_client() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["serve", "--exact", "--nocapture"])
        .env(SERVES, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let call = json!({"name": "TemplateTool", "arguments": {"text": "abc"}});
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call}),
    ] {
        writeln!(input, "{message}").unwrap();
    }
    let mut answers = Vec::new();
    // The test runner writes lines of its own in between, and where tests run one after the
    // other the beginning of one.
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let Some(begin) = line.find('{') else { continue };
        let Ok(answer) = serde_json::from_str::<Value>(&line[begin..]) else { continue };
        answers.push(answer);
        // They come in the order in which they are ready.
        if (1..=3).all(|id| answers.iter().any(|it| it["id"] == id)) {
            break;
        }
    }
    drop(input);
    child.wait().unwrap();
    let answer =
        |id: u64| answers.iter().find(|it| it["id"] == id).unwrap_or_else(|| panic!("{id}: {answers:?}"));
    assert_eq!(answer(1)["result"]["serverInfo"]["name"], "template-tool");
    assert_eq!(answer(2)["result"]["tools"][0]["name"], "TemplateTool");
    assert_eq!(answer(3)["result"]["content"][0]["text"], "cba", "{answers:?}");
}
