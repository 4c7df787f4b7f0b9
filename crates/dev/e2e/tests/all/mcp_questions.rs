//! Elicitation and sampling with real servers: hooks that answer for the user or override, and sampling
//! with tools that is charged to the session.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;
use crate::peer;

use std::{
    path::Path,
    process::{Output, Stdio},
};

use common::{Haft, text};
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use peer::Peer;
use serde_json::{Value, json};

/// Configures a server with these modes for the user.
fn add(haft: &Haft, name: &str, modes: &str, more: Value) {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/mcp-client/tests/all/support/odd_server.py");
    let mut entry = json!({
        "command": "python3",
        "args": ["-IS", script, modes],
        "env": {"ODD_NOTES": haft.home().join(format!("{name}.notes"))},
    });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    haft.ok(&["mcp", "add-json", "-s", "user", name, &entry.to_string()], "");
}

/// Hooks in the user's settings: event, matcher (empty: every server), shell command.
fn hooks(haft: &Haft, hooks: &[(&str, &str, &str)]) {
    let mut by_event = json!({});
    for (event, matcher, line) in hooks {
        let group = json!({"matcher": matcher, "hooks": [{"type": "command", "command": line}]});
        match by_event[*event].as_array_mut() {
            Some(groups) => groups.push(group),
            None => by_event[*event] = json!([group]),
        }
    }
    haft.write_home(".haft/settings.json", &json!({"hooks": by_event}).to_string());
}

/// A shell command that answers a hook with these fields and stores its input.
fn says(event: &str, mut answer: Value) -> String {
    answer["hookEventName"] = json!(event);
    format!("cat >> \"$HOME/{event}.seen\"; echo '{}'", json!({"hookSpecificOutput": answer}))
}

/// Inputs that the hooks of an event received.
fn seen(haft: &Haft, event: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(haft.home().join(format!("{event}.seen"))).unwrap_or_default();
    serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect()
}

/// What a tool of the server received as the answer to its elicitation, without a user.
fn answered(haft: &Haft, server: &str) -> (Value, String) {
    let call = json!({"name": format!("mcp__{server}__echo"), "input": {"text": "x"}});
    let output = haft.run(&["tool", "run", "--allowedTools", "mcp__odd"], &format!("{call}\n"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let said = serde_json::from_str(text(&report)).unwrap_or_else(|_| panic!("{report}"));
    (said, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_hook_answers_or_refuses_for_the_person() {
    let haft = Haft::new();
    add(&haft, "odd", "form", json!({}));
    let answer = |answer: Value| says("Elicitation", answer);
    let oslo = json!({"action": "accept", "content": {"city": "Oslo"}});
    let yes = json!({"action": "accept", "content": {"city": "Oslo", "seats": 2}});
    let no = json!({"action": "decline"});
    for (rows, want, complaint) in [
        // Default values of the form are filled in, as for a user.
        (&[("", answer(oslo.clone()))][..], yes.clone(), ""),
        (&[("odd", answer(no.clone()))], no.clone(), ""),
        (&[("", answer(json!({"action": "cancel"})))], json!({"action": "cancel"}), ""),
        // No answer from a hook, or only a hook of another server: declined without a user.
        (&[("", String::from("true"))], no.clone(), ""),
        (&[("other", answer(oslo.clone()))], no.clone(), ""),
        // Exit status 2 declines; its reason is shown to the user.
        (&[("", String::from("echo not today >&2; exit 2"))], no.clone(), "not today"),
        // The stricter of two answers wins.
        (&[("", answer(oslo.clone())), ("o.d", answer(no.clone()))], no.clone(), ""),
        // An answer that does not fit the form is ignored.
        (
            &[("", answer(json!({"action": "accept", "content": {"city": "O", "seats": 99}})))],
            no.clone(),
            "its form does not take",
        ),
        (&[("", answer(json!({"action": "perhaps"})))], no.clone(), "was skipped"),
        // A hook that fails gives no answer.
        (&[("", format!("{}; exit 1", answer(no.clone())))], no.clone(), ""),
        (&[("", String::from("kill -9 $$"))], no.clone(), "was skipped"),
    ] {
        let rows: Vec<(&str, &str, &str)> =
            rows.iter().map(|(matcher, line)| ("Elicitation", *matcher, line.as_str())).collect();
        hooks(&haft, &rows);
        let (said, stderr) = answered(&haft, "odd");
        assert_eq!(said, want, "{rows:?}: {stderr}");
        assert!(stderr.contains(complaint), "{rows:?}: {stderr}");
    }
    let told = &seen(&haft, "Elicitation")[0];
    assert_eq!(told["hook_event_name"], "Elicitation");
    assert_eq!(told["mcp_server_name"], "odd");
    assert_eq!((&told["mode"], &told["message"]), (&json!("form"), &json!("Where to, and how many?")));
    assert_eq!(told["requested_schema"]["required"], json!(["city"]));
    assert!(told["session_id"].is_string() && told["cwd"].is_string() && told["permission_mode"].is_string());
}

#[test]
fn hooks_have_the_last_word_about_what_a_server_is_told() {
    let haft = Haft::new();
    add(&haft, "odd", "form", json!({}));
    let first = says("Elicitation", json!({"action": "accept", "content": {"city": "Oslo"}}));
    let no = json!({"action": "decline"});
    for (result, want) in [
        (String::from("true"), json!({"action": "accept", "content": {"city": "Oslo", "seats": 2}})),
        (
            says("ElicitationResult", json!({"action": "accept", "content": {"city": "Rome", "seats": 1}})),
            json!({"action": "accept", "content": {"city": "Rome", "seats": 1}}),
        ),
        (says("ElicitationResult", json!({"action": "decline", "content": {}})), no.clone()),
        (String::from("exit 2"), no.clone()),
        // The overriding content does not fit the form, so the first answer stays.
        (
            says("ElicitationResult", json!({"action": "accept", "content": {"seats": 1}})),
            json!({"action": "accept", "content": {"city": "Oslo", "seats": 2}}),
        ),
    ] {
        hooks(&haft, &[("Elicitation", "", &first), ("ElicitationResult", "odd", &result)]);
        let (said, stderr) = answered(&haft, "odd");
        assert_eq!(said, want, "{result}: {stderr}");
    }
    let told = &seen(&haft, "ElicitationResult")[0];
    assert_eq!(
        (&told["mcp_server_name"], &told["action"], &told["mode"]),
        (&json!("odd"), &json!("accept"), &json!("form"))
    );
    assert_eq!(told["content"], json!({"city": "Oslo", "seats": 2}));
}

#[test]
fn pages_are_answered_by_hooks_too_and_only_real_ones() {
    let haft = Haft::new();
    add(&haft, "odd", "page", json!({}));
    hooks(&haft, &[("Elicitation", "", &says("Elicitation", json!({"action": "accept"})))]);
    assert_eq!(answered(&haft, "odd").0, json!({"action": "accept"}));
    let told = &seen(&haft, "Elicitation")[0];
    assert_eq!((&told["mode"], &told["url"]), (&json!("url"), &json!("https://pay.test/now")));
    assert_eq!(told["elicitation_id"], "e-7");
    haft.ok(&["mcp", "remove", "odd"], "");
    add(&haft, "odd", "bad_page", json!({}));
    assert_eq!(answered(&haft, "odd").0, json!({"action": "decline"}), "a file is no page");
    assert_eq!(seen(&haft, "Elicitation").len(), 1);
}

/// Without a possible answerer the elicitation capability is not offered to servers.
#[test]
fn questions_are_offered_where_somebody_answers() {
    let haft = Haft::new();
    add(&haft, "odd", "form", json!({}));
    let offered = || {
        std::fs::remove_file(haft.home().join("odd.notes")).ok();
        answered(&haft, "odd");
        let notes = std::fs::read_to_string(haft.home().join("odd.notes")).unwrap();
        let first = notes.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        let mut begun = first.filter(|it| it["method"] == "initialize");
        begun.next().unwrap()["params"]["capabilities"]["elicitation"].is_object()
    };
    assert!(!offered());
    hooks(&haft, &[("Elicitation", "", "true")]);
    assert!(offered());
}

/// Hooks of an SDK host, registered after the session started.
#[tokio::test]
async fn callbacks_of_a_host_answer_too() {
    let haft = Haft::new();
    add(&haft, "odd", "form", json!({}));
    let turns = vec![Turn::tool("mcp__odd__echo", json!({"text": "x"})), Turn::text("Done.")];
    let mut peer = Peer::start(&haft, turns, &["--allowedTools", "mcp__odd"]).await;
    let callback = |id: &str| json!([{"matcher": null, "hookCallbackIds": [id]}]);
    let hooks = json!({"Elicitation": callback("h1"), "ElicitationResult": callback("h2")});
    peer.request("r1", json!({"subtype": "initialize", "hooks": hooks})).await;
    peer.say("go").await;
    let is_callback = |it: &Value| it["request"]["subtype"] == "hook_callback";
    let first = peer.until(is_callback).await.pop().unwrap();
    assert_eq!(first["request"]["input"]["mcp_server_name"], "odd");
    let yes = json!({"hookSpecificOutput": {"hookEventName": "Elicitation", "action": "accept",
        "content": {"city": "Oslo", "seats": 4}}});
    peer.answer(&first, yes).await;
    let second = peer.until(is_callback).await.pop().unwrap();
    assert_eq!(second["request"]["input"]["content"]["seats"], 4);
    peer.answer(&second, json!({})).await;
    peer.until(|it| it["type"] == "result").await;
    let bodies: Vec<Value> = peer.model.requests().iter().map(|it| it.json()).collect();
    assert!(bodies[1]["messages"].to_string().contains("Oslo"), "{}", bodies[1]["messages"]);
    peer.end().await;
}

/// Runs `haft -p` with a model that plays these turns.
async fn run(haft: &Haft, turns: Vec<Turn>, args: &[&str]) -> (Output, Vec<Value>) {
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let output = haft
        .async_command()
        .args(["-p", "go", "--mcp-wait", "120", "--allowedTools", "mcp__odd", "--output-format", "json"])
        .args(args)
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(model.refusals(), [""; 0]);
    (output, model.requests().iter().map(|it| it.json()).collect())
}

fn last_words(body: &Value) -> String {
    body["messages"].as_array().unwrap().last().unwrap().to_string()
}

#[tokio::test]
async fn a_server_hands_tools_of_its_own_to_the_model() {
    let haft = Haft::new();
    add(&haft, "odd", "sample", json!({"sampling": {"approval": "always"}}));
    let turns = vec![
        Turn::tool("mcp__odd__echo", json!({"text": "x"})),
        Turn::from_pieces([
            ReplyPiece::text("Let me look."),
            ReplyPiece::tool("weather", json!({"city": "Oslo"})),
        ]),
        Turn::text("It rains."),
        Turn::text("Done."),
    ];
    let (output, bodies) = run(&haft, turns, &[]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(bodies[1]["tools"][0]["name"], "weather", "{}", bodies[1]);
    let result = &bodies[2]["messages"][2]["content"][0];
    assert_eq!((&result["type"], &result["content"][0]["text"]), (&json!("tool_result"), &json!("rain")));
    assert!(last_words(&bodies[3]).contains("It rains."), "{}", last_words(&bodies[3]));
    let notes = std::fs::read_to_string(haft.home().join("odd.notes")).unwrap();
    assert!(notes.contains(r#""sampling": {"tools": {}}"#), "{notes}");
    assert!(notes.contains(r#""stopReason": "toolUse""#), "{notes}");
}

#[tokio::test]
async fn questions_that_cannot_be_asked_are_refused_with_the_right_code() {
    let haft = Haft::new();
    add(&haft, "odd", "sample_bad", json!({"sampling": {"approval": "always"}}));
    let call = || Turn::tool("mcp__odd__echo", json!({"text": "x"}));
    let (_, bodies) = run(&haft, vec![call(), Turn::text("Done.")], &[]).await;
    let said = last_words(&bodies[1]);
    assert!(said.contains("-32602") && said.contains("tool result missing"), "{said}");
    // No approver is available.
    haft.ok(&["mcp", "remove", "odd"], "");
    add(&haft, "odd", "sample", json!({"sampling": true}));
    let (_, bodies) = run(&haft, vec![call(), Turn::text("Done.")], &[]).await;
    let said = last_words(&bodies[1]);
    assert!(said.contains("\\\"code\\\": -1") && said.contains("nobody is there"), "{said}");
}

#[tokio::test]
async fn what_servers_ask_the_model_is_paid_by_the_session() {
    let haft = Haft::new();
    add(&haft, "odd", "sample", json!({"sampling": {"approval": "always"}}));
    let call = || Turn::tool("mcp__odd__echo", json!({"text": "x"}));
    let sampled = || Turn::text("It rains.");
    let result = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let (without, bodies) = run(&haft, vec![Turn::text("a"), Turn::text("b")], &[]).await;
    assert_eq!(bodies.len(), 1);
    let (with, bodies) = run(&haft, vec![call(), sampled(), Turn::text("Done.")], &[]).await;
    assert_eq!(bodies.len(), 3);
    let tokens = |it: &Value| it["usage"]["output_tokens"].as_u64().unwrap();
    let (without, with) = (result(&without), result(&with));
    assert!(2 * tokens(&without) < tokens(&with), "three answers, not two: {without} {with}");
    let cost = with["total_cost_usd"].as_f64().unwrap();
    // A limit that one answer does not reach, but two do.
    let limit = format!("{}", cost * 0.55);
    let turns = vec![call(), sampled(), call(), sampled(), Turn::text("Done.")];
    let (output, bodies) = run(&haft, turns, &["--max-budget-usd", &limit]).await;
    let ended = result(&output);
    assert_eq!(ended["subtype"], "error_max_budget_usd", "{ended}");
    assert!(bodies.len() < 5, "{} requests", bodies.len());
}
