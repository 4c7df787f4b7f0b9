//! Malformed input from editors, and output beside the conversation.

use std::os::unix::fs::PermissionsExt as _;

use haft_testkit::{MockModel, ReplyPiece, Script, StreamCut, Turn};
use serde_json::{Value, json};

use crate::{acp::folded, common::Haft, editor::EditorClient};

async fn stage(turns: impl IntoIterator<Item = Turn>, flags: &[&str]) -> (Haft, MockModel, EditorClient) {
    let haft = Haft::new();
    haft.write("a.txt", "one\ntwo\n");
    haft.write("long.txt", &"a line of a file that is not short\n".repeat(100));
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let editor = EditorClient::start(&haft, &model, flags);
    (haft, model, editor)
}

/// A loaded session equals what was shown, including retracted answers and command output.
#[tokio::test]
async fn what_was_shown_beside_the_conversation_is_shown_again() {
    let read = |name: &str| Turn::tool("Read", json!({"file_path": name}));
    let broken = |pieces: Vec<ReplyPiece>| {
        Turn::from_pieces(pieces.into_iter().chain([ReplyPiece::Cut(StreamCut::Reset)]))
    };
    let edit = json!({"file_path": "long.txt", "old_string": "a line of a file that is not short\na", "new_string": "b"});
    for (name, turns, prompts, flags) in [
        ("commands", vec![Turn::text("a")], vec!["go", "/cost", "/context", "/nonsense"], &[][..]),
        (
            "an answer that broke off",
            vec![
                broken(vec![ReplyPiece::thinking("hm"), ReplyPiece::text("words that do not count")]),
                Turn::text("count"),
            ],
            vec!["go"],
            &[],
        ),
        (
            "a limit",
            vec![read("a.txt"), read("long.txt"), Turn::text("x")],
            vec!["go"],
            &["--max-budget-usd", "0.01"],
        ),
        ("a long text", vec![Turn::text("word ".repeat(42_000))], vec!["go"], &[]),
        (
            "changes of longer files",
            vec![
                read("long.txt"),
                Turn::tool("Edit", edit),
                Turn::tool("Write", json!({"file_path": "new.txt", "content": "line\n".repeat(2_000)})),
                Turn::text("done"),
            ],
            vec!["go"],
            &["--permission-mode", "acceptEdits"],
        ),
    ] {
        let turns = turns.into_iter().chain([Turn::text("more").always()]);
        let (haft, _model, mut editor) = stage(turns, flags).await;
        editor.begin(json!({})).await;
        let session = editor.new_session(&haft).await;
        for words in &prompts {
            assert!(editor.prompt(&session, words).await.is_ok(), "{name} {words}");
        }
        let live = editor.updates(&session);
        let title = |updates: &[Value]| {
            let mut titles = updates.iter().filter(|it| it["sessionUpdate"] == "session_info_update");
            titles.next_back().map(|it| it["title"].clone())
        };
        editor.call("session/close", json!({"sessionId": session})).await.unwrap();
        let place = json!({"sessionId": session, "cwd": haft.ws(), "mcpServers": []});
        editor.call("session/load", place).await.unwrap();
        let loaded = editor.updates(&session)[live.len()..].to_vec();
        assert_eq!(folded(&loaded), folded(&live), "{name}");
        assert_eq!(title(&loaded), title(&live), "{name}");
        let said = loaded.iter().filter(|it| it["sessionUpdate"] == "user_message_chunk");
        let said: Vec<&str> = said.map(|it| it["content"]["text"].as_str().unwrap()).collect();
        assert_eq!(said, prompts, "{name}");
        editor.end().await;
    }
}

#[tokio::test]
async fn odd_lines_and_values_are_answered_and_change_nothing() {
    let (haft, model, mut editor) = stage([Turn::text("ok").always()], &[]).await;
    editor.begin(json!({})).await;
    let session = editor.new_session(&haft).await;
    for (option, value) in [
        ("model", json!("no-such-model")),
        ("model", json!("")),
        ("model", json!(7)),
        ("mode", json!(true)),
        ("effort", Value::Null),
    ] {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        let refused = editor.call("session/set_config_option", params.clone()).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "{params}");
    }
    for servers in [json!([{"name": "x"}]), json!([{"name": "x", "type": "http"}]), json!([7])] {
        let params = json!({"cwd": haft.ws(), "mcpServers": servers});
        assert_eq!(editor.call("session/new", params.clone()).await.unwrap_err()["code"], -32602, "{params}");
    }
    // A lone UTF-16 surrogate, as programs with UTF-16 strings send it, and a byte order mark before the
    // line.
    for (id, line) in [
        (
            901,
            format!(
                r#"{{"jsonrpc":"2.0","id":901,"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"half \ud83d of one"}}]}}}}"#
            ),
        ),
        (
            902,
            String::from(
                "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":902,\"method\":\"session/list\",\"params\":{}}",
            ),
        ),
    ] {
        editor.raw(&line).await;
        editor.expect(id, if id == 901 { "session/prompt" } else { "session/list" });
        assert!(editor.answer(id).await.is_ok(), "{line}");
    }
    let asked = String::from_utf8_lossy(&model.requests()[0].body).into_owned();
    assert!(asked.contains("half \u{fffd} of one"), "{asked}");
    // A line over the size limit is discarded without buffering it, and the next one is read.
    editor.raw(&"x".repeat((64 << 20) + 10)).await;
    assert!(editor.call("session/list", json!({})).await.is_ok());
    let errors = editor.heard.iter().filter(|(it, _)| it["error"]["code"] == -32700).count();
    assert_eq!(errors, 1);
    editor.end().await;
}

const SERVER: &str = r#"
import sys, json
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"prompts": {}}, "serverInfo": {"name": "t", "version": "1"}},
        "prompts/list": {"prompts": [{"name": "greet", "description": "Greets somebody", "arguments": [{"name": "who"}]}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "say hello"}}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"#;

/// The command for this MCP prompt, if the line announces it.
fn told_command(line: &Value, name: &str) -> Option<Value> {
    let commands = line["params"]["update"]["availableCommands"].as_array().cloned().unwrap_or_default();
    commands.into_iter().find(|it| it["name"] == name)
}

/// MCP prompts of the editor's servers become commands once the server is connected, before the first
/// prompt.
#[tokio::test]
async fn prompts_of_servers_are_commands() {
    let (haft, model, mut editor) = stage([Turn::text("hello").always()], &[]).await;
    haft.write("server.py", SERVER);
    editor.begin(json!({})).await;
    let server = json!({"name": "t", "command": "python3", "args": [haft.ws().join("server.py")], "env": []});
    let made = editor.call("session/new", json!({"cwd": haft.ws(), "mcpServers": [server]})).await.unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let told = editor.until(|line| told_command(line, "mcp__t__greet").is_some()).await;
    let want = json!({"name": "mcp__t__greet", "description": "Greets somebody", "input": {"hint": "[who]"}});
    assert_eq!(told_command(&told, "mcp__t__greet"), Some(want));
    editor.prompt(&session, "/mcp__t__greet you").await.unwrap();
    assert!(String::from_utf8_lossy(&model.requests()[0].body).contains("say hello"));
    editor.end().await;
}

/// An editor started from a desktop menu has a `PATH` without the additions of shell start-up files. A
/// server program found only there is started, and a notice says so.
#[tokio::test]
async fn servers_that_only_the_login_shell_knows_are_found() {
    for sandboxed in [false, true] {
        let haft = Haft::new();
        haft.write("server.py", SERVER);
        haft.write_home(".bash_profile", "export PATH=\"$HOME/tools:$PATH\"\n");
        let script = format!("#!/bin/sh\nexec python3 {}\n", haft.ws().join("server.py").display());
        haft.write_home("tools/greeter", &script);
        let program = haft.home().join("tools/greeter");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        if sandboxed {
            haft.write_home(".haft/settings.json", r#"{"sandbox": {"mcpServers": true}}"#);
        }
        let model = MockModel::start(Script::from_turns([Turn::text("hello").always()])).await.unwrap();
        let mut command = haft.async_command();
        command.arg("acp").env("ANTHROPIC_BASE_URL", model.url()).env("ANTHROPIC_API_KEY", "key");
        command.env("SHELL", "/bin/bash").env("PATH", "/usr/bin:/bin");
        let mut editor = EditorClient::of_command(command);
        editor.begin(json!({"session": {"notices": {}}})).await;
        let server = |command: &str| json!({"name": "t", "command": command, "args": [], "env": []});
        let params = json!({"cwd": haft.ws(), "mcpServers": [server("greeter")]});
        editor.call("session/new", params).await.unwrap();
        let notice = editor.until(|line| line["params"]["update"]["sessionUpdate"] == "notice").await;
        assert!(notice.to_string().contains("from the PATH of your login shell"), "{notice}");
        let is_told = |line: &Value| told_command(line, "mcp__t__greet").is_some();
        if !sandboxed || walls_hold(&haft) {
            editor.until(is_told).await;
        }
        editor.end().await;
    }
}

/// Whether this machine can sandbox commands.
fn walls_hold(haft: &Haft) -> bool {
    haft.run(&["sandbox", "run", "--", "/bin/true"], "").status.success()
}

/// An MCP server that never answers delays neither the session nor its prompts.
#[tokio::test]
async fn a_silent_server_delays_nothing() {
    let (haft, _model, mut editor) = stage([Turn::text("hello").always()], &[]).await;
    editor.begin(json!({})).await;
    let server = json!({"name": "t", "command": "sleep", "args": ["600"], "env": []});
    let made = editor.call("session/new", json!({"cwd": haft.ws(), "mcpServers": [server]})).await.unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    editor.until(|line| line["params"]["update"]["sessionUpdate"] == "available_commands_update").await;
    assert_eq!(editor.prompt(&session, "go").await, Ok(json!({"stopReason": "end_turn"})));
    editor.end().await;
}

/// The user is asked, with the first prompt, whether a project's MCP server may start.
#[tokio::test]
async fn servers_of_a_project_are_asked_about() {
    fn refuse(method: &str, _: &Value) -> Option<Value> {
        let no = json!({"outcome": {"outcome": "selected", "optionId": "reject-once"}});
        (method == "session/request_permission").then_some(no)
    }
    for agrees in [true, false] {
        let (haft, model, mut editor) = stage([Turn::text("hello").always()], &[]).await;
        haft.write("server.py", SERVER);
        let server = json!({"command": "python3", "args": [haft.ws().join("server.py")]});
        haft.write(".mcp.json", &json!({"mcpServers": {"p": server}}).to_string());
        editor.answering = if agrees { crate::editor::allow } else { refuse };
        editor.begin(json!({})).await;
        let session = editor.new_session(&haft).await;
        editor.prompt(&session, "go").await.unwrap();
        let asked = |(line, _): &&(Value, Option<String>)| line["method"] == "session/request_permission";
        let questions: Vec<_> = editor.heard.iter().filter(asked).collect();
        assert_eq!(questions.len(), 1, "{questions:?}");
        let title = questions[0].0["params"]["toolCall"]["title"].as_str().unwrap();
        assert!(title.starts_with("Start an MCP server of this project"), "{title}");
        let is_told = |(line, _): &(Value, Option<String>)| told_command(line, "mcp__p__greet").is_some();
        if agrees && !editor.heard.iter().any(is_told) {
            editor.until(|line| told_command(line, "mcp__p__greet").is_some()).await;
        }
        editor.prompt(&session, "/mcp__p__greet you").await.ok();
        assert_eq!(editor.heard.iter().any(is_told), agrees);
        let asked = model.requests().iter().any(|it| String::from_utf8_lossy(&it.body).contains("say hello"));
        assert_eq!(asked, agrees);
        editor.end().await;
    }
}
