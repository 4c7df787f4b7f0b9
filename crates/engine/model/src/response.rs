use futures_util::StreamExt as _;
use haft_types::{Message, MessageBlock, ToolUse, Usage};

use crate::{InvalidCall, ModelError, ModelEvent, ModelStream, Repair, Retry, StopReason};

/// A whole answer, for those who do not watch it come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelAnswer {
    /// Its blocks in order, calls that cannot run included.
    pub content: Vec<MessageBlock>,
    /// The calls among them that cannot run.
    pub bad_calls: Vec<InvalidCall>,
    /// Where its text comes from, in the provider's words.
    pub citations: Vec<serde_json::Value>,
    /// What it used.
    pub usage: Usage,
    /// Why it ended; `None` while it goes on.
    pub stop: Option<StopReason>,
    /// What was repaired in the request.
    pub repairs: Vec<Repair>,
    /// How often it was asked for again.
    pub retries: Vec<Retry>,
}

impl ModelAnswer {
    /// Takes the whole stream.
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

    /// Takes one event.
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

    /// The calls that can run.
    pub fn calls(&self) -> Vec<&ToolUse> {
        let calls = self.content.iter().filter_map(|block| match block {
            MessageBlock::ToolUse(call) => Some(call),
            _ => None,
        });
        calls.filter(|call| !self.bad_calls.iter().any(|bad| bad.call.id == call.id)).collect()
    }

    /// All its text.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            MessageBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The answer as a message of the conversation.
    pub fn message(&self) -> Message {
        Message::assistant(self.content.clone())
    }
}
