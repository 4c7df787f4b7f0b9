//! How a newer Agent SDK starts the program: fields of `initialize` that used to be flags, and unknown
//! flags and messages.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common::Haft;
use crate::peer::Peer;

use haft_testkit::{ReplyPiece, Turn};
use serde_json::{Value, json};

/// Flags of the newest SDK when all options are in `initialize`.
const LAUNCH: [&str; 4] = [
    "--await-initialize",
    "--initialize-fields=settings,disallowedTools",
    "--managed-settings-in-initialize",
    "--nested-model-access",
];

/// The response to the request with this id.
async fn answer(peer: &mut Peer, id: &str) -> Value {
    peer.until(|it| it["response"]["request_id"] == id).await.pop().unwrap()["response"].take()
}

fn init(frames: &[Value]) -> &Value {
    frames.iter().find(|it| it["subtype"] == "init").unwrap()
}

/// Texts of the tool results in a request.
fn results(peer: &Peer, request: usize) -> String {
    peer.model.requests()[request].json()["messages"].to_string()
}

#[tokio::test]
async fn launch_fields_of_initialize_count_before_the_first_turn() {
    let haft = Haft::new();
    haft.write("open.txt", "public words");
    haft.write("secret.txt", "hidden words");
    let read = |name: &str| ReplyPiece::tool("Read", json!({"file_path": haft.ws().join(name)}));
    let touch = ReplyPiece::tool("Bash", json!({"command": "touch made"}));
    let turns = vec![Turn::from_pieces([read("open.txt"), read("secret.txt"), touch]), Turn::text("Done.")];
    let fields = json!({
        "subtype": "initialize",
        "settings": {"permissions": {"allow": ["Bash(touch *)"]}, "outputStyle": "Explanatory"},
        "managedSettings": {"permissions": {"deny": ["Read(./secret.txt)"]}},
        "disallowedTools": ["Grep", "WebFetch"],
        "mcpServers": {"gone": {"command": "/no/such/program", "env": {"KEY": "k"}}, "odd": 7},
    });
    let mut peer = Peer::start(&haft, turns, &LAUNCH).await;
    peer.request("r1", fields.clone()).await;
    peer.say("go").await;
    let first = answer(&mut peer, "r1").await;
    assert_eq!(first["subtype"], "success", "{first}");
    for field in ["settings", "managed_settings", "disallowed_tools", "mcp_servers"] {
        assert_eq!(first["response"][format!("{field}_applied")], true, "{first}");
    }
    let frames = peer.until(|it| it["type"] == "result").await;
    let begun = init(&frames);
    assert_eq!(begun["output_style"], "Explanatory");
    assert_eq!(begun["mcp_servers"][0]["name"], "gone");
    assert_eq!(begun["mcp_servers"].as_array().unwrap().len(), 1, "{begun}");
    let tools = begun["tools"].as_array().unwrap();
    assert!(tools.iter().all(|it| it != "Grep" && it != "WebFetch") && tools.iter().any(|it| it == "Write"));
    let declared = peer.model.requests()[0].json()["tools"].to_string();
    assert!(!declared.contains("\"Grep\"") && declared.contains("\"Write\""));
    let seen = results(&peer, 1);
    assert!(seen.contains("public words") && !seen.contains("hidden words"), "{seen}");
    assert!(haft.ws().join("made").exists());

    // A repeated `initialize` with the same fields is accepted; changed fields are not applied.
    peer.request("r2", fields.clone()).await;
    let again = answer(&mut peer, "r2").await;
    assert_eq!(again["response"]["settings_applied"], true, "{again}");
    let mut others = fields;
    others["disallowedTools"] = json!([]);
    others["mcpServers"] = json!({});
    peer.request("r3", others).await;
    let other = answer(&mut peer, "r3").await["response"].take();
    assert_eq!(
        (&other["disallowed_tools_applied"], &other["mcp_servers_applied"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(other["settings_applied"], true);
    peer.request("r4", json!({"subtype": "initialize"})).await;
    let none = answer(&mut peer, "r4").await["response"].take();
    assert!(none.get("settings_applied").is_none() && none.get("mcp_servers_applied").is_none(), "{none}");
    let (_, code, stderr) = peer.end().await;
    assert_eq!(code, Some(0));
    assert!(stderr.contains("odd") && stderr.lines().count() == 1, "{stderr}");
}

#[tokio::test]
async fn launch_fields_without_the_launch_flag_are_reported_as_not_applied() {
    let haft = Haft::new();
    let mut peer = Peer::start(&haft, vec![Turn::text("Hi.")], &[]).await;
    let servers = json!({"gone": {"command": "/no/such/program"}});
    let request = json!({"subtype": "initialize", "mcpServers": servers, "disallowedTools": ["Edit"]});
    peer.request("r1", request).await;
    let answer = answer(&mut peer, "r1").await["response"].take();
    assert_eq!(
        (&answer["mcp_servers_applied"], &answer["disallowed_tools_applied"]),
        (&json!(false), &json!(false))
    );
    peer.say("go").await;
    let frames = peer.until(|it| it["type"] == "result").await;
    assert_eq!(init(&frames)["mcp_servers"], json!([]));
    assert_eq!(peer.end().await.1, Some(0));
}

/// The host may begin with a prompt, or send nothing.
#[tokio::test]
async fn launch_flag_without_initialize_opens_the_session_all_the_same() {
    let haft = Haft::new();
    let mut peer = Peer::start(&haft, vec![Turn::text("Hi.")], &LAUNCH).await;
    peer.send(json!({"type": "keep_alive"})).await;
    peer.say("go").await;
    assert_eq!(peer.result().await["result"], "Hi.");
    assert_eq!(peer.end().await.1, Some(0));
    let silent = Peer::start(&haft, vec![], &LAUNCH).await;
    assert_eq!(silent.end().await.1, Some(0));
}

#[tokio::test]
async fn launch_settings_that_cannot_be_used_answer_initialize_with_an_error() {
    let haft = Haft::new();
    for (args, settings) in [
        (&[][..], json!({"permissions": {"defaultMode": "nonsense"}})),
        (&["--settings", "missing.json"], json!({"model": "m"})),
    ] {
        let mut peer = Peer::start(&haft, vec![], &[&LAUNCH[..], args].concat()).await;
        peer.request("r1", json!({"subtype": "initialize", "settings": settings})).await;
        let refused = answer(&mut peer, "r1").await;
        assert_eq!(refused["subtype"], "error", "{refused}");
        assert!(refused["error"].as_str().is_some_and(|it| it.contains("ettings")), "{refused}");
        assert_eq!(peer.end().await.1, Some(1));
    }
}

/// Settings of the flag and of the request are merged.
#[tokio::test]
async fn launch_settings_beside_the_flag_add_to_its_rules() {
    let haft = Haft::new();
    let touch = |name: &str| ReplyPiece::tool("Bash", json!({"command": format!("touch {name}")}));
    let turns = vec![Turn::from_pieces([touch("a"), touch("b"), touch("c")]), Turn::text("Done.")];
    let flag = r#"{"permissions": {"deny": ["Bash(touch a)"], "allow": ["Bash(touch b)"]}}"#;
    let mut peer = Peer::start(&haft, turns, &["--await-initialize", "--settings", flag]).await;
    let settings = json!({"permissions": {"allow": ["Bash(touch a)", "Bash(touch c)"]}});
    peer.request("r1", json!({"subtype": "initialize", "settings": settings})).await;
    peer.say("go").await;
    peer.result().await;
    let made: Vec<bool> = ["a", "b", "c"].map(|it| haft.ws().join(it).exists()).to_vec();
    assert_eq!(made, [false, true, true]);
    assert_eq!(peer.end().await.1, Some(0));
}

#[tokio::test]
async fn flags_and_messages_nobody_knows_do_not_end_a_session() {
    let haft = Haft::new();
    let args = ["--future", "--future-mode", "update", "--future-limit=3", "--debug-to-stderr", "-z"];
    let mut peer = Peer::start(&haft, vec![Turn::text("One."), Turn::text("Two.")], &args).await;
    peer.request("r1", json!({"subtype": "initialize", "futureField": {"a": 1}})).await;
    assert_eq!(answer(&mut peer, "r1").await["subtype"], "success");
    peer.request("r2", json!({"subtype": "future_request", "x": 1})).await;
    let refused = answer(&mut peer, "r2").await;
    assert_eq!(
        (&refused["subtype"], &refused["error_code"]),
        (&json!("error"), &json!("unsupported_request"))
    );
    for _ in 0..2 {
        peer.send(json!({"type": "future_message", "x": 1})).await;
    }
    peer.send(json!({"type": "user", "futureField": 1, "message": {"role": "user", "content": "go"}})).await;
    assert_eq!(peer.result().await["result"], "One.");
    let (_, code, stderr) = peer.end().await;
    assert_eq!(code, Some(0));
    let want = [
        "haft: ignored the unknown option --future",
        "haft: ignored the unknown option --future-mode",
        "haft: ignored the unknown option --future-limit",
        "haft: ignored the unknown option -z",
        "haft: ignored a message of the unknown type \"future_message\"",
    ];
    assert_eq!(stderr.lines().collect::<Vec<_>>(), want);
}

/// For a user at a terminal unknown flags stay an error.
#[test]
fn unknown_flags_of_a_user_stay_an_error() {
    let haft = Haft::new();
    for args in [
        &["-p", "go", "--future"][..],
        &["--future", "tool", "list"],
        &["-p", "--output-format", "stream-json", "--future"],
    ] {
        let output = haft.run(args, "");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains("--future"), "{args:?}: {stderr}");
    }
}

/// Acts as an MCP server of the host with the tools `ask`, `deny` and `free`, and allows all permission
/// requests. Returns the tools asked about, the tools called, and the last frame.
async fn serve(peer: &mut Peer) -> (Vec<String>, Vec<String>, Value) {
    let (mut asked, mut called) = (Vec::new(), Vec::new());
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    loop {
        let frame = peer.next().await.unwrap();
        if frame["type"] == "result" {
            return (asked, called, frame);
        }
        let request = frame["request"].clone();
        if request["subtype"] == "can_use_tool" {
            asked.push(text(&request["tool_name"]));
            let allow = json!({"behavior": "allow", "updatedInput": request["input"]});
            peer.answer(&frame, allow).await;
        }
        if request["subtype"] != "mcp_message" {
            continue;
        }
        let message = &request["message"];
        let named = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let tools = ["ask", "deny", "free"].map(named);
        let reply = match message["method"].as_str().unwrap() {
            "initialize" => json!({"result": {
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}}}),
            "tools/list" => json!({"result": {"tools": tools}}),
            "tools/call" => {
                called.push(text(&message["params"]["name"]));
                json!({"result": {"content": [{"type": "text", "text": "ok"}]}})
            }
            _ => json!({"result": {}}),
        };
        peer.answer(&frame, json!({"mcp_response": reply})).await;
    }
}

/// The host's policy for a tool of its server overrides every rule and mode.
#[tokio::test]
async fn tool_policies_of_a_host_are_stronger_than_rules_and_modes() {
    let call = |tool: &str| ReplyPiece::tool(format!("mcp__s__{tool}"), json!({}));
    let all = || vec![Turn::from_pieces([call("ask"), call("deny"), call("free")]), Turn::text("Done.")];
    let tools = json!([
        {"name": "ask", "permission_policy": "always_ask"},
        {"name": "deny", "permission_policy": "always_deny"},
    ]);
    let inline = json!({"mcpServers": {"s": {"type": "sdk", "name": "s", "tools": tools}}}).to_string();
    let configs = json!({"s": {"tools": tools}});
    let ask = ["--permission-prompt-tool", "stdio"];
    let initialize = json!({"subtype": "initialize", "sdkMcpServers": ["s"], "sdkMcpServerConfigs": configs});
    let set =
        json!({"subtype": "mcp_set_servers", "servers": {"s": {"type": "sdk", "name": "s", "tools": tools}}});
    for (args, requests) in [
        (&["--allowedTools", "mcp__s"][..], vec![initialize.clone()]),
        (&["--allowedTools", "mcp__s__ask,mcp__s__deny,mcp__s__free"], vec![initialize.clone()]),
        (&["--dangerously-skip-permissions"], vec![initialize.clone()]),
        (&["--allowedTools", "mcp__s"], vec![json!({"subtype": "initialize"}), set]),
        (&["--allowedTools", "mcp__s", "--mcp-config", &inline], vec![json!({"subtype": "initialize"})]),
        // A repeated `initialize` without policies keeps the earlier ones.
        (
            &["--allowedTools", "mcp__s"],
            vec![initialize.clone(), json!({"subtype": "initialize", "sdkMcpServers": ["s"]})],
        ),
    ] {
        let haft = Haft::new();
        let mut peer = Peer::start(&haft, all(), &[&ask[..], args].concat()).await;
        for (at, request) in requests.iter().enumerate() {
            peer.request(&format!("r{at}"), request.clone()).await;
        }
        peer.say("go").await;
        let (asked, mut called, result) = serve(&mut peer).await;
        called.sort();
        assert_eq!(asked, ["mcp__s__ask"], "{args:?} {result}");
        assert_eq!(called, ["ask", "free"], "{args:?} {result}");
        assert!(results(&peer, 1).contains("is_error"), "{args:?}: the model is told that one did not run");
        assert_eq!(peer.end().await.1, Some(0));
    }
    // No approver is available: calls that would ask are denied.
    let haft = Haft::new();
    let args = ["--permission-mode", "dontAsk", "--allowedTools", "mcp__s"];
    let mut peer = Peer::start(&haft, all(), &[&ask[..], &args].concat()).await;
    peer.request("r1", initialize).await;
    peer.say("go").await;
    let (asked, called, _) = serve(&mut peer).await;
    assert_eq!((asked.len(), called), (0, vec![String::from("free")]));
    assert_eq!(peer.end().await.1, Some(0));
}
