//! What a session cost, as its log tells it after its process was killed.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::path::{Path, PathBuf};

use haft_agent::{AgentEvent, Conversation, EndReason, LimitReached, UserInput, log::session_cost};
use haft_testkit::{ReplyPiece, Turn, UsageReply};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::common::{Rig, rig};

fn log_of(rig: &Rig) -> PathBuf {
    rig.dir.path().join("session.jsonl")
}

/// An answer that takes as much as it says.
fn taking(turn: Turn, input: u64, output: u64) -> Turn {
    let usage =
        UsageReply { input_tokens: Some(input), output_tokens: Some(output), ..UsageReply::default() };
    Turn { usage: Some(usage), ..turn }
}

fn restored_usd(log: &Path) -> f64 {
    Conversation::resume("session".into(), log.parent().unwrap(), log, None).unwrap().1.usd
}

#[tokio::test]
async fn answer_is_in_the_log_before_its_calls_have_run() {
    let calls = Turn::from_pieces([
        ReplyPiece::tool("Echo", json!({"text": "a"})),
        ReplyPiece::tool("Wait", json!({"text": "b"})),
    ]);
    let mut rig = rig(vec![taking(calls, 1_000, 100)]).await;
    let (log, cancel) = (log_of(&rig), rig.cancel.clone());
    let mut events = std::mem::replace(&mut rig.events, mpsc::unbounded_channel().1);
    let run = tokio::spawn(async move {
        let stop = rig.cancel.clone();
        let end = rig.agent.run(UserInput::text("go"), &stop).await;
        (rig, end)
    });
    // The first call is done, the second waits: a kill now would leave the log as it is.
    while !matches!(events.recv().await.unwrap(), AgentEvent::ResultLogged { .. }) {}
    let copy = log.with_file_name("killed.jsonl");
    std::fs::copy(&log, &copy).unwrap();
    let cost = session_cost::of_log(&copy).unwrap();
    assert_eq!((cost.requests, cost.estimated), (1, 0));
    assert_eq!((cost.usage.input_tokens, cost.usage.output_tokens), (1_000, 100));
    assert!((restored_usd(&copy) - cost.usd).abs() < 1e-9 && 0.0 < cost.usd);
    cancel.cancel();
    let (rig, end) = run.await.unwrap();
    assert_eq!(end.reason, EndReason::Interrupted);
    // It is counted once.
    let after = session_cost::of_log(&log_of(&rig)).unwrap();
    assert_eq!((after.requests, after.usage), (cost.requests, cost.usage));
    assert!((restored_usd(&log_of(&rig)) - cost.usd).abs() < 1e-9);
}

/// The log of a run with its lines, without those from the given `asked` line on.
fn cut_before_asked(log: &Path, number: usize) -> PathBuf {
    let text = std::fs::read_to_string(log).unwrap();
    let is_asked = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["type"] == "haft" && line["kind"] == "asked"
    };
    let mut seen = 0;
    let kept = text.lines().take_while(|line| {
        seen += usize::from(is_asked(line));
        seen < number
    });
    let cut = log.with_file_name(format!("cut-{number}.jsonl"));
    std::fs::write(&cut, kept.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    cut
}

#[tokio::test]
async fn answer_cut_before_its_cost_was_written_is_estimated() {
    let mut rig = rig(vec![
        taking(Turn::tool("Echo", json!({"text": "a"})), 1_000, 100),
        taking(Turn::tool("Echo", json!({"text": "b"})), 2_000, 100),
        taking(Turn::text("Done."), 3_000, 100),
    ])
    .await;
    assert_eq!(rig.say("go").await.reason, EndReason::Completed);
    let whole = session_cost::of_log(&log_of(&rig)).unwrap();
    assert_eq!((whole.requests, whole.estimated, whole.usage.input_tokens), (3, 0, 6_000));
    for (number, input) in [(1, 1_000), (2, 3_000), (3, 6_000)] {
        let cut = cut_before_asked(&log_of(&rig), number);
        let cost = session_cost::of_log(&cut).unwrap();
        assert_eq!((cost.requests, cost.estimated), (number as u64, 1), "{number}");
        assert!(cost.complete && cost.priced, "{number}");
        assert_eq!(cost.usage.input_tokens, input, "{number}");
        assert!((restored_usd(&cut) - cost.usd).abs() < 1e-9 && 0.0 < cost.usd, "{number}");
    }
}

#[tokio::test]
async fn finished_run_that_spent_more_than_its_limit_is_exhausted() {
    // 2.03 dollars at the prices of the model.
    let dear = || taking(Turn::text("Done."), 400_000, 1_200);
    for (most, want) in [
        (0.01, EndReason::Exhausted(LimitReached::Budget(0.01))),
        (2.02, EndReason::Exhausted(LimitReached::Budget(2.02))),
        (2.04, EndReason::Completed),
    ] {
        let mut rig = rig(vec![dear()]).await;
        rig.agent.settings.limits.max_usd = Some(most);
        let end = rig.say("go").await;
        assert_eq!((end.reason, end.text.as_str()), (want, "Done."), "{most}");
        let mut told = Vec::new();
        while let Ok(event) = rig.events.try_recv() {
            if let AgentEvent::Notice(text) = event {
                told.push(text);
            }
        }
        let words =
            if most < 2.03 { "the limit is exceeded: $2.0300 of" } else { "80 % of the limit is used" };
        assert!(told.iter().any(|it| it.contains(words)), "{most}: {told:?}");
    }
    let mut counted = rig(vec![dear()]).await;
    counted.agent.settings.limits.max_tokens = Some(1_000);
    assert_eq!(counted.say("go").await.reason, EndReason::Exhausted(LimitReached::Tokens(1_000)));
}
