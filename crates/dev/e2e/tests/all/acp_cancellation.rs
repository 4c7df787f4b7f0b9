//! Cancelling at every moment of a turn: the prompt is answered at once, no call stays open, the next
//! prompt works, and a loaded session equals what was shown.

use haft_testkit::{MockModel, ReplyPiece, Script, StreamCut, StreamStall, ToolPiece, Turn};
use serde_json::{Value, json};

use crate::{
    acp::folded,
    common::Haft,
    editor::{EditorClient, prompt_params, silent},
};

/// When the user cancels.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Immediately after the prompt.
    AtOnce,
    /// After an update of this kind.
    Update(&'static str),
    /// When a call has this status.
    Status(&'static str),
    /// After the editor received this request; it answers with this option, or never.
    Asked(&'static str, Option<&'static str>),
}

fn stall() -> ReplyPiece {
    ReplyPiece::Stall(StreamStall::Forever)
}

fn bash(command: &str) -> ReplyPiece {
    ReplyPiece::tool("Bash", json!({"command": command}))
}

fn question() -> ReplyPiece {
    let options = json!([{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]);
    ReplyPiece::tool(
        "AskUserQuestion",
        json!({"questions": [{"question": "Q?", "header": "h", "options": options}]}),
    )
}

async fn check(name: &str, turns: Vec<Turn>, moment: Moment, abilities: Value, flags: &[&str]) {
    let haft = Haft::new();
    haft.write("a.txt", "one\ntwo\n");
    let script = [Turn::text("after").when("GO ON").always()].into_iter().chain(turns);
    let model = MockModel::start(Script::from_turns(script)).await.unwrap();
    let mut editor = EditorClient::start(&haft, &model, flags);
    editor.answering = silent;
    editor.begin(abilities).await;
    let session = editor.new_session(&haft).await;
    let prompt = editor.ask("session/prompt", prompt_params(&session, "begin")).await;
    let asked = match moment {
        Moment::AtOnce => None,
        Moment::Update(kind) => {
            editor.until(|it| it["params"]["update"]["sessionUpdate"] == kind).await;
            None
        }
        Moment::Status(status) => {
            editor.until(|it| it["params"]["update"]["status"] == status).await;
            None
        }
        Moment::Asked(method, answer) => Some((editor.until(|it| it["method"] == method).await, answer)),
    };
    editor.say("session/cancel", json!({"sessionId": session})).await;
    if let Some((question, Some(answer))) = &asked {
        editor.reply(question, serde_json::from_str(answer).unwrap()).await;
    }
    assert_eq!(editor.answer(prompt).await, Ok(json!({"stopReason": "cancelled"})), "{name}");
    let told = editor.heard.len();
    let calls = folded(&editor.updates(&session))["shown"].clone();
    let is_open = |it: &&Value| matches!(it["status"].as_str(), Some("pending" | "in_progress"));
    assert_eq!(calls.as_array().unwrap().iter().find(is_open), None, "{name}");
    // Cancel a second time, when nothing runs.
    editor.say("session/cancel", json!({"sessionId": session})).await;
    let next = editor.ask("session/prompt", prompt_params(&session, "GO ON")).await;
    assert_eq!(editor.answer(next).await, Ok(json!({"stopReason": "end_turn"})), "{name}");
    // No update of the first prompt arrives after its response.
    let late = editor.heard[told..].iter().filter(|(it, _)| it["params"]["update"]["toolCallId"].is_string());
    assert_eq!(late.count(), 0, "{name}");
    let live = folded(&editor.updates(&session));
    assert_eq!(editor.call("session/close", json!({"sessionId": session})).await, Ok(json!({})), "{name}");
    let before = editor.updates(&session).len();
    let place = json!({"sessionId": session, "cwd": haft.ws(), "mcpServers": []});
    let loaded = editor.call("session/load", place).await;
    assert!(loaded.is_ok(), "{name}: {loaded:?}");
    assert_eq!(folded(&editor.updates(&session)[before..]), live, "{name}");
    editor.end().await;
}

#[tokio::test]
async fn while_the_model_speaks() {
    let said = Moment::Update("agent_message_chunk");
    let thought = Moment::Update("agent_thought_chunk");
    let words = "quite a few words that come piece by piece ".repeat(20);
    let half = ToolPiece {
        name: "Bash".into(),
        input: json!({"command": "ls"}),
        keep: Some(6),
        open: true,
        ..ToolPiece::default()
    };
    let late = Turn { delay_ms: 600_000, ..Turn::text("x") };
    for (name, turns, moment) in [
        ("nothing came", vec![late.clone()], Moment::AtOnce),
        ("a text is open", vec![Turn::from_pieces([ReplyPiece::OpenText(words.clone()), stall()])], said),
        ("a text is whole", vec![Turn::from_pieces([ReplyPiece::text(&words), stall()])], said),
        (
            "a thought is open",
            vec![Turn::from_pieces([ReplyPiece::OpenThinking(words.clone()), stall()])],
            thought,
        ),
        (
            "a thought is whole",
            vec![Turn::from_pieces([
                ReplyPiece::thinking(&words),
                ReplyPiece::OpenText(words.clone()),
                stall(),
            ])],
            said,
        ),
        (
            "half a call",
            vec![Turn::from_pieces([ReplyPiece::text("now"), ReplyPiece::Tool(half), stall()])],
            said,
        ),
        (
            "between two requests",
            vec![Turn::tool("Read", json!({"file_path": "a.txt"})), late],
            Moment::Status("completed"),
        ),
        (
            "after an answer that broke off",
            vec![
                Turn::from_pieces([ReplyPiece::text("does not count"), ReplyPiece::Cut(StreamCut::Reset)]),
                Turn::from_pieces([
                    ReplyPiece::thinking("counts"),
                    ReplyPiece::OpenText(words.clone()),
                    stall(),
                ]),
            ],
            thought,
        ),
    ] {
        check(name, turns, moment, json!({}), &[]).await;
    }
}

#[tokio::test]
async fn while_calls_run() {
    let allowed = ["--allowedTools", "Bash"];
    for (name, pieces, moment) in [
        ("a command", vec![bash("echo begin; sleep 600")], Moment::Status("in_progress")),
        (
            "two commands",
            vec![bash("echo begin; sleep 600"), bash("sleep 601")],
            Moment::Status("in_progress"),
        ),
        (
            "one that hears no signal",
            vec![bash("trap '' TERM INT HUP; echo begin; sleep 600")],
            Moment::Status("in_progress"),
        ),
        (
            "calls of an answer that goes on",
            vec![bash("sleep 600"), bash("sleep 601"), stall()],
            Moment::Update("tool_call"),
        ),
    ] {
        check(name, vec![Turn::from_pieces(pieces)], moment, json!({}), &allowed).await;
    }
}

#[tokio::test]
async fn while_a_question_is_open() {
    let permission = "session/request_permission";
    let cancelled = Some(r#"{"outcome": {"outcome": "cancelled"}}"#);
    let late_yes = Some(r#"{"outcome": {"outcome": "selected", "optionId": "allow-once"}}"#);
    let forms = json!({"elicitation": {"form": {}}});
    for (name, pieces, moment, abilities) in [
        ("answered as cancelled", vec![bash("touch x")], Moment::Asked(permission, cancelled), json!({})),
        ("never answered", vec![bash("touch x")], Moment::Asked(permission, None), json!({})),
        ("a yes that comes too late", vec![bash("touch x")], Moment::Asked(permission, late_yes), json!({})),
        ("two calls", vec![bash("touch x"), bash("touch y")], Moment::Asked(permission, None), json!({})),
        (
            "a form",
            vec![question()],
            Moment::Asked("elicitation/create", Some(r#"{"action": "cancel"}"#)),
            forms.clone(),
        ),
        ("a form nobody fills in", vec![question()], Moment::Asked("elicitation/create", None), forms),
        ("options", vec![question()], Moment::Asked(permission, cancelled), json!({})),
    ] {
        check(name, vec![Turn::from_pieces(pieces)], moment, abilities, &[]).await;
    }
}

/// Queued prompts are cancelled one by one, or all at once.
#[tokio::test]
async fn while_other_prompts_wait() {
    let haft = Haft::new();
    let turns = [
        Turn::text("after").when("GO ON").always(),
        Turn::from_pieces([ReplyPiece::OpenText("first".into()), stall()]),
    ];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let mut editor = EditorClient::start(&haft, &model, &[]);
    editor.begin(json!({})).await;
    let session = editor.new_session(&haft).await;
    let mut prompts = Vec::new();
    for words in ["prompt-number-1", "prompt-number-2", "prompt-number-3"] {
        prompts.push(editor.ask("session/prompt", prompt_params(&session, words)).await);
    }
    editor.until(|it| it["params"]["update"]["sessionUpdate"] == "agent_message_chunk").await;
    editor.say("$/cancel_request", json!({"requestId": prompts[1]})).await;
    assert_eq!(editor.answer(prompts[1]).await.unwrap_err()["code"], -32800);
    editor.say("session/cancel", json!({"sessionId": session})).await;
    for prompt in [prompts[0], prompts[2]] {
        assert_eq!(editor.answer(prompt).await, Ok(json!({"stopReason": "cancelled"})));
    }
    assert_eq!(editor.prompt(&session, "GO ON").await, Ok(json!({"stopReason": "end_turn"})));
    let asked = String::from_utf8_lossy(&model.requests().last().unwrap().body).into_owned();
    assert!(!asked.contains("prompt-number-2") && !asked.contains("prompt-number-3"), "{asked}");
    editor.end().await;
}
