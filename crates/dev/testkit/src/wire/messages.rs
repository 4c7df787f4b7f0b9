//! Anthropic Messages: server-sent events, or one JSON object.

use serde_json::{Value, json};

use super::{ReplyContext, sse, stop_reason};
use crate::{
    signature_of,
    stream_steps::StreamStep,
    turn::{ErrorReply, ReplyPiece, StreamCut, StreamStall, ToolPiece, Turn},
};

/// An item of a streamed answer, before framing.
pub(crate) enum MessageItem {
    /// An event; its name is its type.
    Event(Value),
    /// An error in the middle of the stream.
    Error(ErrorReply),
    Raw(String),
    Stall(StreamStall),
    Cut(StreamCut),
}

/// Builds an answer as server-sent events.
pub(crate) fn stream(turn: &Turn, asked: &ReplyContext<'_>) -> Vec<StreamStep> {
    let framed = items(turn, asked).into_iter().map(|item| match item {
        MessageItem::Event(event) => StreamStep::Bytes(sse(event["type"].as_str(), &event.to_string())),
        MessageItem::Error(error) => {
            StreamStep::Bytes(sse(Some("error"), &error_body(&error.kind, &error.message).to_string()))
        }
        MessageItem::Raw(raw) => StreamStep::Bytes(raw.into_bytes()),
        MessageItem::Stall(stall) => StreamStep::Stall(stall),
        MessageItem::Cut(cut) => StreamStep::Cut(cut),
    });
    framed.collect()
}

/// Builds an error body.
pub(crate) fn error_body(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// Builds a non-streamed answer.
pub(crate) fn whole(turn: &Turn, asked: &ReplyContext<'_>) -> Value {
    let mut content = Vec::new();
    let mut calls = 0;
    for piece in &turn.reply {
        match piece {
            ReplyPiece::Text(text) | ReplyPiece::OpenText(text) => {
                content.push(json!({"type": "text", "text": text}))
            }
            ReplyPiece::Thinking(text) | ReplyPiece::OpenThinking(text) => content.push(json!({
                "type": "thinking", "thinking": text, "signature": signature_of(text, asked.model),
            })),
            ReplyPiece::RedactedThinking(data) => {
                content.push(json!({"type": "redacted_thinking", "data": data}))
            }
            ReplyPiece::Tool(tool) => {
                let input = serde_json::from_str(&tool.text()).unwrap_or_else(|_| json!({}));
                let id = asked.call_id(tool, calls);
                calls += 1;
                content.push(json!({"type": "tool_use", "id": id, "name": tool.name, "input": input}));
            }
            ReplyPiece::Block(block) => content.push(block.clone()),
            ReplyPiece::Stall(_) | ReplyPiece::Cut(_) | ReplyPiece::Error(_) | ReplyPiece::Raw(_) => {}
        }
    }
    let (input, output) = asked.usage(turn);
    let mut usage = input_usage(turn, input);
    usage["output_tokens"] = json!(output);
    add_searches(turn, &mut usage);
    json!({
        "id": asked.message_id(), "type": "message", "role": "assistant", "model": asked.model,
        "content": content, "stop_reason": stop_reason(turn), "stop_sequence": null, "usage": usage,
    })
}

fn input_usage(turn: &Turn, input: u64) -> Value {
    let given = turn.usage.unwrap_or_default();
    json!({
        "input_tokens": input,
        "cache_creation_input_tokens": given.cache_creation_input_tokens,
        "cache_read_input_tokens": given.cache_read_input_tokens,
        "output_tokens": 1,
    })
}

/// Adds the usage of server-side tools.
fn add_searches(turn: &Turn, usage: &mut Value) {
    let searches = turn.usage.unwrap_or_default().web_search_requests;
    if searches != 0 {
        usage["server_tool_use"] = json!({"web_search_requests": searches});
    }
}

/// Builds the events of an answer.
pub(crate) fn items(turn: &Turn, asked: &ReplyContext<'_>) -> Vec<MessageItem> {
    let (input, output) = asked.usage(turn);
    let mut out = Out { items: Vec::new(), block: 0, calls: 0 };
    out.event(json!({"type": "message_start", "message": {
        "id": asked.message_id(), "type": "message", "role": "assistant", "model": asked.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": input_usage(turn, input),
    }}));
    out.event(json!({"type": "ping"}));
    for piece in &turn.reply {
        match piece {
            ReplyPiece::Error(error) => {
                out.items.push(MessageItem::Error(error.clone()));
                return out.items;
            }
            piece => out.piece(piece, asked),
        }
    }
    let mut usage = json!({"output_tokens": output});
    add_searches(turn, &mut usage);
    out.event(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(turn), "stop_sequence": null},
        "usage": usage,
    }));
    out.event(json!({"type": "message_stop"}));
    out.items
}

struct Out {
    items: Vec<MessageItem>,
    block: usize,
    calls: usize,
}

impl Out {
    fn event(&mut self, event: Value) {
        self.items.push(MessageItem::Event(event));
    }

    fn delta(&mut self, delta: &Value) {
        let index = self.block;
        self.event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }

    fn start(&mut self, block: &Value) {
        let index = self.block;
        self.event(json!({"type": "content_block_start", "index": index, "content_block": block}));
    }

    fn stop(&mut self) {
        let index = self.block;
        self.event(json!({"type": "content_block_stop", "index": index}));
        self.block += 1;
    }

    fn piece(&mut self, piece: &ReplyPiece, asked: &ReplyContext<'_>) {
        match piece {
            ReplyPiece::Text(text) => {
                self.text(text, asked);
                self.stop();
            }
            ReplyPiece::OpenText(text) => self.text(text, asked),
            ReplyPiece::Thinking(text) => {
                self.thinking(text, asked);
                self.delta(&json!({"type": "signature_delta", "signature": signature_of(text, asked.model)}));
                self.stop();
            }
            ReplyPiece::OpenThinking(text) => self.thinking(text, asked),
            ReplyPiece::RedactedThinking(data) => {
                self.start(&json!({"type": "redacted_thinking", "data": data}));
                self.stop();
            }
            ReplyPiece::Tool(tool) => self.tool(tool, asked),
            ReplyPiece::Block(block) => self.block(block, asked),
            ReplyPiece::Stall(stall) => self.items.push(MessageItem::Stall(*stall)),
            ReplyPiece::Cut(cut) => self.items.push(MessageItem::Cut(*cut)),
            ReplyPiece::Raw(raw) => self.items.push(MessageItem::Raw(raw.clone())),
            ReplyPiece::Error(_) => {}
        }
    }

    fn text(&mut self, text: &str, asked: &ReplyContext<'_>) {
        self.start(&json!({"type": "text", "text": ""}));
        for piece in asked.pieces(text) {
            self.delta(&json!({"type": "text_delta", "text": piece}));
        }
    }

    /// Streams a block of a server-side tool: inputs and texts as deltas, all else at once.
    fn block(&mut self, block: &Value, asked: &ReplyContext<'_>) {
        let mut opened = block.clone();
        if block["type"] == "server_tool_use" {
            opened["input"] = json!({});
            self.start(&opened);
            for piece in asked.pieces(&block["input"].to_string()) {
                self.delta(&json!({"type": "input_json_delta", "partial_json": piece}));
            }
        } else if block["type"] == "text" {
            (opened["text"], opened["citations"]) = (json!(""), json!([]));
            self.start(&opened);
            for piece in asked.pieces(block["text"].as_str().unwrap_or_default()) {
                self.delta(&json!({"type": "text_delta", "text": piece}));
            }
            for citation in block["citations"].as_array().into_iter().flatten() {
                self.delta(&json!({"type": "citations_delta", "citation": citation}));
            }
        } else {
            self.start(&opened);
        }
        self.stop();
    }

    fn thinking(&mut self, text: &str, asked: &ReplyContext<'_>) {
        self.start(&json!({"type": "thinking", "thinking": "", "signature": ""}));
        for piece in asked.pieces(text) {
            self.delta(&json!({"type": "thinking_delta", "thinking": piece}));
        }
    }

    fn tool(&mut self, tool: &ToolPiece, asked: &ReplyContext<'_>) {
        let id = asked.call_id(tool, self.calls);
        self.calls += 1;
        self.start(&json!({"type": "tool_use", "id": id, "name": tool.name, "input": {}}));
        self.delta(&json!({"type": "input_json_delta", "partial_json": ""}));
        for piece in asked.input_pieces(tool) {
            self.delta(&json!({"type": "input_json_delta", "partial_json": piece}));
        }
        if !tool.open {
            self.stop();
        }
    }
}
