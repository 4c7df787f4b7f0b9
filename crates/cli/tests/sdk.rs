//! `haft --input-format stream-json`: raw lines, and the real Python SDK.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

mod common;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use common::Haft;
use haft_testkit::{MockModel, Piece, Script, Turn};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

const FLAGS: [&str; 5] = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

/// Generous: only a hang is this slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// The other end of the protocol, by hand.
struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    model: MockModel,
}

impl Peer {
    async fn start(haft: &Haft, turns: Vec<Turn>, args: &[&str]) -> Self {
        let model = MockModel::start(Script::of(turns)).await.unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_haft"))
            .args(FLAGS)
            .args(args)
            .current_dir(haft.ws())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", haft.home())
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), child, lines, model }
    }

    async fn raw(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn send(&mut self, frame: Value) {
        self.raw(&frame.to_string()).await;
    }

    async fn say(&mut self, text: &str) {
        self.send(json!({"type": "user", "message": {"role": "user", "content": text}})).await;
    }

    async fn request(&mut self, id: &str, request: Value) {
        self.send(json!({"type": "control_request", "request_id": id, "request": request})).await;
    }

    async fn answer(&mut self, question: &Value, response: Value) {
        let id = question["request_id"].clone();
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        self.send(json!({"type": "control_response", "response": response})).await;
    }

    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.unwrap().unwrap()?;
        assert!(line.len() <= 1_000_000, "{} bytes", line.len());
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Frames up to the first that fits.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let Some(frame) = self.next().await else { panic!("ended after {seen:#?}") };
            let done = fits(&frame);
            seen.push(frame);
            if done {
                return seen;
            }
        }
    }

    async fn result(&mut self) -> Value {
        self.until(|it| it["type"] == "result").await.pop().unwrap()
    }

    /// The next question of this kind.
    async fn asked(&mut self, subtype: &str) -> Value {
        self.until(|it| it["type"] == "control_request" && it["request"]["subtype"] == subtype)
            .await
            .pop()
            .unwrap()
    }

    /// No more input: the rest of the frames, the exit code, standard error.
    async fn end(mut self) -> (Vec<Value>, Option<i32>, String) {
        self.stdin = None;
        let mut rest = Vec::new();
        while let Some(frame) = self.next().await {
            rest.push(frame);
        }
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();
        (rest, status.code(), stderr)
    }
}

fn kinds(frames: &[Value]) -> Vec<String> {
    let word = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    frames
        .iter()
        .map(|it| format!("{} {}", word(it, "type"), word(it, "subtype")).trim().to_owned())
        .collect()
}

fn write(haft: &Haft, name: &str) -> Turn {
    Turn::tool("Write", json!({"file_path": haft.ws().join(name), "content": "x"}))
}

#[tokio::test]
async fn several_turns_in_one_process_and_nothing_else_on_the_wire() {
    let haft = Haft::new();
    let mut peer = Peer::start(&haft, vec![Turn::text("One."), Turn::text("Two.")], &[]).await;
    peer.request("r1", json!({"subtype": "initialize", "hooks": null})).await;
    peer.raw("").await;
    peer.send(json!({"type": "keep_alive"})).await;
    peer.say("first").await;
    let frames = peer.until(|it| it["state"] == "idle").await;
    assert_eq!(
        kinds(&frames),
        [
            "control_response",
            "system session_state_changed",
            "system init",
            "assistant",
            "result success",
            "system session_state_changed",
        ]
    );
    assert_eq!(frames[0]["response"]["response"]["hook_on_failure_supported"], true);
    assert_eq!((&frames[4]["result"], &frames[4]["num_turns"]), (&json!("One."), &json!(1)));
    peer.request("r2", json!({"subtype": "set_permission_mode", "mode": "plan"})).await;
    peer.request("r3", json!({"subtype": "set_permission_mode", "mode": "nonsense"})).await;
    peer.request("r4", json!({"subtype": "set_model", "model": "claude-sonnet-4-5"})).await;
    peer.request("r5", json!({"subtype": "frobnicate"})).await;
    peer.request("r6", json!({"subtype": "interrupt"})).await;
    let answers = peer.until(|it| it["response"]["request_id"] == "r6").await;
    let of = |id: &str| answers.iter().find(|it| it["response"]["request_id"] == id).unwrap();
    assert_eq!(of("r2")["response"]["response"]["mode"], "plan");
    assert_eq!(of("r3")["response"]["subtype"], "error");
    assert_eq!(of("r5")["response"]["error"], "Unsupported control request subtype: frobnicate");
    assert!(answers.iter().any(|it| it["subtype"] == "status" && it["permissionMode"] == "plan"));
    peer.say("second").await;
    let frames = peer.until(|it| it["type"] == "result").await;
    let init = frames.iter().find(|it| it["subtype"] == "init").unwrap();
    assert_eq!((&init["model"], &init["permissionMode"]), (&json!("claude-sonnet-4-5"), &json!("plan")));
    let second = &peer.model.requests()[1].json();
    assert!(second["messages"].to_string().contains("One."), "{second}");
    let (_, code, stderr) = peer.end().await;
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn ends_and_exit_codes() {
    let haft = Haft::new();
    let silent = Peer::start(&haft, vec![], &[]).await;
    let (frames, code, stderr) = silent.end().await;
    assert_eq!((frames.len(), code, stderr.as_str()), (0, Some(0), ""));

    let mut queued = Peer::start(&haft, vec![Turn::text("One."), Turn::text("Two.")], &[]).await;
    queued.say("a").await;
    queued.say("b").await;
    let (frames, code, _) = queued.end().await;
    let results: Vec<&Value> =
        frames.iter().filter(|it| it["type"] == "result").map(|it| &it["result"]).collect();
    assert_eq!((results, code), (vec![&json!("One."), &json!("Two.")], Some(0)));

    let mut failing = Peer::start(&haft, vec![Turn::error(400, "invalid_request_error", "no")], &[]).await;
    failing.say("a").await;
    let (frames, code, _) = failing.end().await;
    let result = frames.iter().find(|it| it["type"] == "result").unwrap();
    assert_eq!((&result["subtype"], &result["is_error"], code), (&json!("success"), &json!(true), Some(1)));

    let mut garbage = Peer::start(&haft, vec![], &[]).await;
    garbage.raw("this is not JSON").await;
    let (_, code, stderr) = garbage.end().await;
    assert!(code == Some(1) && stderr.contains("this is not JSON"), "{code:?} {stderr}");

    let id = "00000000-0000-4000-8000-000000000000";
    let unknown = Peer::start(&haft, vec![], &[&format!("--resume={id}")]).await;
    let (frames, code, _) = unknown.end().await;
    assert_eq!(kinds(&frames), ["result error_during_execution"]);
    assert_eq!(frames[0]["errors"][0], format!("No conversation found with session ID: {id}"));
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn flags_come_in_both_spellings_and_bad_ones_are_one_line() {
    let haft = Haft::new();
    let many = [
        "--system-prompt",
        "",
        "--tools=Read,Write",
        "--allowedTools",
        "Read,Bash(ls:*),Nonsense",
        "--max-turns=3",
        "--permission-mode",
        "acceptEdits",
        "--setting-sources=",
        "--mcp-config",
        r#"{"mcpServers":{}}"#,
        "--thinking",
        "disabled",
        "--effort=low",
        "--add-dir",
        ".",
        "--add-dir=.",
        "--plugin-dir",
        "x",
        "--strict-mcp-config",
        "--include-hook-events",
        "--betas",
        "a,b",
        "--model=claude-sonnet-4-5",
        "--model",
        "claude-sonnet-4-5",
        "--settings",
        "{}",
        "--session-mirror",
        "--debug",
    ];
    let mut peer = Peer::start(&haft, vec![Turn::text("Hi.")], &many).await;
    peer.say("hi").await;
    let frames = peer.until(|it| it["type"] == "result").await;
    assert!(frames.iter().any(|it| it["type"] == "transcript_mirror"), "{:?}", kinds(&frames));
    let init = frames.iter().find(|it| it["subtype"] == "init").unwrap();
    assert_eq!(init["permissionMode"], "acceptEdits");
    assert!(!init["tools"].as_array().unwrap().contains(&json!("Edit")), "{init}");
    assert_eq!(peer.end().await.1, Some(0));
    for (flag, says) in [
        ("--frobnicate", "error: unknown option '--frobnicate'"),
        ("--session-id=nope", "nope"),
        ("--permission-mode=nope", "nope"),
        ("--mcp-config=/nowhere/at-all.json", "/nowhere/at-all.json"),
        ("--json-schema={", "--json-schema"),
    ] {
        let (frames, code, stderr) = Peer::start(&haft, vec![], &[flag]).await.end().await;
        assert_eq!((frames.len(), code), (0, Some(1)), "{flag} {stderr}");
        assert!(stderr.contains(says) && stderr.lines().count() == 1, "{flag}: {stderr}");
    }
}

#[tokio::test]
async fn only_a_host_that_says_yes_lets_calls_run() {
    let haft = Haft::new();
    let ask = ["--permission-prompt-tool", "stdio"];
    for (n, (answer, runs)) in [
        (json!({"behavior": "allow", "updatedInput": {"file_path": "y0", "content": "other"}}), true),
        (json!({"behavior": "allow"}), true),
        (json!({"behavior": "deny", "message": "not-today"}), false),
        (json!({"behavior": "perhaps"}), false),
        (json!("allow"), false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("x{n}");
        let mut peer = Peer::start(&haft, vec![write(&haft, &name), Turn::text("Done.")], &ask).await;
        peer.say("go").await;
        let question = peer.asked("can_use_tool").await;
        assert_eq!(question["request"]["tool_name"], "Write");
        assert!(question["request"]["permission_suggestions"].is_array());
        peer.answer(&question, answer.clone()).await;
        peer.answer(&question, json!({"behavior": "allow"})).await;
        let result = peer.result().await;
        let wrote = haft.ws().join(&name).exists() || (n == 0 && haft.ws().join("y0").exists());
        assert_eq!(
            (wrote, result["permission_denials"].as_array().unwrap().is_empty()),
            (runs, runs),
            "{answer}"
        );
        assert_eq!(peer.end().await.1, Some(0));
    }
    assert_eq!(std::fs::read_to_string(haft.ws().join("y0")).unwrap(), "other");

    // Gone before it answered.
    let mut peer = Peer::start(&haft, vec![write(&haft, "gone"), Turn::text("Done.")], &ask).await;
    peer.say("go").await;
    peer.asked("can_use_tool").await;
    let (frames, code, _) = peer.end().await;
    let told = frames.iter().find(|it| it["type"] == "user").unwrap().to_string();
    assert!(told.contains("stream closed before response received"), "{told}");
    assert_eq!((code, haft.ws().join("gone").exists()), (Some(0), false));

    // Interrupted while it thinks: the question is taken back.
    let mut peer = Peer::start(&haft, vec![write(&haft, "late")], &ask).await;
    peer.say("go").await;
    let question = peer.asked("can_use_tool").await;
    peer.request("r", json!({"subtype": "interrupt"})).await;
    let frames = peer.until(|it| it["type"] == "result").await;
    let cancel = json!({"type": "control_cancel_request", "request_id": question["request_id"]});
    assert!(frames.contains(&cancel), "{frames:#?}");
    assert_eq!(frames.last().unwrap()["subtype"], "error_during_execution");
    assert_eq!((peer.end().await.1, haft.ws().join("late").exists()), (Some(1), false));
}

#[tokio::test]
async fn host_servers_are_reached_and_may_misbehave() {
    let haft = Haft::new();
    let both = Turn::of([
        Piece::tool("mcp__calc__add", json!({"a": 1})),
        Piece::tool("mcp__calc__add", json!({"a": 2})),
    ]);
    let args = [
        "--allowedTools",
        "mcp__calc__*",
        "--mcp-config",
        r#"{"mcpServers":{"calc":{"type":"sdk","name":"x"}}}"#,
    ];
    let mut peer = Peer::start(&haft, vec![both, Turn::text("Done.")], &args).await;
    peer.request("r1", json!({"subtype": "initialize"})).await;
    peer.say("add").await;
    let mut calls = 0;
    let result = loop {
        let frame = peer.next().await.unwrap();
        if frame["type"] == "result" {
            break frame;
        }
        if frame["type"] != "control_request" {
            continue;
        }
        let message = frame["request"]["message"].clone();
        let reply = match message["method"].as_str().unwrap() {
            "initialize" => json!({"result": {
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "calc", "version": "1"}}}),
            "tools/list" => json!({"result": {"tools": [
                {"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}]}}),
            "tools/call" => {
                calls += 1;
                match calls {
                    1 => json!({"result": {"content": [{"type": "text", "text": "three"}]}}),
                    _ => json!({"nonsense": true}),
                }
            }
            _ => json!({"result": {}}),
        };
        peer.answer(&frame, json!({"mcp_response": reply})).await;
    };
    assert_eq!((&result["subtype"], calls), (&json!("success"), 2));
    let request = peer.model.requests()[1].json()["messages"].to_string();
    assert!(request.contains("three") && request.contains("not a JSON-RPC response"), "{request}");
    assert_eq!(peer.end().await.1, Some(0));
}

/// A Python with the SDK in it, made once; `None` with a loud word where it
/// cannot be had.
fn python() -> Option<PathBuf> {
    const PINNED: &str = "claude-agent-sdk==0.2.182";
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent-sdk-python");
    let (python, ready) = (dir.join("bin/python"), dir.join(PINNED));
    if ready.is_file() {
        return Some(python);
    }
    let run = |program: &Path, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).output();
        output.is_ok_and(|it| it.status.success())
    };
    let made = run(Path::new("python3"), &["-m", "venv", &dir.to_string_lossy()])
        && run(&python, &["-m", "pip", "install", "--quiet", PINNED])
        && std::fs::write(&ready, "").is_ok();
    if made {
        return Some(python);
    }
    eprintln!("SKIPPED: {PINNED} cannot be installed here");
    None
}

#[tokio::test]
async fn the_python_sdk_works_unchanged() {
    let Some(python) = python() else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agent_sdk/tour.py");
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    let path = |name: &str| haft.ws().join(name);
    let turns = vec![
        Turn::text("Hello!"),
        Turn::of([
            Piece::tool("mcp__calc__add", json!({"a": 1, "b": 2})),
            Piece::tool("mcp__calc__fail", json!({})),
            Piece::tool("Read", json!({"file_path": path("a.txt")})),
            Piece::tool("Write", json!({"file_path": path("secret.txt"), "content": "x"})),
            Piece::tool("Write", json!({"file_path": path("b.txt"), "content": "model"})),
        ]),
        Turn::text("Worked."),
        Turn::text("Again."),
        Turn::tool("StructuredOutput", json!({"sum": 3})),
    ];
    let model = MockModel::start(Script::of(turns)).await.unwrap();
    let output = Command::new(&python)
        .arg(example)
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("HAFT", env!("CARGO_BIN_EXE_haft"))
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let said: Vec<&str> = stdout.lines().collect();
    assert_eq!(
        said,
        [
            "query: Hello!",
            "hook: UserPromptSubmit",
            "tool: add -> 3.0",
            "tool: fail -> error: this one fails",
            "tool: Read -> 1\tone",
            "tool: Write -> error",
            "asked: Write b.txt",
            "tool: Write -> ok",
            "client: Worked.",
            "hook: UserPromptSubmit",
            "client: Again.",
            "structured: {'sum': 3}",
        ],
        "{stderr}"
    );
    assert_eq!(std::fs::read_to_string(path("b.txt")).unwrap(), "from the host");
    assert!(!path("secret.txt").exists());
    assert_eq!(model.refusals(), [""; 0]);
}

/// A directory with the TypeScript SDK in it, made once; `None` with a loud
/// word where it cannot be had.
fn node_modules() -> Option<PathBuf> {
    const PINNED: [&str; 2] = ["@anthropic-ai/claude-agent-sdk@0.3.325", "zod@4.1.12"];
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent-sdk-node");
    let ready = dir.join("ready-0.3.325");
    if ready.is_file() {
        return Some(dir);
    }
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("package.json"), r#"{"private":true,"type":"module"}"#).unwrap();
    // The optional packages are the SDK's own executables, which nobody needs here.
    let install = std::process::Command::new("npm")
        .args(["install", "--omit=optional"])
        .args(PINNED)
        .current_dir(&dir)
        .output();
    if install.is_ok_and(|it| it.status.success()) && std::fs::write(&ready, "").is_ok() {
        return Some(dir);
    }
    eprintln!("SKIPPED: {PINNED:?} cannot be installed here");
    None
}

#[tokio::test]
async fn the_typescript_sdk_works_unchanged() {
    let Some(dir) = node_modules() else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agent_sdk/tour.mjs");
    std::fs::copy(example, dir.join("tour.mjs")).unwrap();
    let haft = Haft::new();
    let turns = vec![
        Turn::text("Hello!"),
        Turn::tool("mcp__calc__add", json!({"a": 1, "b": 2})),
        Turn::tool("Write", json!({"file_path": haft.ws().join("sum.txt"), "content": "3"})),
        Turn::text("Done."),
    ];
    let model = MockModel::start(Script::of(turns)).await.unwrap();
    let output = Command::new("node")
        .arg(dir.join("tour.mjs"))
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("HAFT", env!("CARGO_BIN_EXE_haft"))
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said: Vec<&str> = stdout.lines().collect();
    assert_eq!(
        said,
        [
            "servers: ",
            "result: success Hello!",
            "servers: calc connected",
            "hook: mcp__calc__add",
            "add: 1 2",
            "asked: Write",
            "result: success Done.",
        ],
        "{stderr}"
    );
    assert_eq!(std::fs::read_to_string(haft.ws().join("sum.txt")).unwrap(), "from the host");
    assert_eq!(model.refusals(), [""; 0]);
}
