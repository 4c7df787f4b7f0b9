//! Recording and replay.

use std::sync::{Arc, Mutex};

use haft_model::{
    Catalog, ModelError, Provider, RecordedExchange, RecordingProvider, ReplayProvider, Request,
    RequestNormalizer, ToolDef, ToolSet,
};
use haft_testkit::{ReplyPiece, StreamStall, Turn};
use haft_types::{Content, Message, MessageBlock, Role};
use serde_json::{Value, json};

use crate::support::{anthropic, ask, events, mock, quick, say};

fn as_it_is() -> RequestNormalizer {
    Arc::new(|_: &mut Value| {})
}

/// Sends a request, answers the calls, sends the next one.
async fn session(provider: &dyn Provider, tool_text: &str) -> Result<Vec<String>, ModelError> {
    let mut asked = say(&format!("go {}", "on ".repeat(1000)));
    let schema = json!({"type": "object", "properties": {}});
    asked.tools = Arc::new(ToolSet::new([ToolDef::new("Read", tool_text, schema)]));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (all, error) = events(provider, asked.clone()).await;
        if let Some(error) = error {
            return Err(error);
        }
        seen.push(serde_json::to_string(&all).unwrap());
        seen.push(format!("estimated {}", provider.estimate_tokens(&asked)));
        let mut answer = haft_model::ModelAnswer::default();
        all.into_iter().for_each(|event| answer.take(event));
        let results = answer.calls().into_iter().map(|call| MessageBlock::ToolResult {
            tool_use_id: call.id.clone(),
            content: Content::text("ok"),
            is_error: false,
        });
        let results = results.collect();
        asked.messages.push(Arc::new(answer.message()));
        asked.messages.push(Arc::new(Message { role: Role::User, content: results }));
    }
    Ok(seen)
}

async fn record() -> (Vec<RecordedExchange>, Vec<String>) {
    let mock = mock([
        Turn::from_pieces([
            ReplyPiece::thinking("hm"),
            ReplyPiece::tool("Read", json!({"a": 1})),
            ReplyPiece::tool("Read", json!({"a": 2})),
        ]),
        Turn::text("done"),
    ])
    .await;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&kept);
    let recorder = RecordingProvider::new(Arc::new(anthropic(&mock, quick())), as_it_is(), move |it| {
        sink.lock().unwrap().push(it)
    });
    let seen = session(&recorder, "Reads.").await.unwrap();
    let lines: Vec<String> =
        kept.lock().unwrap().iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    let read = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    (read, seen)
}

fn replay(exchanges: &[RecordedExchange]) -> ReplayProvider {
    ReplayProvider::new(exchanges.to_vec(), as_it_is(), Catalog::built_in())
}

#[tokio::test]
async fn replay_answers_identically() {
    let (exchanges, live) = record().await;
    for _ in 0..20 {
        let replay = replay(&exchanges);
        assert_eq!(session(&replay, "Reads.").await.unwrap(), live);
        assert_eq!(replay.unused(), 0);
    }
}

#[tokio::test]
async fn replay_miss_names_first_difference() {
    let (exchanges, _) = record().await;
    let error = session(&replay(&exchanges), "Reads files.").await.unwrap_err();
    let ModelError::ReplayMiss { message } = &error else { panic!("{error:?}") };
    assert!(message.contains("tools[0].description: recorded \"Reads.\", now \"Reads files.\""), "{message}");
    // Other requests, other differences.
    for (change, want) in [
        (Request { max_tokens: 1, ..say("go") }, "tools[1]: recorded nothing"),
        (Request { tools: Arc::new(ToolSet::default()), ..say("go") }, "tools[0]: recorded {"),
    ] {
        let error = ask(&replay(&exchanges), change).await.unwrap_err().to_string();
        assert!(error.contains(want) || error.contains("tools[0]"), "{error}");
    }
    // All exchanges of the recording were used.
    let replay = replay(&exchanges);
    session(&replay, "Reads.").await.unwrap();
    let error = ask(&replay, say("go")).await.unwrap_err().to_string();
    assert!(error.contains("all 2 recorded ones are used"), "{error}");
}

#[tokio::test]
async fn normalised_requests_match_in_replay() {
    let (exchanges, live) = record().await;
    let normalise: RequestNormalizer =
        Arc::new(|value: &mut Value| value["tools"][0]["description"] = json!("…"));
    let same: Vec<RecordedExchange> = exchanges
        .into_iter()
        .map(|mut it| {
            normalise(&mut it.request);
            it
        })
        .collect();
    let replay = ReplayProvider::new(same, normalise, Catalog::built_in());
    assert_eq!(session(&replay, "Reads differently.").await.unwrap(), live);
}

#[tokio::test]
async fn abandoned_answer_is_recorded_as_abandoned() {
    let mock =
        mock([Turn::from_pieces([ReplyPiece::text("a"), ReplyPiece::Stall(StreamStall::Forever)])]).await;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&kept);
    let recorder = RecordingProvider::new(Arc::new(anthropic(&mock, quick())), as_it_is(), move |it| {
        sink.lock().unwrap().push(it)
    });
    let mut stream = recorder.stream(say("go"));
    futures_util::StreamExt::next(&mut stream).await.unwrap().unwrap();
    drop(stream);
    let exchange: RecordedExchange = kept.lock().unwrap()[0].clone();
    assert!(exchange.abandoned && !exchange.events.is_empty());
    let (all, error) = events(&replay(&[exchange]), say("go")).await;
    assert!(!all.is_empty() && matches!(error, Some(ModelError::ReplayMiss { .. })));
}
