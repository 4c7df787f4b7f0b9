use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_types::{MessageBlock, Usage};

use crate::{
    Catalog, ModelError, ModelEvent, ModelInfo, ModelStream, Provider, ProviderFuture, Request, StopReason,
    event_stream::{Emitter, generate},
};

/// A provider with scripted answers, returned in order regardless of the request: for demos and for
/// tests of programs that embed an agent.
///
/// Uses no network, and no clock unless a pace is set. A request after the last answer fails.
pub struct ScriptedProvider {
    answers: Mutex<VecDeque<Vec<MessageBlock>>>,
    all: usize,
    pace: Duration,
    catalog: Arc<Catalog>,
}

impl ScriptedProvider {
    /// Creates a provider from answers. An answer is a list of blocks: text, thinking, tool calls.
    pub fn new(answers: impl IntoIterator<Item = Vec<MessageBlock>>) -> Self {
        let answers: VecDeque<_> = answers.into_iter().collect();
        Self {
            all: answers.len(),
            answers: Mutex::new(answers),
            pace: Duration::ZERO,
            catalog: Catalog::built_in(),
        }
    }

    /// Sets a delay after every word, to imitate typing.
    #[must_use]
    pub fn with_pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Returns the number of answers that were not requested.
    pub fn unused(&self) -> usize {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn next(&self) -> Result<(usize, Vec<MessageBlock>), ModelError> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.all - answers.len() + 1;
        let answer = answers.pop_front();
        answer.map(|blocks| (number, blocks)).ok_or_else(|| ModelError::ReplayMiss {
            message: format!("request {number} has no answer: all {} scripted ones are used", self.all),
        })
    }
}

impl Provider for ScriptedProvider {
    fn name(&self) -> &str {
        "scripted"
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.catalog.get(model)
    }

    fn stream(&self, request: Request) -> ModelStream {
        let (answer, pace) = (self.next(), self.pace);
        generate(move |emitter| async move {
            let (number, blocks) = answer?;
            emitter.emit(ModelEvent::Started {
                id: format!("msg_scripted_{number}"),
                model: request.model.clone(),
            });
            let calls = blocks.iter().any(|block| matches!(block, MessageBlock::ToolUse(_)));
            let mut written = 0;
            for block in blocks {
                written += say(&emitter, block, pace).await;
            }
            let input_tokens = request.estimate_tokens();
            let usage = Usage { input_tokens, output_tokens: written / 4, ..Usage::default() };
            emitter.emit(ModelEvent::Usage(usage));
            emitter.emit(ModelEvent::Stopped(if calls { StopReason::ToolUse } else { StopReason::EndTurn }));
            Ok(())
        })
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move { Ok(request.estimate_tokens()) })
    }
}

/// Emits one block, text word by word. Returns its length in bytes.
async fn say(emitter: &Emitter, block: MessageBlock, pace: Duration) -> u64 {
    let length = match &block {
        MessageBlock::Text { text } => {
            speak(emitter, text, pace, ModelEvent::Text).await;
            text.len()
        }
        MessageBlock::Thinking { thinking, .. } => {
            speak(emitter, thinking, pace, ModelEvent::Thinking).await;
            thinking.len()
        }
        MessageBlock::ToolUse(call) => {
            let json = call.input.to_string();
            let length = json.len();
            emitter.emit(ModelEvent::ToolStarted { id: call.id.clone(), name: call.name.clone() });
            emitter.emit(ModelEvent::ToolInput { id: call.id.clone(), json });
            length
        }
        _ => 0,
    };
    emitter.emit(ModelEvent::Block(block));
    length as u64
}

async fn speak(emitter: &Emitter, text: &str, pace: Duration, event: fn(String) -> ModelEvent) {
    for word in text.split_inclusive(char::is_whitespace) {
        emitter.emit(event(word.to_owned()));
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_types::ToolUse;
    use serde_json::json;

    use super::*;
    use crate::ModelAnswer;

    #[tokio::test]
    async fn scripted_answers_come_in_order_then_fail() {
        let call = ToolUse { id: "a".into(), name: "Read".into(), input: json!({"file_path": "x"}) };
        let answers = [
            vec![MessageBlock::Text { text: "Two words".into() }, MessageBlock::ToolUse(call.clone())],
            vec![MessageBlock::Text { text: "Done.".into() }],
        ];
        let model = ScriptedProvider::new(answers.clone());
        let ask = || ModelAnswer::collect(model.stream(Request::new("claude-opus-4-5", [])));
        let first = ask().await.unwrap();
        assert_eq!((&first.content, first.stop), (&answers[0], Some(StopReason::ToolUse)));
        assert_eq!(model.unused(), 1);
        let second = ask().await.unwrap();
        assert_eq!((second.text().as_str(), second.stop), ("Done.", Some(StopReason::EndTurn)));
        let third = ask().await.unwrap_err();
        assert_eq!(third.to_string(), "replay miss: request 3 has no answer: all 2 scripted ones are used");
    }
}
