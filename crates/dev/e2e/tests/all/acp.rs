//! `haft acp`, driven by a raw test client. Every line it receives is validated against the pinned
//! schema of the protocol.

use std::time::Duration;

use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

use crate::{
    common::Haft,
    editor::{EditorClient, prompt_params, silent},
};

async fn stage(turns: impl IntoIterator<Item = Turn>) -> (Haft, MockModel) {
    let haft = Haft::new();
    haft.write("a.txt", "one\ntwo\n");
    (haft, MockModel::start(Script::from_turns(turns)).await.unwrap())
}

fn edit() -> Turn {
    Turn::tool("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "three"}))
}

/// What an editor shows at the end: consecutive text joined, each call with all its updates merged, the
/// last plan.
pub fn folded(updates: &[Value]) -> Value {
    let mut shown: Vec<Value> = Vec::new();
    let mut plan = Value::Null;
    for update in updates {
        let kind = update["sessionUpdate"].as_str().unwrap();
        match kind {
            "agent_message_chunk" | "agent_thought_chunk" => {
                let words = update["content"]["text"].as_str().unwrap();
                let id = &update["messageId"];
                match shown.last_mut() {
                    Some(last) if last["kind"] == kind && last["id"] == *id => {
                        let before = last["words"].as_str().unwrap();
                        last["words"] = json!(format!("{before}{words}"));
                    }
                    _ => shown.push(json!({"kind": kind, "id": id, "words": words})),
                }
            }
            "tool_call" => shown.push(update.clone()),
            "tool_call_update" => {
                let call = shown.iter_mut().find(|it| it["toolCallId"] == update["toolCallId"]).unwrap();
                for (key, value) in
                    update.as_object().unwrap().iter().filter(|(key, _)| *key != "sessionUpdate")
                {
                    call[key] = value.clone();
                }
            }
            "plan" => plan = update["entries"].clone(),
            _ => (),
        }
    }
    json!({"shown": shown, "plan": plan})
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one conversation, told from beginning to end")]
async fn a_whole_turn_and_the_same_when_it_is_loaded() {
    let todos = json!({"todos": [{"content": "x", "status": "in_progress", "activeForm": "x"}]});
    let (haft, model) = stage([
        Turn::from_pieces([
            ReplyPiece::thinking("Let me see."),
            ReplyPiece::text("Looking at it, with quite a few words that come piece by piece."),
            ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
            ReplyPiece::tool("Grep", json!({"pattern": "two"})),
        ]),
        Turn::from_pieces([
            ReplyPiece::tool("TodoWrite", todos),
            ReplyPiece::tool(
                "Edit",
                json!({"file_path": "a.txt", "old_string": "one", "new_string": "three"}),
            ),
            ReplyPiece::tool("Write", json!({"file_path": "new.txt", "content": "made\n"})),
            ReplyPiece::tool("Bash", json!({"command": "echo hi > b.txt; echo out"})),
            ReplyPiece::tool("Read", json!({"file_path": "missing.txt"})),
        ]),
        Turn::text("Done."),
    ])
    .await;
    let mut editor = EditorClient::start(&haft, &model, &[]);
    let hello = editor.begin(json!({"session": {"notices": {}, "compaction": {}}})).await;
    assert_eq!(hello["protocolVersion"], 1);
    let session = editor.new_session(&haft).await;
    let commands =
        editor.until(|it| it["params"]["update"]["sessionUpdate"] == "available_commands_update").await;
    let commands = commands["params"]["update"]["availableCommands"].as_array().unwrap().clone();
    assert!(commands.iter().any(|it| it["name"] == "compact"), "{commands:?}");
    assert_eq!(editor.prompt(&session, "go").await, Ok(json!({"stopReason": "end_turn"})));
    let live = editor.updates(&session);

    let kinds: Vec<(String, String)> = live
        .iter()
        .filter(|it| it["sessionUpdate"] == "tool_call")
        .map(|it| (it["name"].as_str().unwrap().to_owned(), it["kind"].as_str().unwrap().to_owned()))
        .collect();
    let pairs = [
        ("Read", "read"),
        ("Grep", "search"),
        ("TodoWrite", "think"),
        ("Edit", "edit"),
        ("Write", "edit"),
        ("Bash", "execute"),
        ("Read", "read"),
    ];
    assert_eq!(kinds, pairs.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
    let end = folded(&live);
    let call =
        |name: &str| end["shown"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
    let path = haft.ws().join("a.txt");
    assert_eq!(
        call("Edit")["content"],
        json!([{"type": "diff", "path": path, "oldText": "one\ntwo\n", "newText": "three\ntwo\n"}])
    );
    assert_eq!(call("Edit")["locations"], json!([{"path": path, "line": 1}]));
    assert_eq!(call("Write")["content"][0]["oldText"], Value::Null);
    assert_eq!(
        call("Bash")["content"][1],
        json!({"type": "diff", "path": haft.ws().join("b.txt"), "oldText": null, "newText": "hi\n"})
    );
    assert_eq!(end["shown"].as_array().unwrap().iter().filter(|it| it["status"] == "failed").count(), 1);
    assert_eq!(end["plan"], json!([{"content": "x", "priority": "medium", "status": "in_progress"}]));
    let usage = editor.updates_of(&session, "usage_update");
    let cost = usage.last().unwrap()["cost"]["amount"].as_f64().unwrap();
    assert!(0.0 < cost && usage.last().unwrap()["size"].as_u64().unwrap() > 0, "{usage:?}");

    // Load the session in the same process after closing it, then in another process.
    assert_eq!(editor.call("session/close", json!({"sessionId": session})).await, Ok(json!({})));
    let before = editor.updates(&session).len();
    let params = json!({"sessionId": session, "cwd": haft.ws(), "mcpServers": []});
    editor.call("session/load", params.clone()).await.unwrap();
    let replayed = editor.updates(&session)[before..].to_vec();
    assert_eq!(folded(&replayed), end);
    editor.end().await;
    let mut second = EditorClient::start(&haft, &model, &[]);
    second.begin(json!({})).await;
    second.call("session/load", params).await.unwrap();
    let replayed = second.updates(&session);
    assert_eq!(folded(&replayed), end);
    assert_eq!(replayed[0]["content"]["text"], "go");
    let told = replayed.iter().rfind(|it| it["sessionUpdate"] == "usage_update").unwrap();
    assert!((told["cost"]["amount"].as_f64().unwrap() - cost).abs() < 1e-9, "{told}");
    let listed = second.call("session/list", json!({"cwd": haft.ws()})).await.unwrap();
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str());
    let all = second.call("session/list", json!({})).await.unwrap();
    assert_eq!(all["sessions"][0]["cwd"], json!(haft.ws()));
    second.end().await;
}

#[tokio::test]
async fn questions_show_what_would_happen_and_are_answered_by_their_options() {
    let (haft, model) = stage([
        edit(),
        Turn::tool("Bash", json!({"command": "touch made.txt\ntouch also.txt"})),
        Turn::text("ok"),
    ])
    .await;
    let mut editor = EditorClient::start(&haft, &model, &[]);
    editor.answering = silent;
    editor.begin(json!({})).await;
    let session = editor.new_session(&haft).await;
    let prompt = editor.ask("session/prompt", prompt_params(&session, "go")).await;
    let asked = editor.until(|it| it["method"] == "session/request_permission").await;
    let call = &asked["params"]["toolCall"];
    assert_eq!(
        call["content"][0],
        json!({"type": "diff", "path": haft.ws().join("a.txt"), "oldText": "one\ntwo\n", "newText": "three\ntwo\n"})
    );
    let options = asked["params"]["options"].as_array().unwrap();
    assert_eq!(options[0]["optionId"], "allow-once");
    assert!(options[1]["name"].as_str().unwrap().starts_with("Always: "), "{options:?}");
    assert_eq!(options.last().unwrap()["kind"], "reject_once");
    editor.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "reject-once"}})).await;
    let asked = editor.until(|it| it["method"] == "session/request_permission").await;
    let call = &asked["params"]["toolCall"];
    assert!(call["title"].as_str().unwrap().contains("touch made.txt ⏎ touch also.txt"), "{call}");
    assert!(
        call["content"][0]["content"]["text"].as_str().unwrap().contains("touch made.txt\ntouch also.txt"),
        "{call}"
    );
    editor.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}})).await;
    assert_eq!(editor.answer(prompt).await, Ok(json!({"stopReason": "end_turn"})));
    assert!(haft.ws().join("made.txt").is_file());
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "one\ntwo\n");
    editor.end().await;
}

#[tokio::test]
async fn a_lasting_yes_is_not_asked_again_by_another_process() {
    let (haft, model) = stage([
        Turn::tool("Bash", json!({"command": "git init -q ."})),
        Turn::text("ok"),
        Turn::tool("Bash", json!({"command": "git init -q ."})),
        Turn::text("ok"),
    ])
    .await;
    fn lasting(method: &str, params: &Value) -> Option<Value> {
        assert_eq!(method, "session/request_permission");
        let options = params["options"].as_array().unwrap();
        let option =
            options.iter().find(|it| it["kind"] == "allow_always").unwrap_or_else(|| panic!("{params}"));
        assert!(option["name"].as_str().unwrap().contains("Bash("), "{option}");
        Some(json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}}))
    }
    for asks in [1, 0] {
        let mut editor = EditorClient::start(&haft, &model, &[]);
        editor.answering = lasting;
        editor.begin(json!({})).await;
        let session = editor.new_session(&haft).await;
        editor.prompt(&session, "go").await.unwrap();
        let lines = editor.end().await;
        let asked = lines.iter().filter(|it| it["method"] == "session/request_permission").count();
        assert_eq!(asked, asks);
    }
}

#[tokio::test]
async fn cancel_ends_the_prompt_at_every_moment_and_the_next_one_works() {
    let stalls = || {
        Turn::from_pieces([ReplyPiece::text("begin"), ReplyPiece::Stall(haft_testkit::StreamStall::Forever)])
    };
    let (haft, model) =
        stage([stalls(), stalls(), stalls(), Turn::text("fine"), edit(), Turn::text("after")]).await;
    let mut editor = EditorClient::start(&haft, &model, &[]);
    editor.answering = silent;
    editor.begin(json!({})).await;
    let session = editor.new_session(&haft).await;
    // Cancelling an idle session has no effect.
    editor.say("session/cancel", json!({"sessionId": session})).await;
    let cancelled = Ok(json!({"stopReason": "cancelled"}));
    for wait in [None, Some("agent_message_chunk"), Some("session_info_update")] {
        let prompt = editor.ask("session/prompt", prompt_params(&session, "go")).await;
        if wait == Some("agent_message_chunk") {
            editor.until(|it| it["params"]["update"]["sessionUpdate"] == "agent_message_chunk").await;
        }
        editor.say("session/cancel", json!({"sessionId": session})).await;
        assert_eq!(editor.answer(prompt).await, cancelled, "{wait:?}");
    }
    // A prompt cancelled before its request was sent leaves scripted turns; consume them.
    while editor.prompt_or_cancel(&session).await == cancelled {}
    // Cancel while a permission request is open: the editor answers it with `cancelled`.
    let prompt = editor.ask("session/prompt", prompt_params(&session, "edit")).await;
    let asked = editor.until(|it| it["method"] == "session/request_permission").await;
    editor.say("session/cancel", json!({"sessionId": session})).await;
    editor.reply(&asked, json!({"outcome": {"outcome": "cancelled"}})).await;
    assert_eq!(editor.answer(prompt).await, cancelled);
    assert_eq!(editor.prompt(&session, "again").await, Ok(json!({"stopReason": "end_turn"})));
    let lines = editor.end().await;
    let after_answer = |line: &&Value| {
        line["method"] == "session/update" && line["params"]["update"]["sessionUpdate"] == "tool_call"
    };
    assert_eq!(lines.iter().filter(after_answer).count(), 1);
}

impl EditorClient {
    /// Sends a prompt and cancels it when the model begins a scripted turn that never ends.
    async fn prompt_or_cancel(&mut self, session: &str) -> Result<Value, Value> {
        let prompt = self.ask("session/prompt", prompt_params(session, "more")).await;
        let said = self.until(|it| it["params"]["update"]["sessionUpdate"] == "agent_message_chunk").await;
        if said["params"]["update"]["content"]["text"] == "begin" {
            self.say("session/cancel", json!({"sessionId": session})).await;
        }
        self.answer(prompt).await
    }
}

#[tokio::test]
async fn modes_and_options_are_one_state_and_count_at_once() {
    let (haft, model) = stage([edit(), Turn::text("ok")]).await;
    let mut editor = EditorClient::start(&haft, &model, &[]);
    editor.begin(json!({})).await;
    let made = editor.call("session/new", json!({"cwd": haft.ws(), "mcpServers": []})).await.unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(made["modes"]["currentModeId"], "default");
    let modes: Vec<&str> = made["modes"]["availableModes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert!(!modes.contains(&"bypassPermissions"), "{modes:?}");
    let set = json!({"sessionId": session, "configId": "mode", "value": "acceptEdits"});
    let options = editor.call("session/set_config_option", set).await.unwrap();
    assert_eq!(options["configOptions"][0]["currentValue"], "acceptEdits");
    assert_eq!(
        editor.updates_of(&session, "current_mode_update").last().unwrap()["currentModeId"],
        "acceptEdits"
    );
    editor.prompt(&session, "go").await.unwrap();
    assert!(editor.heard.iter().all(|(it, _)| it["method"] != "session/request_permission"));
    assert_eq!(
        editor.call("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await,
        Ok(json!({}))
    );
    assert_eq!(
        editor.updates_of(&session, "config_option_update").last().unwrap()["configOptions"][0]["currentValue"],
        "plan"
    );
    for (method, params) in [
        ("session/set_mode", json!({"sessionId": session, "modeId": "bypassPermissions"})),
        ("session/set_mode", json!({"sessionId": session, "modeId": "nonsense"})),
        ("session/set_config_option", json!({"sessionId": session, "configId": "x", "value": "y"})),
        ("session/set_config_option", json!({"sessionId": session, "configId": "effort", "value": "y"})),
        ("session/prompt", json!({"sessionId": session, "prompt": []})),
        ("session/new", json!({"cwd": "relative", "mcpServers": []})),
    ] {
        assert_eq!(
            editor.call(method, params.clone()).await.unwrap_err()["code"],
            -32602,
            "{method} {params}"
        );
    }
    let model_option = json!({"sessionId": session, "configId": "model", "value": "haiku"});
    let options = editor.call("session/set_config_option", model_option).await.unwrap();
    assert_eq!(options["configOptions"][1]["currentValue"], "haiku");
    for (method, params, code) in [
        ("session/prompt", prompt_params("nobody", "x"), -32002),
        ("session/load", json!({"sessionId": "nobody", "cwd": haft.ws(), "mcpServers": []}), -32002),
        ("session/delete", json!({"sessionId": "../../x"}), -32002),
        ("_unknown", json!({}), -32601),
    ] {
        assert_eq!(editor.call(method, params).await.unwrap_err()["code"], code, "{method}");
    }
    editor.end().await;
}

#[tokio::test]
async fn sessions_do_not_wait_for_each_other_and_can_be_forked_and_deleted() {
    let (haft, model) = stage([edit(), Turn::text("b"), Turn::text("a")]).await;
    let mut editor = EditorClient::start(&haft, &model, &[]);
    editor.answering = silent;
    editor.begin(json!({})).await;
    let first = editor.new_session(&haft).await;
    let waits = editor.ask("session/prompt", prompt_params(&first, "edit")).await;
    let asked = editor.until(|it| it["method"] == "session/request_permission").await;
    let second = editor.new_session(&haft).await;
    assert_eq!(editor.prompt(&second, "talk").await, Ok(json!({"stopReason": "end_turn"})));
    editor.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}})).await;
    assert_eq!(editor.answer(waits).await, Ok(json!({"stopReason": "end_turn"})));
    let place = json!({"sessionId": second, "cwd": haft.ws(), "mcpServers": []});
    let forked = editor.call("session/fork", place.clone()).await.unwrap();
    assert_ne!(forked["sessionId"], second.as_str());
    assert!(editor.call("session/delete", json!({"sessionId": second})).await.is_err(), "it is open");
    editor.call("session/close", json!({"sessionId": second})).await.unwrap();
    assert_eq!(editor.call("session/delete", json!({"sessionId": second})).await, Ok(json!({})));
    assert_eq!(editor.call("session/resume", place).await.unwrap_err()["code"], -32002);
    editor.end().await;
}

#[tokio::test]
async fn twenty_sessions_at_once_each_get_their_own() {
    let turns = (0..20).map(|n| Turn::text(format!("answer {n}")));
    let (haft, model) = stage(turns).await;
    let mut editor = EditorClient::start(&haft, &model, &[]);
    editor.begin(json!({})).await;
    let opened: Vec<u64> = {
        let mut ids = Vec::new();
        for _ in 0..20 {
            ids.push(editor.ask("session/new", json!({"cwd": haft.ws(), "mcpServers": []})).await);
        }
        ids
    };
    let mut prompts = Vec::new();
    for id in opened {
        let session = editor.answer(id).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
        prompts.push((editor.ask("session/prompt", prompt_params(&session, "go")).await, session));
    }
    let mut said = Vec::new();
    for (id, session) in prompts {
        assert_eq!(editor.answer(id).await, Ok(json!({"stopReason": "end_turn"})));
        let end = folded(&editor.updates(&session));
        assert_eq!(end["shown"].as_array().unwrap().len(), 1, "{end}");
        said.push(end["shown"][0]["words"].as_str().unwrap().to_owned());
    }
    said.sort();
    let mut want: Vec<String> = (0..20).map(|n| format!("answer {n}")).collect();
    want.sort();
    assert_eq!(said, want);
    editor.end().await;
}

#[tokio::test]
async fn without_a_key_the_editor_is_told_to_log_in() {
    let haft = Haft::new();
    let mut command = haft.async_command();
    command.arg("acp");
    let mut editor = EditorClient::of_command(command);
    let hello = editor.begin(json!({})).await;
    assert_eq!(hello["authMethods"][0]["id"], "api-key");
    let refused = editor.call("session/new", json!({"cwd": haft.ws(), "mcpServers": []})).await.unwrap_err();
    assert_eq!(refused["code"], -32000, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("ANTHROPIC_API_KEY"), "{refused}");
    assert_eq!(
        editor.call("authenticate", json!({"methodId": "api-key"})).await.unwrap_err()["code"],
        -32000
    );
    editor.end().await;
}

/// A client with terminal support gets a terminal login: it runs the named program, after which a key
/// exists.
#[tokio::test]
async fn a_login_in_a_terminal_is_offered_to_editors_that_have_one() {
    let haft = Haft::new();
    let mut command = haft.async_command();
    command.arg("acp");
    let mut editor = EditorClient::of_command(command);
    let hello = editor.begin(json!({"auth": {"terminal": true}})).await;
    let method = &hello["authMethods"][1];
    assert_eq!(method["type"], "terminal");
    let flags: Vec<&str> = method["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let place = json!({"cwd": haft.ws(), "mcpServers": []});
    assert_eq!(editor.call("session/new", place.clone()).await.unwrap_err()["code"], -32000);
    let login = haft.run(&[&["acp"], flags.as_slice()].concat(), "sk-of-a-test\n");
    assert!(login.status.success(), "{}", String::from_utf8_lossy(&login.stderr));
    assert!(editor.call("session/new", place).await.is_ok());
    editor.end().await;
}

#[tokio::test]
async fn nonsense_is_answered_and_harms_nothing() {
    let (haft, model) = stage([Turn::text("still here")]).await;
    let mut editor = EditorClient::start(&haft, &model, &[]);
    editor.begin(json!({})).await;
    for line in
        ["{", "[]", "17", "{\"id\":{}}", "\u{fffd}", "{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}"]
    {
        editor.raw(line).await;
    }
    let session = editor.new_session(&haft).await;
    assert_eq!(editor.prompt(&session, "go").await, Ok(json!({"stopReason": "end_turn"})));
    let errors = editor.heard.iter().filter(|(it, _)| it.get("error").is_some()).count();
    assert_eq!(errors, 5);
    editor.end().await;
}

#[tokio::test]
async fn hooks_and_servers_that_print_leave_the_lines_alone() {
    let (haft, model) = stage([Turn::text("ok")]).await;
    let hook = json!([{"hooks": [{"type": "command", "command": "echo NOISE; echo NOISE >&2"}]}]);
    haft.write_home(
        ".haft/settings.json",
        &json!({"hooks": {"UserPromptSubmit": hook, "SessionStart": hook}}).to_string(),
    );
    let mut editor = EditorClient::start(&haft, &model, &[]);
    editor.begin(json!({})).await;
    let servers = json!([{"name": "noisy", "command": "sh", "args": ["-c", "echo NOISE; echo NOISE >&2; exit 1"], "env": []}]);
    let made = editor.call("session/new", json!({"cwd": haft.ws(), "mcpServers": servers})).await.unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(editor.prompt(&session, "go").await, Ok(json!({"stopReason": "end_turn"})));
    editor.end().await;
}

#[tokio::test]
async fn an_editor_that_is_killed_leaves_nothing_behind() {
    let (haft, model) = stage([Turn::tool("Bash", json!({"command": "sleep 987"})), Turn::text("x")]).await;
    let mut editor = EditorClient::start(&haft, &model, &["--allowedTools", "Bash"]);
    editor.begin(json!({})).await;
    let session = editor.new_session(&haft).await;
    editor.ask("session/prompt", prompt_params(&session, "go")).await;
    editor.until(|it| it["params"]["update"]["sessionUpdate"] == "tool_call").await;
    let pid = editor.pid();
    let children = || {
        let found = std::process::Command::new("pgrep").args(["-f", "^sleep 987$"]).output().unwrap();
        String::from_utf8(found.stdout).unwrap()
    };
    while children().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A killed editor only closes standard input; the process must exit by itself.
    let heard = editor.end().await;
    assert!(!heard.is_empty());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    while !children().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
