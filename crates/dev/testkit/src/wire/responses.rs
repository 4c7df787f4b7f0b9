//! OpenAI Responses.

use serde_json::{Value, json};

use super::{ReplyContext, sse, stop_reason};
use crate::{
    signature_of,
    stream_steps::StreamStep,
    turn::{ReplyPiece, ToolPiece, Turn},
};

/// Builds a non-streamed answer.
pub(crate) fn whole(turn: &Turn, asked: &ReplyContext<'_>) -> Value {
    let mut output = Vec::new();
    let mut calls = 0;
    for (block, piece) in turn.reply.iter().enumerate() {
        let item = match piece {
            ReplyPiece::Text(text) | ReplyPiece::OpenText(text) => {
                message_item(asked, block, text, "completed")
            }
            ReplyPiece::Thinking(text) | ReplyPiece::OpenThinking(text) => reasoning_item(asked, block, text),
            ReplyPiece::Tool(tool) => {
                calls += 1;
                call_item(asked, calls - 1, tool, &tool.text(), "completed")
            }
            _ => continue,
        };
        output.push(item);
    }
    response(turn, asked, final_status(turn), output)
}

fn final_status(turn: &Turn) -> &'static str {
    match stop_reason(turn) {
        "max_tokens" | "model_context_window_exceeded" | "refusal" => "incomplete",
        _ => "completed",
    }
}

fn response(turn: &Turn, asked: &ReplyContext<'_>, status: &str, output: Vec<Value>) -> Value {
    let (input, out) = asked.usage(turn);
    let cached = turn.usage.unwrap_or_default().cache_read_input_tokens;
    let usage = json!({
        "input_tokens": input + cached, "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": out, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + cached + out,
    });
    let details = match (status, stop_reason(turn)) {
        ("incomplete", "refusal") => json!({"reason": "content_filter"}),
        ("incomplete", _) => json!({"reason": "max_output_tokens"}),
        _ => Value::Null,
    };
    let usage = if status == "in_progress" { Value::Null } else { usage };
    json!({
        "id": format!("resp_{}", asked.message_id()), "object": "response", "created_at": 0, "status": status,
        "model": asked.model, "output": output, "incomplete_details": details, "error": null, "usage": usage,
    })
}

fn message_item(asked: &ReplyContext<'_>, block: usize, text: &str, status: &str) -> Value {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    json!({
        "type": "message", "id": format!("{}_{block}", asked.message_id()), "role": "assistant",
        "status": status, "content": content,
    })
}

fn reasoning_item(asked: &ReplyContext<'_>, block: usize, text: &str) -> Value {
    json!({
        "type": "reasoning", "id": format!("rs_{}_{block}", asked.message_id()),
        "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": signature_of(text, asked.model),
    })
}

fn call_item(
    asked: &ReplyContext<'_>,
    ordinal: usize,
    tool: &ToolPiece,
    arguments: &str,
    status: &str,
) -> Value {
    json!({
        "type": "function_call", "id": format!("fc_{}_{ordinal}", asked.message_id()), "status": status,
        "call_id": asked.call_id(tool, ordinal), "name": tool.name, "arguments": arguments,
    })
}

/// Builds an answer as server-sent events.
pub(crate) fn stream(turn: &Turn, asked: &ReplyContext<'_>) -> Vec<StreamStep> {
    let mut out = Out { steps: Vec::new(), asked, sequence: 0, index: 0, calls: 0, output: Vec::new() };
    out.event("response.created", json!({"response": response(turn, asked, "in_progress", Vec::new())}));
    for (block, piece) in turn.reply.iter().enumerate() {
        match piece {
            ReplyPiece::Text(text) => out.text(block, text, Close::Yes),
            ReplyPiece::OpenText(text) => out.text(block, text, Close::No),
            ReplyPiece::Thinking(text) => out.reasoning(block, text, Close::Yes),
            ReplyPiece::OpenThinking(text) => out.reasoning(block, text, Close::No),
            ReplyPiece::RedactedThinking(_) | ReplyPiece::Block(_) => {}
            ReplyPiece::Tool(tool) => out.tool(block, tool, turn),
            ReplyPiece::Stall(stall) => out.steps.push(StreamStep::Stall(*stall)),
            ReplyPiece::Cut(cut) => out.steps.push(StreamStep::Cut(*cut)),
            ReplyPiece::Raw(raw) => out.steps.push(StreamStep::Bytes(raw.clone().into_bytes())),
            ReplyPiece::Error(error) => {
                out.event("error", json!({"code": error.kind, "message": error.message, "param": null}));
                return out.steps;
            }
        }
    }
    let status = final_status(turn);
    let output = std::mem::take(&mut out.output);
    out.event(&format!("response.{status}"), json!({"response": response(turn, asked, status, output)}));
    out.steps
}

/// Whether the end of an item is sent.
#[derive(Clone, Copy, PartialEq)]
enum Close {
    Yes,
    No,
}

struct Out<'a> {
    steps: Vec<StreamStep>,
    asked: &'a ReplyContext<'a>,
    sequence: usize,
    index: usize,
    calls: usize,
    output: Vec<Value>,
}

impl Out<'_> {
    fn event(&mut self, kind: &str, mut data: Value) {
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        self.steps.push(StreamStep::Bytes(sse(Some(kind), &data.to_string())));
    }

    fn added(&mut self, item: &Value) {
        self.event("response.output_item.added", json!({"output_index": self.index, "item": item}));
    }

    fn done(&mut self, item: Value) {
        self.event("response.output_item.done", json!({"output_index": self.index, "item": item}));
        self.output.push(item);
        self.index += 1;
    }

    fn text(&mut self, block: usize, text: &str, close: Close) {
        let item = message_item(self.asked, block, text, "completed");
        let id = item["id"].clone();
        self.added(&json!({"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []}));
        let index = self.index;
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        self.event(
            "response.content_part.added",
            json!({"item_id": id, "output_index": index, "content_index": 0, "part": part("")}),
        );
        for piece in self.asked.pieces(text) {
            self.event(
                "response.output_text.delta",
                json!({"item_id": id, "output_index": index, "content_index": 0, "delta": piece}),
            );
        }
        if close == Close::Yes {
            self.event(
                "response.output_text.done",
                json!({"item_id": id, "output_index": index, "content_index": 0, "text": text}),
            );
            self.done(item);
        }
    }

    fn reasoning(&mut self, block: usize, text: &str, close: Close) {
        let item = reasoning_item(self.asked, block, text);
        let id = item["id"].clone();
        self.added(&json!({"type": "reasoning", "id": id, "summary": []}));
        let index = self.index;
        for piece in self.asked.pieces(text) {
            self.event(
                "response.reasoning_summary_text.delta",
                json!({"item_id": id, "output_index": index, "summary_index": 0, "delta": piece}),
            );
        }
        if close == Close::Yes {
            self.done(item);
        }
    }

    fn tool(&mut self, block: usize, tool: &ToolPiece, turn: &Turn) {
        let text = tool.text();
        let cut_off = final_status(turn) == "incomplete" && block + 1 == turn.reply.len();
        let status = if cut_off { "incomplete" } else { "completed" };
        let ordinal = self.calls;
        self.calls += 1;
        let item = call_item(self.asked, ordinal, tool, &text, status);
        let id = item["id"].clone();
        self.added(&call_item(self.asked, ordinal, tool, "", "in_progress"));
        let index = self.index;
        for piece in self.asked.input_pieces(tool) {
            self.event(
                "response.function_call_arguments.delta",
                json!({"item_id": id, "output_index": index, "delta": piece}),
            );
        }
        if !tool.open {
            self.event(
                "response.function_call_arguments.done",
                json!({"item_id": id, "output_index": index, "arguments": text}),
            );
            self.done(item);
        }
    }
}
