//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{ReplyContext, sse, stop_reason};
use crate::{
    signature_of,
    stream_steps::StreamStep,
    turn::{ReplyPiece, ToolPiece, Turn},
};

/// Builds an error body.
pub(crate) fn error_body(kind: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}

fn finish_reason(turn: &Turn) -> &str {
    match stop_reason(turn) {
        "tool_use" => "tool_calls",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "refusal" => "content_filter",
        _ => "stop",
    }
}

fn usage(turn: &Turn, asked: &ReplyContext<'_>) -> Value {
    let (input, output) = asked.usage(turn);
    let cached = turn.usage.unwrap_or_default().cache_read_input_tokens;
    json!({
        "prompt_tokens": input + cached, "completion_tokens": output,
        "total_tokens": input + cached + output, "prompt_tokens_details": {"cached_tokens": cached},
    })
}

/// Builds a non-streamed answer.
pub(crate) fn whole(turn: &Turn, asked: &ReplyContext<'_>) -> Value {
    let mut text = String::new();
    let mut reasoning = String::new();
    let mut details = Vec::new();
    let mut calls = Vec::new();
    for piece in &turn.reply {
        match piece {
            ReplyPiece::Text(piece) | ReplyPiece::OpenText(piece) => text.push_str(piece),
            ReplyPiece::Thinking(piece) => {
                reasoning.push_str(piece);
                details.push(thought(piece, details.len(), Some(asked.model)));
            }
            ReplyPiece::OpenThinking(piece) => reasoning.push_str(piece),
            ReplyPiece::RedactedThinking(data) => details.push(encrypted(data, details.len())),
            ReplyPiece::Tool(tool) => calls.push(json!({
                "id": asked.call_id(tool, calls.len()), "type": "function",
                "function": {"name": tool.name, "arguments": tool.text()},
            })),
            _ => {}
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    if asked.routed {
        message["reasoning"] = json!(reasoning);
        message["reasoning_details"] = json!(details);
    } else if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    json!({
        "id": asked.message_id(), "object": "chat.completion", "created": 0, "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(turn)}],
        "usage": usage(turn, asked),
    })
}

/// Builds an answer as server-sent events.
pub(crate) fn stream(turn: &Turn, asked: &ReplyContext<'_>) -> Vec<StreamStep> {
    let mut out = Out { steps: Vec::new(), asked, calls: 0, thoughts: 0 };
    out.delta(&json!({"role": "assistant", "content": ""}));
    for piece in &turn.reply {
        match piece {
            ReplyPiece::Text(text) | ReplyPiece::OpenText(text) => out.text("content", text),
            ReplyPiece::Thinking(text) if asked.routed => out.thought(text, Some(asked.model)),
            ReplyPiece::OpenThinking(text) if asked.routed => out.thought(text, None),
            ReplyPiece::Thinking(text) | ReplyPiece::OpenThinking(text) => {
                out.text("reasoning_content", text)
            }
            ReplyPiece::RedactedThinking(data) if asked.routed => {
                let item = encrypted(data, out.thoughts);
                out.thoughts += 1;
                out.delta(&json!({"reasoning_details": [item]}));
            }
            ReplyPiece::RedactedThinking(_) | ReplyPiece::Block(_) => {}
            ReplyPiece::Tool(tool) => out.tool(tool),
            ReplyPiece::Stall(stall) => out.steps.push(StreamStep::Stall(*stall)),
            ReplyPiece::Cut(cut) => out.steps.push(StreamStep::Cut(*cut)),
            ReplyPiece::Raw(raw) => out.steps.push(StreamStep::Bytes(raw.clone().into_bytes())),
            ReplyPiece::Error(error) => {
                out.data(&error_body(&error.kind, &error.message));
                return out.steps;
            }
        }
    }
    out.chunk(&json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(turn)}]), &Value::Null);
    out.chunk(&json!([]), &usage(turn, asked));
    out.steps.push(StreamStep::Bytes(sse(None, "[DONE]")));
    out.steps
}

/// Builds a `reasoning_details` item of a router.
fn thought(text: &str, index: usize, signed_by: Option<&str>) -> Value {
    let signature = signed_by.map(|model| signature_of(text, model));
    json!({
        "type": "reasoning.text", "text": text, "signature": signature, "id": null,
        "format": "anthropic-claude-v1", "index": index,
    })
}

fn encrypted(data: &str, index: usize) -> Value {
    json!({"type": "reasoning.encrypted", "data": data, "id": null, "format": "anthropic-claude-v1", "index": index})
}

/// Returns calls of a turn that has thinking, with their model: a router requires this thinking in later
/// requests.
pub(crate) fn routed_calls<'a>(
    turn: &'a Turn,
    asked: &'a ReplyContext<'_>,
) -> impl Iterator<Item = String> + 'a {
    let thinks =
        turn.reply.iter().any(|it| matches!(it, ReplyPiece::Thinking(_) | ReplyPiece::RedactedThinking(_)));
    let calls = turn.reply.iter().filter_map(move |it| match it {
        ReplyPiece::Tool(tool) if thinks => Some(tool),
        _ => None,
    });
    calls.enumerate().map(|(at, tool)| thinking_call(asked.model, &asked.call_id(tool, at)))
}

/// Key under which such a call is recorded.
pub(crate) fn thinking_call(model: &str, id: &str) -> String {
    format!("{model} {id}")
}

struct Out<'a> {
    steps: Vec<StreamStep>,
    asked: &'a ReplyContext<'a>,
    calls: usize,
    thoughts: usize,
}

impl Out<'_> {
    fn data(&mut self, data: &Value) {
        self.steps.push(StreamStep::Bytes(sse(None, &data.to_string())));
    }

    fn chunk(&mut self, choices: &Value, usage: &Value) {
        let data = json!({
            "id": self.asked.message_id(), "object": "chat.completion.chunk", "created": 0,
            "model": self.asked.model, "choices": choices, "usage": usage,
        });
        self.data(&data);
    }

    fn delta(&mut self, delta: &Value) {
        self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]), &Value::Null);
    }

    fn text(&mut self, field: &str, text: &str) {
        for piece in self.asked.pieces(text) {
            self.delta(&json!({field: piece}));
        }
    }

    /// Streams thinking in deltas, then its signature.
    fn thought(&mut self, text: &str, signed_by: Option<&str>) {
        let index = self.thoughts;
        self.thoughts += 1;
        for piece in self.asked.pieces(text) {
            let item = thought(&piece, index, None);
            self.delta(&json!({"reasoning": piece, "reasoning_details": [item]}));
        }
        if let Some(model) = signed_by {
            let mut item = thought("", index, None);
            item["signature"] = json!(signature_of(text, model));
            self.delta(&json!({"reasoning_details": [item]}));
        }
    }

    fn tool(&mut self, tool: &ToolPiece) {
        let index = self.calls;
        self.calls += 1;
        self.delta(&json!({"tool_calls": [{
            "index": index, "id": self.asked.call_id(tool, index), "type": "function",
            "function": {"name": tool.name, "arguments": ""},
        }]}));
        for piece in self.asked.input_pieces(tool) {
            self.delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
        }
    }
}
