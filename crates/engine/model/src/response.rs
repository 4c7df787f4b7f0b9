use futures_util::StreamExt as _;
use haft_types::{Message, MessageBlock, ToolUse, Usage};

use crate::{InvalidCall, ModelError, ModelEvent, ModelStream, Repair, Retry, StopReason};

/// A complete answer, for callers that do not process the stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelAnswer {
    /// Blocks in order, including calls that cannot be executed.
    pub content: Vec<MessageBlock>,
    /// The calls in `content` that cannot be executed.
    pub bad_calls: Vec<InvalidCall>,
    /// Citations of the text, as sent by the provider.
    pub citations: Vec<serde_json::Value>,
    /// Token usage.
    pub usage: Usage,
    /// Why the answer ended; `None` while it is incomplete.
    pub stop: Option<StopReason>,
    /// Repairs made to the request.
    pub repairs: Vec<Repair>,
    /// Retries of the request.
    pub retries: Vec<Retry>,
}

impl ModelAnswer {
    /// Reads the stream to its end. Fails with the stream's error.
    pub async fn collect(mut stream: ModelStream) -> Result<Self, ModelError> {
        let mut answer = Self::default();
        while let Some(event) = stream.next().await {
            answer.take(event?);
        }
        match answer.stop {
            Some(_) => Ok(answer),
            None => Err(ModelError::protocol("the answer has no end")),
        }
    }

    /// Applies one event.
    pub fn take(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Block(block) => self.content.push(block),
            ModelEvent::BadCall(bad) => {
                self.content.push(MessageBlock::ToolUse(bad.call.clone()));
                self.bad_calls.push(bad);
            }
            ModelEvent::Cited(citations) => self.citations.extend(citations),
            ModelEvent::Usage(usage) => self.usage = usage,
            ModelEvent::Repaired(repair) => self.repairs.push(repair),
            ModelEvent::Retrying(retry) => {
                self.content.clear();
                self.bad_calls.clear();
                self.citations.clear();
                self.retries.push(retry);
            }
            ModelEvent::Stopped(reason) => self.stop = Some(reason),
            ModelEvent::Started { .. }
            | ModelEvent::Text(_)
            | ModelEvent::Thinking(_)
            | ModelEvent::ToolStarted { .. }
            | ModelEvent::ToolInput { .. }
            | ModelEvent::CallWritten(_) => {}
        }
    }

    /// Returns the calls that can be executed.
    pub fn calls(&self) -> Vec<&ToolUse> {
        let calls = self.content.iter().filter_map(|block| match block {
            MessageBlock::ToolUse(call) => Some(call),
            _ => None,
        });
        calls.filter(|call| !self.bad_calls.iter().any(|bad| bad.call.id == call.id)).collect()
    }

    /// Returns the text of all text blocks.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            MessageBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Returns the answer as an assistant message for the conversation.
    pub fn message(&self) -> Message {
        Message::assistant(self.content.clone())
    }
}
