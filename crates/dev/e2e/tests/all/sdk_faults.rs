//! SDK hosts that misbehave, exit, or send huge messages.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::common;
use crate::peer;

use std::time::Duration;

use common::Haft;
use haft_testkit::{ReplyPiece, Script, StreamStall, Turn};
use peer::{Peer, TIMEOUT};
use serde_json::{Value, json};

const ASK: [&str; 2] = ["--permission-prompt-tool", "stdio"];
const CALC: [&str; 4] = [
    "--allowedTools",
    "mcp__calc__*",
    "--mcp-config",
    r#"{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}"#,
];

fn write(haft: &Haft, name: &str) -> Turn {
    Turn::tool("Write", json!({"file_path": haft.ws().join(name), "content": "x"}))
}

fn stalled(pieces: impl IntoIterator<Item = ReplyPiece>) -> Turn {
    Turn::from_pieces(pieces.into_iter().chain([ReplyPiece::Stall(StreamStall::Forever)]))
}

/// Responses of an MCP server with one tool, except to tool calls.
fn server(message: &Value) -> Option<Value> {
    Some(match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"result": {
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "calc", "version": "1"}}}),
        "tools/list" => json!({"result": {"tools": [
            {"name": "add", "description": "Adds.", "inputSchema": {"type": "object"},
             "annotations": {"readOnlyHint": true}}]}}),
        "tools/call" => return None,
        _ => json!({"result": {}}),
    })
}

/// Answers as the server until another frame arrives.
async fn serve(peer: &mut Peer, stops: impl Fn(&Value) -> bool) -> Value {
    loop {
        let frame = peer.next().await.unwrap();
        if stops(&frame) {
            return frame;
        }
        if frame["request"]["subtype"] == "mcp_message"
            && let Some(reply) = server(&frame["request"]["message"])
        {
            peer.answer(&frame, json!({"mcp_response": reply})).await;
        }
    }
}

fn is_call(frame: &Value) -> bool {
    frame["request"]["message"]["method"] == "tools/call"
}

fn is_result(frame: &Value) -> bool {
    frame["type"] == "result"
}

/// An interrupt at any moment: one result, the next prompt works, the next request is valid, and no
/// further call runs.
#[tokio::test]
async fn interrupts_at_every_moment() {
    let haft = Haft::new();
    let hook =
        json!({"PreToolUse": [{"hookCallbackIds": ["h"]}], "UserPromptSubmit": [{"hookCallbackIds": ["p"]}]});
    type Moment = (&'static str, Turn, fn(&Value) -> bool);
    let moments: [Moment; 6] = [
        // No request was sent before these moments.
        ("before anything", Turn::text("Next."), |it| it["subtype"] == "init"),
        ("while it speaks", stalled([ReplyPiece::text("a")]), |it| it["type"] == "assistant"),
        ("in a prompt's hook", Turn::text("Next."), |it| it["request"]["callback_id"] == "p"),
        ("in a call's hook", write(&haft, "m3"), |it| it["request"]["callback_id"] == "h"),
        ("in a question", write(&haft, "m4"), |it| it["request"]["subtype"] == "can_use_tool"),
        ("in a command", Turn::tool("Bash", json!({"command": "sleep 60"})), |it| it["type"] == "assistant"),
    ];
    for (moment, turn, when) in moments {
        let args = ["--permission-prompt-tool", "stdio", "--allowedTools", "Bash(sleep:*)"];
        let mut peer = Peer::start(&haft, vec![turn, Turn::text("Next.").always()], &args).await;
        peer.request("i", json!({"subtype": "initialize", "hooks": hook})).await;
        peer.say("go").await;
        // Answer other hooks without a decision.
        loop {
            let frame = peer.next().await.unwrap();
            if when(&frame) {
                break;
            }
            if frame["request"]["subtype"] == "hook_callback" {
                peer.answer(&frame, json!({})).await;
            }
        }
        peer.request("stop", json!({"subtype": "interrupt"})).await;
        let result = loop {
            let frame = peer.next().await.unwrap();
            if frame["type"] == "result" {
                break frame;
            }
        };
        assert_eq!(result["subtype"], "error_during_execution", "{moment}: {result}");
        assert!(result["terminal_reason"].as_str().unwrap().starts_with("aborted_"), "{moment}: {result}");
        peer.say("next").await;
        let result = loop {
            let frame = peer.next().await.unwrap();
            if frame["request"]["subtype"] == "hook_callback" {
                peer.answer(&frame, json!({})).await;
            }
            if frame["type"] == "result" {
                break frame;
            }
        };
        assert_eq!(result["result"], "Next.", "{moment}");
        assert_eq!(peer.model.refusals(), [""; 0], "{moment}");
        let (_, code, stderr) = peer.end().await;
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{moment}");
    }
    assert!(!haft.ws().join("m3").exists() && !haft.ws().join("m4").exists());
}

#[tokio::test]
async fn answers_that_come_late_twice_or_as_garbage() {
    let haft = Haft::new();
    let mut peer = Peer::start(&haft, vec![write(&haft, "a"), Turn::text("Done.")], &ASK).await;
    peer.say("go").await;
    let question = peer.asked("can_use_tool").await;
    // Responses nobody waits for, unknown types, and values that are not objects.
    for noise in [
        json!({"type": "control_response", "response": {"subtype": "success", "request_id": "nobody", "response": {}}}),
        json!({"type": "control_response"}),
        json!({"type": "control_cancel_request", "request_id": "nobody"}),
        json!({"type": "from_the_future", "x": 1}),
        json!([1, 2, 3]),
        json!(null),
        json!({"type": "user", "message": 7}),
        json!({"type": "control_request", "request_id": "empty"}),
    ] {
        peer.send(noise).await;
    }
    peer.raw("").await;
    peer.answer(&question, json!({"behavior": "deny", "message": "no"})).await;
    peer.answer(&question, json!({"behavior": "allow"})).await;
    let frames = peer.until(is_result).await;
    assert!(frames.iter().any(|it| it["response"]["request_id"] == "empty"), "a request is always answered");
    peer.answer(&question, json!({"behavior": "allow"})).await;
    let (_, code, stderr) = peer.end().await;
    let told = "haft: ignored a message of the unknown type \"from_the_future\"\n";
    assert_eq!((code, stderr.as_str(), haft.ws().join("a").exists()), (Some(0), told, false));
}

#[tokio::test]
async fn servers_that_hang_answer_late_or_die() {
    let haft = Haft::new();
    let call = || Turn::tool("mcp__calc__add", json!({"a": 1}));

    // The server never answers a call: an interrupt ends it, and the server gets a cancellation.
    let mut peer = Peer::start(&haft, vec![call(), Turn::text("Next.")], &CALC).await;
    peer.request("i", json!({"subtype": "initialize"})).await;
    peer.say("go").await;
    let asked = serve(&mut peer, is_call).await;
    peer.request("stop", json!({"subtype": "interrupt"})).await;
    let mut cancelled = false;
    serve_until_result(&mut peer, |frame| {
        cancelled |= frame["request"]["message"]["method"] == "notifications/cancelled"
            || frame["type"] == "control_cancel_request";
    })
    .await;
    while !cancelled {
        // The notification may arrive later.
        cancelled = peer.next().await.unwrap()["request"]["message"]["method"] == "notifications/cancelled";
    }
    // A late answer is ignored.
    peer.answer(&asked, json!({"mcp_response": {"result": {"content": []}}})).await;
    peer.say("next").await;
    assert_eq!(serve(&mut peer, is_result).await["result"], "Next.");
    assert_eq!(peer.end().await.1, Some(0));

    // The host exits during a call: the call fails, the turn ends, and so does Haft.
    let mut peer = Peer::start(&haft, vec![call(), Turn::text("Over.")], &CALC).await;
    peer.request("i", json!({"subtype": "initialize"})).await;
    peer.say("go").await;
    serve(&mut peer, is_call).await;
    let (frames, code, _) = peer.end().await;
    let result = frames.iter().find(|it| is_result(it)).unwrap();
    assert_eq!((&result["result"], code), (&json!("Over."), Some(0)));

    // A server that fails to initialise does not stop the session.
    let mut peer = Peer::start(&haft, vec![Turn::text("Fine.")], &CALC).await;
    peer.request("i", json!({"subtype": "initialize"})).await;
    peer.say("go").await;
    let result = loop {
        let frame = peer.next().await.unwrap();
        if is_result(&frame) {
            break frame;
        }
        if frame["request"]["subtype"] == "mcp_message" {
            let error =
                json!({"subtype": "error", "request_id": frame["request_id"], "error": "no such server"});
            peer.send(json!({"type": "control_response", "response": error})).await;
        }
    };
    assert_eq!(result["result"], "Fine.");
    assert_eq!(peer.end().await.1, Some(0));
}

/// A command with output, an unanswered tool of the host, and a queued call: an interrupt ends all, each
/// reports what happened, and the session goes on.
#[tokio::test]
async fn everything_that_runs_is_interrupted() {
    let haft = Haft::new();
    let pipe = haft.ws().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let calls = Turn::from_pieces([
        ReplyPiece::tool("Bash", json!({"command": "echo part; cat pipe"})),
        ReplyPiece::tool("mcp__calc__add", json!({"a": 1})),
        ReplyPiece::tool("Write", json!({"file_path": haft.ws().join("never"), "content": "x"})),
    ]);
    let mut args = CALC.to_vec();
    args[1] = "mcp__calc__*,Bash,Write";
    let mut peer = Peer::start(&haft, vec![calls, Turn::text("Next.")], &args).await;
    peer.request("i", json!({"subtype": "initialize"})).await;
    peer.say("go").await;
    serve(&mut peer, is_call).await;
    // Opening succeeds once the command reads, so it has printed by then.
    let open = move || std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
    let _writer = tokio::time::timeout(TIMEOUT, tokio::task::spawn_blocking(open)).await.unwrap().unwrap();
    peer.request("stop", json!({"subtype": "interrupt"})).await;
    let mut told = Vec::new();
    let result = serve_until_result(&mut peer, |frame| told.push(frame.clone())).await;
    assert_eq!(result["terminal_reason"], "aborted_tools", "{result}");
    let results: Vec<&str> =
        told.iter().filter_map(|it| it["message"]["content"][0]["content"].as_str()).collect();
    let [ran, asked, waited] = results.as_slice() else { panic!("{told:#?}") };
    assert!(ran.contains("interrupted while it ran") && ran.contains("part"), "{ran}");
    assert!(asked.contains("interrupted while it ran"), "{asked}");
    assert!(waited.contains("before Write ran") && !haft.ws().join("never").exists(), "{waited}");
    let denials = result["permission_denials"].as_array().unwrap();
    assert!(denials.is_empty(), "an interruption is no refusal: {denials:?}");
    peer.say("next").await;
    assert_eq!(serve(&mut peer, is_result).await["result"], "Next.");
    assert_eq!(peer.model.refusals(), [""; 0]);
    assert_eq!(peer.end().await.1, Some(0));
}

async fn serve_until_result(peer: &mut Peer, mut each: impl FnMut(&Value)) -> Value {
    loop {
        let frame = peer.next().await.unwrap();
        each(&frame);
        if is_result(&frame) {
            return frame;
        }
    }
}

#[tokio::test]
async fn very_long_lines_in_both_directions() {
    let haft = Haft::new();
    let long = "é".repeat(1_500_000);
    haft.write("long.txt", &long);
    let content = "y ".repeat(600_000);
    let turns = vec![
        Turn::tool("Bash", json!({"command": "cat long.txt"})),
        Turn::tool("Write", json!({"file_path": haft.ws().join("out.txt"), "content": content})),
        Turn::text(format!("said {}", "z".repeat(1_100_000))),
    ];
    let mut args = vec!["--permission-mode", "acceptEdits", "--allowedTools", "Bash"];
    args.extend(["--include-partial-messages", "--model", "claude-opus-5-5"]);
    let script = Script { window: 2_000_000, delta_chars: 50_000, ..Script::from_turns(turns) };
    let mut peer = Peer::of(&haft, script, &args).await;
    let junk = "A".repeat(3_000_000);
    peer.send(json!({"type": "user", "message": {"role": "user", "content": [
        {"type": "text", "text": format!("{} and read it", "x".repeat(200_000))},
    ]}, "junk": junk}))
        .await;
    // `Peer::next` asserts the maximum length of every line.
    let result = peer.result().await;
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)), "{result}");
    assert_eq!(
        std::fs::metadata(haft.ws().join("out.txt")).unwrap().len(),
        1_200_000,
        "what runs is not cut"
    );
    let sent = peer.model.requests()[0].json()["messages"][0].to_string();
    assert!(200_000 < sent.len(), "prompts are not cut");
    assert_eq!(peer.end().await.1, Some(0));

    // A permission request too long to show completely is not sent: the user cannot approve what they
    // did not see.
    let haft = Haft::new();
    let turn =
        Turn::tool("Write", json!({"file_path": haft.ws().join("no"), "content": "q".repeat(1_100_000)}));
    let script =
        Script { window: 2_000_000, delta_chars: 50_000, ..Script::from_turns([turn, Turn::text("Done.")]) };
    let args = ["--permission-prompt-tool", "stdio", "--model", "claude-opus-5-5"];
    let mut peer = Peer::of(&haft, script, &args).await;
    peer.say("go").await;
    let frames = peer.until(is_result).await;
    assert!(frames.iter().all(|it| it["type"] != "control_request"));
    assert!(!haft.ws().join("no").exists());
    assert_eq!(peer.end().await.1, Some(0));
}

/// However the host exits, no process remains.
#[tokio::test]
async fn nothing_is_left_behind() {
    for how in ["interrupted", "terminated"] {
        let haft = Haft::new();
        let turn = Turn::tool("Bash", json!({"command": "sleep 300 & echo $! > pid; wait"}));
        let mut peer =
            Peer::start(&haft, vec![turn], &["--allowedTools", "Bash", "--permission-mode=acceptEdits"])
                .await;
        peer.say("go").await;
        let file = haft.ws().join("pid");
        let pid = until(|| std::fs::read_to_string(&file).ok().filter(|it| it.ends_with('\n'))).await;
        let (_, code, _) = match how {
            "interrupted" => {
                peer.request("stop", json!({"subtype": "interrupt"})).await;
                peer.end().await
            }
            _ => {
                terminate(peer.child.id().unwrap());
                peer.end().await
            }
        };
        assert_eq!(code, Some(if how == "interrupted" { 1 } else { 143 }), "{how}");
        let stat = format!("/proc/{}/stat", pid.trim());
        until(|| {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z")).then_some(())
        })
        .await;
    }
}

fn terminate(pid: u32) {
    let status = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Polls until there is a value.
async fn until<T>(look: impl Fn() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, found).await.unwrap()
}
