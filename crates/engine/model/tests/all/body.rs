//! Encoded request bodies.

use std::sync::Arc;

use haft_model::{
    CachePolicy, Effort, Request, Speed, SystemPart, Thinking, ToolChoice, ToolDef, ToolLoading, ToolOrigin,
    ToolSet,
};
use haft_testkit::{ReplyPiece, Script, Turn};
use haft_types::{Block, Content, Message, MessageBlock, Role};
use serde_json::{Value, json};

use crate::support::{anthropic, ask, mock, quick, request, say, start};

/// Positions of the cache breakpoints.
fn marks(body: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for part in ["tools", "system"] {
        for (at, item) in body[part].as_array().into_iter().flatten().enumerate() {
            if item.get("cache_control").is_some() {
                out.push(format!("{part}.{at}"));
            }
        }
    }
    for (at, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
            if block.get("cache_control").is_some() {
                out.push(format!("messages.{at}.{index}"));
            }
        }
    }
    out
}

#[tokio::test]
async fn messages_body_has_every_field() {
    let mock = mock([Turn::text("x")]).await;
    let mut asked = say("hello");
    asked.system = vec![SystemPart { text: "You are Haft.".to_owned(), breakpoint: true }, "Today.".into()];
    asked.max_tokens = 1000;
    asked.thinking = Thinking::Adaptive;
    asked.effort = Some(Effort::Medium);
    asked.output_schema = Some(json!({"type": "object"}));
    asked.stop_sequences = vec!["STOP".to_owned()];
    asked.context_management = Some(json!({"edits": []}));
    asked.betas = vec!["own-beta".to_owned()];
    asked.user_id = Some("u1".to_owned());
    asked.extra.insert("service_tier".to_owned(), json!("auto"));
    ask(&anthropic(&mock, quick()), asked).await.unwrap();
    let sent = &mock.requests()[0];
    let body = sent.json();
    let keys: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys[..4], ["model", "system", "messages", "tools"]);
    assert_eq!(keys.last(), Some(&"service_tier"));
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["output_config"]["effort"], "medium");
    assert_eq!(body["output_config"]["format"]["type"], "json_schema");
    assert_eq!((&body["max_tokens"], &body["stream"]), (&json!(1000), &json!(true)));
    assert_eq!(body["metadata"]["user_id"], "u1");
    assert_eq!(marks(&body), ["tools.2", "system.0", "system.1", "messages.0.0"]);
    assert_eq!(sent.header("anthropic-beta"), Some("own-beta,context-management-2025-06-27"));
    assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(sent.header("x-api-key"), Some("sk-test"));
    assert!(sent.header("user-agent").unwrap().starts_with("haft/"));
}

#[tokio::test]
async fn settings_are_adapted_to_model() {
    let budget = Thinking::Budget { tokens: 2000 };
    let cases: Vec<(&str, Request, Value)> = vec![
        (
            "claude-opus-4-5",
            Request { thinking: Thinking::Adaptive, ..say("x") },
            json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ),
        (
            "claude-opus-5",
            Request { thinking: budget, ..say("x") },
            json!({"thinking": {"type": "adaptive"}}),
        ),
        ("claude-opus-5-5", Request { thinking: Thinking::Off, ..say("x") }, json!({"thinking": null})),
        (
            "claude-opus-5-5",
            Request { tool_choice: ToolChoice::Any, ..say("x") },
            json!({"tool_choice": null}),
        ),
        (
            "claude-opus-4-6",
            Request { tool_choice: ToolChoice::Any, thinking: Thinking::Adaptive, ..say("x") },
            json!({"tool_choice": {"type": "any"}, "thinking": {"type": "disabled"}}),
        ),
        (
            "claude-opus-4-6",
            Request { tool_choice: ToolChoice::Tool { name: "Nope".to_owned() }, ..say("x") },
            json!({"tool_choice": null}),
        ),
        (
            "claude-opus-4-6",
            Request { effort: Some(Effort::Xhigh), ..say("x") },
            json!({"output_config": {"effort": "high"}}),
        ),
        ("claude-opus-5", Request { temperature: Some(0.5), ..say("x") }, json!({"temperature": null})),
        ("claude-opus-5-5", Request { speed: Speed::Fast, ..say("x") }, json!({"speed": "fast"})),
        ("claude-haiku-4-5", Request { speed: Speed::Fast, ..say("x") }, json!({"speed": null})),
        (
            "claude-opus-4-6",
            Request { thinking: budget, max_tokens: 1200, ..say("x") },
            json!({"thinking": {"type": "disabled"}}),
        ),
        ("claude-sonnet-4-5[1m]", say("x"), json!({"model": "claude-sonnet-4-5"})),
        (
            "claude-opus-4-6",
            Request { cache: CachePolicy::OneHour, system: vec!["s".into()], ..say("x") },
            json!({"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}),
        ),
    ];
    for (model, mut asked, want) in cases {
        model.clone_into(&mut asked.model);
        let mock = mock([Turn::text("x")]).await;
        ask(&anthropic(&mock, quick()), asked).await.unwrap();
        let body = mock.requests()[0].json();
        for (key, value) in want.as_object().unwrap() {
            assert_eq!(&body[key], value, "{model} {key}");
        }
    }
}

#[tokio::test]
async fn max_tokens_fits_remaining_window() {
    let mut turns = vec![Turn::text("x").always()];
    turns[0].usage = None;
    let mock = start(Script { window: 200_000, ..Script::from_turns(turns) }).await;
    let provider = anthropic(&mock, quick());
    let mut asked = say(&"0123456789".repeat(50_000));
    asked.model = "claude-opus-4-5".to_owned();
    asked.max_tokens = 64_000;
    for _ in 0..3 {
        ask(&provider, asked.clone()).await.unwrap();
    }
    let limits: Vec<u64> =
        mock.requests().iter().map(|request| request.json()["max_tokens"].as_u64().unwrap()).collect();
    // The first limit uses the estimate, later ones the provider's count.
    assert!(limits[0] < 40_000 && limits[1] == 64_000 && limits[2] == 64_000, "{limits:?}");
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn max_tokens_is_lowered_after_provider_error() {
    let mock =
        start(Script { window: 20_000, max_output: 64_000, ..Script::from_turns([Turn::text("x")]) }).await;
    let mut asked = say("short");
    asked.max_tokens = 30_000;
    let answer = ask(&anthropic(&mock, quick()), asked).await.unwrap();
    assert_eq!(answer.text(), "x");
    assert_eq!(mock.count(), 2);
    assert!(mock.requests()[1].json()["max_tokens"].as_u64().unwrap() < 20_000);
}

/// Length of the common prefix in bytes.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[tokio::test]
async fn session_prefix_bytes_never_change() {
    let turns = (0..12).map(|n| {
        // Sometimes more calls than the provider's lookback.
        let calls = if n % 4 == 1 { 15 } else { 1 };
        let call = |at| ReplyPiece::tool("Read", json!({"file_path": format!("/{n}/{at}"), "x": [1, 2.5]}));
        Turn::from_pieces(std::iter::once(ReplyPiece::thinking(format!("t{n}"))).chain((0..calls).map(call)))
    });
    let mock = start(Script { bind_thinking: true, ..Script::from_turns(turns) }).await;
    let provider = anthropic(&mock, quick());
    let mut asked = say("read everything");
    asked.system = vec!["You read.".into()];
    for n in 0..12 {
        let answer = ask(&provider, asked.clone()).await.unwrap();
        let results = answer.calls().into_iter().map(|call| MessageBlock::ToolResult {
            tool_use_id: call.id.clone(),
            content: Content::text(format!("content {n}")),
            is_error: false,
        });
        let results = results.collect();
        asked.messages.push(Arc::new(answer.message()));
        asked.messages.push(Arc::new(Message { role: Role::User, content: results }));
        // Every third round the session is loaded from its log.
        if n % 3 == 2 {
            let log = serde_json::to_string(&asked.messages).unwrap();
            asked.messages = serde_json::from_str(&log).unwrap();
        }
    }
    let bodies: Vec<_> = mock.requests().into_iter().map(|request| request.body).collect();
    let shared: Vec<usize> = bodies.windows(2).map(|pair| common(&pair[0], &pair[1])).collect();
    assert!(shared.windows(2).all(|pair| pair[0] <= pair[1]), "{shared:?}");
    let most = mock.requests().iter().map(|request| marks(&request.json()).len()).max();
    assert_eq!(most, Some(4));
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

fn lookup(name: &str, loading: ToolLoading) -> ToolDef {
    ToolDef {
        origin: ToolOrigin::External,
        loading,
        ..ToolDef::new(name, "Looks something up.", json!({"type": "object", "properties": {}}))
    }
}

#[tokio::test]
async fn deferred_tools_follow_model_support() {
    let set = Arc::new(ToolSet::new([
        ToolDef::new("ToolSearch", "Finds tools.", json!({"type": "object", "properties": {}})),
        lookup("mcp__a__one", ToolLoading::Deferred),
        lookup("mcp__a__two.with/odd name", ToolLoading::Deferred),
        lookup("mcp__a__three", ToolLoading::Deferred),
    ]));
    let found = |name: &str| Block::ToolReference { tool_name: name.to_owned() };
    let conversation = |set: &Arc<ToolSet>| Request {
        tools: Arc::clone(set),
        ..request([
            Message::user("find"),
            Message::assistant(vec![MessageBlock::ToolUse(haft_types::ToolUse {
                id: "t1".into(),
                name: "ToolSearch".to_owned(),
                input: json!({}),
            })]),
            Message {
                role: Role::User,
                content: vec![MessageBlock::ToolResult {
                    tool_use_id: "t1".into(),
                    content: Content(vec![found("mcp__a__two.with/odd name"), found("mcp__gone")]),
                    is_error: false,
                }],
            },
        ])
    };
    // Provider with references.
    let answer = Turn::tool(haft_model::wire_name("mcp__a__two.with/odd name"), json!({}));
    let mock = start(Script::from_turns([answer.clone(), answer])).await;
    let provider = anthropic(&mock, quick());
    let got = ask(&provider, conversation(&set)).await.unwrap();
    assert_eq!(got.calls()[0].name, "mcp__a__two.with/odd name");
    let sent = &mock.requests()[0];
    assert!(sent.header("anthropic-beta").unwrap().contains("advanced-tool-use"));
    let tools = sent.json()["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 4);
    assert_eq!(
        (&tools[0]["cache_control"]["type"], &tools[1]["defer_loading"]),
        (&json!("ephemeral"), &json!(true))
    );
    let inner = sent.json()["messages"][2]["content"][0]["content"].clone();
    assert_eq!(inner[0]["type"], "tool_reference");
    assert_eq!(inner[1], json!({"type": "text", "text": "mcp__gone is not available any more."}));
    // Provider without references: loaded tools are sent, the others are not.
    let mut asked = conversation(&set);
    asked.model = "claude-haiku-4-5".to_owned();
    ask(&provider, asked).await.unwrap();
    let body = mock.requests()[1].json();
    let names: Vec<&str> =
        body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ToolSearch", haft_model::wire_name("mcp__a__two.with/odd name").as_str()]);
    assert!(body["tools"][1].get("defer_loading").is_none());
}

#[tokio::test]
async fn rejected_fields_are_left_out() {
    let refusal = "tools.1.custom.defer_loading: Extra inputs are not permitted";
    let mock =
        mock([Turn::error(400, "invalid_request_error", refusal), Turn::text("x"), Turn::text("y")]).await;
    let provider = anthropic(&mock, quick());
    let set = ToolSet::new([
        ToolDef::new("ToolSearch", "Finds tools.", json!({"type": "object"})),
        lookup("late", ToolLoading::Deferred),
    ]);
    let asked = Request { tools: Arc::new(set), ..say("x") };
    ask(&provider, asked.clone()).await.unwrap();
    ask(&provider, asked).await.unwrap();
    let sizes: Vec<usize> =
        mock.requests().iter().map(|it| it.json()["tools"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [2, 1, 1]);
}

#[tokio::test]
async fn rejected_beta_feature_is_not_requested_again() {
    let refusal = "Unexpected value(s) `new-2026` for the `anthropic-beta` header.";
    let mock = mock([Turn::error(400, "invalid_request_error", refusal), Turn::text("x").always()]).await;
    let provider = anthropic(&mock, quick());
    let asked = Request { betas: vec!["new-2026".to_owned(), "old-2025".to_owned()], ..say("x") };
    ask(&provider, asked.clone()).await.unwrap();
    ask(&provider, asked).await.unwrap();
    let sent: Vec<String> =
        mock.requests().iter().map(|it| it.header("anthropic-beta").unwrap().to_owned()).collect();
    assert_eq!(sent, ["new-2026,old-2025", "old-2025", "old-2025"]);
}

#[tokio::test]
async fn token_counting_does_not_mark_repairs_as_reported() {
    let mock = mock([Turn::text("x")]).await;
    let provider = anthropic(&mock, quick());
    let asked = request([Message::user("a\0b")]);
    haft_model::Provider::count_tokens(&provider, asked.clone()).await.unwrap();
    assert_eq!(ask(&provider, asked).await.unwrap().repairs.len(), 1);
}
