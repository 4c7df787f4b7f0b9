//! Malformed streams.

use haft_model::StopReason;
use haft_testkit::{ReplyPiece, Script, Turn};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::json;

use crate::support::{anthropic, ask, cases, quick, say, start};

/// A valid stream with random damage.
fn damaged() -> impl Strategy<Value = String> {
    let line =
        |event: serde_json::Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let stream: Vec<String> = vec![
        line(
            json!({"type": "message_start", "message": {"id": "m", "model": "x", "usage": {"input_tokens": 1}}}),
        ),
        line(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        line(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "héllo"}}),
        ),
        line(json!({"type": "content_block_stop", "index": 0})),
        line(
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}}),
        ),
        line(
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":"}}),
        ),
        line(
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "1}"}}),
        ),
        line(json!({"type": "content_block_stop", "index": 1})),
        line(
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
        ),
        line(json!({"type": "message_stop"})),
    ];
    let count = stream.len();
    let edits = proptest::collection::vec((0..6_u8, 0..count, 0..200_usize, "\\PC{0,6}"), 0..5);
    edits.prop_map(move |edits| {
        let mut stream = stream.clone();
        for (kind, at, byte, text) in edits {
            let at = at.min(stream.len().saturating_sub(1));
            match kind {
                0 if !stream.is_empty() => {
                    stream.remove(at);
                }
                1 if !stream.is_empty() => stream.insert(at, stream[at].clone()),
                2 if stream.len() > 1 => stream.swap(0, at),
                3 if !stream.is_empty() => {
                    let cut = stream[at].floor_char_boundary(byte);
                    stream[at].truncate(cut);
                }
                4 if !stream.is_empty() => {
                    let place = stream[at].floor_char_boundary(byte);
                    stream[at].insert_str(place, &text);
                }
                _ => stream.push(text),
            }
        }
        stream.concat()
    })
}

#[test]
fn no_stream_hangs_or_breaks_the_client() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mock = runtime.block_on(start(Script { strict: false, ..Script::default() }));
    let mut common = quick();
    common.retry.most = 1;
    let provider = anthropic(&mock, common);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: cases(200),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let number = std::cell::Cell::new(0);
    runner
        .run(&damaged(), |raw| {
            number.set(number.get() + 1);
            let mark = format!("<{}>", number.get());
            mock.push(Turn { raw: Some(raw), ..Turn::default() }.when(&mark));
            mock.push(Turn::from_pieces([ReplyPiece::text("good")]).when(&mark).always());
            let answer = runtime.block_on(ask(&provider, say(&mark)));
            let answer = answer.map_err(|err| TestCaseError::fail(err.to_string()))?;
            // Whatever was received, every call is complete and there is a stop reason.
            prop_assert!(answer.stop.is_some());
            let mut ids: Vec<&str> = answer.calls().iter().map(|call| call.id.as_str()).collect();
            let calls = ids.len();
            ids.dedup();
            prop_assert!(calls <= 1 || ids.len() == calls || answer.stop != Some(StopReason::ToolUse));
            Ok(())
        })
        .unwrap();
}
