//! An agent in twenty lines: one tool of your own, words as they come, the end.
//!
//! `cargo run --example agent -p haft -- "what time is it?"` asks the provider the environment has a
//! key for; without a key a scripted model answers.

use std::{
    io::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use haft::{
    model::{ModelEvent, Provider, ScriptedProvider},
    prelude::*,
    types::{MessageBlock, ToolUse},
};

/// Tells the seconds since 1970.
#[derive(Deserialize, JsonSchema)]
struct Clock {}

async fn agent(model: impl Provider + 'static) -> Result<Agent, BuildError> {
    let clock = tool("Clock", "Tells the seconds since 1970.", async |_: Clock, _cx| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(now.as_secs().to_string().into())
    });
    Agent::builder(model).tool(clock.read_only().concurrency_safe().build()).max_turns(5).build()
}

/// What a model would say.
fn scripted() -> ScriptedProvider {
    let call = ToolUse { id: "clock_1".into(), name: "Clock".into(), input: json!({}) };
    ScriptedProvider::new([
        vec![MessageBlock::Text { text: "Let me look. ".into() }, MessageBlock::ToolUse(call)],
        vec![MessageBlock::Text { text: "It is late.".into() }],
    ])
}

async fn answer(agent: &mut Agent, prompt: &str, mut out: impl std::io::Write) -> TurnEnd {
    let mut run = agent.start(prompt);
    while let Some(event) = run.next().await {
        if let AgentEvent::Model(ModelEvent::Text(words)) = event {
            write!(out, "{words}").and_then(|()| out.flush()).ok();
        }
    }
    run.end().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prompt = std::env::args().nth(1).unwrap_or_else(|| String::from("What time is it?"));
    let has_key = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].iter().any(|name| std::env::var_os(name).is_some());
    let mut agent = if has_key { agent(model_from_env()?).await? } else { agent(scripted()).await? };
    let end = answer(&mut agent, &prompt, std::io::stdout()).await;
    let spent = agent.spending();
    writeln!(std::io::stdout(), "\n({:?}, {} tokens)", end.reason, spent.usage.output_tokens)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn words_come_and_the_tool_runs() {
        let mut agent = agent(scripted()).await.unwrap();
        let mut out = Vec::new();
        let end = answer(&mut agent, "What time is it?", &mut out).await;
        assert_eq!((end.reason, end.turns), (EndReason::Completed, 2));
        assert_eq!(String::from_utf8(out).unwrap(), "Let me look. It is late.");
        assert!(agent.messages().await.len() == 4);
    }
}
