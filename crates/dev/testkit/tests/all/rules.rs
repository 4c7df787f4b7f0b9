//! The mock rejects what the real service rejects, with the same error text.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use base64::Engine as _;
use haft_testkit::{MockForm, MockModel, ReplyPiece, Script, Turn, signature_of};
use serde_json::{Value, json};

const MODEL: &str = "claude-x";

async fn post(url: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let sent =
        client.post(url).header("anthropic-version", "2023-06-01").header("content-type", "application/json");
    let response = sent.body(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

fn tool(name: &str, schema: Value) -> Value {
    json!({"name": name, "description": "d", "input_schema": schema})
}

fn object() -> Value {
    json!({"type": "object", "properties": {}})
}

fn with(messages: Value) -> Value {
    json!({"model": MODEL, "max_tokens": 100, "tools": [tool("Read", object())], "messages": messages})
}

fn png(width: u32, height: u32, size: usize) -> Value {
    let mut out = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    out.extend_from_slice(&width.to_be_bytes());
    out.extend_from_slice(&height.to_be_bytes());
    out.extend_from_slice(&[8, 6, 0, 0, 0, 0, 0, 0, 0]);
    out.resize(out.len().max(size), 0);
    media("image", "image/png", &out)
}

fn media(kind: &str, media_type: &str, bytes: &[u8]) -> Value {
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    json!({"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}})
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Read", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn refused() -> Vec<(Value, &'static str)> {
    let one = |tools: Value| json!({"model": MODEL, "max_tokens": 1, "tools": tools, "messages": [user(json!("x"))]});
    let many: Vec<Value> = (0..21).map(|n| png(2001, n + 1, 0)).collect();
    let pdf = format!("%PDF-1.4 {}", "<</Type/Page>> ".repeat(101));
    let thought =
        |text: &str, signature: String| json!({"type": "thinking", "thinking": text, "signature": signature});
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    vec![
        (
            with(json!([
                user(json!("a")),
                assistant(json!([call("t1"), call("t2")])),
                user(json!([result("t2")]))
            ])),
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1.",
        ),
        (
            with(json!([
                user(json!("a")),
                assistant(json!([call("t1")])),
                user(json!([{"type": "text", "text": "x"}, result("t1")]))
            ])),
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1.",
        ),
        (
            with(json!([user(json!([result("t9")]))])),
            "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t9",
        ),
        (
            with(json!([
                user(json!("a")),
                assistant(json!([call("t1")])),
                user(json!([result("t1"), result("t1")]))
            ])),
            "messages.2.content.1: each tool_use must have a single result",
        ),
        (
            with(json!([
                user(json!("a")),
                assistant(json!([call("t1"), call("t1")])),
                user(json!([result("t1")]))
            ])),
            "`tool_use` ids must be unique",
        ),
        (
            with(json!([user(json!(many))])),
            "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
        ),
        (with(json!([user(json!([png(8001, 1, 0)]))])), "exceed max allowed size: 8000 pixels"),
        (with(json!([user(json!([png(1, 1, 5_000_000)]))])), "image exceeds 5 MB maximum"),
        (with(json!([user(json!([media("image", "image/jpeg", b"x")]))])), "Could not process image"),
        (
            with(json!([user(json!([media("document", "application/pdf", pdf.as_bytes())]))])),
            "A maximum of 100 PDF pages may be provided.",
        ),
        (
            one(json!([tool(&"x".repeat(65), object())])),
            "tools.0.custom.name: String should have at most 64 characters",
        ),
        (
            one(json!([tool("Read", object()), tool("a.b", object())])),
            "tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        ),
        (
            one(json!([tool("a", json!({"type": "object", "anyOf": [{}]}))])),
            "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        ),
        (
            one(json!([tool("a", json!({"type": "string"}))])),
            "tools.0.custom.input_schema.type: Input should be 'object'",
        ),
        (
            one(json!([tool("a", json!({"type": "object", "properties": {"x": {"type": "int"}}}))])),
            "JSON schema is invalid",
        ),
        (one(json!([tool("a", object()), tool("a", object())])), "Tool names must be unique"),
        (
            with(json!([
                user(json!("a")),
                assistant(json!([thought("t", "bad".to_owned()), {"type": "text", "text": "x"}])),
                user(json!("b"))
            ])),
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
        (
            with(json!([
                user(json!("a")),
                assistant(json!([thought("t", signature_of("t", "other")), {"type": "text", "text": "x"}])),
                user(json!("b"))
            ])),
            "Invalid `signature`",
        ),
        (
            with(json!([
                user(json!("a")),
                assistant(json!([thought("t", signature_of("t", MODEL))])),
                user(json!("b"))
            ])),
            "messages.1: The final block in an assistant message cannot be `thinking`.",
        ),
        (with(json!([user(json!("x".repeat(1_000_000)))])), "prompt is too long: 250"),
        (
            json!({"model": MODEL, "max_tokens": 64_000, "messages": [user(json!("x".repeat(600_000)))]}),
            "input length and `max_tokens` exceed context limit: 150",
        ),
        (
            json!({"model": MODEL, "max_tokens": 64_001, "messages": [user(json!("x"))]}),
            "max_tokens: 64001 > 64000, which is the maximum allowed",
        ),
        (json!({"model": MODEL, "messages": [user(json!("x"))]}), "max_tokens: Field required"),
        (with(json!([])), "messages: at least one message is required"),
        (with(json!([assistant(json!("x"))])), "first message must use the \"user\" role"),
        (with(json!([user(json!("a")), assistant(json!("b"))])), "must end with a user message"),
        (with(json!([user(json!([{"type": "text", "text": ""}]))])), "text content blocks must be non-empty"),
        (
            with(json!([user(json!([{"type": "text", "text": "x", "extra": 1}]))])),
            "messages.0.content.0.text.extra: Extra inputs are not permitted",
        ),
        (
            with(json!([user(json!([marked, marked, marked, marked, marked]))])),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
        (
            json!({"model": MODEL, "max_tokens": 10, "betas": [], "messages": [user(json!("x"))]}),
            "betas: Extra inputs are not permitted",
        ),
    ]
}

#[tokio::test]
async fn invalid_requests_get_service_error_texts() {
    let mock = MockModel::start(Script::from_turns([Turn::text("ok").always()])).await.unwrap();
    let url = format!("{}/v1/messages", mock.url());
    for (body, want) in refused() {
        let (status, answer) = post(&url, body.to_string()).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(want), "{want}\n{status} {message}");
        assert_eq!(answer["error"]["type"], "invalid_request_error");
    }
    let surrogate = with(json!([user(json!("LONE"))])).to_string().replace("LONE", "\\ud83d");
    let (status, answer) = post(&url, surrogate).await;
    assert!(
        status == 400 && answer["error"]["message"].as_str().unwrap().contains("no low surrogate in string")
    );
    let (status, _) = post(&url, vec![b' '; 33 * 1024 * 1024]).await;
    assert_eq!(status, 413);
    // None of them used a turn, and all are recorded.
    assert_eq!(mock.unused(), 1);
    assert_eq!(mock.requests().len(), refused().len() + 2);
    let (status, answer) = post(&url, with(json!([user(json!("x"))])).to_string()).await;
    assert_eq!((status, &answer["content"][0]["text"]), (200, &json!("ok")));
}

#[tokio::test]
async fn openai_rejections_use_its_error_texts() {
    let mock = MockModel::start(Script::from_turns([Turn::text("ok").always()])).await.unwrap();
    let chat = |messages: Value| json!({"model": "m", "messages": messages});
    let called = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let item = json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"});
    for (path, body, want) in [
        (
            "chat/completions",
            chat(json!([{"role": "user", "content": "x"}, called])),
            "did not have response messages: c1",
        ),
        (
            "chat/completions",
            chat(json!([{"role": "tool", "tool_call_id": "c1", "content": "x"}])),
            "must be a response to a preceeding message",
        ),
        ("chat/completions", chat(json!([])), "empty array"),
        ("responses", json!({"model": "m", "input": [item]}), "No tool output found for function call c1."),
        (
            "responses",
            json!({"model": "m", "input": [{"type": "function_call_output", "call_id": "c2", "output": "x"}]}),
            "No tool call found for function call output with call_id c2.",
        ),
        (
            "responses",
            json!({"model": "m", "input": [{"type": "reasoning", "id": "rs_1", "encrypted_content": "e", "summary": []}]}),
            "without its required following item",
        ),
        (
            "responses",
            json!({"model": "m", "input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}),
            "Items are not persisted",
        ),
        (
            "chat/completions",
            json!({
                "model": "gpt-5.6-terra", "messages": [{"role": "user", "content": "x"}],
                "tools": [{"type": "function", "function": {"name": "Read"}}],
            }),
            "use /v1/responses",
        ),
    ] {
        let (status, answer) = post(&format!("{}/v1/{path}", mock.url()), body.to_string()).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(want), "{want}\n{status} {message}");
    }
}

#[tokio::test]
async fn turns_are_selected_by_order_and_text() {
    let turns = [
        Turn::text("first"),
        Turn::text("weather").when("weather").always(),
        Turn {
            when: serde_json::from_value(json!({"tool_result": {"equals": "42"}})).unwrap(),
            ..Turn::text("result")
        },
        Turn {
            when: serde_json::from_value(json!({"model": {"regex": "^small-"}})).unwrap(),
            ..Turn::text("small")
        },
    ];
    let mock = MockModel::start(Script { strict: false, ..Script::from_turns(turns) }).await.unwrap();
    let ask = async |body: Value| {
        let (status, answer) = post(&format!("{}/v1/messages", mock.url()), body.to_string()).await;
        (status, answer["content"][0]["text"].as_str().unwrap_or_default().to_owned())
    };
    let text = |text: &str| with(json!([user(json!(text))]));
    assert_eq!(ask(text("weather?")).await, (200, "first".to_owned()));
    assert_eq!(ask(text("weather?")).await, (200, "weather".to_owned()));
    assert_eq!(ask(text("the weather")).await, (200, "weather".to_owned()));
    let with_result =
        json!([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "42"}]}]);
    assert_eq!(ask(with(json!([user(with_result)]))).await, (200, "result".to_owned()));
    assert_eq!(ask(text("other")).await.0, 400);
    assert!(mock.refusals()[0].contains("no turn left for request 4"));
    let mut small = text("other");
    small["model"] = json!("small-1");
    assert_eq!(ask(small).await, (200, "small".to_owned()));
}

#[tokio::test]
async fn same_turn_gives_same_bytes() {
    let turn = Turn::from_pieces([
        ReplyPiece::thinking("t"),
        ReplyPiece::text("x"),
        ReplyPiece::tool("Read", json!({"a": 1})),
    ]);
    for form in [MockForm::Messages, MockForm::Bedrock, MockForm::Chat, MockForm::Responses, MockForm::Gemini]
    {
        assert_eq!(turn.bytes(form, MODEL), turn.bytes(form, MODEL));
        assert!(!turn.bytes(form, MODEL).is_empty());
    }
}

#[tokio::test]
async fn invalid_pattern_is_reported_at_start() {
    let turn =
        Turn { when: serde_json::from_value(json!({"model": {"regex": "("}})).unwrap(), ..Turn::text("x") };
    assert!(MockModel::start(Script::from_turns([turn])).await.is_err());
}

/// A turn may require a context window of its own, and a script may have its own error text for requests
/// that exceed it; a rejected request uses no turn.
#[tokio::test]
async fn window_may_differ_per_turn() {
    let words = String::from("does not fit");
    let turns = [Turn::text("small").window(1_000), Turn::text("large")];
    let script = Script { window_words: Some(words.clone()), ..Script::from_turns(turns) };
    let mock = MockModel::start(script).await.unwrap();
    let long = with(json!([user(json!("word ".repeat(2_000)))]));
    let short = with(json!([user(json!("hi"))]));
    for path in ["v1/messages", "v1/chat/completions", "v1/responses"] {
        let mut body = long.clone();
        if path.ends_with("responses") {
            body["input"] = json!("word ".repeat(2_000));
        }
        if !path.ends_with("messages") {
            body.as_object_mut().unwrap().remove("tools");
        }
        let (status, answer) = post(&format!("{}/{path}", mock.url()), body.to_string()).await;
        assert_eq!((status, &answer["error"]["message"]), (400, &json!(words)), "{path}: {answer}");
    }
    for (body, want) in [(short, "small"), (long, "large")] {
        let (status, answer) = post(&format!("{}/v1/messages", mock.url()), body.to_string()).await;
        assert_eq!((status, &answer["content"][0]["text"]), (200, &json!(want)), "{answer}");
    }
}
