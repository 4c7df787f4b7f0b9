//! Testing an agent without a key: the same program, once with a scripted
//! model, once against a server that is as strict as the real services.
//!
//! `cargo run --example tested -p haft` runs both.

use std::io::Write as _;

use haft::{
    model::{AnthropicLogin, HttpProvider, KeySource, Provider, ProviderOptions, ScriptedProvider},
    prelude::*,
    types::{MessageBlock, ToolUse},
};
use haft_testkit::{MockModel, Script, Turn};

#[derive(Deserialize, JsonSchema)]
struct Lookup {
    /// Which word.
    word: String,
}

/// The agent under test: it knows nothing of tests.
fn dictionary(model: impl Provider + 'static) -> Result<Agent, BuildError> {
    let lookup =
        tool("Lookup", "Says what a word means.", async |args: Lookup, _cx| match args.word.as_str() {
            "haft" => Ok("the handle of a tool".into()),
            other => Err(ToolError::invalid(format!("there is no word {other}"))),
        });
    Agent::builder(model).tool(lookup.read_only().build()).max_turns(5).build()
}

/// No network: what the model says is written down.
async fn scripted() -> Result<String, BuildError> {
    let call = ToolUse { id: "1".into(), name: "Lookup".into(), input: json!({"word": "haft"}) };
    let model = ScriptedProvider::new([
        vec![MessageBlock::ToolUse(call)],
        vec![MessageBlock::Text { text: "A handle.".into() }],
    ]);
    Ok(dictionary(model)?.run("What is a haft?").await.text)
}

/// A server on loopback that refuses what the real service would refuse, and
/// remembers every request.
async fn served() -> Result<(String, Vec<String>), Box<dyn std::error::Error>> {
    let turns = [Turn::tool("Lookup", json!({"word": "haft"})), Turn::text("A handle.")];
    let server = MockModel::start(Script::from_turns(turns)).await?;
    let login = AnthropicLogin::ApiKey(KeySource::value("no key is needed"));
    let model = HttpProvider::anthropic(&server.url(), login, ProviderOptions::default())?;
    let end = dictionary(model)?.run("What is a haft?").await;
    Ok((end.text, server.refusals()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    writeln!(out, "scripted: {}", scripted().await?)?;
    let (text, refusals) = served().await?;
    writeln!(out, "served: {text} ({} requests refused)", refusals.len())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_say_the_same() {
        assert_eq!(scripted().await.unwrap(), "A handle.");
        let (text, refusals) = served().await.unwrap();
        assert_eq!((text.as_str(), refusals), ("A handle.", Vec::new()));
    }
}
