//! What an untrusted project, and another configuration directory, can change in a session of an Agent
//! SDK.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common::Haft;
use crate::peer::Peer;

use haft_testkit::{ReplyPiece, Turn};
use serde_json::{Value, json};

fn init(frames: &[Value]) -> &Value {
    frames.iter().find(|it| it["subtype"] == "init").unwrap()
}

fn bash(command: &str) -> ReplyPiece {
    ReplyPiece::tool("Bash", json!({"command": command}))
}

/// A project whose settings ask for every permission.
fn greedy_project() -> Haft {
    let haft = Haft::new();
    let outside = haft.home().join("outside");
    haft.write_home("outside/note", "note");
    let hook =
        json!([{"hooks": [{"type": "command", "command": format!("touch {}/hooked", haft.ws().display())}]}]);
    let settings = json!({
        "outputStyle": "Explanatory", "model": "claude-sonnet-4-5",
        "permissions": {
            "allow": ["Bash(touch *)"], "deny": ["Bash(touch denied)"], "additionalDirectories": [outside],
        },
        "hooks": {"UserPromptSubmit": hook}, "env": {"FROM_PROJECT": "yes"},
    });
    haft.write(".claude/settings.json", &settings.to_string());
    haft.write(".mcp.json", r#"{"mcpServers": {"theirs": {"command": "/no/such/program"}}}"#);
    haft.write("CLAUDE.md", "The word is xyzzy.");
    haft
}

/// Naming the project as a settings source loads its memory, style and model, but grants no permissions.
#[tokio::test]
async fn named_project_source_of_a_host_widens_nothing_without_trust() {
    for (args, trusts) in [
        (&["--setting-sources=project"][..], json!(null)),
        (&["--setting-sources=user,project,local"], json!(null)),
        (&[], json!(null)),
        (&["--setting-sources=project"], json!({"accepted": true, "directory": "/elsewhere"})),
        (&["--setting-sources=project"], json!({"accepted": false, "directory": "$WS"})),
        (&["--setting-sources=project"], json!({"accepted": true, "directory": "$WS"})),
        (&[], json!({"accepted": true, "directory": "$WS"})),
    ] {
        let haft = greedy_project();
        let trusts: Value =
            serde_json::from_str(&trusts.to_string().replace("$WS", &haft.ws().to_string_lossy())).unwrap();
        let is_trusted = trusts["accepted"] == true && trusts["directory"] != "/elsewhere";
        let turns = vec![
            Turn::from_pieces([
                bash("touch allowed"),
                bash("touch denied"),
                bash("touch \"env-$FROM_PROJECT\""),
                ReplyPiece::tool("Read", json!({"file_path": haft.home().join("outside/note")})),
            ]),
            Turn::text("Done."),
        ];
        let mut peer =
            Peer::start(&haft, turns, &[&["--permission-prompt-tool", "stdio"][..], args].concat()).await;
        peer.request("r1", json!({"subtype": "initialize", "workspaceTrust": trusts})).await;
        peer.say("go").await;
        let (mut frames, mut asked) = (Vec::new(), Vec::new());
        loop {
            let frame = peer.next().await.unwrap();
            if frame["request"]["subtype"] == "can_use_tool" {
                let input = &frame["request"]["input"];
                asked.push(input["command"].as_str().unwrap_or("a file outside").to_owned());
                peer.answer(&frame, json!({"behavior": "deny", "message": "no"})).await;
            }
            frames.push(frame);
            if frames.last().unwrap()["type"] == "result" {
                break;
            }
        }
        let case = format!("{args:?} {trusts}");
        let begun = init(&frames);
        assert_eq!(
            (&begun["output_style"], &begun["model"]),
            (&json!("Explanatory"), &json!("claude-sonnet-4-5")),
            "{case}"
        );
        assert!(peer.model.requests()[0].json().to_string().contains("xyzzy"), "{case}");
        let has = |name: &str| haft.ws().join(name).exists();
        assert!(!has("denied"), "{case}");
        assert_eq!([has("hooked"), has("allowed")], [is_trusted; 2], "{case}");
        for question in ["touch allowed", "a file outside"] {
            assert_eq!(asked.iter().any(|it| it == question), !is_trusted, "{case}: {asked:?}");
        }
        let servers = begun["mcp_servers"].as_array().unwrap().len();
        assert_eq!(0 < servers, is_trusted, "{case}: {begun}");
        assert!(is_trusted || !has("env-yes"), "{case}");
        let (_, _, stderr) = peer.end().await;
        assert!(is_trusted || stderr.contains("haft trust"), "{case}: {stderr}");
    }
}

/// A session whose user always allows `touch`. Returns whether the next session with these variables
/// asks again.
async fn asks(haft: &Haft, variables: &[(&str, String)]) -> bool {
    let turns = vec![Turn::from_pieces([bash("touch made")]), Turn::text("Done.")];
    let mut peer = Peer::with(haft, turns, &["--permission-prompt-tool", "stdio"], variables).await;
    peer.say("go").await;
    let mut asked = false;
    loop {
        let frame = peer.next().await.unwrap();
        if frame["type"] == "result" {
            break;
        }
        if frame["request"]["subtype"] == "can_use_tool" {
            asked = true;
            let rule = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch *"}],
                "behavior": "allow", "destination": "userSettings"});
            let allow = json!({"behavior": "allow", "updatedInput": frame["request"]["input"], "updatedPermissions": [rule]});
            peer.answer(&frame, allow).await;
        }
    }
    assert_eq!(peer.end().await.1, Some(0));
    asked
}

/// A rule saved to one configuration directory does not apply with another one.
#[tokio::test]
async fn saved_user_rules_stay_in_their_configuration() {
    let haft = Haft::new();
    let dir = |name: &str| haft.dir.path().join(name).display().to_string();
    let claude = |name: &str| vec![("CLAUDE_CONFIG_DIR", dir(name))];
    let own = |name: &str| vec![("HAFT_CONFIG_DIR", dir(name))];
    let home = haft.home().join(".claude").display().to_string();
    for (variables, want) in [
        (claude("c1"), true),
        (claude("c1"), false),
        (claude("c2"), true),
        (own("h1"), true),
        (own("h1"), false),
        (own("h2"), true),
        ([claude("c1"), own("h3")].concat(), true),
        // The default configuration has no saved rule, and stays unaffected.
        (vec![], true),
        (vec![], false),
        (vec![("CLAUDE_CONFIG_DIR", home)], false),
        (claude("c3"), true),
        (own("h4"), true),
    ] {
        assert_eq!(asks(&haft, &variables).await, want, "{variables:?}");
    }
    for place in ["c1/.haft", "h1", "home/.haft"] {
        assert!(haft.dir.path().join(place).join("settings.json").is_file(), "{place}");
    }
}

/// Trust and sessions also belong to one configuration directory.
#[tokio::test]
async fn trust_and_sessions_stay_in_their_configuration() {
    let haft = greedy_project();
    let dir = |name: &str| haft.dir.path().join(name).display().to_string();
    let run = |args: &[&str], name: &str, value: &str| {
        let mut command = haft.command();
        if !name.is_empty() {
            command.env(name, value);
        }
        let output = command.args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["trust", "--yes"], "CLAUDE_CONFIG_DIR", &dir("c1"));
    for (name, value, waits) in [
        ("CLAUDE_CONFIG_DIR", dir("c1"), false),
        ("CLAUDE_CONFIG_DIR", dir("c2"), true),
        ("HAFT_CONFIG_DIR", dir("h1"), true),
        ("", String::new(), true),
    ] {
        let variables: Vec<(&str, String)> =
            if name.is_empty() { vec![] } else { vec![(name, value.clone())] };
        let mut peer = Peer::with(&haft, vec![Turn::text("Hi.")], &[], &variables).await;
        peer.say("go").await;
        peer.result().await;
        let stderr = peer.end().await.2;
        assert_eq!(stderr.contains("haft trust"), waits, "{name}={value}: {stderr}");
    }
    let sessions = |name: &str, value: &str| run(&["sessions"], name, value).lines().count();
    for (name, value, count) in [
        ("CLAUDE_CONFIG_DIR", dir("c1"), 1),
        ("CLAUDE_CONFIG_DIR", dir("c9"), 0),
        ("HAFT_CONFIG_DIR", dir("h1"), 1),
        ("HAFT_CONFIG_DIR", dir("h9"), 0),
    ] {
        assert_eq!(sessions(name, &value), count, "{name}={value}");
    }
}
