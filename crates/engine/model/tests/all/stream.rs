//! Events of a streamed answer.

use haft_model::{CallProblem, ModelError, ModelEvent, Provider as _, StopReason};
use haft_testkit::{ReplyPiece, Script, ToolPiece, Turn, signature_of};
use haft_types::{MessageBlock, ToolUse};
use serde_json::{Value, json};

use crate::support::{MODEL, anthropic, ask, events, mock, quick, say, start};

fn call(id: &str, name: &str, input: Value) -> MessageBlock {
    MessageBlock::ToolUse(ToolUse { id: id.into(), name: name.to_owned(), input })
}

#[tokio::test]
async fn answer_is_emitted_in_blocks() {
    let split = ToolPiece {
        name: "Read".to_owned(),
        input: json!({"file_path": "/tmp/größe \"x\" 😀.txt", "n": [1, 2.5, null]}),
        split: Some((0..80).collect()),
        ..ToolPiece::default()
    };
    let turn = Turn::from_pieces([
        ReplyPiece::thinking("let me see"),
        ReplyPiece::text("I look at both."),
        ReplyPiece::Tool(split.clone()),
        ReplyPiece::tool("Bash", json!({"command": "ls"})),
    ]);
    let mock = mock([turn]).await;
    let provider = anthropic(&mock, quick());
    let answer = ask(&provider, say("go")).await.unwrap();
    let want = [
        MessageBlock::Thinking {
            thinking: "let me see".to_owned(),
            signature: signature_of("let me see", MODEL),
            model: Some(MODEL.to_owned()),
        },
        MessageBlock::Text { text: "I look at both.".to_owned() },
        call("toolu_mock_0_0", "Read", split.input),
        call("toolu_mock_0_1", "Bash", json!({"command": "ls"})),
    ];
    assert_eq!(answer.content, want);
    assert_eq!(answer.stop, Some(StopReason::ToolUse));
    assert!(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0);
    assert_eq!(answer.bad_calls, []);
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn deltas_add_up_to_blocks() {
    let turn = Turn::from_pieces([
        ReplyPiece::thinking("thinking hard about it"),
        ReplyPiece::text("a text that is streamed in pieces"),
    ]);
    let mock = start(Script { delta_chars: 3, ..Script::from_turns([turn]) }).await;
    let (all, error) = events(&anthropic(&mock, quick()), say("go")).await;
    assert_eq!(error, None);
    let text: String = all
        .iter()
        .filter_map(|event| if let ModelEvent::Text(it) = event { Some(it.as_str()) } else { None })
        .collect();
    let thought: String = all
        .iter()
        .filter_map(|event| if let ModelEvent::Thinking(it) = event { Some(it.as_str()) } else { None })
        .collect();
    assert_eq!(
        (text.as_str(), thought.as_str()),
        ("a text that is streamed in pieces", "thinking hard about it")
    );
    assert!(matches!(all.last(), Some(ModelEvent::Stopped(StopReason::EndTurn))));
    assert!(matches!(&all[0], ModelEvent::Started { model, .. } if model == MODEL));
}

#[tokio::test]
async fn truncated_call_is_never_executable() {
    let input = json!({"file_path": "/x", "content": "a long text that does not fit"});
    let whole = input.to_string().len();
    // Once cut in the middle of the JSON, once where the JSON happens to be complete.
    for (keep, salvage) in [(30, json!({"file_path": "/x"})), (whole, input.clone())] {
        let write = ToolPiece {
            name: "Write".to_owned(),
            input: input.clone(),
            keep: Some(keep),
            ..ToolPiece::default()
        };
        let turn =
            Turn::from_pieces([ReplyPiece::tool("Bash", json!({"command": "ls"})), ReplyPiece::Tool(write)])
                .stop("max_tokens");
        let mock = mock([turn]).await;
        let answer = ask(&anthropic(&mock, quick()), say("go")).await.unwrap();
        let ids: Vec<&str> = answer.calls().iter().map(|call| call.name.as_str()).collect();
        assert_eq!(ids, ["Bash"], "{keep}");
        assert_eq!(answer.stop, Some(StopReason::MaxTokens));
        let [bad] = &answer.bad_calls[..] else { panic!("{:?}", answer.bad_calls) };
        assert!(matches!(bad.problem, CallProblem::Truncated { output_tokens: Some(1..) }), "{bad:?}");
        assert_eq!((bad.call.name.as_str(), &bad.call.input), ("Write", &salvage));
        assert!(bad.message().contains("cut by the output limit at"), "{}", bad.message());
    }
}

/// The last call of an answer is announced when its block ends, before the answer ends.
#[tokio::test]
async fn last_call_is_announced_before_answer_ends() {
    let call = ReplyPiece::tool("Bash", json!({"command": "ls"}));
    let mock = mock([Turn::from_pieces([call, ReplyPiece::Stall(haft_testkit::StreamStall::Forever)])]).await;
    let mut events = anthropic(&mock, quick()).stream(say("go"));
    while let Some(event) = futures_util::StreamExt::next(&mut events).await {
        match event.unwrap() {
            ModelEvent::CallWritten(call) => return assert_eq!(call.input, json!({"command": "ls"})),
            ModelEvent::Block(_) => panic!("the answer may still be cut here"),
            _ => (),
        }
    }
    panic!("the call was not shown");
}

#[tokio::test]
async fn malformed_call_input_is_an_error_for_the_model() {
    for (json, want) in [
        ("{\"a\": \"line\nbreak\"}", Some(json!({"a": "line\nbreak"}))),
        ("```json\n{\"a\": 1}\n```", Some(json!({"a": 1}))),
        ("", Some(json!({}))),
        ("{\"a\": 1", None),
        ("{\"a\": \"\\ud99c\"}", None),
        ("[1]", None),
    ] {
        let tool = ToolPiece { name: "Read".to_owned(), json: Some(json.to_owned()), ..ToolPiece::default() };
        let mock = mock([Turn::from_pieces([ReplyPiece::Tool(tool)])]).await;
        let answer = ask(&anthropic(&mock, quick()), say("go")).await.unwrap();
        match want {
            Some(want) => assert_eq!(answer.calls()[0].input, want, "{json}"),
            None => {
                assert!(answer.calls().is_empty(), "{json}");
                assert!(answer.bad_calls[0].message().contains("Send the call again"));
            }
        }
    }
}

#[tokio::test]
async fn surrogates_split_across_events_are_joined() {
    let text = |piece: &str| {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{piece}\"}}}}\n\n"
        )
    };
    let raw = [
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"x\",\"usage\":{\"input_tokens\":1}}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        &text("hi \\ud83d"),
        &text("\\ude00 there \\ud83d"),
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    ]
    .concat();
    let mock = mock([Turn { raw: Some(raw), ..Turn::default() }]).await;
    let answer = ask(&anthropic(&mock, quick()), say("go")).await.unwrap();
    assert_eq!(answer.text(), "hi 😀 there \u{fffd}");
}

#[tokio::test]
async fn stop_reasons_are_mapped() {
    for (name, want) in [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::StopSequence),
        ("pause_turn", StopReason::Pause),
        ("refusal", StopReason::Refusal),
        ("model_context_window_exceeded", StopReason::ContextFull),
        ("something_new", StopReason::Other("something_new".to_owned())),
    ] {
        let mock = mock([Turn::text("x").stop(name)]).await;
        assert_eq!(ask(&anthropic(&mock, quick()), say("go")).await.unwrap().stop, Some(want));
    }
}

#[tokio::test]
async fn stream_errors_map_to_categories() {
    let cases = [
        (401, "authentication_error", "invalid x-api-key"),
        (404, "not_found_error", "model: nope"),
        (400, "invalid_request_error", "prompt is too long: 211539 tokens > 200000 maximum"),
        (400, "invalid_request_error", "something else"),
        (413, "request_too_large", "Request exceeds the maximum size"),
    ];
    for (status, kind, message) in cases {
        let mock = mock([Turn::error(status, kind, message)]).await;
        let error = ask(&anthropic(&mock, quick()), say("go")).await.unwrap_err();
        match status {
            401 => {
                assert!(matches!(error, ModelError::Auth { .. }), "{error:?}");
                assert!(error.to_string().contains("keep another with `haft login`"), "{error}");
            }
            404 => assert!(matches!(error, ModelError::UnknownModel { .. }), "{error:?}"),
            413 => assert!(matches!(error, ModelError::TooLong { .. }), "{error:?}"),
            _ if message.starts_with("prompt") => {
                assert!(matches!(error, ModelError::TooLong { tokens: Some(211_539), .. }), "{error:?}");
            }
            _ => assert!(matches!(error, ModelError::Invalid { .. }), "{error:?}"),
        }
        assert!(!error.to_string().contains("sk-test"));
        assert_eq!(mock.count(), 1, "{message}");
    }
}

#[tokio::test]
async fn unstreamed_answer_is_decoded() {
    // Some gateways never stream.
    let body = json!({"type": "message", "id": "m", "model": "x", "content": [
        {"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/x"}},
    ], "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 4}});
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut vec![0; 65536]).await;
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    });
    let login = haft_model::AnthropicLogin::None;
    let provider = haft_model::HttpProvider::anthropic(&url, login, quick()).unwrap();
    let answer = ask(&provider, say("go")).await.unwrap();
    assert_eq!((answer.text().as_str(), answer.calls().len()), ("hi", 1));
}

#[tokio::test]
async fn tokens_are_counted_and_estimated() {
    let mock = mock([]).await;
    let provider = anthropic(&mock, quick());
    let request = say(&"word ".repeat(2000));
    let counted = provider.count_tokens(request.clone()).await.unwrap();
    let estimated = request.estimate_tokens();
    assert!(counted > 2000 && estimated.abs_diff(counted) < counted / 2, "{counted} {estimated}");
}
