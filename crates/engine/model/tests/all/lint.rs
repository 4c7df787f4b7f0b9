//! Conversations that providers would reject.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use base64::Engine as _;
use haft_model::{
    Catalog, ImageLimit, ImageShrinker, LintRules, Linter, Repair, RepairKind, Request, ShrunkImage,
    Thinking, ToolDef, ToolSet,
};
use haft_testkit::{Forced, ReplyPiece, Script, Turn, signature_of};
use haft_types::{Block, Content, Message, MessageBlock, Role, ToolUse};
use serde_json::{Value, json};

use crate::support::{MODEL, anthropic, ask, mock, quick, request, say, start};

fn call(id: &str) -> MessageBlock {
    MessageBlock::ToolUse(ToolUse { id: id.into(), name: "Bash".to_owned(), input: json!({"command": "x"}) })
}

fn result(id: &str, content: impl Into<Content>) -> MessageBlock {
    MessageBlock::ToolResult { tool_use_id: id.into(), content: content.into(), is_error: false }
}

fn user(content: Vec<MessageBlock>) -> Message {
    Message { role: Role::User, content }
}

fn text(text: &str) -> MessageBlock {
    MessageBlock::Text { text: text.to_owned() }
}

/// The header of a PNG with these dimensions.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    let mut out = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    out.extend_from_slice(&width.to_be_bytes());
    out.extend_from_slice(&height.to_be_bytes());
    out.extend_from_slice(&[8, 6, 0, 0, 0, 0, 0, 0, 0]);
    out
}

pub fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn image(bytes: &[u8]) -> Block {
    Block::image("image/png", base64(bytes))
}

fn kinds(repairs: &[Repair]) -> Vec<RepairKind> {
    repairs.iter().map(|repair| repair.kind).collect()
}

#[tokio::test]
async fn unpaired_calls_and_results_are_repaired() {
    let mock = mock([Turn::text("x"), Turn::text("y")]).await;
    let provider = anthropic(&mock, quick());
    let conversation = request([
        Message::user("start"),
        user(vec![result("toolu_orphan", "lost")]),
        Message::assistant(vec![text("three"), call("toolu_a"), call("toolu_b"), call("toolu_c")]),
        user(vec![result("toolu_b", "done"), text("go on")]),
    ]);
    let answer = ask(&provider, conversation.clone()).await.unwrap();
    let body = mock.requests()[0].json();
    let results = &body["messages"][2]["content"];
    let ids: Vec<&str> =
        results.as_array().unwrap().iter().filter_map(|it| it["tool_use_id"].as_str()).collect();
    assert_eq!(ids, ["toolu_a", "toolu_b", "toolu_c"]);
    assert!(results[0]["is_error"] == true && results[1].get("is_error").is_none());
    assert!(results[0]["content"][0]["text"].as_str().unwrap().starts_with("interrupted, outcome unknown"));
    assert_eq!(results[1]["content"][0]["text"], "done");
    assert_eq!(results[3]["text"], "go on");
    assert!(!mock.requests()[0].body.windows(6).any(|part| part == b"orphan"));
    assert_eq!(
        kinds(&answer.repairs),
        [RepairKind::ResultMissing, RepairKind::ResultMissing, RepairKind::ResultOrphaned]
    );
    // Reported only once.
    let again = ask(&provider, conversation).await.unwrap();
    assert_eq!(again.repairs, []);
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

/// A server-side call and its result are sent together or not at all.
#[test]
fn server_side_calls_are_sent_with_result_or_removed() {
    let other = |value: serde_json::Value| MessageBlock::Other(value);
    let search = || other(json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}));
    let found = || other(json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}));
    let said = |blocks: Vec<MessageBlock>| Message::assistant(blocks);
    let go_on = || user(vec![text("go on")]);
    for (what, messages, want) in [
        (
            "whole",
            vec![said(vec![search(), found(), text("x")]), go_on()],
            "server_tool_use web_search_tool_result text",
        ),
        ("cut", vec![said(vec![text("x"), search()]), go_on()], "text"),
        ("alone", vec![said(vec![search()]), go_on()], ""),
        ("orphan", vec![said(vec![found(), text("x")]), go_on()], "text"),
        ("paused", vec![said(vec![text("x"), search()])], "text"),
    ] {
        let messages = [user(vec![text("go")])].into_iter().chain(messages).map(Arc::new);
        let mut request = Request::new("claude-opus-4-5", []);
        request.messages = messages.collect();
        let info = Catalog::built_in().get("claude-opus-4-5");
        let (linted, _) = Linter::new().lint(&request, &info, &LintRules::messages());
        let sent = &linted.request.messages;
        let kinds: Vec<String> = sent
            .iter()
            .filter(|message| message.role == Role::Assistant)
            .flat_map(|message| &message.content)
            .map(|block| serde_json::to_value(block).unwrap()["type"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(kinds.join(" "), want, "{what}");
        assert_eq!(sent.last().unwrap().role, Role::User, "{what}");
    }
}

/// An answer that the provider paused is sent back unchanged, as the last message.
#[test]
fn paused_answer_is_sent_unchanged_and_last() {
    let search =
        json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}});
    let answer = Message::assistant(vec![text("x"), MessageBlock::Other(search)]);
    let info = Catalog::built_in().get("claude-opus-4-5");
    let mut request = Request::new("claude-opus-4-5", [Message::user("go"), answer.clone()]);
    request.paused = true;
    let (linted, repairs) = Linter::new().lint(&request, &info, &LintRules::messages());
    assert_eq!(repairs, []);
    assert_eq!(linted.request.messages.last().map(|it| (**it).clone()), Some(answer));
    // Pending client-side calls are not a pause, and a user message after it is sent last.
    for more in [Message::assistant(vec![call("toolu_a")]), Message::user("no, stop")] {
        request.messages.truncate(2);
        request.messages.push(Arc::new(more));
        let (linted, _) = Linter::new().lint(&request, &info, &LintRules::messages());
        assert_eq!(linted.request.messages.last().unwrap().role, Role::User);
        let sent = serde_json::to_string(&linted.request.messages).unwrap();
        assert!(!sent.contains("server_tool_use"), "{sent}");
    }
}

#[tokio::test]
async fn late_result_is_paired_and_duplicate_ids_are_renamed() {
    let mock = mock([Turn::text("x")]).await;
    let conversation = request([
        Message::user("start"),
        Message::assistant(vec![call("call_0")]),
        user(vec![result("call_0", "first")]),
        // A local model numbers its calls from 0 in every answer.
        Message::assistant(vec![call("call_0"), call("weird.id:7")]),
        user(vec![result("call_0", "second"), result("call_0", "twice")]),
        Message::assistant(vec![text("meanwhile")]),
        user(vec![result("weird.id:7", "late")]),
    ]);
    let answer = ask(&anthropic(&mock, quick()), conversation).await.unwrap();
    let messages = mock.requests()[0].json()["messages"].clone();
    assert_eq!(messages[2]["content"][0]["content"][0]["text"], "first");
    assert_eq!(messages[3]["content"][0]["id"], "call_0_2");
    assert_eq!(messages[4]["content"][0]["content"][0]["text"], "second");
    assert_eq!(messages[4]["content"][1]["content"][0]["text"], "late");
    assert_eq!(messages[3]["content"][1]["id"], messages[4]["content"][1]["tool_use_id"]);
    assert!(kinds(&answer.repairs).contains(&RepairKind::ResultRepeated));
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

struct Halve(AtomicUsize);

impl ImageShrinker for Halve {
    fn shrink(&self, _: &[u8], limit: ImageLimit) -> Option<ShrunkImage> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let side = u32::try_from(limit.side).unwrap();
        Some(ShrunkImage { media_type: "image/png".to_owned(), bytes: png(side, side / 2) })
    }
}

#[tokio::test]
async fn invalid_media_never_blocks_session() {
    let mut heavy = png(100, 100);
    heavy.resize(12 * 1024 * 1024, 1);
    let pdf = format!("%PDF-1.5 {}", "<</Type/Page>> ".repeat(101));
    let mut content = vec![
        text("look"),
        MessageBlock::Image { source: source(image(&png(9000, 200))) },
        MessageBlock::Image { source: source(image(&heavy)) },
        MessageBlock::Image { source: source(image(b"<!DOCTYPE html><html></html>")) },
        MessageBlock::Image { source: source(Block::image("image/jpeg", base64(&png(10, 10)))) },
        MessageBlock::Document {
            source: source(Block::image("application/pdf", base64(pdf.as_bytes()))),
            title: None,
        },
    ];
    for with_port in [false, true] {
        let mock = mock([Turn::text("x").always()]).await;
        let mut common = quick();
        let port = Arc::new(Halve(AtomicUsize::new(0)));
        if with_port {
            common.media = Some(port.clone());
        }
        let provider = anthropic(&mock, common);
        let mut asked = request([user(content.clone())]);
        let answer = ask(&provider, asked.clone()).await.unwrap();
        let sent = mock.requests()[0].json().to_string();
        assert!(
            sent.contains("text/html, not a picture") && sent.contains("it has 101 pages"),
            "{}",
            &sent[..500]
        );
        assert_eq!(sent.contains("image removed: it is 9000"), !with_port);
        assert!(answer.repairs.len() >= 4);
        // Many images: smaller limits, each image scaled once.
        for n in 0..25 {
            asked.messages.push(Arc::new(Message::assistant(vec![call(&format!("t{n}"))])));
            asked
                .messages
                .push(Arc::new(user(vec![result(&format!("t{n}"), vec![image(&png(2100, 2100 + n))])])));
            ask(&provider, asked.clone()).await.unwrap();
        }
        if with_port {
            let calls = port.0.load(Ordering::SeqCst);
            assert!((25..=31).contains(&calls), "{calls}");
        }
        assert_eq!(mock.refusals(), Vec::<String>::new());
    }
    content.clear();
}

fn source(block: Block) -> haft_types::MediaSource {
    match block {
        Block::Image { source } => source,
        _ => unreachable!("made as a picture"),
    }
}

#[tokio::test]
async fn rejected_image_is_replaced_permanently() {
    let forced =
        Forced { media: Some(1), message: "bad picture".to_owned(), times: Some(1), ..Forced::default() };
    let mock = start(Script { force: vec![forced], ..Script::from_turns([Turn::text("x").always()]) }).await;
    let provider = anthropic(&mock, quick());
    let asked = request([
        user(vec![text("look"), MessageBlock::Image { source: source(image(&png(10, 10))) }]),
        Message::assistant(vec![call("t1")]),
        user(vec![result("t1", vec![Block::text("here"), image(&png(20, 20))])]),
    ]);
    let answer = ask(&provider, asked.clone()).await.unwrap();
    assert_eq!(kinds(&answer.repairs), [RepairKind::Refused]);
    ask(&provider, asked).await.unwrap();
    assert_eq!(mock.count(), 3);
    for sent in &mock.requests()[1..] {
        let body = sent.json();
        assert_eq!(body["messages"][0]["content"][1]["type"], "image");
        let inner = body["messages"][2]["content"][0]["content"][1]["text"].as_str().unwrap().to_owned();
        assert!(
            inner.starts_with("[image removed: API refused it: ") && inner.contains("bad picture"),
            "{inner}"
        );
    }
}

#[tokio::test]
async fn thinking_is_sent_back_only_to_its_model() {
    let turns = [
        Turn::from_pieces([ReplyPiece::thinking("deep"), ReplyPiece::tool("Bash", json!({}))]),
        Turn::text("x").always(),
    ];
    let mock = start(Script::from_turns(turns)).await;
    let provider = anthropic(&mock, quick());
    let mut asked = request([Message::user("go")]);
    let first = ask(&provider, asked.clone()).await.unwrap();
    asked.messages.push(Arc::new(first.message()));
    asked.messages.push(Arc::new(user(vec![result(&first.calls()[0].id, "ok")])));
    // The same model: thinking is sent back byte for byte.
    ask(&provider, asked.clone()).await.unwrap();
    let sent = mock.requests()[1].json()["messages"][1]["content"][0].clone();
    assert_eq!(
        sent,
        json!({"type": "thinking", "thinking": "deep", "signature": signature_of("deep", MODEL)})
    );
    // Another model: no thinking is sent.
    let other = Request { model: "claude-sonnet-4-6".to_owned(), ..asked.clone() };
    let answer = ask(&provider, other).await.unwrap();
    assert_eq!(kinds(&answer.repairs), [RepairKind::ThinkingLeftOut]);
    assert!(!mock.requests()[2].json().to_string().contains("deep"));
    // An answer cut off while thinking, alone or with text.
    let cut = |rest: Vec<MessageBlock>| {
        let half = MessageBlock::Thinking {
            thinking: "ha".to_owned(),
            signature: String::new(),
            model: Some(MODEL.to_owned()),
        };
        let mut asked = asked.clone();
        asked.messages.push(Arc::new(Message::assistant([vec![half], rest].concat())));
        asked.messages.push(Arc::new(Message::user("and?")));
        asked
    };
    ask(&provider, cut(vec![])).await.unwrap();
    ask(&provider, cut(vec![text("so far")])).await.unwrap();
    // Back to the first model, with a budget: its thinking is sent, so thinking stays on.
    let budget = Request { thinking: Thinking::Budget { tokens: 2000 }, ..asked.clone() };
    ask(&provider, budget.clone()).await.unwrap();
    assert_eq!(mock.requests().last().unwrap().json()["thinking"]["type"], "enabled");
    // Another model has no thinking to start with, so it is turned off for this request.
    ask(&provider, Request { model: "claude-sonnet-4-6".to_owned(), ..budget }).await.unwrap();
    assert_eq!(mock.requests().last().unwrap().json()["thinking"]["type"], "disabled");
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn rejected_thinking_is_removed_once() {
    let forced = Forced {
        thinking: true,
        message: "Invalid `signature` in `thinking` block".to_owned(),
        ..Forced::default()
    };
    let mock = start(Script { force: vec![forced], ..Script::from_turns([Turn::text("x").always()]) }).await;
    let provider = anthropic(&mock, quick());
    let thought = |text: &str| MessageBlock::Thinking {
        thinking: text.to_owned(),
        signature: signature_of(text, MODEL),
        model: None,
    };
    let asked = request([
        Message::user("a"),
        Message::assistant(vec![thought("one"), text("x")]),
        Message::user("b"),
        Message::assistant(vec![thought("two"), call("t1")]),
        user(vec![result("t1", "ok")]),
    ]);
    ask(&provider, asked.clone()).await.unwrap();
    assert_eq!(mock.count(), 2);
    ask(&provider, asked).await.unwrap();
    assert_eq!(mock.count(), 3);
    assert!(!mock.requests()[1].json().to_string().contains("\"thinking\""));
}

#[tokio::test]
async fn edited_conversation_loses_thinking_and_continues() {
    let turns = [
        Turn::from_pieces([ReplyPiece::thinking("deep"), ReplyPiece::tool("Bash", json!({}))]),
        Turn::text("x").always(),
    ];
    let mock = start(Script { bind_thinking: true, ..Script::from_turns(turns) }).await;
    let provider = anthropic(&mock, quick());
    let mut asked = request([Message::user("go")]);
    let first = ask(&provider, asked.clone()).await.unwrap();
    asked.messages = vec![
        Arc::new(Message::user("go (summarised)")),
        Arc::new(first.message()),
        Arc::new(user(vec![result(&first.calls()[0].id, "ok")])),
    ];
    let answer = ask(&provider, asked).await.unwrap();
    assert_eq!((answer.text().as_str(), mock.count()), ("x", 3));
}

#[tokio::test]
async fn any_text_gives_a_valid_request() {
    let mock = mock([Turn::text("x").always()]).await;
    let provider = anthropic(&mock, quick());
    let input = json!({"a\0": "\u{1b}[31m", "b": ["\u{0}", {"c": "ok"}]});
    let asked = request([
        Message::user("start \0 \u{1b}]52;c;x\u{7} end"),
        Message::assistant(vec![MessageBlock::ToolUse(ToolUse {
            id: "t1".into(),
            name: "Bash".to_owned(),
            input,
        })]),
        user(vec![result("t1", "out \u{0}\u{1}\u{9b} \u{fffd}")]),
        Message::assistant(vec![MessageBlock::ToolUse(ToolUse {
            id: "t2".into(),
            name: "no such.tool!".to_owned(),
            input: json!([1]),
        })]),
        user(vec![result("t2", "")]),
    ]);
    let answer = ask(&provider, asked).await.unwrap();
    let sent = mock.requests()[0].body.clone();
    assert!(!sent.iter().any(|byte| *byte < 0x20 || *byte == 0x7f));
    let text = mock.requests()[0].json()["messages"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text, r"start \x00 \x1b]52;c;x\x07 end");
    assert!(kinds(&answer.repairs).contains(&RepairKind::Text));
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn invalid_tool_does_not_affect_others() {
    let tool = |name: &str, schema: Value| ToolDef::new(name, "d", schema);
    let long = format!("mcp__{}__slack_search_public_and_private", "0123456789ab".repeat(3));
    let set = ToolSet::new([
        tool("ok1", json!({"type": "object", "properties": {"a": {"type": "string"}}})),
        tool(
            "union",
            json!({"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]}),
        ),
        tool("conditional", json!({"type": "object", "allOf": [{"required": ["x"]}], "if": {}, "then": {}})),
        tool(
            "cyclic",
            json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}}}),
        ),
        tool("stringy", json!({"type": "string"})),
        tool("inty", json!({"type": "object", "properties": {"n": {"type": "int"}}})),
        tool("nothing", Value::Null),
        tool("any", json!({"type": "object", "properties": {"x": true}})),
        tool("a.b/c", json!({"type": "object"})),
        tool(&long, json!({"type": "object"})),
        tool("größe", json!({"type": "object"})),
        tool("ok1", json!({"type": "object"})),
    ]);
    assert_eq!(set.definitions().len(), 10);
    let mock = mock([Turn::tool(haft_model::wire_name("a.b/c"), json!({}))]).await;
    let answer = ask(&anthropic(&mock, quick()), Request { tools: Arc::new(set), ..say("x") }).await.unwrap();
    assert_eq!(answer.calls()[0].name, "a.b/c");
    let left_out: Vec<&str> = answer
        .repairs
        .iter()
        .filter(|it| it.kind == RepairKind::ToolLeftOut)
        .map(|it| it.place.as_str())
        .collect();
    assert_eq!(left_out, ["tool stringy", "tool ok1"]);
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn rejected_tool_is_removed() {
    let refusal = "tools.1.custom.input_schema: JSON schema is invalid.";
    let mock = mock([Turn::error(400, "invalid_request_error", refusal), Turn::text("x").always()]).await;
    let provider = anthropic(&mock, quick());
    ask(&provider, say("a")).await.unwrap();
    ask(&provider, say("b")).await.unwrap();
    let names: Vec<Vec<String>> = mock
        .requests()
        .iter()
        .map(|it| {
            it.json()["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned())
                .collect()
        })
        .collect();
    assert_eq!(names[1], ["Read", "Bash"]);
    assert_eq!(names[2], ["Read", "Bash"]);
    assert_eq!(mock.count(), 3);
}

#[tokio::test]
async fn request_with_calls_but_no_tools_is_accepted() {
    let mock = mock([Turn::text("x")]).await;
    let mut asked =
        request([Message::user("a"), Message::assistant(vec![call("t1")]), user(vec![result("t1", "ok")])]);
    asked.tools = Arc::new(ToolSet::default());
    ask(&anthropic(&mock, quick()), asked).await.unwrap();
    assert_eq!(mock.requests()[0].json()["tool_choice"], json!({"type": "none"}));
    assert_eq!(mock.refusals(), Vec::<String>::new());
}
