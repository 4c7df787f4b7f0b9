//! `haft mcp`, and MCP servers in sessions, with real server processes.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use common::{Haft, text};
use haft_testkit::{MockModel, ReplyPiece, Script, Turn, haft_binary};
use serde_json::{Value, json};

fn script() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../engine/mcp-client/tests/all/support/fake_server.py")
        .display()
        .to_string()
}

/// Configuration of a fake server that writes its pids and received messages to the home directory.
fn fake(haft: &Haft, name: &str, modes: &str) -> Value {
    json!({
        "command": "python3",
        "args": ["-IS", script(), modes],
        "env": {
            "HAFT_FAKE_LOG": haft.home().join(format!("{name}.heard")),
            "HAFT_FAKE_PIDS": haft.home().join(format!("{name}.pids")),
        },
    })
}

fn pids(haft: &Haft, name: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(haft.home().join(format!("{name}.pids"))).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

fn gone(pids: &[u32]) {
    let started = Instant::now();
    while pids.iter().any(|pid| is_alive(*pid)) {
        assert!(started.elapsed() < Duration::from_secs(120), "{pids:?} are still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn add_user_server(haft: &Haft, name: &str, modes: &str) {
    let entry = fake(haft, name, modes).to_string();
    haft.ok(&["mcp", "add-json", "-s", "user", name, &entry], "");
}

fn rows(haft: &Haft, args: &[&str]) -> Vec<Value> {
    let output = haft.run(&[args, &["--json"]].concat(), "");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {output:?}"))
}

#[test]
fn servers_are_named_in_every_scope_and_taken_away() {
    let haft = Haft::new();
    for args in [
        &["mcp", "add", "a", "--", "npx", "-y", "pkg"][..],
        &["mcp", "add", "-s", "project", "-e", "KEY=v=1", "b", "--", "cmd"],
        &[
            "mcp",
            "add",
            "--scope",
            "user",
            "--transport",
            "http",
            "c",
            "https://x.test/mcp",
            "--header",
            "A: b:c",
        ],
        &["mcp", "add", "-t", "sse", "d", "https://x.test/sse", "--client-id", "me", "--callback-port", "9"],
        &["mcp", "add-json", "-s", "user", "elephant", r#"{"type":"ws","url":"wss://x.test"}"#],
        &["mcp", "add", "--scope", "user", "a", "other"],
    ] {
        haft.ok(args, "");
    }
    let read = |path: PathBuf| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let own = read(haft.home().join(".haft/mcp.json"));
    let local = &own["projects"][haft.ws().display().to_string()]["mcpServers"];
    assert_eq!(local["a"], json!({"type": "stdio", "command": "npx", "args": ["-y", "pkg"]}));
    assert_eq!(local["d"]["oauth"], json!({"clientId": "me", "callbackPort": 9}));
    assert_eq!(
        own["mcpServers"]["c"],
        json!({"type": "http", "url": "https://x.test/mcp", "headers": {"A": "b:c"}})
    );
    let project = read(haft.ws().join(".mcp.json"));
    assert_eq!(project["mcpServers"]["b"]["env"], json!({"KEY": "v=1"}));
    for (args, problem) in [
        (&["mcp", "add", "a", "x"][..], "already"),
        (&["mcp", "add", "x__y", "x"], "must not contain"),
        (&["mcp", "add", "z", "cmd", "-H", "A: b"], "--header is for servers with an address"),
        (&["mcp", "add", "z", "cmd", "-e", "novalue"], "KEY=value"),
        (&["mcp", "add-json", "z", "[]"], "not a JSON object"),
        (&["mcp", "add-json", "z", "{}"], "neither"),
        (&["mcp", "remove", "a"], "several scopes (local, user)"),
        (&["mcp", "remove", "nope"], "no server named nope"),
        (&["mcp", "get", "elefant"], "did you mean elephant?"),
        (&["mcp", "logs", "c"], "no session has used"),
    ] {
        let output = haft.run(args, "");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(problem), "{args:?}: {stderr}");
    }
    haft.ok(&["mcp", "remove", "a", "-s", "user"], "");
    for name in ["a", "b", "c", "d", "elephant"] {
        haft.ok(&["mcp", "remove", name], "");
    }
    assert_eq!(haft.ok(&["mcp", "list"], ""), "No MCP servers. Name one with `haft mcp add`.\n");
}

#[test]
fn states_and_reasons_are_shown() {
    let haft = Haft::new();
    add_user_server(&haft, "good", "bad_tools,noise");
    add_user_server(&haft, "dead", "die_at_start");
    haft.write_home(
        ".haft/settings.json",
        &json!({"deniedMcpServers": [{"serverName": "denied"}]}).to_string(),
    );
    for (name, entry) in [
        ("unset", json!({"command": "x", "args": ["${HAFT_NOT_SET}"]})),
        ("preset", json!({"command": "${HAFT_NOT_SET:-haft-no-such-program}"})),
        ("denied", json!({"command": "x"})),
        ("down", json!({"type": "http", "url": "http://127.0.0.1:9/mcp"})),
    ] {
        haft.ok(&["mcp", "add-json", name, &entry.to_string()], "");
    }
    let shown = rows(&haft, &["mcp", "list"]);
    for (name, state, part) in [
        ("good", "ready", ""),
        ("dead", "failed", "fatal: no configuration"),
        ("unset", "unusable", "`args[0]`: the environment variable HAFT_NOT_SET is not set"),
        ("preset", "failed", "cannot start `haft-no-such-program`"),
        ("denied", "unusable", "denied"),
        ("down", "failed", "refused"),
    ] {
        let row = shown.iter().find(|it| it["name"] == name).unwrap();
        let reason = row["reason"].as_str().unwrap_or_default();
        assert!(row["state"] == state && reason.contains(part), "{name}: {row:#}");
    }
    let good = shown.iter().find(|it| it["name"] == "good").unwrap();
    assert_eq!((good["tools"].as_u64(), good["skipped"].as_array().unwrap().len()), (Some(11), 5));
    assert!(good["connect_ms"].is_u64() && good["noise"]["first"] == "starting up...", "{good:#}");
    assert_eq!(good["server"]["era"], "legacy");
    let report = haft.ok(&["mcp", "get", "good"], "");
    assert!(report.contains("root_string: type: its arguments are not an object"), "{report}");
    assert!(report.contains("  mcp__good__"), "{report}");
    let doctor = haft.run(&["mcp", "doctor", "dead"], "");
    let report = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.status.code() == Some(1) && report.contains("fatal: no configuration"), "{report}");
    let logs = haft.ok(&["mcp", "logs", "dead"], "");
    assert!(logs.contains("failed") && logs.contains("fatal: no configuration"), "{logs}");
    gone(&pids(&haft, "good"));
}

#[test]
fn a_projects_server_starts_only_as_it_was_agreed_to() {
    let haft = Haft::new();
    let write = |modes: &str| {
        let servers = json!({"mcpServers": {"p": fake(&haft, "p", modes)}});
        haft.write(".mcp.json", &servers.to_string());
    };
    let call = || {
        let args = ["tool", "call", "mcp__p__echo", r#"{"text":"hi"}"#, "--allowedTools", "mcp__p"];
        let output = haft.run(&args, "");
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    write("");
    let (worked, stderr) = call();
    assert!(!worked && stderr.contains("nobody has agreed to it, so it is not started"), "{stderr}");
    assert_eq!(rows(&haft, &["mcp", "list"])[0]["state"], "waiting");
    assert_eq!(pids(&haft, "p"), [0; 0], "nothing ran");
    haft.ok(&["trust", "--yes"], "");
    assert_eq!(call(), (true, String::new()));
    let started = pids(&haft, "p").len();
    write("odd_names");
    let (worked, stderr) = call();
    assert!(!worked && stderr.contains("is not what you agreed to any more"), "{stderr}");
    assert_eq!(pids(&haft, "p").len(), started, "the changed one did not run");
    // A server name in the settings approves the definition first seen under it, and not a later one.
    haft.write_home(".haft/settings.json", r#"{"enabledMcpjsonServers": ["p"]}"#);
    assert!(!call().0);
    haft.write_home(".haft/trust.json", "{}");
    assert!(call().0);
    write("read_only");
    assert!(!call().0);
    haft.write_home(".haft/settings.json", r#"{"disabledMcpjsonServers": ["p"]}"#);
    haft.ok(&["trust", "--yes"], "");
    let (worked, stderr) = call();
    assert!(!worked && stderr.contains("you chose not to use this server"), "{stderr}");
    gone(&pids(&haft, "p"));
}

struct Run {
    code: Option<i32>,
    stderr: String,
    bodies: Vec<Value>,
}

/// Runs `haft -p` with a model that plays these turns.
async fn run(haft: &Haft, turns: Vec<Turn>, args: &[&str]) -> Run {
    run_prompt(haft, "go", turns, args).await
}

async fn run_prompt(haft: &Haft, prompt: &str, turns: Vec<Turn>, args: &[&str]) -> Run {
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let output = haft
        .async_command()
        .args(["-p", prompt])
        .args(args)
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(model.refusals(), [""; 0]);
    Run {
        code: output.status.code(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        bodies: model.requests().iter().map(|it| it.json()).collect(),
    }
}

fn tool_names(body: &Value) -> Vec<&str> {
    body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// The tools of a request without cache markers.
fn plain_tools(body: &Value) -> Vec<Value> {
    let mut tools = body["tools"].as_array().unwrap().clone();
    tools.iter_mut().for_each(|tool| drop(tool.as_object_mut().unwrap().remove("cache_control")));
    tools
}

#[tokio::test]
async fn many_tools_cost_little_and_each_is_one_call_away() {
    let haft = Haft::new();
    add_user_server(&haft, "fat", "fat");
    let turns = vec![
        Turn::tool("mcp__fat__fat_117", json!({"parameter_3": "x"})),
        Turn::tool("ToolSearch", json!({"query": "select:mcp__fat__fat_042"})),
        Turn::tool("mcp__fat__fat_042", json!({"parameter_1": "y"})),
        Turn::text("Done."),
    ];
    let ran = run(&haft, turns, &["--mcp-wait", "120", "--allowedTools", "mcp__fat"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let [first, second, third, last] = &ran.bodies[..] else { panic!("{} requests", ran.bodies.len()) };
    let whole = |body: &Value| (body["tools"].to_string().len() + body["system"].to_string().len()) / 4;
    assert!(whole(first) <= 8000, "{} tokens before anything was said", whole(first));
    let names = |body: &Value| -> Vec<String> {
        tool_names(body).into_iter().filter(|it| it.starts_with("mcp__")).map(str::to_owned).collect()
    };
    assert_eq!(names(first), [""; 0]);
    assert!(first["system"].to_string().contains("mcp__fat__fat_199"), "the names are told");
    // A tool called before it was loaded is run, and is loaded from then on.
    assert!(!second["messages"].to_string().contains("is_error\":true"), "{:#}", second["messages"]);
    assert_eq!(names(second), ["mcp__fat__fat_117"]);
    assert_eq!(names(third), ["mcp__fat__fat_117", "mcp__fat__fat_042"]);
    assert_eq!(names(last), names(third));
    assert_eq!(first["system"], last["system"]);
    gone(&pids(&haft, "fat"));
}

#[tokio::test]
async fn what_is_small_or_always_wanted_is_there_at_once() {
    let haft = Haft::new();
    add_user_server(&haft, "small", "");
    let mut always = fake(&haft, "always", "");
    always["alwaysLoad"] = json!(true);
    haft.ok(&["mcp", "add-json", "always", &always.to_string()], "");
    let ran = run(&haft, vec![Turn::text("ok")], &["--mcp-wait", "120"]).await;
    let names = tool_names(&ran.bodies[0]);
    assert!(names.contains(&"mcp__always__echo") && !names.contains(&"mcp__small__echo"), "{names:?}");
    haft.write_home(".haft/settings.json", "{}");
    let both = |mode: &str| {
        let output = std::process::Command::new(haft_binary())
            .args(["tool", "describe", "mcp__small__echo", "--json"])
            .current_dir(haft.ws())
            .env("HOME", haft.home())
            .env("ENABLE_TOOL_SEARCH", mode)
            .output()
            .unwrap();
        output.status.success()
    };
    assert!(both("false") && both("auto:5"));
}

#[tokio::test]
async fn servers_that_come_and_go_change_nothing_that_was_sent() {
    let haft = Haft::new();
    add_user_server(&haft, "frail", "die_after_call");
    // Caches its tools, so that the first request does not depend on how fast the server starts.
    run(&haft, vec![Turn::text("ok")], &["--mcp-wait", "120"]).await;
    let started = pids(&haft, "frail").len();
    add_user_server(&haft, "late", "gate");
    let go = haft.home().join("late.heard.go").display().to_string();
    // Waits until Haft has reaped the first `$1` processes of the server. A later process may be an
    // automatic restart, which lives on until it is called.
    let frail = haft.home().join("frail.pids").display().to_string();
    let wait =
        format!("for p in $(head -n $1 {frail}); do while kill -0 $p 2>/dev/null; do sleep 0.02; done; done");
    haft.write("frail-is-gone.sh", &wait);
    let bash = |command: &str| Turn::tool("Bash", json!({"command": command}));
    let turns = vec![
        Turn::tool("mcp__frail__echo", json!({"text": "1"})),
        bash(&format!("touch {go}; sh frail-is-gone.sh {}", started + 1)),
        Turn::tool("RefreshMcpTools", json!({"server": "late"})),
        Turn::tool("mcp__frail__echo", json!({"text": "2"})),
        bash(&format!("sh frail-is-gone.sh {}", started + 2)),
        Turn::from_pieces([
            ReplyPiece::tool("mcp__late__echo", json!({"text": "3"})),
            ReplyPiece::tool("mcp__frail__echo", json!({"text": "4"})),
        ]),
        Turn::text("Done."),
    ];
    let ran = run(
        &haft,
        turns,
        &["--allowedTools", "mcp__frail,mcp__late,Bash(touch *),Bash(sh frail-is-gone.sh *)"],
    )
    .await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let system = &ran.bodies[0]["system"];
    assert!(system.to_string().contains("Still starting: late"), "{system:#}");
    for (before, after) in ran.bodies.iter().zip(&ran.bodies[1..]) {
        assert_eq!(after["system"], *system);
        let (before, after) = (plain_tools(before), plain_tools(after));
        assert!(after.starts_with(&before), "tools that were sent stay where they were");
    }
    let last = &ran.bodies[6]["messages"];
    assert!(last.to_string().contains("MCP servers brought more tools"), "{last:#}");
    assert!(!last.to_string().contains("\"is_error\":true"), "{last:#}");
    let all: Vec<u32> = ["frail", "late"].iter().flat_map(|name| pids(&haft, name)).collect();
    gone(&all);
}

#[tokio::test]
async fn a_known_server_is_not_started_for_nothing_and_a_dead_one_is_said_to_be() {
    let haft = Haft::new();
    add_user_server(&haft, "known", "");
    run(&haft, vec![Turn::text("ok")], &["--mcp-wait", "120"]).await;
    let started = pids(&haft, "known").len();
    let ran = run(&haft, vec![Turn::text("ok")], &[]).await;
    assert!(ran.bodies[0]["system"].to_string().contains("mcp__known__echo"));
    assert_eq!(pids(&haft, "known").len(), started, "its tools are there, it is not");
    // A misspelled tool gets a suggestion and no advice to wait.
    let turns = vec![Turn::tool("mcp__known__ehco", json!({"text": "there"})), Turn::text("ok")];
    let told = run(&haft, turns, &[]).await.bodies[1]["messages"].to_string();
    assert!(told.contains("There is no tool named") && told.contains("mcp__known__echo"), "{told}");
    assert_eq!(pids(&haft, "known").len(), started);
    // A tool of a known server can be called before the server has connected.
    let turns = vec![Turn::tool("mcp__known__echo", json!({"text": "there"})), Turn::text("ok")];
    let ran = run(&haft, turns, &["--allowedTools", "mcp__known"]).await;
    assert!(ran.bodies[1]["messages"].to_string().contains("there"), "{}", ran.stderr);
    assert_eq!(pids(&haft, "known").len(), started + 1);
    // The configuration is unchanged, but the program does not exist any more.
    let broken =
        json!({"mcpServers": {"gone": {"command": "python3", "args": ["-IS", haft.ws().join("srv.py")]}}});
    std::fs::copy(script(), haft.ws().join("srv.py")).unwrap();
    let config = broken.to_string();
    run(&haft, vec![Turn::text("ok")], &["--mcp-wait", "120", "--mcp-config", &config]).await;
    std::fs::remove_file(haft.ws().join("srv.py")).unwrap();
    let turns = vec![Turn::tool("mcp__gone__echo", json!({"text": "x"})), Turn::text("ok")];
    let ran =
        run(&haft, turns, &["--allowedTools", "mcp__gone", "--strict-mcp-config", "--mcp-config", &config])
            .await;
    let told = ran.bodies[1]["messages"].to_string();
    assert!(told.contains("The call had no effect"), "{told}");
    assert!(!ran.bodies[0]["system"].to_string().contains("mcp__known__"), "strict means strict");
}

#[test]
fn resources_are_read_and_bad_calls_explained() {
    let haft = Haft::new();
    add_user_server(&haft, "res", "");
    let reports = haft.reports(
        &["--allowedTools", "mcp__res"],
        &[
            json!({"name": "ListMcpResources"}),
            json!({"name": "ReadMcpResource", "input": {"server": "res", "uri": "fake://a"}}),
            json!({"name": "mcp__res__echo", "input": {"text": 5}}),
            json!({"name": "mcp__res__ecko", "input": {}}),
        ],
    );
    assert!(text(&reports[0]).contains("res: fake://a"), "{}", reports[0]);
    assert!(text(&reports[1]).ends_with("content of fake://a"), "{}", reports[1]);
    assert!(text(&reports[2]).contains("text"), "{}", reports[2]);
    assert!(text(&reports[3]).contains("mcp__res__echo"), "{}", reports[3]);
    let listed = haft.ok(&["tool", "list"], "");
    assert!(["mcp__res__echo", "ListMcpResources", "ReadMcpResource"].iter().all(|it| listed.contains(it)));
    let mcp_tools = rows(&haft, &["tool", "list", "--disallowedTools", "mcp__res"]);
    assert!(!mcp_tools.iter().any(|it| it["name"].as_str().unwrap().starts_with("mcp__")));
    gone(&pids(&haft, "res"));
}

#[tokio::test]
async fn prompts_of_servers_are_commands() {
    let haft = Haft::new();
    add_user_server(&haft, "pro", "prompts");
    let say = |prompt: &'static str| run_prompt(&haft, prompt, vec![Turn::text("ok")], &[]);
    let ran = say("/mcp__pro__p one two").await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.bodies[0]["messages"][0]["content"][0]["text"], "hi");
    let heard = std::fs::read_to_string(haft.home().join("pro.heard")).unwrap();
    assert!(heard.contains(r#""arguments": {"x": "one two"}"#), "{heard}");
    // An `@file` in a server's prompt is not expanded, unlike one the user typed.
    add_user_server(&haft, "nam", "prompts,naming");
    haft.write_home("key.txt", "TOPSECRET");
    let said = say("/mcp__nam__p one").await.bodies[0]["messages"].to_string();
    assert!(said.contains("hi @") && !said.contains("TOPSECRET"), "{said}");
    for (prompt, problem) in [
        ("/mcp__pro__p", "the argument x is missing"),
        ("/mcp__pro__q", "did you mean /mcp__pro__p?"),
        ("/mcp__nobody__p", "no such MCP server"),
    ] {
        let ran = say(prompt).await;
        assert!(ran.code == Some(2) && ran.stderr.contains(problem), "{prompt}: {}", ran.stderr);
    }
}

#[test]
fn killed_haft_leaves_no_server_behind() {
    let haft = Haft::new();
    add_user_server(&haft, "kid", "delay,child");
    let mut child = std::process::Command::new(haft_binary())
        .args(["tool", "call", "mcp__kid__echo", r#"{"text":"600"}"#, "--allowedTools", "mcp__kid"])
        .current_dir(haft.ws())
        .env("HOME", haft.home())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !std::fs::read_to_string(haft.home().join("kid.heard")).unwrap_or_default().contains("tools/call") {
        assert!(started.elapsed() < Duration::from_secs(120), "the call never came");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let all = pids(&haft, "kid");
    assert!(!all.is_empty());
    gone(&all);
}
