//! Google's Gemini API.

use std::sync::Arc;

use haft_model::{
    Catalog, Effort, ImageLimit, ImageShrinker, ModelError, Provider as _, ProviderOptions, Request,
    ShrunkImage, StopReason, Thinking, ToolChoice,
};
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use haft_types::{Block, Content, MediaSource, Message, MessageBlock, Role, ToolUse};
use serde_json::{Value, json};

use crate::{
    lint::{base64, png},
    support::{ask, gemini, mock, quick, request, say, start},
};

const NEWER: &str = "gemini-3.1-pro-preview";
const OLDER: &str = "gemini-2.5-flash";

fn body(mock: &MockModel, at: usize) -> Value {
    mock.requests()[at].json()
}

fn result(id: &str) -> MessageBlock {
    MessageBlock::ToolResult {
        tool_use_id: id.into(),
        content: Content(vec![Block::text("no"), Block::image("image/png", base64(&png(2, 2)))]),
        is_error: false,
    }
}

fn conversation() -> Vec<Message> {
    let call = ToolUse { id: "c1".into(), name: "Read".to_owned(), input: json!({"a": 1}) };
    let content = vec![result("c1"), MessageBlock::Text { text: "and now".to_owned() }];
    vec![
        Message::user("look"),
        Message::assistant(vec![MessageBlock::ToolUse(call)]),
        Message { role: Role::User, content },
    ]
}

#[tokio::test]
async fn gemini_body_has_every_field() {
    let mock = mock([Turn::text("x").always()]).await;
    let mut asked = request(conversation());
    asked.model = NEWER.to_owned();
    asked.system = vec!["a".into(), "b".into()];
    asked.effort = Some(Effort::Max);
    asked.temperature = Some(0.5);
    asked.tool_choice = ToolChoice::Tool { name: "Read".to_owned() };
    asked.output_schema = Some(json!({"type": "object"}));
    ask(&gemini(&mock, quick()), asked.clone()).await.unwrap();
    let sent = body(&mock, 0);
    assert_eq!(mock.requests()[0].path, format!("/v1beta/models/{NEWER}:streamGenerateContent"));
    assert_eq!(mock.requests()[0].header("x-goog-api-key"), Some("sk-test"));
    assert_eq!(sent["systemInstruction"]["parts"][0]["text"], "a\n\nb");
    let call = &sent["contents"][1]["parts"][0];
    assert_eq!(call["functionCall"], json!({"id": "c1", "name": "Read", "args": {"a": 1}}));
    // Another model made the call, so it has no signature of this model.
    assert_eq!(call["thoughtSignature"], "skip_thought_signature_validator");
    let answer = &sent["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!((&answer["name"], &answer["response"]["output"]), (&json!("Read"), &json!("no")));
    assert_eq!(answer["parts"][0]["inlineData"]["mimeType"], "image/png");
    assert_eq!(sent["contents"][2]["parts"][1]["text"], "and now");
    let config = &sent["generationConfig"];
    assert_eq!(config["thinkingConfig"], json!({"includeThoughts": true, "thinkingLevel": "high"}));
    assert_eq!((&config["maxOutputTokens"], &config["temperature"]), (&json!(4096), &json!(0.5)));
    assert_eq!(config["responseMimeType"], "application/json");
    let choice = &sent["toolConfig"]["functionCallingConfig"];
    assert_eq!(choice, &json!({"mode": "ANY", "allowedFunctionNames": ["Read"]}));
    assert_eq!(sent["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["type"], "object");
    // An older model: images after the result, budgets instead of levels, no signature.
    asked.model = OLDER.to_owned();
    ask(&gemini(&mock, quick()), asked).await.unwrap();
    let sent = body(&mock, 1);
    assert!(sent["contents"][1]["parts"][0].get("thoughtSignature").is_none());
    assert!(sent["contents"][2]["parts"][1].get("inlineData").is_some());
    assert_eq!(sent["generationConfig"]["thinkingConfig"]["thinkingBudget"], 24_576);
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn gemini_thinking_is_adapted_to_model() {
    let budget = |tokens: i64| json!({"includeThoughts": tokens != 0, "thinkingBudget": tokens});
    let plain = json!({"includeThoughts": true});
    for (model, thinking, effort, want) in [
        (OLDER, Thinking::Budget { tokens: 5000 }, None, budget(5000)),
        (OLDER, Thinking::Adaptive, None, budget(-1)),
        (OLDER, Thinking::Off, None, budget(0)),
        (OLDER, Thinking::Default, Some(Effort::Low), budget(1024)),
        (OLDER, Thinking::Default, None, plain.clone()),
        // Thinking cannot be turned off.
        ("gemini-2.5-pro", Thinking::Off, None, plain.clone()),
        (NEWER, Thinking::Budget { tokens: 5000 }, None, plain.clone()),
        (
            NEWER,
            Thinking::Off,
            Some(Effort::Medium),
            json!({"includeThoughts": true, "thinkingLevel": "medium"}),
        ),
        ("gemini-2.0-flash", Thinking::Adaptive, Some(Effort::High), Value::Null),
    ] {
        let mock = mock([Turn::text("x")]).await;
        let asked = Request { model: model.to_owned(), thinking, effort, ..say("go") };
        ask(&gemini(&mock, quick()), asked).await.unwrap();
        let sent = body(&mock, 0)["generationConfig"]["thinkingConfig"].clone();
        assert_eq!(sent, want, "{model} {thinking:?} {effort:?}");
        assert_eq!(mock.refusals(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn gemini_call_signature_is_sent_back() {
    let turn = Turn::from_pieces([
        ReplyPiece::thinking("why"),
        ReplyPiece::text("I look."),
        ReplyPiece::tool("Read", json!({})),
        ReplyPiece::tool("Bash", json!({})),
    ]);
    let mock = mock([turn, Turn::text("x").always()]).await;
    let provider = gemini(&mock, quick());
    let mut asked = Request { model: NEWER.to_owned(), ..say("go") };
    let answer = ask(&provider, asked.clone()).await.unwrap();
    assert_eq!((answer.calls().len(), answer.text().as_str()), (2, "I look."));
    let results = answer.calls().into_iter().map(|call| MessageBlock::ToolResult {
        tool_use_id: call.id.clone(),
        content: "ok".into(),
        is_error: true,
    });
    let results = results.collect();
    asked.messages.push(Arc::new(answer.message()));
    asked.messages.push(Arc::new(Message { role: Role::User, content: results }));
    ask(&provider, asked.clone()).await.unwrap();
    let parts = body(&mock, 1)["contents"][1]["parts"].clone();
    let signature = parts[1]["thoughtSignature"].as_str().unwrap();
    assert!(signature.starts_with("sig-"), "{parts}");
    // Only the first of several parallel calls is signed; thinking text is not sent.
    assert!(parts[2].get("thoughtSignature").is_none() && !parts.to_string().contains("why"), "{parts}");
    let answered = body(&mock, 1)["contents"][2]["parts"][1]["functionResponse"]["response"].clone();
    assert_eq!(answered, json!({"error": "Error: ok"}));
    // Another model does not get the signature.
    ask(&provider, Request { model: "gemini-3.6-flash".to_owned(), ..asked }).await.unwrap();
    let parts = body(&mock, 2)["contents"][1]["parts"].clone();
    assert_eq!(parts[1]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn gemini_counts_tokens_at_provider() {
    let mock = mock([]).await;
    let asked = Request { model: NEWER.to_owned(), ..say("how many?") };
    let count = gemini(&mock, quick()).count_tokens(asked).await.unwrap();
    assert!(count > 10, "{count}");
    assert!(mock.requests()[0].path.ends_with(":countTokens"));
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn gemini_errors_map_to_categories() {
    let asked = || Request { model: NEWER.to_owned(), ..say("go") };
    let locked = start(Script { api_key: Some("other".to_owned()), ..Script::default() }).await;
    let error = ask(&gemini(&locked, quick()), asked()).await.unwrap_err();
    assert!(matches!(error, ModelError::Auth { .. }), "{error:?}");
    let small = start(Script { window: 10, ..Script::from_turns([Turn::text("x")]) }).await;
    let error = ask(&gemini(&small, quick()), asked()).await.unwrap_err();
    assert!(matches!(error, ModelError::TooLong { window: Some(10), .. }), "{error:?}");
    let overloaded = Turn::from_pieces([
        ReplyPiece::text("a"),
        ReplyPiece::Error(haft_testkit::ErrorReply {
            status: 503,
            kind: "overloaded_error".to_owned(),
            message: "busy".to_owned(),
            headers: Default::default(),
        }),
    ]);
    let mock = mock([overloaded, Turn::text("there")]).await;
    let answer = ask(&gemini(&mock, quick()), asked()).await.unwrap();
    assert_eq!((answer.text().as_str(), answer.retries.len()), ("there", 1));
}

#[tokio::test]
async fn deviating_gemini_answers_are_accepted() {
    let chunk = |candidate: Value| format!("data: {}\n\n", json!({"candidates": [candidate]}));
    let part = |part: Value| json!({"content": {"parts": [part]}});
    let stop = |reason: &str| chunk(json!({"finishReason": reason}));
    let call = json!({"functionCall": {"name": "Read", "args": {"a": 1}}});
    for (raw, text, calls, want) in [
        // No ids, no usage: two calls with the same name stay separate.
        (chunk(part(call.clone())) + &chunk(part(call.clone())) + &stop("STOP"), "", 2, StopReason::ToolUse),
        (chunk(part(json!({"functionCall": {"name": "Read"}}))) + &stop("STOP"), "", 1, StopReason::ToolUse),
        (chunk(part(json!({"text": "hi"}))) + &stop("SAFETY"), "hi", 0, StopReason::Refusal),
        (chunk(part(json!({"text": "hi"}))) + &stop("MAX_TOKENS"), "hi", 0, StopReason::MaxTokens),
        (
            "data: {\"promptFeedback\": {\"blockReason\": \"OTHER\"}, \"usageMetadata\": {\"promptTokenCount\": 1}}\n\n".to_owned(),
            "",
            0,
            StopReason::Refusal,
        ),
    ] {
        let mock = mock([Turn { raw: Some(raw.clone()), ..Turn::default() }]).await;
        let asked = Request { model: NEWER.to_owned(), ..say("go") };
        let answer = ask(&gemini(&mock, quick()), asked).await.unwrap();
        assert_eq!((answer.text().as_str(), answer.calls().len()), (text, calls), "{raw}");
        assert_eq!(answer.stop, Some(want), "{raw}");
        let ids: std::collections::HashSet<_> = answer.calls().iter().map(|call| call.id.clone()).collect();
        assert_eq!(ids.len(), calls);
    }
    // A call the API could not parse is retried.
    let broken = Turn { raw: Some(stop("MALFORMED_FUNCTION_CALL")), ..Turn::default() };
    let mock = mock([broken, Turn::text("better")]).await;
    let asked = Request { model: NEWER.to_owned(), ..say("go") };
    let answer = ask(&gemini(&mock, quick()), asked).await.unwrap();
    assert_eq!((answer.text().as_str(), answer.retries.len()), ("better", 1));
}

/// The smallest GIF there is.
const GIF: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// Converts every image to PNG.
struct Converts;

impl ImageShrinker for Converts {
    fn shrink(&self, _image: &[u8], _limit: ImageLimit) -> Option<ShrunkImage> {
        Some(ShrunkImage { media_type: "image/png".to_owned(), bytes: png(1, 1) })
    }
}

#[tokio::test]
async fn gif_is_converted_or_replaced_by_text() {
    for (media, sent_as) in [
        (None, "[image removed: this provider takes no GIF]"),
        (Some(Arc::new(Converts) as Arc<dyn ImageShrinker>), "image/png"),
    ] {
        for model in [NEWER, OLDER] {
            let mut messages = conversation();
            let gif = Block::image("image/gif", base64(GIF));
            // In a result, and in a user message.
            if let MessageBlock::ToolResult { content, .. } = &mut messages[2].content[0] {
                content.0.push(gif.clone());
            }
            let source = MediaSource::Base64 { media_type: "image/gif".to_owned(), data: base64(GIF) };
            messages[2].content.push(MessageBlock::Image { source });
            let mock = mock([Turn::text("seen").always()]).await;
            let provider = gemini(&mock, ProviderOptions { media: media.clone(), ..quick() });
            let asked = Request { model: model.to_owned(), ..request(messages) };
            assert_eq!(ask(&provider, asked).await.unwrap().text(), "seen", "{model} {sent_as}");
            assert!(body(&mock, 0).to_string().contains(sent_as), "{model} {sent_as}");
            assert_eq!(mock.refusals(), [""; 0]);
        }
    }
}

#[tokio::test]
async fn damaged_signature_is_removed_and_session_continues() {
    for model in [NEWER, OLDER] {
        let mock =
            mock([Turn::tool("Read", json!({"file_path": "a"})), Turn::text("done"), Turn::text("more")])
                .await;
        let provider = gemini(&mock, quick());
        let mut asked = Request { model: model.to_owned(), ..say("go") };
        let answer = ask(&provider, asked.clone()).await.unwrap();
        let mut message = answer.message();
        for block in &mut message.content {
            if let MessageBlock::Thinking { signature, .. } = block {
                *signature = String::from("ZGFtYWdlZA==");
            }
        }
        let id = answer.calls()[0].id.clone();
        asked.messages.push(Arc::new(message));
        asked.messages.push(Arc::new(Message { role: Role::User, content: vec![result(id.as_str())] }));
        assert_eq!(ask(&provider, asked.clone()).await.unwrap().text(), "done", "{model}");
        // The rejection is stored for later requests.
        let refusals = mock.refusals().len();
        asked
            .messages
            .push(Arc::new(Message::assistant(vec![MessageBlock::Text { text: "done".to_owned() }])));
        asked.messages.push(Arc::new(Message::user("and now")));
        assert_eq!(ask(&provider, asked).await.unwrap().text(), "more", "{model}");
        assert_eq!(mock.refusals().len(), refusals, "{model}");
    }
}

/// A user's catalog entry may contain only a window; signatures are required anyway.
#[tokio::test]
async fn user_catalog_entry_still_gets_required_signatures() {
    let entry = json!([{"id": NEWER, "window": 100_000}]).to_string();
    let catalog = Arc::new(Catalog::built_in().with(&entry).unwrap());
    let mock = mock([Turn::text("fine")]).await;
    let mut messages = conversation();
    messages[2].content.truncate(1);
    let asked = Request { model: NEWER.to_owned(), ..request(messages) };
    let answer = ask(&gemini(&mock, ProviderOptions { catalog, ..quick() }), asked).await;
    assert_eq!(answer.unwrap().text(), "fine");
    assert_eq!(mock.refusals(), [""; 0]);
}
