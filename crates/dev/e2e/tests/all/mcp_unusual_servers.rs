//! More kinds of faulty servers, all at once, as `haft mcp doctor` and the model see them: no hang, no
//! leak, the user reads what is wrong and what to do, and no escape sequence reaches a terminal.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::{Haft, eventually, text};
use serde_json::{Map, Value, json};

/// A faulty server: its state, what doctor says about it (reason and advice), and the result of a call.
/// Text after `!` must be in the error.
struct Odd(&'static str, &'static str, &'static [&'static str], &'static str);

const FINE: &[&str] = &[];

const PIPES: &[Odd] = &[
    // Encoding.
    Odd("utf16", "ready", FINE, "hi"),
    Odd("utf16_bom", "ready", FINE, "hi"),
    Odd("nul", "ready", FINE, "hi"),
    Odd("cr", "ready", FINE, "hi"),
    Odd("no_newline", "ready", FINE, "hi"),
    Odd("lsp", "ready", &["Content-Length", "like a language server"], "hi"),
    Odd("drip", "ready", FINE, "hi"),
    Odd("blank_lines", "ready", FINE, "hi"),
    Odd("dup_keys", "ready", FINE, "hi"),
    Odd(
        "lsp_both",
        "failed",
        &["no handshake within", "like a language server", "error output"],
        "!no handshake",
    ),
    // Request ids.
    Odd("id_twice", "failed", &["no handshake within", "startupTimeout"], "!no handshake"),
    Odd("id_null", "failed", &["no handshake within", "startupTimeout"], "!no handshake"),
    Odd("id_bool", "failed", &["no handshake within"], "!no handshake"),
    Odd("id_list", "failed", &["no handshake within"], "!no handshake"),
    Odd("id_huge", "failed", &["not valid JSON", "only its authors"], "!not valid JSON"),
    Odd("id_negative", "failed", &["no handshake within"], "!no handshake"),
    Odd("id_text", "failed", &["no handshake within"], "!no handshake"),
    // Message order.
    Odd("unasked", "ready", FINE, "hi"),
    Odd("paint", "ready", FINE, "hi"),
    Odd("paint_error", "ready", FINE, "!failed"),
    Odd("preach", "ready", FINE, "hi"),
    Odd("churn", "ready", FINE, "hi"),
    Odd("close_stdin", "ready", FINE, "!closed its input"),
    Odd("deep_100k", "ready", FINE, "!cannot be read"),
    Odd("bad_for_models", "ready", &["dotted: ", "both: allOf: "], "hi"),
];

const ADDRESSES: &[Odd] = &[
    // Unusual, but valid.
    Odd("bom", "ready", FINE, "hi"),
    Odd("utf16", "ready", FINE, "hi"),
    Odd("latin1", "ready", FINE, "hi"),
    Odd("text_plain", "ready", FINE, "hi"),
    Odd("no_type", "ready", FINE, "hi"),
    Odd("batch", "ready", FINE, "hi"),
    Odd("gzip", "ready", FINE, "hi"),
    Odd("trailing", "ready", FINE, "hi"),
    Odd("cookies", "ready", FINE, "hi"),
    Odd("session_bytes", "ready", FINE, "hi"),
    Odd("session_long", "ready", FINE, "hi"),
    Odd("http10", "ready", FINE, "hi"),
    Odd("no_length", "ready", FINE, "hi"),
    Odd("chunks", "ready", FINE, "hi"),
    Odd("sse_cr", "ready", FINE, "hi"),
    Odd("sse_crlf_bom", "ready", FINE, "hi"),
    Odd("sse_split", "ready", FINE, "hi"),
    Odd("sse_fields", "ready", FINE, "hi"),
    // Invalid.
    Odd("sse_no_data", "failed", &["without an answer", "url"], "!without an answer"),
    Odd("sse_no_end", "failed", &["without an answer"], "!without an answer"),
    Odd("two_lengths", "failed", &["content-length", "url"], "!content-length"),
    Odd("bad_length", "failed", &["content-length"], "!content-length"),
    Odd("http09", "failed", &["HTTP"], "!HTTP"),
    Odd("bad_header", "failed", &["header"], "!header"),
    Odd("upgrade", "failed", &["101", "url"], "!101"),
    Odd(
        "go_to_port",
        "failed",
        &["redirected to another host or port: http://127.0.0.1:", "`url`"],
        "!redirected",
    ),
    Odd(
        "go_to_name",
        "failed",
        &["redirected to another host or port: http://localhost:", "`url`"],
        "!redirected",
    ),
    Odd("go_to_data", "failed", &["HTTP 302", "redirects to data:text/plain", "`url`"], "!redirects to"),
    Odd("go_by_get", "failed", &["405", "`type`"], "!405"),
    Odd("teapot", "failed", &["HTTP 418", "teapot", "`url`"], "!418"),
    Odd("payment", "failed", &["HTTP 402", "pay", "`headers`"], "!402"),
    Odd("gateway", "failed", &["HTTP 502", "Bad Gateway", "try again later"], "!502"),
    Odd("rpc_400", "failed", &["no such tenant"], "!no such tenant"),
    Odd("bomb", "failed", &["larger than 64 MiB"], "!larger than 64 MiB"),
    Odd("continue", "failed", &["no handshake within"], "!no handshake"),
    Odd("call_bomb", "ready", FINE, "!larger than 64 MiB"),
    Odd("call_replay", "ready", FINE, "!no answer"),
    Odd("call_other_answer", "ready", FINE, "!without an answer"),
];

const SOCKETS: &[Odd] = &[
    Odd("ws_good", "ready", FINE, "hi"),
    Odd("ws_binary", "ready", FINE, "hi"),
    Odd("ws_pieces", "ready", FINE, "hi"),
    Odd("ws_pings", "ready", FINE, "hi"),
    Odd("ws_bad_accept", "failed", &["does not speak WebSocket", "`url`"], "!does not speak WebSocket"),
    Odd("ws_close", "failed", &["code 1008", "has expired"], "!code 1008"),
    Odd("ws_silent", "failed", &["no handshake within"], "!no handshake"),
    Odd("ws_masked", "failed", &["masked"], "!masked"),
    Odd("ws_latin1", "failed", &["UTF-8"], "!UTF-8"),
    Odd("ws_call_huge", "ready", FINE, "!unknown"),
    Odd("ws_call_close", "ready", FINE, "!code 4000"),
    Odd("ws_call_gone", "ready", FINE, "!unknown"),
];

const OLD: &[Odd] = &[
    Odd("old_away", "failed", &["to another origin", "`url`"], "!another origin"),
    Odd("old_file", "failed", &["to another origin"], "!another origin"),
    Odd("old_junk", "failed", &["is not an address"], "!not an address"),
    Odd("old_never", "failed", &["no handshake within 2 s", "startupTimeout"], "!no handshake"),
    Odd("old_flood", "failed", &["no handshake within 2 s"], "!no handshake"),
];

fn support(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../engine/mcp-client/tests/all/support")
        .join(name)
        .display()
        .to_string()
}

/// The HTTP servers, and an unrelated program beside them.
struct Web {
    process: Child,
    port: String,
}

impl Web {
    fn start(haft: &Haft) -> Self {
        let mut process = Command::new("python3")
            .args(["-IS", &support("odd_http.py")])
            .env("ODD_STRANGER", haft.home().join("stranger"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split_whitespace().next().unwrap().to_owned();
        Self { process, port }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Odd {
    fn name(&self) -> String {
        self.0.replace('_', "-")
    }

    /// Short timeouts only where the server must run into them.
    fn limits(&self, entry: &mut Value) {
        let Self(_, _, about, call) = self;
        let waits = about.iter().any(|it| it.contains("no handshake"));
        entry["startupTimeout"] = match self.0 {
            // Its output has to arrive before the timeout.
            "lsp_both" => json!(20_000),
            _ if waits => json!(2000),
            _ => json!(60_000),
        };
        entry["timeout"] = json!(if call.contains("no answer") { 1500 } else { 60_000 });
    }

    fn pipe(&self) -> (String, Value) {
        let mut entry = json!({"command": "python3", "args": ["-IS", support("odd_server.py"), self.0]});
        self.limits(&mut entry);
        (self.name(), entry)
    }

    fn address(&self, web: &Web, kind: &str) -> (String, Value) {
        let scheme = if kind == "ws" { "ws" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{}/{}", web.port, self.0);
        let headers = json!({"Authorization": "Bearer secret-token", "X-Api-Key": "secret-key"});
        let mut entry = json!({"type": kind, "url": url, "headers": headers});
        self.limits(&mut entry);
        (self.name(), entry)
    }
}

/// More than everything takes; reaching it means a hang.
const TIMEOUT: Duration = Duration::from_secs(240);

fn run(haft: &Haft, args: &[&str], input: &str) -> String {
    let started = Instant::now();
    let output = haft.run(args, input);
    assert!(started.elapsed() < TIMEOUT, "{args:?} took {:?}", started.elapsed());
    let shown = String::from_utf8(output.stdout).unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    for said in [&shown, &complaints] {
        let bad = said.chars().find(|it| {
            (it.is_control() && *it != '\n') || "\u{202e}\u{200b}\u{e0041}\u{2066}\u{feff}".contains(*it)
        });
        assert_eq!(bad, None, "{args:?}: {said}");
    }
    assert!(!shown.contains("secret-") && !complaints.contains("secret-"), "{shown}{complaints}");
    shown
}

/// The section of `haft mcp doctor` about one server.
fn section<'a>(report: &'a str, name: &str) -> &'a str {
    let start = report.find(&format!("{name}: ")).unwrap_or_else(|| panic!("no {name} in {report}"));
    let rest = &report[start..];
    rest.find("\n\n").map_or(rest, |end| &rest[..end])
}

fn check(haft: &Haft, table: &[Odd], entries: Vec<(String, Value)>) {
    let good = (String::from("good"), Odd("", "ready", FINE, "hi").pipe().1);
    let servers: Map<String, Value> = entries.into_iter().chain([good]).collect();
    haft.write_home(".haft/mcp.json", &json!({"mcpServers": servers}).to_string());
    let mut wrong = Vec::new();
    let report = run(haft, &["mcp", "doctor"], "");
    for odd @ Odd(_, state, words, _) in table {
        let said = section(&report, &odd.name());
        let fits = said.starts_with(&format!("{}: {state}\n", odd.name()));
        let helps = *state == "ready" || (said.contains("\n  why ") && said.contains("\n  do "));
        if !fits || !helps || !words.iter().all(|it| said.contains(it)) {
            wrong.push(format!("{state} {words:?}\n{}", haft_types::text::head(said, 1500)));
        }
    }
    assert!(section(&report, "good").starts_with("good: ready"), "{report}");
    let echo = |name: &str| json!({"name": format!("mcp__{name}__echo"), "input": {"text": "hi"}});
    let names = table.iter().map(Odd::name).chain([String::from("good")]);
    let lines: String = names.clone().map(|it| format!("{}\n", echo(&it))).collect();
    let rules: Vec<String> = names.map(|it| format!("mcp__{it}")).collect();
    let reports = haft.run(&["tool", "run", "--allowedTools", &rules.join(",")], &lines);
    let reports = String::from_utf8(reports.stdout).unwrap();
    let reports: Vec<Value> = reports.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (Odd(modes, _, _, want), report) in table.iter().zip(&reports) {
        let said = text(report);
        let fits = match want.strip_prefix('!') {
            Some(part) => report["is_error"] == true && said.contains(part),
            None => report["is_error"] != true && said.starts_with(want),
        };
        if !fits || said.contains("secret-") {
            wrong.push(format!("call of {modes} ({want}): {}", haft_types::text::head(said, 600)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(text(&reports[table.len()]), "hi", "the good one is still good");
}

#[test]
fn odd_servers_over_pipes_are_used_or_explained() {
    let haft = Haft::new();
    check(&haft, PIPES, PIPES.iter().map(Odd::pipe).collect());
}

#[test]
fn odd_servers_at_addresses_are_used_or_explained() {
    let haft = Haft::new();
    let web = Web::start(&haft);
    check(&haft, ADDRESSES, ADDRESSES.iter().map(|it| it.address(&web, "http")).collect());
    let told = std::fs::read_to_string(haft.home().join("stranger")).unwrap_or_default();
    assert_eq!(told, "", "nobody else hears anything");
}

#[test]
fn odd_sockets_and_old_streams_are_used_or_explained() {
    let haft = Haft::new();
    let web = Web::start(&haft);
    let sockets = SOCKETS.iter().map(|it| it.address(&web, "ws"));
    let all: Vec<(String, Value)> = sockets.chain(OLD.iter().map(|it| it.address(&web, "sse"))).collect();
    let table: Vec<Odd> = SOCKETS.iter().chain(OLD).map(|Odd(a, b, c, d)| Odd(a, b, c, d)).collect();
    check(&haft, &table, all);
    let told = std::fs::read_to_string(haft.home().join("stranger")).unwrap_or_default();
    assert_eq!(told, "", "nobody else hears anything");
}

/// A child process that left the process group and cleared its environment is still ended with the
/// server.
#[test]
fn processes_without_a_mark_go_too() {
    let haft = Haft::new();
    let (_, mut entry) = Odd("escape", "ready", FINE, "hi").pipe();
    entry["env"] = json!({"ODD_PIDS": haft.home().join("pids")});
    haft.write_home(".haft/mcp.json", &json!({"mcpServers": {"escape": entry}}).to_string());
    for args in [
        &["mcp", "doctor"][..],
        &["tool", "call", "mcp__escape__echo", r#"{"text":"hi"}"#, "--allowedTools", "mcp__escape"],
    ] {
        haft.ok(args, "");
        let pids = std::fs::read_to_string(haft.home().join("pids")).unwrap();
        let pids: Vec<u32> = pids.lines().map(|it| it.parse().unwrap()).collect();
        assert!(2 <= pids.len(), "{pids:?}");
        eventually("all of them are gone", || {
            !pids.iter().any(|pid| Path::new(&format!("/proc/{pid}/exe")).exists())
        });
    }
}
