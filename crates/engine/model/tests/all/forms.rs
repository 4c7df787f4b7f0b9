//! The same script through every wire format.

use std::sync::Arc;

use haft_model::{ChatOptions, Effort, HttpProvider, Request, StopReason, ToolChoice};
use haft_testkit::{AwsKey, MockForm, MockModel, ReplyPiece, Script, Turn};
use haft_types::{Block, Content, Message, MessageBlock, Role};
use serde_json::{Value, json};

use crate::{
    lint::{base64, png},
    support::{ask, chat, forms, mock, quick, request, responses, say, start},
};

fn script() -> Vec<Turn> {
    vec![
        Turn::from_pieces([
            ReplyPiece::thinking("first"),
            ReplyPiece::text("I read two files."),
            ReplyPiece::tool(
                "Read",
                json!({"file_path": "/a", "nested": {"list": [1, 2.5, "x"], "none": null}}),
            ),
            ReplyPiece::tool("Read", json!({"file_path": "/größe 😀"})),
        ]),
        Turn::from_pieces([
            ReplyPiece::thinking("second"),
            ReplyPiece::tool("Bash", json!({"command": "echo \"hi\"\n"})),
        ]),
        Turn::from_pieces([ReplyPiece::text("done")]),
    ]
}

/// Runs a whole session: answers every call until there is none.
async fn session(provider: &HttpProvider, model: &str) -> Vec<Value> {
    let mut asked = Request { model: model.to_owned(), ..say("go") };
    asked.system = vec!["You are brief.".into()];
    let mut seen = Vec::new();
    loop {
        let answer = ask(provider, asked.clone()).await.unwrap();
        assert_eq!(answer.bad_calls, []);
        let calls = answer.calls();
        seen.push(json!({"text": answer.text(), "calls": calls, "stop": answer.stop}));
        if calls.is_empty() {
            return seen;
        }
        let results = calls.iter().map(|call| MessageBlock::ToolResult {
            tool_use_id: call.id.clone(),
            content: Content(vec![Block::text("ok"), Block::image("image/png", base64(&png(4, 4)))]),
            is_error: false,
        });
        let results = results.collect();
        asked.messages.push(Arc::new(answer.message()));
        asked.messages.push(Arc::new(Message { role: Role::User, content: results }));
    }
}

#[tokio::test]
async fn every_wire_format_yields_same_calls() {
    let mut seen: Vec<(&str, Vec<Value>)> = Vec::new();
    for (name, model, make) in forms() {
        let aws = AwsKey {
            access_key: "AKIDEXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            region: "us-east-1".to_owned(),
        };
        let key = Some("sk-test".to_owned());
        let mock = start(Script { api_key: key, aws: Some(aws), ..Script::from_turns(script()) }).await;
        seen.push((name, session(&make(&mock, quick()), model).await));
        assert_eq!(mock.refusals(), Vec::<String>::new(), "{name}");
    }
    for pair in seen.windows(2) {
        assert_eq!(pair[0].1, pair[1].1, "{} {}", pair[0].0, pair[1].0);
    }
    assert_eq!(seen[0].1.len(), 3);
}

#[tokio::test]
async fn broken_stream_ends_cleanly_in_every_wire_format() {
    for (name, model, make) in forms() {
        for byte in (0..2400).step_by(113) {
            let cut = Turn::from_pieces([
                ReplyPiece::text("hello"),
                ReplyPiece::tool("Read", json!({"file_path": "/a"})),
                ReplyPiece::tool("Bash", json!({})),
            ]);
            let mock = mock([cut.clone().cut_at(byte, haft_testkit::StreamCut::Reset), cut]).await;
            let asked = Request { model: model.to_owned(), ..say("go") };
            let answer = ask(&make(&mock, quick()), asked).await.unwrap();
            let calls = answer.calls().len();
            match answer.stop {
                Some(StopReason::Interrupted) => assert!(calls == 1 && mock.count() == 1, "{name} {byte}"),
                _ => assert!(calls == 2 && mock.count() == 1 + answer.retries.len(), "{name} {byte}"),
            }
        }
    }
}

fn body(mock: &MockModel, at: usize) -> Value {
    mock.requests()[at].json()
}

#[tokio::test]
async fn chat_body_has_every_field() {
    let mock = mock([Turn::text("x").always()]).await;
    let mut asked = request([
        Message::user("look"),
        Message::assistant(vec![MessageBlock::ToolUse(haft_types::ToolUse {
            id: "c1".into(),
            name: "Read".to_owned(),
            input: json!({"a": 1}),
        })]),
        Message {
            role: Role::User,
            content: vec![
                MessageBlock::ToolResult {
                    tool_use_id: "c1".into(),
                    content: Content(vec![Block::text("no"), Block::image("image/png", base64(&png(2, 2)))]),
                    is_error: false,
                },
                MessageBlock::Text { text: "and now".to_owned() },
            ],
        },
    ]);
    asked.model = "gpt-5".to_owned();
    asked.system = vec!["a".into(), "b".into()];
    asked.effort = Some(Effort::High);
    asked.tool_choice = ToolChoice::Tool { name: "Read".to_owned() };
    asked.output_schema = Some(json!({"type": "object"}));
    ask(&chat(&mock, quick()), asked.clone()).await.unwrap();
    let sent = body(&mock, 0);
    assert_eq!(sent["messages"][0], json!({"role": "system", "content": "a\n\nb"}));
    assert_eq!(
        sent["messages"][2]["tool_calls"][0]["function"],
        json!({"name": "Read", "arguments": "{\"a\":1}"})
    );
    assert_eq!(sent["messages"][3], json!({"role": "tool", "tool_call_id": "c1", "content": "no"}));
    assert_eq!(sent["messages"][4]["content"][1]["type"], "image_url");
    assert_eq!(sent["messages"][4]["content"][2]["text"], "and now");
    assert_eq!(
        (&sent["reasoning_effort"], &sent["tool_choice"]["function"]["name"]),
        (&json!("high"), &json!("Read"))
    );
    assert_eq!((&sent["max_tokens"], &sent["stream_options"]["include_usage"]), (&json!(4096), &json!(true)));
    assert_eq!(mock.requests()[0].header("authorization"), Some("Bearer sk-test"));
    assert_eq!(mock.requests()[0].form, Some(MockForm::Chat));
    // Same for the Responses API.
    ask(&responses(&mock, quick()), asked).await.unwrap();
    let sent = body(&mock, 1);
    assert_eq!(sent["instructions"], "a\n\nb");
    assert_eq!(
        sent["input"][1],
        json!({"type": "function_call", "call_id": "c1", "name": "Read", "arguments": "{\"a\":1}"})
    );
    assert_eq!(sent["input"][2]["output"][1]["type"], "input_image");
    assert_eq!(sent["reasoning"], json!({"summary": "auto", "effort": "high"}));
    assert_eq!((&sent["store"], &sent["max_output_tokens"]), (&json!(false), &json!(4096)));
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn reasoning_items_are_sent_back_unchanged() {
    let mock = mock([
        Turn::from_pieces([ReplyPiece::thinking("why"), ReplyPiece::tool("Read", json!({}))]),
        Turn::text("x").always(),
    ])
    .await;
    let provider = responses(&mock, quick());
    let mut asked = Request { model: "gpt-5".to_owned(), ..say("go") };
    let answer = ask(&provider, asked.clone()).await.unwrap();
    asked.messages.push(Arc::new(answer.message()));
    asked.messages.push(Arc::new(Message {
        role: Role::User,
        content: vec![MessageBlock::ToolResult {
            tool_use_id: answer.calls()[0].id.clone(),
            content: "ok".into(),
            is_error: false,
        }],
    }));
    ask(&provider, asked.clone()).await.unwrap();
    let item = body(&mock, 1)["input"][1].clone();
    assert_eq!((&item["type"], &item["summary"][0]["text"]), (&json!("reasoning"), &json!("why")));
    // Another model does not get the reasoning items.
    ask(&provider, Request { model: "gpt-5.1-codex".to_owned(), ..asked }).await.unwrap();
    assert_eq!(body(&mock, 2)["input"][1]["type"], "function_call");
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

/// A gateway in front of `OpenAI`: the model's tools are refused on Chat Completions, so its
/// requests move to Responses and stay there. A form that was named is kept.
#[tokio::test]
async fn tools_refused_on_chat_completions_move_to_responses_unless_the_form_is_named() {
    for switch_to_responses in [true, false] {
        let mock = start(Script::from_turns(script())).await;
        let options = ChatOptions { switch_to_responses, ..ChatOptions::default() };
        let provider =
            HttpProvider::openai_chat(&format!("{}/v1", mock.url()), None, options, quick()).unwrap();
        let model = "gpt-6.2-sol";
        let forms = || mock.requests().iter().filter_map(|it| it.form).collect::<Vec<_>>();
        if !switch_to_responses {
            let failed = ask(&provider, Request { model: model.to_owned(), ..say("go") }).await.unwrap_err();
            assert!(failed.to_string().contains("use /v1/responses"), "{failed}");
            assert_eq!(forms(), [MockForm::Chat]);
            continue;
        }
        assert_eq!(session(&provider, model).await.len(), 3);
        let moved = [MockForm::Chat, MockForm::Responses, MockForm::Responses, MockForm::Responses];
        assert_eq!(forms(), moved);
        // Only this model moves, and its thinking goes back to it.
        assert_eq!(body(&mock, 2)["input"][1]["type"], "reasoning");
        assert_eq!(mock.refusals().len(), 1);
    }
}

/// The provider stores nothing, so a reasoning item without its encrypted content cannot go
/// back: models that are not in the list are not asked for that content.
#[tokio::test]
async fn reasoning_items_without_encrypted_content_are_left_out() {
    let mock = mock([Turn::text("x").always()]).await;
    let provider = responses(&mock, quick());
    let call = haft_types::ToolUse { id: "c1".into(), name: "Read".to_owned(), input: json!({}) };
    for (item, sent) in [
        (json!({"type": "reasoning", "id": "rs_1", "summary": []}), "function_call"),
        (json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}), "reasoning"),
    ] {
        let before = mock.requests().len();
        let thinking = MessageBlock::Thinking {
            thinking: "why".to_owned(),
            signature: item.to_string(),
            model: Some("gpt-6.2-sol".to_owned()),
        };
        let mut asked = Request { model: "gpt-6.2-sol".to_owned(), ..say("go") };
        asked
            .messages
            .push(Arc::new(Message::assistant(vec![thinking, MessageBlock::ToolUse(call.clone())])));
        asked.messages.push(Arc::new(Message {
            role: Role::User,
            content: vec![MessageBlock::ToolResult {
                tool_use_id: "c1".into(),
                content: "ok".into(),
                is_error: false,
            }],
        }));
        ask(&provider, asked).await.unwrap();
        assert_eq!(body(&mock, before)["input"][1]["type"], sent, "{item}");
    }
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[tokio::test]
async fn deviating_chat_servers_are_accepted() {
    let chunk = |delta: Value, finish: Value| {
        format!(
            "data: {}\n\n",
            json!({"id": "r1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        )
    };
    let call = |index: Value, id: Value, name: Value, arguments: Value| {
        let mut call = json!({"function": {"arguments": arguments}});
        for (key, value) in [("index", index), ("id", id)] {
            if !value.is_null() {
                call[key] = value;
            }
        }
        if !name.is_null() {
            call["function"]["name"] = name;
        }
        json!({"tool_calls": [call]})
    };
    let none = Value::Null;
    let two = json!([["Read", {"a": 1}], ["Bash", {"b": 2}]]);
    let cases: Vec<(&str, Vec<String>, Value)> = vec![
        (
            "index gaps, no ids",
            vec![
                chunk(call(json!(0), none.clone(), json!("Read"), json!("{\"a\":")), none.clone()),
                chunk(call(json!(0), none.clone(), none.clone(), json!("1}")), none.clone()),
                chunk(call(json!(5), none.clone(), json!("Bash"), json!("{\"b\":2}")), json!("tool_calls")),
            ],
            two.clone(),
        ),
        (
            "always index 0, new ids",
            vec![
                chunk(call(json!(0), json!("x"), json!("Read"), json!("{\"a\":1}")), none.clone()),
                chunk(call(json!(0), json!("y"), json!("Bash"), json!("{\"b\":2}")), json!("stop")),
            ],
            two.clone(),
        ),
        (
            "no index, the same id",
            vec![
                chunk(call(none.clone(), json!("x"), json!("Read"), json!("{\"a\":1}")), none.clone()),
                chunk(call(none.clone(), json!("x"), json!("Bash"), json!("{\"b\":2}")), json!("tool_calls")),
            ],
            two.clone(),
        ),
        (
            "arguments as an object",
            vec![
                chunk(call(json!(0), json!("x"), json!("Read"), json!({"a": 1})), none.clone()),
                chunk(call(json!(1), json!("y"), json!("Bash"), json!({"b": 2})), json!("tool_calls")),
            ],
            two.clone(),
        ),
        (
            "empty arguments, no end",
            vec![
                chunk(call(json!(0), json!("x"), json!("Read"), json!("")), none.clone()),
                "data: [DONE]\n\n".to_owned(),
            ],
            json!([["Read", {}]]),
        ),
        (
            "interleaved",
            vec![
                chunk(call(json!(0), json!("x"), json!("Read"), json!("{\"a\"")), none.clone()),
                chunk(call(json!(1), json!("y"), json!("Bash"), json!("{\"b\"")), none.clone()),
                chunk(call(json!(0), none.clone(), none.clone(), json!(":1}")), none.clone()),
                chunk(call(json!(1), none.clone(), none.clone(), json!(":2}")), json!("tool_calls")),
            ],
            two,
        ),
        (
            "a function call of old",
            vec![
                chunk(json!({"function_call": {"name": "Read", "arguments": "{\"a\""}}), none.clone()),
                chunk(json!({"function_call": {"arguments": ":1}"}}), json!("function_call")),
            ],
            json!([["Read", {"a": 1}]]),
        ),
        (
            "double encoded",
            vec![chunk(
                call(json!(0), json!("x"), json!("Read"), json!("\"{\\\"a\\\":1}\"")),
                json!("tool_calls"),
            )],
            json!([["Read", {"a": 1}]]),
        ),
    ];
    for (name, chunks, want) in cases {
        let mock = mock([Turn { raw: Some(chunks.concat()), ..Turn::default() }]).await;
        let answer =
            ask(&chat(&mock, quick()), Request { model: "gpt-4.1".to_owned(), ..say("go") }).await.unwrap();
        let calls: Vec<Value> = answer.calls().iter().map(|call| json!([call.name, call.input])).collect();
        assert_eq!(json!(calls), want, "{name}");
        assert_eq!(answer.stop, Some(StopReason::ToolUse), "{name}");
        let mut ids: Vec<&str> = answer.calls().iter().map(|call| call.id.as_str()).collect();
        ids.dedup();
        assert_eq!(ids.len(), calls.len(), "{name}");
    }
}

#[tokio::test]
async fn openai_gets_max_completion_tokens() {
    assert_eq!(ChatOptions::for_server("https://api.openai.com/v1").limit_field, "max_completion_tokens");
    assert_eq!(ChatOptions::for_server("http://127.0.0.1:11434/v1").limit_field, "max_tokens");
}

#[tokio::test]
async fn rejected_responses_item_is_replaced() {
    let refusal = "Invalid 'messages[2].content[0].image_url': bad picture";
    let mock = mock([Turn::error(400, "invalid_request_error", refusal), Turn::text("x")]).await;
    let content = vec![MessageBlock::Image {
        source: haft_types::MediaSource::Base64 {
            media_type: "image/png".to_owned(),
            data: base64(&png(2, 2)),
        },
    }];
    let mut asked = request([
        Message::user("a"),
        Message::assistant(vec![MessageBlock::Text { text: "b".to_owned() }]),
        Message { role: Role::User, content },
    ]);
    asked.model = "gpt-5".to_owned();
    ask(&chat(&mock, quick()), asked).await.unwrap();
    let text = body(&mock, 1)["messages"][2]["content"].as_str().unwrap().to_owned();
    assert!(text.starts_with("[image removed: API refused it"), "{text}");
}

#[tokio::test]
async fn cloud_hosts_differ_in_body_and_headers() {
    for (name, model, make) in forms() {
        let mock = start(Script::from_turns([Turn::text("x")])).await;
        let provider = make(&mock, quick());
        let mut asked = Request { model: model.to_owned(), ..say("hello there") };
        asked.betas = vec!["own-beta".to_owned()];
        ask(&provider, asked.clone()).await.unwrap();
        let counted = haft_model::Provider::count_tokens(&provider, asked).await.unwrap();
        assert!(counted > 10, "{name}");
        let sent = &mock.requests()[0];
        let body = sent.json();
        let header = sent.header("anthropic-beta").is_some();
        match name {
            "anthropic" | "foundry" => assert!(header && body["model"] == model, "{name}"),
            "vertex" => {
                assert!(
                    header && body.get("model").is_none() && body["anthropic_version"] == "vertex-2023-10-16"
                );
                let path = "/v1/projects/p1/locations/global/publishers/anthropic/models/claude-opus-4-6@20260101:streamRawPredict";
                assert_eq!(sent.path, path);
            }
            "bedrock" => {
                assert!(
                    !header && body["anthropic_beta"] == json!(["own-beta"]) && body.get("stream").is_none()
                );
                assert_eq!(sent.header("x-amz-security-token"), Some("token"));
            }
            _ => assert!(!header, "{name}"),
        }
        assert_eq!(mock.refusals(), Vec::<String>::new(), "{name}");
    }
}

#[cfg(feature = "bedrock")]
#[tokio::test]
async fn bedrock_signature_is_valid_for_any_model_name() {
    let aws = AwsKey {
        access_key: "AKIDEXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
        region: "us-east-1".to_owned(),
    };
    let mock = start(Script { aws: Some(aws), ..Script::from_turns([Turn::text("x").always()]) }).await;
    let provider = crate::support::bedrock(&mock, quick());
    for model in [
        "anthropic.claude-x",
        "us.anthropic.claude-x-v1:0",
        "arn:aws:bedrock:us-east-1:123:inference-profile/us.claude x+y",
    ] {
        ask(&provider, Request { model: model.to_owned(), ..say("go") }).await.unwrap();
    }
    let wrong = haft_model::AwsLogin::Keys {
        access_key: "AKIDEXAMPLE".to_owned(),
        secret_key: haft_model::SecretString::new("wrong"),
        session_token: None,
    };
    let provider = HttpProvider::bedrock("us-east-1", Some(&mock.url()), wrong, quick()).unwrap();
    let error = ask(&provider, say("go")).await.unwrap_err();
    assert!(matches!(error, haft_model::ModelError::Auth { .. }), "{error}");
}

#[tokio::test]
async fn text_calls_are_recovered_only_for_marked_models() {
    let text =
        "I look.\n<tool_call>\n{\"name\": \"Read\", \"arguments\": {\"file_path\": \"/a\"}}\n</tool_call>";
    for (model, found) in [("qwen3-coder:30b", true), ("gpt-4.1", false)] {
        let mock = mock([Turn::text(text)]).await;
        let (all, error) =
            crate::support::events(&chat(&mock, quick()), Request { model: model.to_owned(), ..say("go") })
                .await;
        assert_eq!(error, None);
        let shown: String = all
            .iter()
            .filter_map(|it| if let haft_model::ModelEvent::Text(it) = it { Some(it.as_str()) } else { None })
            .collect();
        let mut answer = haft_model::ModelAnswer::default();
        all.into_iter().for_each(|event| answer.take(event));
        let calls: Vec<Value> = answer.calls().iter().map(|call| json!([call.name, call.input])).collect();
        if found {
            assert_eq!((answer.text().trim(), shown.trim()), ("I look.", "I look."));
            assert_eq!(json!(calls), json!([["Read", {"file_path": "/a"}]]));
            assert_eq!(answer.stop, Some(StopReason::ToolUse));
        } else {
            assert_eq!((shown.as_str(), calls.len()), (text, 0));
        }
    }
}
