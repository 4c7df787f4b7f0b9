//! Overhead of Haft in programs that use the Agent SDKs: `cargo xtask bench sdk`.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a benchmark")]

#[path = "../tests/all/common/mod.rs"]
mod common;
#[path = "../tests/all/common/hosts.rs"]
mod hosts;
#[path = "../tests/all/common/peer.rs"]
mod peer;

use std::{path::Path, time::Instant};

use common::Haft;
use haft_testkit::{MockModel, ReplyPiece, Script, Turn, haft_binary};
use peer::Peer;
use serde_json::{Value, json};
use tokio::process::Command;

/// Number of measured queries per executable; the executables alternate.
const QUERIES: usize = 7;

#[tokio::main]
async fn main() {
    hello().await;
    questions().await;
    many_calls().await;
}

/// `query("hello")` with the Python SDK, with Haft and with the SDK's bundled executable.
async fn hello() {
    let Some(python) = hosts::python() else { return };
    let bundled = hosts::bundled(&python);
    let ours = std::path::PathBuf::from(haft_binary());
    let mut measured: Vec<(&str, Vec<Value>)> = vec![("haft", Vec::new())];
    if bundled.is_some() {
        measured.push(("bundled", Vec::new()));
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/hello.py");
    for _ in 0..QUERIES {
        for (name, runs) in &mut measured {
            let executable = bundled.as_ref().filter(|_| *name == "bundled").unwrap_or(&ours);
            let haft = Haft::new();
            let script = Script { strict: false, ..Script::from_turns([Turn::text("Hello!").always()]) };
            let model = MockModel::start(script).await.unwrap();
            let output = Command::new(&python)
                .arg("-B")
                .arg(&program)
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                .env("HOME", haft.home())
                .env("ANTHROPIC_BASE_URL", model.url())
                .env("ANTHROPIC_API_KEY", "key")
                .env("DISABLE_TELEMETRY", "1")
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .env("HAFT_SDK_CLI", executable)
                .current_dir(haft.ws())
                .output()
                .await
                .unwrap();
            let line = String::from_utf8_lossy(&output.stdout).into_owned();
            match serde_json::from_str(&line) {
                Ok(run) => runs.push(run),
                Err(_) => println!("{name}: {line}{}", String::from_utf8_lossy(&output.stderr)),
            }
        }
    }
    println!("query(\"hello\"), Python SDK, median of {QUERIES}");
    let median = |runs: &[Value], key: &str| {
        let mut all: Vec<f64> = runs.iter().filter_map(|it| it[key].as_f64()).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    for key in ["first_ms", "result_ms", "memory_mb"] {
        let of = |name: &str| {
            measured.iter().find(|it| it.0 == name).map_or(f64::NAN, |(_, runs)| median(runs, key))
        };
        let (ours, theirs) = (of("haft"), of("bundled"));
        println!(
            "  {key:<10} haft {ours:>8.1}  bundled {theirs:>8.1}  ratio {:.3} (goal 0.1)",
            ours / theirs
        );
    }
}

/// Overhead of a permission request to the host, without the host's own time.
async fn questions() {
    const CALLS: usize = 200;
    let calls = || Turn::from_pieces((0..CALLS).map(|n| ReplyPiece::tool("mcp__calc__add", json!({"n": n}))));
    let mut times = Vec::new();
    for args in [vec!["--allowedTools", "mcp__calc__*"], vec!["--permission-prompt-tool", "stdio"]] {
        let took = run_calls(calls(), args).await;
        times.push(took.as_secs_f64() * 1000.0 / CALLS as f64);
    }
    println!("can_use_tool, {CALLS} calls: {:.3} ms more per call (goal 1)", times[1] - times[0]);
}

/// Overhead of calls of the host's in-process tools.
async fn many_calls() {
    const CALLS: usize = 1000;
    let calls = Turn::from_pieces((0..CALLS).map(|n| ReplyPiece::tool("mcp__calc__add", json!({"n": n}))));
    let took = run_calls(calls, vec!["--allowedTools", "mcp__calc__*"]).await;
    println!("{CALLS} tool calls: {:.0} per second (goal 2000)", CALLS as f64 / took.as_secs_f64());
}

/// Time from the first call to the last result.
async fn run_calls(calls: Turn, mut args: Vec<&str>) -> std::time::Duration {
    let haft = Haft::new();
    args.extend(["--mcp-config", r#"{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}"#]);
    let mut peer = Peer::start(&haft, vec![calls, Turn::text("Done.")], &args).await;
    peer.request("i", json!({"subtype": "initialize"})).await;
    peer.say("go").await;
    let (mut begun, mut last) = (None, None);
    loop {
        let frame = peer.next().await.unwrap();
        match (frame["type"].as_str(), frame["request"]["subtype"].as_str()) {
            (Some("result"), _) => break,
            (Some("user"), _) => last = Some(Instant::now()),
            (_, Some("can_use_tool")) => {
                begun.get_or_insert_with(Instant::now);
                peer.answer(&frame, json!({"behavior": "allow"})).await;
            }
            (_, Some("mcp_message")) => {
                let message = &frame["request"]["message"];
                let reply = match message["method"].as_str().unwrap() {
                    "initialize" => json!({"result": {
                        "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                        "serverInfo": {"name": "calc", "version": "1"}}}),
                    "tools/list" => json!({"result": {"tools": [{"name": "add", "description": "Adds.",
                        "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]}}),
                    "tools/call" => {
                        begun.get_or_insert_with(Instant::now);
                        json!({"result": {"content": [{"type": "text", "text": "1"}]}})
                    }
                    _ => json!({"result": {}}),
                };
                peer.answer(&frame, json!({"mcp_response": reply})).await;
            }
            _ => (),
        }
    }
    last.unwrap() - begun.unwrap()
}
