//! `haft triggers`: prompts started by webhooks.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
};

use common::Haft;
use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};

/// The webhook server and its address.
struct Listening {
    child: Child,
    address: String,
}

impl Listening {
    fn start(haft: &Haft, model: &str) -> Self {
        let mut command = haft.command();
        command
            .args(["triggers", "serve", "--port", "0"])
            .env("ANTHROPIC_BASE_URL", model)
            .env("ANTHROPIC_API_KEY", "k")
            .env("HOOK_KEY", "It's a Secret to Everybody")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        Self { child, address }
    }

    /// Status code and body of the response to a delivery.
    fn post(&self, name: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> (u16, String) {
        let body = body.as_ref();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "POST /hooks/{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        // The server may close the connection before the whole body was sent; the response is there by
        // then.
        stream.write_all(&[request.as_bytes(), body].concat()).ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        let answer = String::from_utf8(answer).unwrap();
        let number = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (number, answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn set_up(haft: &Haft, where_: &str) {
    let triggers = json!({
        "hello": {"prompt": "Say hello to {{body}}", "dir": haft.ws(), "scheme": "github", "secret": {"env": "HOOK_KEY"},
            "events": ["push"], "maxTurns": 2, "maxMinutes": 2},
        "by-hand": {"prompt": "Look at {{body.what}}", "dir": haft.ws(), "mode": "plan"},
    });
    let text = json!({"triggers": triggers, "features": {"remoteTrigger": true}}).to_string();
    match where_ {
        "home" => haft.write_home(".haft/settings.json", &text),
        _ => haft.write(".haft/settings.json", &text),
    }
}

fn runs(haft: &Haft) -> Vec<Value> {
    haft.ok(&["triggers", "logs", "--json"], "").lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// Computed by an independent implementation for `Hello, World!` and the key above.
const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const BODY: &str = "Hello, World!";

#[test]
fn a_signed_delivery_runs_once_and_others_do_not() {
    let haft = Haft::new();
    set_up(&haft, "home");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let model = runtime.block_on(MockModel::start(Script::from_turns([Turn::text("Hello back.")]))).unwrap();
    let listening = Listening::start(&haft, &model.url());
    let signed = ("X-Hub-Signature-256", SIGNATURE);
    let push = ("X-GitHub-Event", "push");
    let large = "x".repeat((1 << 20) + 1);
    for (name, headers, body, want) in [
        ("hello", &[][..], BODY, 401),
        ("hello", &[signed, push], "Hello, World?", 401),
        ("hello", &[signed, signed, push], BODY, 401),
        ("nobody", &[signed, push], BODY, 404),
        ("by-hand", &[signed, push], BODY, 404),
        ("hello", &[signed, push], &large, 413),
        ("hello", &[signed, ("X-GitHub-Event", "star")], BODY, 200),
        // A delivery without an event type starts nothing if the trigger lists events.
        ("hello", &[signed], BODY, 200),
        ("hello", &[signed, push, ("X-GitHub-Delivery", "1")], BODY, 202),
        ("hello", &[signed, push, ("X-GitHub-Delivery", "1")], BODY, 200),
        ("hello", &[signed, push, ("X-GitHub-Delivery", "2")], BODY, 200),
    ] {
        let got = listening.post(name, headers, body);
        assert_eq!(got.0, want, "{name} {headers:?}: {}", got.1);
    }
    while !runs(&haft).iter().any(|it| it["ended"].is_string()) {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // Also for a process that starts later.
    drop(listening);
    let again = Listening::start(&haft, &model.url());
    assert_eq!(again.post("hello", &[signed, push], BODY).0, 200);
    let runs = runs(&haft);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!((runs[0]["origin"].as_str(), &runs[0]["failed"]), (Some("webhook"), &Value::Null), "{runs:?}");
    let said = std::fs::read_to_string(runs[0]["output"].as_str().unwrap()).unwrap();
    assert!(said.contains("Hello back."), "{said}");
    let asked = format!("{:?}", model.requests()[0]);
    assert!(asked.contains("Say hello to Hello, World!") && asked.contains("fired by webhook"), "{asked}");
}

/// Duplicate and concurrent deliveries, odd encodings, and a flood: each runs once, and the queue is
/// limited.
#[test]
fn a_flood_is_bounded_and_each_delivery_runs_once() {
    let haft = Haft::new();
    let triggers = json!({"flood": {"prompt": "{{body.type}}", "dir": "/nowhere/at/all", "scheme": "standard",
        "secret": {"env": "HOOK_KEY"}, "maxTurns": 1, "maxMinutes": 1}});
    haft.write_home(".haft/settings.json", &json!({"triggers": triggers}).to_string());
    let listening = std::sync::Arc::new(Listening::start(&haft, "http://127.0.0.1:1"));
    let now = jiff::Timestamp::now().as_second().to_string();
    let send = |id: &str, body: &[u8]| {
        let signature = standard(id, &now, body);
        let headers =
            [("webhook-id", id), ("webhook-timestamp", now.as_str()), ("webhook-signature", &signature)];
        listening.post("flood", &headers, body).0
    };
    // The same delivery, sent concurrently.
    let many: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..12).map(|_| scope.spawn(|| send("same", b"{\"type\": \"x\"}"))).collect();
        all.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(many.contains(&202) && many.iter().all(|it| matches!(it, 200 | 202)), "{many:?}");
    for (id, body) in [
        ("utf16", &b"\xff\xfe{\0}\0"[..]),
        ("bom", b"\xef\xbb\xbf{\"type\": 1}"),
        ("bytes", b"\x00\x01\xfe\xff"),
        ("empty", b""),
        ("gzip", b"\x1f\x8b\x08\x00"),
        ("deep", "[".repeat(100_000).as_bytes()),
        ("twice", b"{\"type\": \"a\", \"type\": \"b\"}"),
        ("controls", "{\"type\": \"\u{1b}[2J\u{202e}\"}".as_bytes()),
    ] {
        assert_eq!(send(id, body), 202, "{id}");
        assert_eq!(send(id, body), 200, "{id} again");
    }
    // A wrong key, an old timestamp or another id is rejected.
    let (body, signature) = (&b"{}"[..], standard("a", &now, b"{}"));
    for headers in [
        [("webhook-id", "b"), ("webhook-timestamp", now.as_str()), ("webhook-signature", signature.as_str())],
        [("webhook-id", "a"), ("webhook-timestamp", "0"), ("webhook-signature", signature.as_str())],
        [("webhook-id", "a"), ("webhook-timestamp", now.as_str()), ("webhook-signature", "v1,")],
        [("webhook-id", "a"), ("webhook-timestamp", now.as_str()), ("webhook-signature", "v1,AAAA v2,x")],
        [("webhook-id", ""), ("webhook-timestamp", now.as_str()), ("webhook-signature", signature.as_str())],
        [("webhook-id", "a"), ("webhook-timestamp", "\u{661}"), ("webhook-signature", signature.as_str())],
    ] {
        assert_eq!(listening.post("flood", &headers, body).0, 401, "{headers:?}");
    }
    // A run that cannot start is recorded once.
    let ended = || {
        let runs = runs(&haft);
        runs.iter().filter(|it| it["ended"].is_string()).count()
    };
    while ended() < 9 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let all = runs(&haft);
    assert_eq!(all.len(), 9, "{all:?}");
    assert!(all.iter().all(|it| it["failed"].as_str().unwrap().contains("/nowhere/at/all")), "{all:?}");
    // A run whose process was killed is reported, and the run of a removed trigger does not stay in the
    // queue.
    drop(listening);
    haft.write_home(
        ".haft/triggers/waiting/gone-1.json",
        r#"{"id":"gone-1","trigger":"gone","origin":"webhook","at":"2026-01-01T00:00:00Z","prompt":"x"}"#,
    );
    haft.run(&["cron", "run-due"], "");
    let gone = runs(&haft).into_iter().find(|it| it["id"] == "gone-1").unwrap();
    assert!(gone["failed"].as_str().unwrap().contains("no trigger is called gone"), "{gone}");
    assert!(!haft.home().join(".haft/triggers/waiting/gone-1.json").exists());
}

/// A signature according to Standard Webhooks.
fn standard(id: &str, time: &str, body: &[u8]) -> String {
    use base64::Engine as _;
    use hmac::Mac as _;
    let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(b"It's a Secret to Everybody").unwrap();
    [id.as_bytes(), b".", time.as_bytes(), b".", body].iter().for_each(|it| mac.update(it));
    format!("v1,{}", base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes()))
}

#[test]
fn a_project_has_no_triggers() {
    let haft = Haft::new();
    set_up(&haft, "project");
    assert!(haft.ok(&["triggers", "list"], "").contains("no triggers are set up"));
    assert!(!haft.run(&["triggers", "fire", "by-hand"], "").status.success());
}

/// A delivery is data: an `@file` in it is not read.
#[test]
fn a_delivery_names_no_files() {
    let haft = Haft::new();
    set_up(&haft, "home");
    haft.write("key.txt", "TOPSECRET");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let model = runtime.block_on(MockModel::start(Script::from_turns([Turn::text("Looked.")]))).unwrap();
    let body = json!({"what": format!("it @{} and @key.txt", haft.ws().join("key.txt").display())});
    let mut command = haft.command();
    command.env("ANTHROPIC_BASE_URL", model.url()).env("ANTHROPIC_API_KEY", "k");
    command.args(["triggers", "fire", "by-hand", "--body", &body.to_string()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let asked = model.requests()[0].json()["messages"].to_string();
    assert!(asked.contains("@key.txt") && !asked.contains("TOPSECRET"), "{asked}");
}

#[test]
fn a_session_fires_only_with_a_yes() {
    let haft = Haft::new();
    set_up(&haft, "home");
    let call = |action: &str| json!({"id": "c1", "name": "RemoteTrigger", "input": {"action": action, "trigger_id": "by-hand", "body": {"what": "it"}}});
    let listed =
        haft.reports(&[], &[json!({"id": "c1", "name": "RemoteTrigger", "input": {"action": "list"}})]);
    assert!(listed[0].to_string().contains("by-hand"), "{}", listed[0]);
    for mode in ["default", "bypassPermissions"] {
        let asked = haft.reports(&["--permission-mode", mode], &[call("run")]);
        assert_eq!(asked[0]["is_error"], true, "{mode}: {}", asked[0]);
    }
    let waiting = haft.reports(&[], &[call("list_runs")]);
    assert!(waiting[0].to_string().contains("Nothing has run yet"), "{}", waiting[0]);
}
