//! Many faulty servers at once beside a good one: in `haft mcp`, in `haft tool` and in a session. None
//! may hang or crash Haft, survive it, or cost another server its tools.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::{Haft, text};
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Map, Value, json};

/// A faulty server: its modes, its state in `haft mcp doctor`, and the result of a call of its `echo`.
/// Text after `!` must be in the error, for a failed server also in doctor's output. `?` accepts
/// anything.
struct Bad(&'static str, &'static str, &'static str);

/// Stdio servers, by the modes of `fake_server.py`.
const PIPES: &[Bad] = &[
    // Fail to start.
    Bad("leave", "failed", "!exited with code 0"),
    Bad("crash", "failed", "!ended by signal 11"),
    Bad("die_at_start", "failed", "!fatal: no configuration"),
    Bad("die_after_init", "failed", "!exited with code 7"),
    Bad("die_on_list", "failed", "!exited with code 9"),
    Bad("silent", "failed", "!no handshake within"),
    Bad("never_read", "failed", "!no handshake within"),
    Bad("mute", "failed", "!closed its output"),
    Bad("deaf", "failed", "!no handshake within"),
    // The process it started answers for a moment; then it is gone.
    Bad("daemon", "?", "?"),
    Bad("list_silent", "failed", "!no answer"),
    Bad("list_error", "failed", "!no list today"),
    Bad("refuse", "failed", "!the licence has expired"),
    // Connect, but behave badly.
    Bad("zeros", "ready", "hi"),
    Bad("liar", "ready", "hi"),
    Bad("long_words", "ready", "hi"),
    Bad("absurd_version", "ready", "hi"),
    Bad("result_list", "ready", "hi"),
    Bad("children", "ready", "hi"),
    Bad("child,escaping_child,stubborn", "ready", "hi"),
    // Faulty tool lists.
    Bad("tools_object", "ready", "!no tool"),
    Bad("list_null", "ready", "!no tool"),
    Bad("circular", "ready", "hi"),
    Bad("slow_pages", "ready", "hi"),
    Bad("hostile_schemas", "ready", "hi"),
    Bad("hostile_names", "ready", "hi"),
    // Faulty calls.
    Bad("die_on_call", "ready", "!unknown"),
    Bad("die_after_call", "ready", "hi"),
    Bad("close_stdout", "ready", "!closed its output"),
    Bad("no_reply", "ready", "!no answer"),
    Bad("other_ids", "ready", "!no answer"),
    Bad("stop_itself", "ready", "!no answer"),
    Bad("ping_forever", "ready", "!no answer within"),
    Bad("storm", "ready", "hi"),
    Bad("ask_flood", "ready", "hi"),
    Bad("same_ask", "ready", "hi"),
    Bad("two_answers", "ready", "hi"),
    Bad("task_without_id", "ready", "!without an id"),
    Bad("inputs_without_end", "ready", "!more than"),
    Bad("huge_error", "ready", "!no! no!"),
    Bad("bad_blocks", "ready", "hi"),
    Bad("many_blocks", "ready", "[This result has"),
    Bad("escapes", "ready", "hi"),
    Bad("deep", "ready", "!cannot be read"),
];

/// Servers that use a lot of CPU time, tested separately because they slow down the others.
const BURNING: &[Bad] = &[
    Bad("endless_line", "failed", "!no handshake within"),
    Bad("endless_lines", "failed", "!no handshake within"),
    Bad("endless_open", "failed", "!no handshake within"),
    Bad("stderr_forever", "ready", "hi"),
    Bad("huge_pages", "ready", "hi"),
    Bad("too_huge", "ready", "!larger than 64 MiB"),
];

/// HTTP servers, by the modes of `hostile_http.py`.
const ADDRESSES: &[Bad] = &[
    Bad("html", "failed", "!Welcome to the hotel network"),
    Bad("empty", "failed", "!the answer is empty"),
    Bad("nothing", "failed", "!HTTP 204"),
    Bad("error500", "failed", "!500"),
    Bad("error503", "failed", "!503"),
    Bad("busy", "failed", "!429"),
    Bad("forbidden", "failed", "!403"),
    Bad("login", "needs login", "!haft mcp login"),
    Bad("login_loop", "needs login", "!haft mcp login"),
    Bad("login_garbage", "failed", "!header"),
    Bad("redirect_loop", "failed", "!redirect"),
    Bad("redirect_away", "failed", "!another host"),
    Bad("redirect_file", "failed", "!redirect"),
    Bad("redirect_nowhere", "failed", "!does not say where to"),
    Bad("garbage", "failed", "!HTTP"),
    Bad("bad_gzip", "failed", "!gzip"),
    Bad("short_body", "failed", "!end of file"),
    Bad("bad_chunks", "failed", "!chunk"),
    Bad("header_flood", "failed", "!header"),
    Bad("long_header", "failed", "!header"),
    Bad("status_999", "failed", "!999"),
    Bad("json_text", "failed", "!hello"),
    Bad("json_null", "failed", "!null"),
    Bad("wrong_id", "failed", "!something else"),
    Bad("sse_garbage", "failed", "!without an answer"),
    Bad("sse_half", "failed", "!without an answer"),
    Bad("sse_empty", "failed", "!without an answer"),
    Bad("reset", "failed", "!reset"),
    Bad("silent", "failed", "!no handshake within"),
    Bad("drip_headers", "failed", "!no handshake within"),
    Bad("drip_body", "failed", "!no handshake within"),
    Bad("sse_silent", "failed", "!no handshake within"),
    Bad("sse_comments", "failed", "!no handshake within"),
    Bad("good", "ready", "hi"),
    Bad("news_loop", "ready", "hi"),
    Bad("call_reset", "ready", "!unknown"),
    Bad("call_silent", "ready", "!no answer"),
    Bad("call_drip", "ready", "!no answer"),
    Bad("call_sse_silent", "ready", "!no answer"),
    Bad("call_sse_comments", "ready", "!no answer"),
    Bad("call_sse_flood", "ready", "!no answer"),
    Bad("call_sse_line", "ready", "!larger than 64 MiB"),
    Bad("call_huge", "ready", "!larger than 64 MiB"),
    Bad("call_404", "ready", "!ended the session"),
    Bad("call_401", "ready", "!haft mcp login"),
    Bad("call_202", "ready", "!HTTP 202"),
];

/// More than everything takes on a busy machine; reaching it means a hang.
const TIMEOUT: Duration = Duration::from_secs(240);

fn support(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../engine/mcp-client/tests/all/support")
        .join(name)
        .display()
        .to_string()
}

/// The process that serves all HTTP modes.
struct Web(Child, u16);

impl Web {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args(["-IS", &support("hostile_http.py")])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child, line.trim().parse().unwrap())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A server name for these modes.
fn name(kind: &str, modes: &str) -> String {
    format!("{kind}-{}", modes.replace([',', '_'], "-"))
}

impl Bad {
    /// Short timeouts only for servers that must run into them; long ones for others, so that a busy
    /// machine does not matter.
    fn limits(&self) -> (u32, u32) {
        let Self(modes, state, want) = self;
        let startup = match (*state, *want) {
            ("failed", it) if it.contains("no handshake") => 1500,
            // The handshake must succeed, even on a busy machine.
            ("failed", "!no answer") => 10_000,
            _ if modes.contains("pages") => 10_000,
            _ => 30_000,
        };
        (startup, if *state == "ready" && want.contains("no answer") { 1000 } else { 30_000 })
    }

    /// The configuration entry as a user would write it.
    fn entry(&self, haft: &Haft, place: &Place<'_>) -> (String, Value) {
        let modes = self.0;
        let (name, mut entry) = match place {
            Place::Pipe => {
                let name = name("pipe", modes);
                let note = |what: &str| haft.home().join(format!("{name}.{what}"));
                let entry = json!({
                    "command": "python3",
                    "args": ["-IS", support("fake_server.py"), modes],
                    "env": {"HAFT_FAKE_LOG": note("heard"), "HAFT_FAKE_PIDS": note("pids")},
                });
                (name, entry)
            }
            Place::Address(web) => {
                let url = format!("http://127.0.0.1:{}/{modes}", web.1);
                (name("web", modes), json!({"type": "http", "url": url}))
            }
        };
        let (startup, call) = self.limits();
        entry["startupTimeout"] = json!(startup);
        entry["timeout"] = json!(call);
        (name, entry)
    }
}

/// Transport of the servers of a table.
enum Place<'a> {
    Pipe,
    Address(&'a Web),
}

/// Configures these servers for the user, with a good one among them.
fn name_servers(haft: &Haft, bad: impl Iterator<Item = (String, Value)>) {
    let (_, good) = Bad("", "ready", "hi").entry(haft, &Place::Pipe);
    let servers: Map<String, Value> = bad.chain([(String::from("good"), good)]).collect();
    haft.write_home(".haft/mcp.json", &json!({"mcpServers": servers}).to_string());
}

/// Runs the program; panics on timeout.
fn run(haft: &Haft, args: &[&str], input: &str) -> (Option<i32>, String, String) {
    let started = Instant::now();
    let output = haft.run(&[args, &["--json"]].concat(), input);
    assert!(started.elapsed() < TIMEOUT, "{args:?} took {:?}", started.elapsed());
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Running processes that have this test's home directory in their environment.
fn left_behind(haft: &Haft) -> Vec<String> {
    let mark = haft.home().display().to_string();
    let mut left = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse::<u32>().ok()) else { continue };
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_zombie = stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z');
        if !is_zombie && String::from_utf8_lossy(&environment).contains(&mark) {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            left.push(format!("{pid} {}", String::from_utf8_lossy(&command).replace('\0', " ")));
        }
    }
    left
}

fn nothing_is_left(haft: &Haft) {
    common::eventually("every process is gone", || left_behind(haft).is_empty());
}

/// Checks the states of all servers of a table in one run of doctor.
fn check_states(haft: &Haft, kind: &str, table: &[Bad]) {
    let (_, stdout, stderr) = run(haft, &["mcp", "doctor"], "");
    let rows: Vec<Value> = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
    let row = |name: &str| rows.iter().find(|it| it["name"] == name).unwrap();
    let mut wrong = Vec::new();
    for Bad(modes, state, want) in table {
        let row = row(&name(kind, modes));
        let reason = row["reason"].as_str().unwrap_or_default();
        let words = want.trim_start_matches(['!', '?']);
        let explained = match *state {
            "ready" | "?" => true,
            "failed" => reason.contains(words) && row["advice"].is_string(),
            _ => !reason.is_empty() && row["advice"].is_string(),
        };
        let bounded = row.to_string().len() < 100_000;
        if (*state != "?" && row["state"] != *state) || !explained || !bounded {
            wrong.push(format!("{modes}: {}", haft_types::text::head(&row.to_string(), 600)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(row("good")["state"] == "ready" && row("good")["tools"] == 1, "{}", row("good"));
    nothing_is_left(haft);
}

fn check_calls(haft: &Haft, kind: &str, table: &[Bad]) {
    let echo = |name: &str| json!({"name": format!("mcp__{name}__echo"), "input": {"text": "hi"}});
    let calls = table.iter().map(|Bad(modes, ..)| echo(&name(kind, modes))).chain([echo("good")]);
    let lines: String = calls.map(|it| format!("{it}\n")).collect();
    let rules: Vec<String> =
        table.iter().map(|Bad(modes, ..)| format!("mcp__{}", name(kind, modes))).collect();
    let rules = format!("mcp__good,{}", rules.join(","));
    let (_, stdout, stderr) = run(haft, &["tool", "run", "--allowedTools", &rules], &lines);
    let reports: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), table.len() + 1, "{stderr}");
    let mut wrong = Vec::new();
    for (Bad(modes, _, want), report) in table.iter().zip(&reports) {
        let said = text(report);
        let good = match want.strip_prefix('!') {
            Some(part) => report["is_error"] == true && said.contains(part),
            None if *want == "?" => true,
            None => report["is_error"] != true && said.starts_with(want),
        };
        if !good || 250_000 < said.len() {
            wrong.push(format!("{modes} ({want}): {}", haft_types::text::head(&report.to_string(), 600)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(text(&reports[table.len()]), "hi", "the good one is still good");
    nothing_is_left(haft);
}

#[test]
fn bad_servers_over_pipes_cost_only_themselves() {
    let haft = Haft::new();
    name_servers(&haft, PIPES.iter().map(|it| it.entry(&haft, &Place::Pipe)));
    check_states(&haft, "pipe", PIPES);
    check_calls(&haft, "pipe", PIPES);
}

#[test]
fn servers_that_burn_the_processor_cost_only_time() {
    let haft = Haft::new();
    name_servers(&haft, BURNING.iter().map(|it| it.entry(&haft, &Place::Pipe)));
    check_states(&haft, "pipe", BURNING);
    check_calls(&haft, "pipe", BURNING);
}

#[test]
fn bad_servers_at_addresses_cost_only_themselves() {
    let (haft, web) = (Haft::new(), Web::start());
    name_servers(&haft, ADDRESSES.iter().map(|it| it.entry(&haft, &Place::Address(&web))));
    check_states(&haft, "web", ADDRESSES);
    check_calls(&haft, "web", ADDRESSES);
}

/// A session with all of them: the first request does not wait for slow servers, and the model can use
/// the good one and is told about the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_among_bad_servers() {
    let (haft, web) = (Haft::new(), Web::start());
    let piped = PIPES.iter().map(|it| it.entry(&haft, &Place::Pipe));
    let others = ADDRESSES.iter().map(|it| it.entry(&haft, &Place::Address(&web)));
    name_servers(&haft, piped.chain(others));
    let turns = vec![
        Turn::tool("RefreshMcpTools", json!({"server": "good"})),
        Turn::from_pieces([
            ReplyPiece::tool("mcp__good__echo", json!({"text": "one"})),
            ReplyPiece::tool("mcp__pipe-die-on-call__echo", json!({"text": "two"})),
        ]),
        Turn::tool("mcp__good__echo", json!({"text": "three"})),
        Turn::text("Done."),
    ];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let output = haft
        .async_command()
        .args(["-p", "go", "--allowedTools", "mcp__good,mcp__pipe-die-on-call"])
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(TIMEOUT, output).await.unwrap().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(model.refusals(), [""; 0]);
    let bodies: Vec<Value> = model.requests().iter().map(|it| it.json()).collect();
    assert_eq!(bodies.len(), 4);
    let last = bodies[3]["messages"].to_string();
    assert!(last.contains("\"one\"") && last.contains("\"three\""), "{last}");
    for body in &bodies {
        assert!(body["system"].to_string().len() < 60_000, "{} bytes", body["system"].to_string().len());
        assert_eq!(body["system"], bodies[0]["system"]);
    }
    nothing_is_left(&haft);
}
