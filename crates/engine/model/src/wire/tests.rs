//! Decodes every wire format with the body cut at every byte, without a network.

use std::sync::Arc;

use haft_testkit::{MockForm, ReplyPiece, ToolPiece, Turn};
use haft_types::MessageBlock;
use serde_json::json;

use super::{
    Decoder,
    chat_events::{ChatDecoder, TextCallPolicy},
    event_framing::Framing,
    gemini_events::GeminiDecoder,
    messages_events::MessagesDecoder,
    responses_events::ResponsesDecoder,
    sse::SseParser,
};
use crate::{ModelAnswer, ModelError, ModelEvent, StopReason, ToolSet};

const FORMS: [MockForm; 4] = [MockForm::Messages, MockForm::Chat, MockForm::Responses, MockForm::Gemini];

fn reader(form: MockForm) -> (Framing, Decoder) {
    let tools = Arc::new(ToolSet::default());
    let sse = Framing::Sse(SseParser::default());
    match form {
        MockForm::Messages => (sse, Decoder::Messages(MessagesDecoder::new("m", tools))),
        MockForm::Chat => (sse, Decoder::Chat(ChatDecoder::new("m", tools, TextCallPolicy::Ignored))),
        MockForm::Responses => (sse, Decoder::Responses(ResponsesDecoder::new("m", tools))),
        MockForm::Gemini => (sse, Decoder::Gemini(GeminiDecoder::new("m", tools))),
        #[cfg(feature = "bedrock")]
        MockForm::Bedrock => (Framing::event_stream(), Decoder::Messages(MessagesDecoder::new("m", tools))),
        #[cfg(not(feature = "bedrock"))]
        MockForm::Bedrock => unreachable!("needs the feature"),
    }
}

/// Decodes a body given in chunks; returns the answer and how it ended.
pub(super) fn read(form: MockForm, pieces: &[&[u8]]) -> (ModelAnswer, Result<(), ModelError>) {
    let (mut framing, mut decoder) = reader(form);
    let mut answer = ModelAnswer::default();
    let mut run = || -> Result<(), ModelError> {
        let take = |events: Vec<ModelEvent>, answer: &mut ModelAnswer| {
            events.into_iter().for_each(|event| answer.take(event))
        };
        for piece in pieces {
            let mut data = Vec::new();
            framing.feed(piece, &mut data)?;
            for data in data {
                take(decoder.feed(&data)?, &mut answer);
            }
        }
        take(decoder.end()?, &mut answer);
        Ok(())
    };
    let ended = run();
    (answer, ended)
}

fn turn() -> Turn {
    let split = ToolPiece {
        name: "Write".to_owned(),
        input: json!({"path": "/größe", "text": "line\n\"quoted\" 😀"}),
        split: Some(vec![1, 2, 9, 20]),
        ..ToolPiece::default()
    };
    Turn::from_pieces([
        ReplyPiece::thinking("hm"),
        ReplyPiece::text("both"),
        ReplyPiece::Tool(split),
        ReplyPiece::tool("Bash", json!({"command": "ls", "n": 3})),
    ])
}

#[test]
fn every_wire_format_decodes_to_same_answer() {
    let mut seen: Vec<(String, Vec<serde_json::Value>)> = Vec::new();
    for form in forms() {
        let (answer, ended) = read(form, &[&turn().bytes(form, "m")]);
        ended.unwrap();
        assert_eq!((answer.stop.clone(), answer.bad_calls.len()), (Some(StopReason::ToolUse), 0), "{form:?}");
        assert!(
            matches!(&answer.content[0], MessageBlock::Thinking { thinking, .. } if thinking == "hm"),
            "{form:?}"
        );
        let calls = answer.calls().iter().map(|call| json!([call.id, call.name, call.input])).collect();
        seen.push((answer.text(), calls));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:#?}");
    assert_eq!(seen[0].1.len(), 2);
}

#[test]
fn body_cut_at_any_byte_ends_cleanly() {
    for form in forms() {
        let body = turn().bytes(form, "m");
        let (whole, _) = read(form, &[&body]);
        let calls = whole.calls();
        // Byte by byte: the state after each byte is what a stream that breaks there leaves.
        let (mut framing, mut decoder) = reader(form);
        let mut so_far = ModelAnswer::default();
        let mut ends = Vec::new();
        let mut handed_out_early = 0;
        for (at, byte) in body.iter().enumerate() {
            let mut data = Vec::new();
            framing.feed(&[*byte], &mut data).unwrap();
            for data in &data {
                decoder.feed(data).unwrap().into_iter().for_each(|event| so_far.take(event));
            }
            assert_eq!(so_far.bad_calls, [], "{form:?} {at}");
            assert_eq!(so_far.calls(), calls[..so_far.calls().len()], "{form:?} {at}");
            handed_out_early += usize::from(!so_far.calls().is_empty() && so_far.stop.is_none());
            if !data.is_empty() {
                ends.extend([at, at + 1, at + 2]);
            }
        }
        // Chat Completions does not mark complete calls before the end.
        assert_eq!(handed_out_early > 0, form != MockForm::Chat, "{form:?}");
        // Cut around the ends of events: how such a body ends, and that the rest completes it.
        for cut in ends.into_iter().filter(|cut| *cut <= body.len()) {
            let (head, tail) = body.split_at(cut);
            let (part, ended) = read(form, &[head]);
            assert_eq!(ended.is_ok(), part.stop.is_some(), "{form:?} {cut}");
            assert!(ended.is_err() || part.content == whole.content, "{form:?} {cut}");
            let (joined, ended) = read(form, &[head, tail]);
            assert!(ended.is_ok() && joined == whole, "{form:?} {cut}");
        }
    }
}

#[test]
fn call_truncated_by_token_limit_is_not_executable() {
    let input = json!({"path": "/x", "text": "0123456789"});
    for form in forms() {
        for keep in 0..=input.to_string().len() {
            let cut = ToolPiece {
                name: "Write".to_owned(),
                input: input.clone(),
                keep: Some(keep),
                ..ToolPiece::default()
            };
            let turn = Turn::from_pieces([ReplyPiece::tool("Bash", json!({})), ReplyPiece::Tool(cut)])
                .stop("max_tokens");
            let (answer, ended) = read(form, &[&turn.bytes(form, "m")]);
            ended.unwrap();
            let names: Vec<&str> = answer.calls().iter().map(|call| call.name.as_str()).collect();
            assert_eq!((names, answer.bad_calls.len()), (vec!["Bash"], 1), "{form:?} {keep}");
            assert_eq!(answer.stop, Some(StopReason::MaxTokens), "{form:?} {keep}");
        }
    }
}

fn forms() -> Vec<MockForm> {
    let mut forms = FORMS.to_vec();
    if cfg!(feature = "bedrock") {
        forms.push(MockForm::Bedrock);
    }
    forms
}
