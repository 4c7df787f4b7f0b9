//! Prompts that others start: `haft triggers`.
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

/// The listening program, and where it listens.
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

    /// The number and the words of the answer to a delivery.
    fn post(&self, name: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "POST /hooks/{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
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

/// Computed by others for `Hello, World!` and the key above.
const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const BODY: &str = "Hello, World!";

#[test]
fn a_signed_delivery_runs_once_and_others_do_not() {
    let haft = Haft::new();
    set_up(&haft, "home");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let model = runtime.block_on(MockModel::start(Script::of([Turn::text("Hello back.")]))).unwrap();
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
        ("hello", &[signed, push, ("X-GitHub-Delivery", "1")], BODY, 202),
        ("hello", &[signed, push, ("X-GitHub-Delivery", "1")], BODY, 200),
        ("hello", &[signed, push, ("X-GitHub-Delivery", "2")], BODY, 200),
    ] {
        let got = listening.post(name, headers, body);
        assert_eq!(got.0, want, "{name} {headers:?}: {}", got.1);
    }
    while runs(&haft).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // Also by a program that begins later.
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

#[test]
fn a_project_has_no_triggers() {
    let haft = Haft::new();
    set_up(&haft, "project");
    assert!(haft.ok(&["triggers", "list"], "").contains("no triggers are set up"));
    assert!(!haft.run(&["triggers", "fire", "by-hand"], "").status.success());
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
