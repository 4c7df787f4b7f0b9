//! A provider of your own: whatever answers requests can run an agent.
//!
//! `cargo run --example own_provider -p haft` talks to a model that knows two
//! things: to call a tool when it hears a number, and to say what came back.

use std::io::Write as _;

use haft::{
    model::{ModelError, ModelEvent, ModelInfo, ModelStream, Provider, ProviderFuture, Request, StopReason},
    prelude::*,
    types::{Message, MessageBlock, ToolUse, Usage},
};

/// A model in thirty lines.
struct Doubler;

impl Provider for Doubler {
    fn name(&self) -> &str {
        "doubler"
    }

    fn info(&self, model: &str) -> ModelInfo {
        ModelInfo { id: model.to_owned(), window: 32_000, max_output: 1_000, ..ModelInfo::default() }
    }

    /// The answer is a stream of events: pieces for eyes, blocks for the
    /// conversation, what was used, and why it ended.
    fn stream(&self, request: Request) -> ModelStream {
        let (block, why) = match request.messages.last().map(|message| last_words(message)) {
            Some(Heard::Result(text)) => {
                (MessageBlock::Text { text: format!("That makes {text}.") }, StopReason::EndTurn)
            }
            Some(Heard::Number(number)) => {
                let input = json!({"number": number});
                let call = ToolUse { id: "double_1".into(), name: "Double".to_owned(), input };
                (MessageBlock::ToolUse(call), StopReason::ToolUse)
            }
            _ => (MessageBlock::Text { text: String::from("Say a number.") }, StopReason::EndTurn),
        };
        let usage = Usage { input_tokens: request.estimate_tokens(), output_tokens: 5, ..Usage::default() };
        let started = ModelEvent::Started { id: String::from("1"), model: request.model };
        let events = [started, ModelEvent::Block(block), ModelEvent::Usage(usage), ModelEvent::Stopped(why)];
        Box::pin(futures_util::stream::iter(events.map(Ok)))
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move { Ok(request.estimate_tokens()) })
    }
}

/// What the last message says.
enum Heard {
    Result(String),
    Number(i64),
    Other,
}

fn last_words(message: &Message) -> Heard {
    for block in message.content.iter().rev() {
        match block {
            MessageBlock::ToolResult { content, .. } => return Heard::Result(content.to_text()),
            MessageBlock::Text { text } => {
                if let Some(number) = text.split_whitespace().find_map(|word| word.parse().ok()) {
                    return Heard::Number(number);
                }
            }
            _ => {}
        }
    }
    Heard::Other
}

#[derive(Deserialize, JsonSchema)]
struct Double {
    /// What is doubled.
    number: i64,
}

fn agent() -> Result<Agent, BuildError> {
    let double =
        tool("Double", "Doubles a number.", async |args: Double, _cx| match args.number.checked_mul(2) {
            Some(result) => Ok(result.to_string().into()),
            None => Err(ToolError::invalid("the number is too large to be doubled")),
        });
    Agent::builder(Doubler).tool(double.read_only().build()).model("doubler-1").max_turns(5).build()
}

#[tokio::main]
async fn main() -> Result<(), BuildError> {
    let prompt = std::env::args().nth(1).unwrap_or_else(|| String::from("double 21 please"));
    let end = agent()?.run(prompt).await;
    writeln!(std::io::stdout(), "{}", end.text).ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_agent_runs_on_it() {
        for (prompt, want) in [
            ("double 21 please", "That makes 42."),
            ("hello", "Say a number."),
            ("9223372036854775807", "That makes"),
        ] {
            let end = agent().unwrap().run(prompt).await;
            assert_eq!(end.reason, EndReason::Completed);
            assert!(end.text.starts_with(want), "{prompt}: {}", end.text);
        }
    }
}
