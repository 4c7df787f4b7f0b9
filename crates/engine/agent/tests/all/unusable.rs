//! Answers that cannot be the last of a prompt.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::sync::Arc;

use haft_agent::{Conversation, EndReason};
use haft_model::{ChatOptions, HttpProvider, KeySource, ProviderOptions};
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::json;

use crate::common::{Rig, provider, rig, rig_by};

type MakeProvider = fn(&str) -> Arc<HttpProvider>;

fn key() -> Option<KeySource> {
    Some(KeySource::value("sk-test"))
}

fn chat(url: &str) -> Arc<HttpProvider> {
    let options = ChatOptions::default();
    Arc::new(
        HttpProvider::openai_chat(&format!("{url}/v1"), key(), options, ProviderOptions::default()).unwrap(),
    )
}

/// One provider per wire, and a model of it.
const WIRES: [(&str, MakeProvider); 4] = [
    ("claude-opus-4-5", provider),
    ("qwen2.5-coder:1.5b", chat),
    ("gpt-5", |url| {
        Arc::new(
            HttpProvider::openai_responses(&format!("{url}/v1"), key(), ProviderOptions::default()).unwrap(),
        )
    }),
    ("gemini-2.5-flash", |url| {
        Arc::new(HttpProvider::gemini(url, key(), ProviderOptions::default()).unwrap())
    }),
];

async fn rig_of(model: &str, make: MakeProvider, turns: Vec<Turn>) -> Rig {
    let mock = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let conversation = Conversation::new("session".into(), dir.path(), None);
    let mut rig = rig_by(make(&mock.url()), mock, conversation, dir);
    model.clone_into(&mut rig.agent.settings.model);
    rig
}

fn empty() -> Turn {
    Turn::from_pieces([])
}

fn echo(text: &str) -> Turn {
    Turn::tool("Echo", json!({"text": text}))
}

#[tokio::test]
async fn empty_answer_after_a_result_is_asked_for_once_more() {
    for (model, make) in WIRES {
        let mut rig = rig_of(model, make, vec![echo("37"), empty(), Turn::text("It is 37.")]).await;
        let end = rig.say("which number?").await;
        assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "It is 37."), "{model}");
        let asked = rig.bodies().pop().unwrap().to_string();
        assert!(asked.contains("Answer the request in words now, without a call."), "{model}: {asked}");
        assert_eq!(rig.model.refusals(), [""; 0], "{model}");
    }
}

#[tokio::test]
async fn empty_answer_ends_the_prompt_as_incomplete() {
    let fails = || Turn::tool("Fail", json!({"text": "no such file"}));
    for (turns, requests) in [
        (vec![echo("37"), empty(), empty()], 3),
        // A thought is no answer, and neither is white space.
        (vec![echo("37"), Turn::text(" \n"), Turn::text("\n")], 3),
        // Without a usable result, a demand for words invites an invention.
        (vec![fails(), empty()], 2),
        (vec![empty()], 1),
        // An earlier result of the same request counts.
        (vec![echo("37"), fails(), empty(), empty()], 4),
    ] {
        for (model, make) in WIRES {
            let mut rig = rig_of(model, make, turns.clone()).await;
            let end = rig.say("which number?").await;
            let EndReason::Incomplete(why) = &end.reason else {
                panic!("{model}: {:?} after {turns:?}", end.reason)
            };
            assert!(why.contains("empty answer") && why.contains("--model"), "{why}");
            assert_eq!((end.reason.word(), rig.model.count()), ("incomplete", requests), "{model} {turns:?}");
            assert_eq!(rig.model.refusals(), [""; 0], "{model}");
        }
    }
}

#[tokio::test]
async fn words_are_demanded_once_per_prompt() {
    let mut rig = rig(vec![
        echo("1"),
        empty(),
        echo("2"),
        empty(),
        // The next prompt begins anew.
        echo("3"),
        empty(),
        Turn::text("Three."),
    ])
    .await;
    assert!(matches!(rig.say("first").await.reason, EndReason::Incomplete(_)));
    assert_eq!(rig.say("second").await.reason, EndReason::Completed);
    assert_eq!(rig.model.unused(), 0);
}

const CALL: &str = r#"{"name": "Append", "arguments": {"text": "x"}}"#;

#[tokio::test]
async fn call_written_as_the_whole_answer_runs() {
    for text in [
        format!("```json\n{CALL}\n```"),
        format!("```\n{CALL}\n```"),
        format!("{{{CALL}}}\n```"),
        format!("<tools>\n{CALL}\n</tools>"),
    ] {
        let turns = vec![Turn::text(text.clone()), Turn::text("Done.")];
        let mut rig = rig_of("qwen2.5-coder:1.5b", chat, turns).await;
        let end = rig.say("append x").await;
        assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "Done."), "{text}");
        assert_eq!(*rig.appended.lock().unwrap(), ["x"], "{text}");
    }
}

#[tokio::test]
async fn wrapped_call_of_a_model_without_dialects_stays_text() {
    let text = format!("```json\n{CALL}\n```");
    let mut rig = rig_of("gpt-5", chat, vec![Turn::text(text.clone())]).await;
    let end = rig.say("show me a call").await;
    assert_eq!((end.reason, end.text), (EndReason::Completed, text));
    assert!(rig.appended.lock().unwrap().is_empty());
}

#[tokio::test]
async fn unreadable_call_is_explained_once_and_then_incomplete() {
    let unread = || Turn::text(format!("I append it:\n```json\n{CALL}\n```"));
    let readable = Turn::from_pieces([ReplyPiece::text(format!("<tool_call>\n{CALL}\n</tool_call>"))]);
    let mut taught = rig_of("qwen2.5-coder:1.5b", chat, vec![unread(), readable, Turn::text("Done.")]).await;
    let end = taught.say("append x").await;
    assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "Done."));
    assert_eq!(*taught.appended.lock().unwrap(), ["x"]);
    let bodies = taught.bodies();
    let messages = bodies[1]["messages"].as_array().unwrap();
    let demand = messages.last().unwrap()["content"].to_string();
    assert!(demand.contains("Nothing ran: your answer holds a call of Append in a form"), "{demand}");
    let own_call = r#"<tool_call>\n{"name":"Append","arguments":{"text":"x"}}\n</tool_call>"#;
    assert!(demand.replace("\\\"", "\"").contains(own_call), "{demand}");

    let mut lost = rig_of("qwen2.5-coder:1.5b", chat, vec![unread(), unread()]).await;
    let end = lost.say("append x").await;
    let EndReason::Incomplete(why) = end.reason else { panic!("{:?}", end.reason) };
    assert!(why.contains("a call of Append"), "{why}");
    assert!(lost.appended.lock().unwrap().is_empty());
}
