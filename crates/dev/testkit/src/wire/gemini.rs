//! Google's Gemini API.

use serde_json::{Value, json};

use super::{ReplyContext, sse, stop_reason};
use crate::{
    signature_of,
    stream_steps::StreamStep,
    turn::{ReplyPiece, ToolPiece, Turn},
};

/// Builds an error body.
pub(crate) fn error_body(status: u16, kind: &str, message: &str) -> Value {
    let name = match (status, kind) {
        (400, _) => "INVALID_ARGUMENT",
        (401, _) => "UNAUTHENTICATED",
        (403, _) => "PERMISSION_DENIED",
        (404, _) => "NOT_FOUND",
        (429, _) => "RESOURCE_EXHAUSTED",
        (503 | 529, _) => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": name}})
}

fn finish_reason(turn: &Turn) -> &str {
    match stop_reason(turn) {
        "max_tokens" | "model_context_window_exceeded" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        _ => "STOP",
    }
}

fn usage(turn: &Turn, asked: &ReplyContext<'_>) -> Value {
    let (input, output) = asked.usage(turn);
    let cached = turn.usage.unwrap_or_default().cache_read_input_tokens;
    json!({
        "promptTokenCount": input + cached, "candidatesTokenCount": output,
        "totalTokenCount": input + cached + output, "cachedContentTokenCount": cached,
    })
}

/// Returns the signature of the first call of a turn.
pub(crate) fn call_signature(turn: &Turn, model: &str) -> Option<String> {
    let first = turn.reply.iter().find_map(|piece| match piece {
        ReplyPiece::Tool(tool) => Some(tool),
        _ => None,
    })?;
    Some(signature_of(&format!("{} {}", first.name, first.text()), model))
}

fn call_part(turn: &Turn, asked: &ReplyContext<'_>, tool: &ToolPiece, ordinal: usize) -> Value {
    let text = tool.text();
    let args = serde_json::from_str::<Value>(&text).unwrap_or(Value::String(text));
    let mut part =
        json!({"functionCall": {"id": asked.call_id(tool, ordinal), "name": tool.name, "args": args}});
    if ordinal == 0
        && let Some(signature) = call_signature(turn, asked.model)
    {
        part["thoughtSignature"] = json!(signature);
    }
    part
}

fn chunk(asked: &ReplyContext<'_>, parts: Vec<Value>) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "modelVersion": asked.model, "responseId": asked.message_id(),
    })
}

fn last(mut chunk: Value, turn: &Turn, asked: &ReplyContext<'_>) -> Value {
    chunk["candidates"][0]["finishReason"] = json!(finish_reason(turn));
    chunk["usageMetadata"] = usage(turn, asked);
    chunk
}

/// Builds a non-streamed answer.
pub(crate) fn whole(turn: &Turn, asked: &ReplyContext<'_>) -> Value {
    let mut calls = 0;
    let parts = turn.reply.iter().filter_map(|piece| match piece {
        ReplyPiece::Text(text) | ReplyPiece::OpenText(text) => Some(json!({"text": text})),
        ReplyPiece::Thinking(text) | ReplyPiece::OpenThinking(text) => {
            Some(json!({"text": text, "thought": true}))
        }
        ReplyPiece::Tool(tool) => {
            calls += 1;
            Some(call_part(turn, asked, tool, calls - 1))
        }
        _ => None,
    });
    let parts = parts.collect();
    last(chunk(asked, parts), turn, asked)
}

/// Builds an answer as server-sent events.
pub(crate) fn stream(turn: &Turn, asked: &ReplyContext<'_>) -> Vec<StreamStep> {
    let mut steps = Vec::new();
    let mut calls = 0;
    let event = |data: &Value| StreamStep::Bytes(sse(None, &data.to_string()));
    for piece in &turn.reply {
        match piece {
            ReplyPiece::Text(text) | ReplyPiece::OpenText(text) => {
                let parts = asked.pieces(text).into_iter().map(|it| json!({"text": it}));
                steps.extend(parts.map(|part| event(&chunk(asked, vec![part]))));
            }
            ReplyPiece::Thinking(text) | ReplyPiece::OpenThinking(text) => {
                let parts = asked.pieces(text).into_iter().map(|it| json!({"text": it, "thought": true}));
                steps.extend(parts.map(|part| event(&chunk(asked, vec![part]))));
            }
            ReplyPiece::RedactedThinking(_) | ReplyPiece::Block(_) => {}
            ReplyPiece::Tool(tool) => {
                steps.push(event(&chunk(asked, vec![call_part(turn, asked, tool, calls)])));
                calls += 1;
            }
            ReplyPiece::Stall(stall) => steps.push(StreamStep::Stall(*stall)),
            ReplyPiece::Cut(cut) => steps.push(StreamStep::Cut(*cut)),
            ReplyPiece::Raw(raw) => steps.push(StreamStep::Bytes(raw.clone().into_bytes())),
            ReplyPiece::Error(error) => {
                steps.push(event(&error_body(error.status, &error.kind, &error.message)));
                return steps;
            }
        }
    }
    let empty = json!({"text": ""});
    steps.push(event(&last(chunk(asked, vec![empty]), turn, asked)));
    steps
}
