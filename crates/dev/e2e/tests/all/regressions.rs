//! Regression tests for behaviour that a user or a model sees.

use std::process::Stdio;

use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

use crate::{
    common::Haft,
    editor::{EditorClient, prompt_params, silent},
    peer::Peer,
};

/// Answers requests to the host's MCP server until another frame arrives.
async fn until(peer: &mut Peer, kind: &str, tools: &Value, result: &dyn Fn(u64) -> Value) -> Value {
    loop {
        let frame = peer.next().await.unwrap();
        if frame["type"] == kind || frame["request"]["subtype"] == kind {
            return frame;
        }
        let message = frame["request"]["message"].clone();
        if frame["type"] != "control_request" || message.is_null() {
            continue;
        }
        let reply = match message["method"].as_str().unwrap() {
            "initialize" => json!({"result": {
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "host", "version": "1"}}}),
            "tools/list" => json!({"result": {"tools": tools}}),
            "tools/call" => json!({"result": result(message["params"]["arguments"]["n"].as_u64().unwrap())}),
            _ => json!({"result": {}}),
        };
        peer.answer(&frame, json!({"mcp_response": reply})).await;
    }
}

const SERVER: &str = r#"{"mcpServers":{"host":{"type":"sdk","name":"host"}}}"#;

/// The text blocks of a call's result.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            blocks.iter().filter_map(|it| Some(it["text"].as_str()?.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// The result of a host's tool reaches the model byte for byte and block for block, except for Haft's
/// own tags, which are neutralised. Additions of Haft are separate blocks. (Control characters are
/// escaped in all requests.)
#[tokio::test]
async fn results_of_a_hosts_tools_reach_the_model_word_for_word() {
    let rows: &[&[&str]] = &[
        &["three"],
        &["  leading and trailing \n\n"],
        &["\ttabs\r\nand returns\r\n"],
        &["1\tlisted\n2\tlike Read does\n"],
        &["[PARTIAL view: lines 1-2 of 9]"],
        &["Error: it only says so"],
        &["one", "two", "  three "],
        &["{\"json\": [1, 2,   3]}"],
        &["e\u{301} \u{202e}turned\u{202c} \u{feff}mark"],
        &["`fence`\n```\ncode\n```\n"],
        &["a long line ".repeat(400).leak()],
    ];
    let haft = Haft::new();
    let calls = (0..rows.len()).map(|n| ReplyPiece::tool("mcp__host__say", json!({"n": n})));
    let turns = vec![Turn::from_pieces(calls), Turn::text("done")];
    let args = ["--allowedTools", "mcp__host__*", "--mcp-config", SERVER];
    let mut peer = Peer::start(&haft, turns, &args).await;
    peer.request("r1", json!({"subtype": "initialize"})).await;
    peer.say("go").await;
    let tools = json!([{"name": "say", "description": "Says.", "inputSchema": {"type": "object"}}]);
    let said = |n: u64| {
        let blocks: Vec<Value> = rows[usize::try_from(n).unwrap()]
            .iter()
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        json!({"content": blocks})
    };
    until(&mut peer, "result", &tools, &said).await;
    let request = peer.model.requests()[1].json();
    let results: Vec<&Value> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|it| it["content"].as_array().unwrap())
        .filter(|it| it["type"] == "tool_result")
        .collect();
    assert_eq!(results.len(), rows.len());
    for (row, result) in rows.iter().zip(results) {
        assert_eq!(texts(&result["content"]), row.to_vec(), "{result}");
    }
    assert_eq!(peer.end().await.1, Some(0));
}

/// The permission prompt for a call that destroys data irrecoverably says so, in every frontend.
#[tokio::test]
async fn a_question_says_what_cannot_be_brought_back() {
    let warning = "cannot be brought back";
    let tools = json!([
        {"name": "drop", "description": "Drops.", "inputSchema": {"type": "object"},
         "annotations": {"destructiveHint": true}},
        {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}]);
    for (name, warns) in [("drop", true), ("look", false)] {
        let haft = Haft::new();
        let turns = vec![Turn::tool(format!("mcp__host__{name}"), json!({"n": 0})), Turn::text("done")];
        let args = ["--permission-prompt-tool", "stdio", "--mcp-config", SERVER];
        let mut peer = Peer::start(&haft, turns, &args).await;
        peer.request("r1", json!({"subtype": "initialize"})).await;
        peer.say("go").await;
        let asked = until(&mut peer, "can_use_tool", &tools, &|_| json!({"content": []})).await;
        assert_eq!(asked["request"]["description"].as_str().unwrap().contains(warning), warns, "{asked}");
        peer.answer(&asked, json!({"behavior": "deny", "message": "no"})).await;
        until(&mut peer, "result", &tools, &|_| json!({"content": []})).await;
        assert_eq!(peer.end().await.1, Some(0));
    }
    for (input, warns) in [
        (json!({"operation": "push", "remote": "origin", "branch": "x"}), true),
        (json!({"operation": "commit", "message": "m", "paths": ["a.txt"]}), false),
    ] {
        let haft = Haft::new();
        haft.write("a.txt", "one\n");
        for line in [&["init", "-q"][..], &["remote", "add", "origin", "/nowhere"]] {
            let done = std::process::Command::new("git").args(line).current_dir(haft.ws()).status().unwrap();
            assert!(done.success());
        }
        let turns = [Turn::tool("Git", input.clone()), Turn::text("ok")];
        let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
        let mut editor = EditorClient::start(&haft, &model, &[]);
        editor.answering = silent;
        editor.begin(json!({})).await;
        let session = editor.new_session(&haft).await;
        editor.ask("session/prompt", prompt_params(&session, "go")).await;
        let asked = editor.until(|it| it["method"] == "session/request_permission").await;
        let shown = asked["params"]["toolCall"]["content"].to_string();
        assert_eq!(shown.contains(warning), warns, "{input}: {shown}");
    }
}

/// A call that changes the directory runs alone: later calls of the same answer run in the new
/// directory.
#[tokio::test]
async fn calls_behind_a_change_of_directory_run_there() {
    for line in ["cd d", "cd d && true", "pushd d >/dev/null", "cd \"$PWD/d\"", "cd ./d; sleep 0.2"] {
        let haft = Haft::new();
        haft.write("x", "outer\n");
        haft.write("d/x", "inner\n");
        let bash = |command: &str| ReplyPiece::tool("Bash", json!({"command": command}));
        let read = ReplyPiece::tool("Read", json!({"file_path": "x"}));
        let model = MockModel::start(Script::from_turns([
            Turn::from_pieces([bash(line), bash("pwd"), bash("cat x"), read]),
            Turn::text("done"),
        ]));
        let model = model.await.unwrap();
        let output = haft
            .async_command()
            .args(["-p", "go", "--allowedTools", "Bash"])
            .env("ANTHROPIC_BASE_URL", model.url())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let request = model.requests()[1].json();
        let message = request["messages"].as_array().unwrap().last().unwrap().clone();
        let results: Vec<String> = message["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| texts(&it["content"]).join("\n"))
            .collect();
        let inner = haft.ws().join("d").display().to_string();
        assert!(results[1].starts_with(&inner), "{line}: {results:?}");
        assert!(results[2].starts_with("inner") && results[3].contains("inner"), "{line}: {results:?}");
    }
}

/// Models that support thinking think by default, unless the user turns it off.
#[tokio::test]
async fn models_think_where_they_can_unless_somebody_says_no() {
    let said_no = json!({"alwaysThinkingEnabled": false});
    let said_yes = json!({"alwaysThinkingEnabled": true});
    for (model, settings, want) in [
        ("claude-opus-5", json!({}), json!("adaptive")),
        ("claude-opus-4-6", json!({}), json!("adaptive")),
        ("claude-sonnet-4-6", json!({}), json!("adaptive")),
        ("claude-haiku-5-5", json!({}), json!("adaptive")),
        ("claude-sonnet-4-6", said_no.clone(), json!("disabled")),
        ("claude-opus-5", said_no, json!("disabled")),
        ("claude-sonnet-4-5", said_yes, json!("enabled")),
        ("claude-3-5-haiku", json!({}), Value::Null),
    ] {
        let haft = Haft::new();
        haft.write_home(".haft/settings.json", &settings.to_string());
        let mock = MockModel::start(Script { strict: false, ..Script::from_turns([Turn::text("done")]) })
            .await
            .unwrap();
        let output = haft
            .async_command()
            .args(["-p", "go", "--model", model])
            .env("ANTHROPIC_BASE_URL", mock.url())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{model}: {}", String::from_utf8_lossy(&output.stderr));
        let request = mock.requests()[0].json();
        let thinking = &request["thinking"];
        assert!(
            thinking["type"] == want || (want == "disabled" && thinking.is_null()),
            "{model} {settings}: {thinking}"
        );
    }
}
