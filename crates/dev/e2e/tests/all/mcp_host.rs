//! Requests of MCP servers to Haft and their limits, with real server processes: sampling, the user
//! behind an SDK, hooks, logs, sandbox, context window.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::common;
use crate::peer;

use std::{path::Path, process::Stdio};

use common::{Haft, eventually, text};
use haft_testkit::{MockModel, Script, Turn};
use peer::Peer;
use serde_json::{Value, json};

fn fake(haft: &Haft, name: &str, modes: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../engine/mcp-client/tests/all/support/fake_server.py");
    json!({
        "command": "python3",
        "args": ["-IS", script, modes],
        "env": {"HAFT_FAKE_LOG": haft.home().join(format!("{name}.heard"))},
    })
}

/// Configures a server for the user, with additional fields.
fn add(haft: &Haft, name: &str, modes: &str, more: Value) {
    let mut entry = fake(haft, name, modes);
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    haft.ok(&["mcp", "add-json", "-s", "user", name, &entry.to_string()], "");
}

/// Runs `haft -p` with these turns; returns its requests.
async fn run(haft: &Haft, turns: Vec<Turn>, args: &[&str], env: &[(&str, &str)]) -> Vec<Value> {
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let output = haft
        .async_command()
        .args(["-p", "go", "--mcp-wait", "120"])
        .args(args)
        .env("ANTHROPIC_BASE_URL", model.url())
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(model.refusals(), [""; 0]);
    model.requests().iter().map(|it| it.json()).collect()
}

fn ask(name: &str) -> Turn {
    Turn::tool(format!("mcp__{name}__echo"), json!({"text": "x"}))
}

#[tokio::test]
async fn a_server_asks_the_model_only_as_far_as_the_user_lets_it() {
    let haft = Haft::new();
    add(
        &haft,
        "may",
        "sample",
        json!({"sampling": {"approval": "always", "maxTokens": 3, "maxRequests": 1}}),
    );
    add(&haft, "careful", "sample", json!({"sampling": true}));
    add(&haft, "may-not", "sample", json!({}));
    let turns = vec![
        ask("may"),
        Turn::text("sampled words"),
        ask("may"),
        ask("careful"),
        ask("may-not"),
        Turn::text("Done."),
    ];
    let bodies = run(&haft, turns, &["--allowedTools", "mcp__may,mcp__careful,mcp__may-not"], &[]).await;
    assert_eq!(bodies.len(), 6);
    let asked = &bodies[1];
    assert_eq!(asked["messages"][0]["content"][0]["text"], "Say hi");
    assert!(asked["system"].to_string().contains("Be short."), "{asked}");
    assert_eq!(asked["max_tokens"], 3, "the user's limit is lower than the server's wish");
    assert!(asked["tools"].as_array().is_none_or(Vec::is_empty), "{asked}");
    let last = |body: &Value| body["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(last(&bodies[2]).contains("sampled words"), "{}", last(&bodies[2]));
    assert!(last(&bodies[3]).contains("all it may in a session"), "{}", last(&bodies[3]));
    assert!(last(&bodies[4]).contains("nobody is there to agree"), "{}", last(&bodies[4]));
    assert!(last(&bodies[5]).contains("sampling is not offered"), "{}", last(&bodies[5]));
    // The capability is not offered to a server that may not use it.
    for (name, offered) in [("may", true), ("careful", true), ("may-not", false)] {
        let heard = std::fs::read_to_string(haft.home().join(format!("{name}.heard"))).unwrap();
        assert_eq!(heard.contains("\"sampling\": {\"tools\": {}}"), offered, "{name}");
    }
}

#[tokio::test]
async fn the_host_of_an_sdk_answers_for_its_person() {
    let haft = Haft::new();
    add(&haft, "form", "elicit", json!({}));
    add(&haft, "page", "page_first", json!({}));
    add(&haft, "model", "sample", json!({"sampling": true}));
    let turns = vec![
        ask("form"),
        ask("form"),
        ask("page"),
        ask("model"),
        Turn::text("sampled words"),
        Turn::text("Done."),
    ];
    let mut peer = Peer::start(&haft, turns, &["--allowedTools", "mcp__form,mcp__page,mcp__model"]).await;
    peer.request("r1", json!({"subtype": "initialize", "hooks": null})).await;
    peer.say("go").await;
    let is_question = |it: &Value| it["request"]["subtype"] == "elicitation";
    let mut asked = Vec::new();
    for answer in [
        json!({"action": "accept", "content": {"colour": "green"}}),
        json!({"nonsense": true}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {"decision": "allow"}}),
    ] {
        let question = peer.until(is_question).await.pop().unwrap();
        peer.answer(&question, answer).await;
        asked.push(question["request"].clone());
    }
    peer.until(|it| it["type"] == "result").await;
    assert_eq!(
        (&asked[0]["mcp_server_name"], &asked[0]["mode"], &asked[0]["message"]),
        (&json!("form"), &json!("form"), &json!("Which colour?"))
    );
    assert!(asked[0]["requested_schema"]["properties"]["colour"].is_object(), "{}", asked[0]);
    assert_eq!((&asked[2]["mode"], &asked[2]["url"]), (&json!("url"), &json!("https://x.test/pay")));
    assert!(asked[3]["message"].as_str().unwrap().contains("Say hi"), "{}", asked[3]);
    let bodies: Vec<Value> = peer.model.requests().iter().map(|it| it.json()).collect();
    let last = |at: usize| bodies[at]["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(last(1).contains("green"), "{}", last(1));
    assert!(last(2).contains("decline"), "{}", last(2));
    assert!(last(3).contains("\"x\""), "after the page the call went through: {}", last(3));
    assert!(last(5).contains("sampled words"), "{}", last(5));
    let (_, code, stderr) = peer.end().await;
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn a_tool_of_a_server_can_be_a_hook() {
    let haft = Haft::new();
    add(&haft, "gate", "", json!({}));
    let decision = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "not ${tool_input.command}"}});
    let hook = |server: &str, tool: &str, input: Value| {
        let handler = json!({"type": "mcp_tool", "server": server, "tool": tool, "input": input});
        let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]});
        haft.write_home(".haft/settings.json", &json!({"hooks": hooks}).to_string());
        let call = json!({"name": "Bash", "input": {"command": "echo hello"}});
        haft.reports(&["--allowedTools", "Bash"], &[call]).remove(0)
    };
    let denied = hook("gate", "echo", json!({"text": decision.to_string()}));
    assert!(denied["is_error"] == true && text(&denied).contains("not echo hello"), "{denied}");
    let silent = hook("gate", "echo", json!({"text": "{}"}));
    assert!(text(&silent).contains("hello"), "{silent}");
    // A hook that cannot run denies the call and says why.
    for (server, tool) in [("nobody", "echo"), ("gate", "nothing")] {
        let broken = hook(server, tool, json!({}));
        assert!(broken["is_error"] == true && text(&broken).contains(tool.max(server)), "{broken}");
    }
}

#[test]
fn what_a_server_wrote_is_kept_when_haft_is_killed() {
    let haft = Haft::new();
    add(&haft, "kid", "chatter,no_reply", json!({}));
    let mut child = haft.spawn(&[
        "tool",
        "call",
        "mcp__kid__echo",
        r#"{"text":"the wheel"}"#,
        "--allowedTools",
        "mcp__kid",
    ]);
    let journal = haft.home().join(".haft/mcp/logs/kid.log");
    eventually("the line is on the disk while Haft runs", || {
        std::fs::read_to_string(&journal).unwrap_or_default().contains("working on the wheel")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let logs = haft.ok(&["mcp", "logs", "kid"], "");
    assert!(logs.contains("ready after") && logs.contains("stderr: working on the wheel"), "{logs}");
}

#[test]
fn a_server_behind_walls_writes_only_where_it_may() {
    let haft = Haft::new();
    let check: Value = serde_json::from_slice(&haft.run(&["sandbox", "check", "--json"], "").stdout).unwrap();
    if check["complete"] != true {
        eprintln!("SKIPPED: no sandbox here: {check}");
        return;
    }
    add(&haft, "held", "touch", json!({"sandbox": true, "env": {}}));
    add(&haft, "free", "touch", json!({"env": {}}));
    let touch = |server: &str, path: &Path| {
        let input = json!({"name": format!("mcp__{server}__echo"), "input": {"text": path}});
        let report = haft.reports(&["--allowedTools", "mcp__held,mcp__free"], &[input]).remove(0);
        assert!(report["is_error"] != true, "{report}");
        (path.exists(), text(&report).to_owned())
    };
    let (inside, outside) = (haft.ws().join("inside"), haft.home().join(".haft/outside"));
    assert!(touch("held", &inside).0, "the project can be written");
    let (exists, said) = touch("held", &outside);
    assert!(!exists && said.contains("Error"), "{said}");
    assert!(touch("free", &outside).0);
    std::fs::remove_file(&outside).unwrap();
    haft.write_home(".haft/settings.json", r#"{"sandbox": {"mcpServers": true}}"#);
    assert!(!touch("free", &outside).0, "the settings hold all of them");
}

#[tokio::test]
async fn the_window_says_what_servers_take_and_what_is_small() {
    let haft = Haft::new();
    add(&haft, "fat", "fat", json!({}));
    add(&haft, "many", "many", json!({}));
    run(&haft, vec![Turn::text("ok")], &[], &[]).await;
    let shown: Value = serde_json::from_str(&haft.ok(&["context", "--json"], "")).unwrap();
    let of = |name: &str| shown["mcp"].as_array().unwrap().iter().find(|it| it["server"] == name).unwrap();
    assert_eq!(of("fat")["tools"].as_array().unwrap().len(), 201);
    assert!(100_000 < of("fat")["tokens"].as_u64().unwrap(), "{}", of("fat")["tokens"]);
    assert_eq!(of("many")["tools"][3]["loaded"], false);
    let page = haft.ok(&["context"], "");
    assert!(page.contains("fat, 201 tools") && page.contains("mcp__many__tool_007"), "{page}");
    haft.ok(&["mcp", "remove", "fat"], "");
    // About 14,000 tokens: a tenth of a large context window, but not of a small one.
    haft.write_home(".haft/models.json", r#"[{"id": "small-one", "window": 40000, "max_output": 4000}]"#);
    for (model, mode, loaded) in [
        ("claude-opus-4-5", "auto", true),
        ("claude-opus-4-5", "auto:1", false),
        ("small-one", "auto", false),
        ("small-one", "auto:60", true),
    ] {
        let turns = vec![Turn::text("ok")];
        let bodies = run(&haft, turns, &["--model", model], &[("ENABLE_TOOL_SEARCH", mode)]).await;
        let count = bodies[0]["tools"].as_array().unwrap().len();
        assert_eq!(400 < count, loaded, "{model} {mode}: {count} tools");
    }
}

/// A large one-line result is stored byte for byte, once, and can be read in parts.
#[test]
fn a_large_result_is_kept_whole_and_can_be_paged() {
    let haft = Haft::new();
    add(&haft, "big", "one_line", json!({}));
    let call = json!({"name": "mcp__big__echo", "input": {"text": "x"}});
    let report = haft.reports(&["--allowedTools", "mcp__big"], &[call]).remove(0);
    let said = text(&report);
    assert!(report["is_error"] != true && said.len() < 60_000, "{} bytes", said.len());
    let path = said.split_whitespace().find(|it| it.contains("tool-results")).unwrap().trim_end_matches(':');
    let stored = std::fs::read_to_string(path).unwrap();
    let items: Vec<Value> =
        (0..4500).map(|n| json!({"number": n, "text": format!("ü{}", "x".repeat(40))})).collect();
    let whole: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(whole, Value::Array(items));
    assert!(300_000 < stored.len() && !stored.contains('\n'), "as the server wrote it");
    assert!(said.contains(&stored.chars().count().to_string()), "the real size is told: {said}");
    let kept = std::fs::read_dir(Path::new(path).parent().unwrap()).unwrap().flatten();
    assert_eq!(kept.filter(|it| it.path().is_file()).count(), 1, "stored once");
    let read = json!({"name": "Read", "input": {"file_path": path}});
    let page = haft.reports(&["--allowedTools", "Read"], &[read]).remove(0);
    assert!(page["is_error"] != true && text(&page).contains("number"), "{page}");
}
