//! Streams answers as raw events of the Messages API.

use haft_model::ModelEvent;
use haft_types::{CallId, MessageBlock, Usage};
use serde_json::{Value, json};

/// Creates the streaming events of answers, in the same format for every provider.
#[derive(Debug, Default)]
pub struct PartialMessages {
    index: usize,
    open: Option<PartialKind>,
    in_message: bool,
    usage: Usage,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum PartialKind {
    Text,
    Thinking,
    Tool(CallId),
    /// A block that arrives in one piece.
    Whole,
}

impl PartialMessages {
    /// The streaming events to send for a model event. [`PartialMessages::block_end`] ends a complete
    /// block, after the block's own frame was sent.
    pub fn events(&mut self, event: &ModelEvent) -> Vec<Value> {
        let mut told = Vec::new();
        match event {
            ModelEvent::Started { id, model } => {
                *self = Self { in_message: true, ..Self::default() };
                told.push(json!({"type": "message_start", "message": {
                    "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
                    "stop_reason": null, "stop_sequence": null, "usage": self.usage,
                }}));
            }
            ModelEvent::Text(piece) => {
                self.open(PartialKind::Text, || json!({"type": "text", "text": ""}), &mut told);
                told.push(self.delta(json!({"type": "text_delta", "text": piece})));
            }
            ModelEvent::Thinking(piece) => {
                let start = || json!({"type": "thinking", "thinking": "", "signature": ""});
                self.open(PartialKind::Thinking, start, &mut told);
                told.push(self.delta(json!({"type": "thinking_delta", "thinking": piece})));
            }
            ModelEvent::ToolStarted { id, name } => {
                let start = || json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.open(PartialKind::Tool(id.clone()), start, &mut told);
            }
            ModelEvent::ToolInput { json, .. } if self.open.is_some() => {
                told.push(self.delta(json!({"type": "input_json_delta", "partial_json": json})));
            }
            ModelEvent::Block(block) => self.complete(block, &mut told),
            ModelEvent::BadCall(bad) => self.complete(&MessageBlock::ToolUse(bad.call.clone()), &mut told),
            ModelEvent::Usage(usage) => self.usage = *usage,
            ModelEvent::Stopped(reason) if self.in_message => {
                self.in_message = false;
                told.extend(self.block_end());
                told.push(json!({
                    "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
                    "usage": self.usage,
                }));
                told.push(json!({"type": "message_stop"}));
            }
            _ => (),
        }
        told
    }

    /// Ends the open block.
    pub fn block_end(&mut self) -> Option<Value> {
        self.open.take()?;
        self.index += 1;
        Some(json!({"type": "content_block_stop", "index": self.index - 1}))
    }

    fn open(&mut self, kind: PartialKind, start: impl FnOnce() -> Value, told: &mut Vec<Value>) {
        if self.open.as_ref() == Some(&kind) {
            return;
        }
        told.extend(self.block_end());
        told.push(json!({"type": "content_block_start", "index": self.index, "content_block": start()}));
        self.open = Some(kind);
    }

    /// Completes a block: a streamed block lacks only its signature, any other is sent as a whole.
    fn complete(&mut self, block: &MessageBlock, told: &mut Vec<Value>) {
        let kind = match block {
            MessageBlock::Text { .. } => PartialKind::Text,
            MessageBlock::Thinking { .. } => PartialKind::Thinking,
            MessageBlock::ToolUse(call) => PartialKind::Tool(call.id.clone()),
            _ => PartialKind::Whole,
        };
        self.open(kind, || json!(block), told);
        if let MessageBlock::Thinking { signature, .. } = block
            && !signature.is_empty()
        {
            told.push(self.delta(json!({"type": "signature_delta", "signature": signature})));
        }
    }

    fn delta(&self, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": self.index, "delta": delta})
    }
}

#[cfg(test)]
mod tests {
    use haft_model::StopReason;

    use super::*;

    #[test]
    fn every_block_begins_and_ends_once() {
        let text = |text: &str| MessageBlock::Text { text: text.to_owned() };
        let call = haft_types::ToolUse { id: CallId::from("t"), name: "Read".into(), input: json!({}) };
        let mut partial = PartialMessages::default();
        let mut told = Vec::new();
        for event in [
            ModelEvent::Started { id: "m".into(), model: "x".into() },
            ModelEvent::Text("a".into()),
            ModelEvent::Text("b".into()),
            ModelEvent::Block(text("ab")),
            ModelEvent::ToolStarted { id: CallId::from("t"), name: "Read".into() },
            ModelEvent::ToolInput { id: CallId::from("t"), json: "{}".into() },
            ModelEvent::Block(MessageBlock::ToolUse(call)),
            ModelEvent::Stopped(StopReason::ToolUse),
        ] {
            told.extend(partial.events(&event));
            if matches!(event, ModelEvent::Block(_)) {
                told.extend(partial.block_end());
            }
        }
        let shown: Vec<String> =
            told.iter().map(|it| format!("{}{}", it["type"].as_str().unwrap_or(""), it["index"])).collect();
        assert_eq!(
            shown,
            [
                "message_startnull",
                "content_block_start0",
                "content_block_delta0",
                "content_block_delta0",
                "content_block_stop0",
                "content_block_start1",
                "content_block_delta1",
                "content_block_stop1",
                "message_deltanull",
                "message_stopnull",
            ]
        );
    }
}
