//! The loop against a strict model server: what is sent, what is run, how it
//! ends.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{sync::Arc, time::Duration};

use common::{rig, rig_on, rig_with};
use haft_agent::{AgentEvent, Compaction, Conversation, EndReason, LimitReached, UserInput};
use haft_testkit::{MockModel, ReplyPiece, Script, StreamCut, ToolPiece, Turn};
use serde_json::json;
use tokio::sync::mpsc;

fn echo(text: &str) -> ReplyPiece {
    ReplyPiece::tool("Echo", json!({"text": text}))
}

#[tokio::test]
async fn calls_are_run_and_answered_in_order() {
    let mut rig = rig(vec![
        Turn::from_pieces([
            ReplyPiece::text("Looking."),
            echo("a"),
            ReplyPiece::tool("Append", json!({"text": "x"})),
            ReplyPiece::tool("Nope", json!({})),
            echo("b"),
        ]),
        Turn::text("Done."),
    ])
    .await;
    let end = rig.say("go").await;
    assert_eq!((end.reason, end.text.as_str(), end.turns), (EndReason::Completed, "Done.", 2));
    let results: Vec<(String, bool)> = rig.last_results();
    let texts: Vec<&str> = results.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(texts[..2], ["a", "appended"]);
    assert!(texts[2].starts_with("There is no tool named Nope") && results[2].1);
    assert_eq!(texts[3], "b");
    assert_eq!(*rig.appended.lock().unwrap(), ["x"]);
    assert_eq!(rig.model.refusals(), [""; 0]);
}

#[tokio::test]
async fn the_prefix_of_requests_never_changes() {
    let turns = (0..5).map(|n| Turn::from_pieces([echo(&n.to_string())])).chain([Turn::text("Done.")]);
    let mut rig = rig(turns.collect()).await;
    rig.say("go").await;
    let bodies = rig.bodies();
    for pair in bodies.windows(2) {
        assert_eq!(pair[0]["tools"], pair[1]["tools"]);
        let (before, after) =
            (pair[0]["messages"].as_array().unwrap(), pair[1]["messages"].as_array().unwrap());
        let strip =
            |it: &serde_json::Value| it.to_string().replace(r#","cache_control":{"type":"ephemeral"}"#, "");
        let before: Vec<String> = before.iter().map(strip).collect();
        let after: Vec<String> = after.iter().map(strip).collect();
        assert_eq!(before[..], after[..before.len()]);
    }
}

#[tokio::test]
async fn a_truncated_call_is_not_run_and_is_explained() {
    let cut = ReplyPiece::Tool(ToolPiece {
        name: String::from("Append"),
        input: json!({"text": "0123456789"}),
        keep: Some(14),
        ..ToolPiece::default()
    });
    let mut rig =
        rig(vec![Turn::from_pieces([echo("kept"), cut]).stop("max_tokens"), Turn::text("Smaller then.")])
            .await;
    let end = rig.say("go").await;
    assert_eq!(end.reason, EndReason::Completed);
    assert!(rig.appended.lock().unwrap().is_empty());
    let results = rig.last_results();
    assert_eq!(results[0], (String::from("kept"), false));
    assert!(results[1].0.contains("cut by the output limit") && results[1].1, "{results:?}");
    assert_eq!(rig.model.refusals(), [""; 0]);
}

#[tokio::test]
async fn cut_answers_end_the_run_after_three() {
    let cut = || Turn::text("and on").stop("max_tokens");
    let mut rig = rig(vec![cut(), cut(), cut(), Turn::text("never asked")]).await;
    assert_eq!(rig.say("go").await.reason, EndReason::OutputTruncated);
    assert_eq!(rig.model.unused(), 1);
}

#[tokio::test]
async fn a_cut_stream_costs_a_retry_and_runs_nothing_twice() {
    for byte in [0, 200, 600, 900, 1_000, 1_100, 1_200, 1_400] {
        let first = Turn::from_pieces([ReplyPiece::tool("Append", json!({"text": "once"})), echo("b")])
            .cut_at(byte, StreamCut::Reset);
        let again = Turn::from_pieces([ReplyPiece::tool("Append", json!({"text": "once"})), echo("b")]);
        let mut script = Script::from_turns([first, again, Turn::text("Done.")]);
        script.turns.push(Turn::text("Done.").always());
        let mut rig = rig_with(script).await;
        let end = rig.say("go").await;
        assert_eq!(end.reason, EndReason::Completed, "{byte}");
        assert!(rig.appended.lock().unwrap().len() <= 2, "{byte}");
        assert_eq!(rig.model.refusals(), [""; 0], "{byte}");
    }
}

#[tokio::test]
async fn bounds_hold() {
    let turns = || (0..10).map(|n| Turn::from_pieces([echo(&n.to_string())])).collect::<Vec<_>>();
    let mut turned = rig(turns()).await;
    turned.agent.settings.limits.max_turns = Some(3);
    assert_eq!(turned.say("go").await.reason, EndReason::Exhausted(LimitReached::Turns(3)));
    assert_eq!(turned.model.count(), 3);

    let mut spent = rig(turns()).await;
    spent.agent.settings.limits.max_usd = Some(0.000_001);
    let end = spent.say("go").await;
    assert!(matches!(end.reason, EndReason::Exhausted(LimitReached::Budget(_))), "{:?}", end.reason);
    assert_eq!(spent.model.count(), 1);
}

#[tokio::test]
async fn futile_repetition_is_stopped() {
    let turns = (0..10).map(|_| Turn::from_pieces([ReplyPiece::tool("Fail", json!({"text": "no"}))]));
    let mut rig = rig(turns.collect()).await;
    let end = rig.say("go").await;
    assert!(matches!(end.reason, EndReason::NoProgress(_)), "{:?}", end.reason);
    assert_eq!(rig.model.count(), 5);
    assert_eq!(rig.model.refusals(), [""; 0]);
}

#[tokio::test]
async fn denials_are_listed_and_the_run_goes_on() {
    let mut rig = rig(vec![Turn::tool("Danger", json!({"text": "boom"})), Turn::text("Then not.")]).await;
    let end = rig.say("go").await;
    assert_eq!(end.reason, EndReason::Completed);
    assert_eq!(end.denials.len(), 1);
    assert_eq!(
        (end.denials[0].tool_name.as_str(), &end.denials[0].tool_input),
        ("Danger", &json!({"text": "boom"}))
    );
}

#[tokio::test]
async fn an_interrupt_keeps_what_happened_and_the_next_line_works() {
    let mut rig = rig(vec![
        Turn::from_pieces([
            ReplyPiece::text("Working."),
            ReplyPiece::tool("Wait", json!({"text": ""})),
            ReplyPiece::tool("Append", json!({"text": "never"})),
        ]),
        Turn::text("Here again."),
    ])
    .await;
    let (waiting, cancel) = (std::sync::Arc::clone(&rig.waiting), rig.cancel.clone());
    let interrupt = async {
        waiting.notified().await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(rig.agent.run(UserInput::text("go"), &cancel), interrupt);
    assert_eq!(end.reason, EndReason::Interrupted);
    assert!(rig.appended.lock().unwrap().is_empty());
    rig.cancel = tokio_util::sync::CancellationToken::new();
    assert_eq!(rig.say("and now?").await.text, "Here again.");
    assert_eq!(rig.model.refusals(), [""; 0]);
    let sent = rig.bodies().pop().unwrap().to_string();
    assert!(
        sent.contains("Wait was interrupted while it ran")
            && sent.contains("before Append ran; it had no effect"),
        "{sent}"
    );
}

#[tokio::test]
async fn structured_output_is_valid_or_an_error() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"], "additionalProperties": false});
    let attempt = |n: i64| Turn::tool("StructuredOutput", json!({"n": n}));
    let mut good = rig(vec![attempt(99), Turn::text("prose"), attempt(3)]).await;
    good.agent.require_output(schema.clone()).unwrap();
    let end = good.say("go").await;
    assert_eq!((end.reason, end.structured_output), (EndReason::Completed, Some(json!({"n": 3}))));

    let mut bad = rig((0..8).map(|n| attempt(100 + n)).collect()).await;
    bad.agent.require_output(schema).unwrap();
    let end = bad.say("go").await;
    assert!(
        matches!(end.reason, EndReason::NoStructuredOutput(ref tried) if tried.len() == 5),
        "{:?}",
        end.reason
    );
    assert_eq!((end.structured_output, bad.model.count()), (None, 5));
}

#[tokio::test]
async fn what_is_said_meanwhile_reaches_the_next_request() {
    let mut rig = rig(vec![Turn::from_pieces([echo("a")]), Turn::text("Both.")]).await;
    rig.agent.inbox.push(UserInput::text("also this"));
    rig.say("go").await;
    let last = rig.bodies().pop().unwrap()["messages"].to_string();
    assert!(last.contains("also this"), "{last}");
    assert_eq!(rig.model.refusals(), [""; 0]);
}

/// A window far too small for what happens: the run still goes on, and the
/// person's words survive.
#[tokio::test]
async fn overflow_always_has_a_way_out() {
    for summaries_fail in [false, true] {
        let mut turns: Vec<Turn> = (0..6).map(|n| Turn::tool("Big", json!({"size": 20_000 + n}))).collect();
        turns.push(Turn::text("Done."));
        let mut script = Script { window: 20_000, max_output: 4_000, ..Script::from_turns(turns) };
        let summary = if summaries_fail {
            Turn::error(400, "invalid_request_error", "no summaries today")
        } else {
            Turn::text("What happened: much.")
        };
        script.turns.insert(0, summary.when("Sum up this conversation").always());
        let mut rig = rig_with(script).await;
        rig.agent.settings.limits.max_turns = Some(20);
        let end = rig.say("Find the needle-4711 in the haystack").await;
        assert_eq!(end.reason, EndReason::Completed, "{summaries_fail}");
        let last = rig.bodies().pop().unwrap().to_string();
        assert!(last.contains("needle-4711"), "{last}");
        let mut how = Vec::new();
        while let Ok(event) = rig.events.try_recv() {
            if let AgentEvent::Compacted(event) = event {
                how.push(event.how);
            }
        }
        assert!(how.contains(&Compaction::Stubs), "{how:?}");
    }
}

/// Any prefix of any log resumes, and the next request is accepted.
#[tokio::test]
async fn every_prefix_of_a_log_resumes() {
    let mut first = rig(vec![
        Turn::from_pieces([
            ReplyPiece::thinking("hm"),
            ReplyPiece::text("Three."),
            echo("a"),
            echo("b"),
            ReplyPiece::tool("Fail", json!({"text": "c"})),
        ]),
        Turn::text("Done."),
    ])
    .await;
    first.say("go").await;
    let log = std::fs::read(first.agent.conversation.log_path().unwrap()).unwrap();
    let model = MockModel::start(Script::from_turns([Turn::text("Again.").always()])).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.jsonl");
    // A stride that is coprime to the line lengths reaches every kind of place.
    for length in (0..=log.len()).step_by(37).chain([log.len()]) {
        std::fs::write(&path, &log[..length]).unwrap();
        let (conversation, _) = Conversation::resume("session".into(), dir.path(), &path, None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let url = model.url();
        let mut rig = rig_on(
            MockModel::start(Script::from_turns([Turn::text("Again.")])).await.unwrap(),
            conversation,
            dir,
        );
        let end = rig.say("go on").await;
        assert_eq!(end.reason, EndReason::Completed, "{length} {url}");
        assert_eq!(rig.model.refusals(), [""; 0], "{length}");
    }
}

#[tokio::test]
async fn garbage_in_a_log_is_passed_over() {
    let mut first = rig(vec![Turn::from_pieces([echo("a")]), Turn::text("Done.")]).await;
    first.say("go").await;
    let path = first.agent.conversation.log_path().unwrap().to_owned();
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let intact = lines.len();
    lines.insert(2, String::from("{ not json"));
    let broken = format!("{}\n{}\0\0\0\0", lines.join("\n"), "{\"type\":\"user\",\"uu");
    std::fs::write(&path, broken).unwrap();
    let (conversation, restored) =
        Conversation::resume("session".into(), first.dir.path(), &path, None).unwrap();
    assert_eq!(
        (restored.report.entries, restored.report.unreadable, restored.report.torn),
        (intact, 2, true)
    );
    assert_eq!(conversation.messages().len(), 4);
    // The next line starts on a fresh line.
    drop(first.agent);
    drop(haft_agent::log::LogFile::open(&path).unwrap());
    assert!(std::fs::read_to_string(&path).unwrap().ends_with('\n'));
}

#[tokio::test]
async fn an_unreachable_model_is_an_error_not_a_hang() {
    let mut rig = rig(vec![Turn::error(401, "authentication_error", "invalid x-api-key")]).await;
    let end = tokio::time::timeout(Duration::from_secs(100), rig.say("go")).await.unwrap();
    assert!(matches!(end.reason, EndReason::Failed(_)), "{:?}", end.reason);
}

/// Whoever watches hears of a fast call while its slow sibling runs; the model gets both
/// in the order it asked for them.
#[tokio::test]
async fn a_fast_call_is_told_before_a_slow_one_that_came_first() {
    let calls = Turn::from_pieces([
        ReplyPiece::tool("Late", json!({"text": "slow"})),
        ReplyPiece::tool("Echo", json!({"text": "fast"})),
    ]);
    let mut rig = rig(vec![calls, Turn::text("Done.")]).await;
    let (done, mut events) =
        (Arc::clone(&rig.waiting), std::mem::replace(&mut rig.events, mpsc::unbounded_channel().1));
    let watch = tokio::spawn(async move {
        let mut told = Vec::new();
        while let Some(event) = events.recv().await {
            match event {
                AgentEvent::CallFinished(it) => {
                    told.push(format!("finished {}", it.report.content.to_text()));
                    // Only now the other one may go on.
                    done.notify_one();
                }
                AgentEvent::ResultLogged { answered, .. } => {
                    told.push(format!("result {}", answered.report.content.to_text()));
                }
                _ => (),
            }
        }
        told
    });
    let end = tokio::time::timeout(Duration::from_secs(60), rig.say("go")).await.unwrap();
    assert_eq!(end.reason, EndReason::Completed);
    let results: Vec<String> = rig.last_results().into_iter().map(|it| it.0).collect();
    assert_eq!(results, ["slow", "fast"]);
    drop(rig);
    assert_eq!(watch.await.unwrap(), ["finished fast", "finished slow", "result slow", "result fast"]);
}
