//! `haft --input-format stream-json`: raw lines, and the examples with the real SDKs.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::common;
use crate::hosts;
use crate::peer;

use std::{path::Path, process::Stdio};

use common::Haft;
use haft_testkit::{MockModel, ReplyPiece, Script, Turn, haft_binary};
use peer::Peer;
use serde_json::{Value, json};
use tokio::process::Command;

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

/// The active output style is reported, whichever settings file sets it.
#[tokio::test]
async fn the_style_of_any_settings_file_is_reported() {
    for file in ["home/.claude/settings.json", "ws/.claude/settings.json", "ws/.claude/settings.local.json"] {
        let haft = Haft::new();
        let path = haft.dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, r#"{"outputStyle": "Explanatory"}"#).unwrap();
        let sources = ["--setting-sources", "user,project,local"];
        let mut peer = Peer::start(&haft, vec![Turn::text("One.")], &sources).await;
        peer.say("go").await;
        let frames = peer.until(|it| it["type"] == "result").await;
        let init = frames.iter().find(|it| it["subtype"] == "init").unwrap();
        assert_eq!(init["output_style"], "Explanatory", "{file}: {init}");
        peer.end().await;
    }
}

/// A host's prompt is logged as its exact text, and the result has the prompt's origin.
#[tokio::test]
async fn prompts_are_kept_and_answered_as_they_came() {
    let haft = Haft::new();
    let mut peer =
        Peer::start(&haft, vec![Turn::text("One."), Turn::text("Two."), Turn::text("Three.")], &[]).await;
    let blocks = json!([{"type": "text", "text": "in blocks"}]);
    for (content, origin) in [
        (json!("as a text"), json!({"kind": "human"})),
        (blocks, json!(null)),
        (json!("from nobody"), json!({"kind": "task-notification"})),
    ] {
        let mut frame = json!({"type": "user", "message": {"role": "user", "content": content}});
        frame["origin"] = origin.clone();
        peer.send(frame).await;
        let result = peer.result().await;
        let echoed = if origin["kind"] == "human" { origin } else { json!(null) };
        assert_eq!(result["origin"], echoed, "{result}");
    }
    peer.end().await;
    let said: Vec<Value> = crate::frontends_agree::log_lines(&haft)
        .into_iter()
        .filter(|it| it["type"] == "user" && it["isMeta"] != true)
        .map(|mut it| it["message"]["content"].take())
        .collect();
    assert_eq!(said, ["as a text", "in blocks", "from nobody"]);
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

    // The host withdraws the request before answering.
    let mut peer = Peer::start(&haft, vec![write(&haft, "gone"), Turn::text("Done.")], &ask).await;
    peer.say("go").await;
    peer.asked("can_use_tool").await;
    let (frames, code, _) = peer.end().await;
    let told = frames.iter().find(|it| it["type"] == "user").unwrap().to_string();
    assert!(told.contains("stream closed before response received"), "{told}");
    assert_eq!((code, haft.ws().join("gone").exists()), (Some(0), false));

    // Interrupted while the prompt is open: it is withdrawn.
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
    let both = Turn::from_pieces([
        ReplyPiece::tool("mcp__calc__add", json!({"a": 1})),
        ReplyPiece::tool("mcp__calc__add", json!({"a": 2})),
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

#[tokio::test]
async fn the_python_sdk_works_unchanged() {
    let Some(python) = hosts::python() else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/agent_sdk/tour.py");
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    let path = |name: &str| haft.ws().join(name);
    let turns = vec![
        Turn::text("Hello!"),
        Turn::from_pieces([
            ReplyPiece::tool("mcp__calc__add", json!({"a": 1, "b": 2})),
            ReplyPiece::tool("mcp__calc__fail", json!({})),
            ReplyPiece::tool("Read", json!({"file_path": path("a.txt")})),
            ReplyPiece::tool("Write", json!({"file_path": path("secret.txt"), "content": "x"})),
            ReplyPiece::tool("Write", json!({"file_path": path("b.txt"), "content": "model"})),
        ]),
        Turn::text("Worked."),
        Turn::text("Again."),
        Turn::tool("StructuredOutput", json!({"sum": 3})),
    ];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let output = Command::new(&python)
        .arg(example)
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("HAFT", haft_binary())
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

#[tokio::test]
async fn the_typescript_sdk_works_unchanged() {
    let Some(dir) = hosts::node() else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/agent_sdk/tour.mjs");
    std::fs::copy(example, dir.join("tour.mjs")).unwrap();
    let haft = Haft::new();
    let turns = vec![
        Turn::text("Hello!"),
        Turn::tool("mcp__calc__add", json!({"a": 1, "b": 2})),
        Turn::tool("Write", json!({"file_path": haft.ws().join("sum.txt"), "content": "3"})),
        Turn::text("Done."),
    ];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let output = Command::new("node")
        .arg(dir.join("tour.mjs"))
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("HAFT", haft_binary())
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
