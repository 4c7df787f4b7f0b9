//! Windows that are smaller than anybody thought, answers that are taken back,
//! ids that come twice: the session goes on, and nothing is lost or doubled.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common::{Rig, rig, rig_with};

use haft_agent::{AgentEvent, EndReason};
use haft_testkit::{ReplyPiece, Script, StreamCut, StreamStall, ToolPiece, Turn};
use serde_json::{Value, json};

fn no_summaries(script: &mut Script) {
    let refused = Turn::error(400, "invalid_request_error", "no summaries");
    script.turns.insert(0, refused.when("Sum up this conversation").always());
}

fn notices(rig: &mut Rig) -> Vec<String> {
    let mut out = Vec::new();
    while let Ok(event) = rig.events.try_recv() {
        if let AgentEvent::Notice(text) = event {
            out.push(text);
        }
    }
    out
}

/// A prompt that is longer than the window: the model gets its ends and a file,
/// the person a word, and the next prompt works too.
#[tokio::test]
async fn a_prompt_larger_than_the_window_is_stored_and_said() {
    for window in [6_000, 9_000, 20_000, 60_000] {
        let mut script =
            Script { window, ..Script::from_turns([Turn::text("Fine."), Turn::text("Still here.")]) };
        no_summaries(&mut script);
        let mut rig = rig_with(script).await;
        let prompt = format!("Count the words.\n{}\nEND-4711", "word ".repeat(60_000));
        let end = rig.say(&prompt).await;
        assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "Fine."), "{window}");
        let told = notices(&mut rig).join("\n");
        assert!(told.contains("does not fit the model's window"), "{window}: {told}");
        let sent = rig.bodies().pop().unwrap()["messages"].to_string();
        let kept = std::fs::read_dir(rig.dir.path().join("tool-results")).unwrap();
        let kept: Vec<_> = kept.map(|file| file.unwrap().path()).collect();
        let whole = kept.iter().find(|file| std::fs::read_to_string(file).unwrap() == prompt).unwrap();
        assert!(sent.contains(whole.file_name().unwrap().to_str().unwrap()), "{window}: {sent}");
        assert_eq!(rig.say("and now?").await.reason, EndReason::Completed, "{window}");
    }
}

/// No request holds a message that is larger than the window, the one that asks for a
/// summary neither: what was said before it is summed up, with its ends.
#[tokio::test]
async fn prompt_larger_than_the_window_is_never_sent_whole() {
    let prompt = format!("Count the words.\n{}\nEND-4711", "word ".repeat(600_000));
    for with_history in [false, true] {
        let summary = Turn::text("They greeted.").when("Sum up this conversation");
        let mut turns = vec![summary.always()];
        if with_history {
            turns.push(Turn::text("Hello."));
        }
        turns.push(Turn::text("Fine."));
        let mut rig = rig(turns).await;
        if with_history {
            rig.say("hello there").await;
        }
        let end = rig.say(&prompt).await;
        assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "Fine."), "{with_history}");
        let sizes: Vec<usize> = rig.model.requests().iter().map(|it| it.body.len()).collect();
        assert!(sizes.iter().all(|it| *it < 700_000), "{with_history}: {sizes:?}");
        let asked = rig.bodies().iter().filter(|it| it.to_string().contains("Sum up this")).count();
        assert_eq!(asked, usize::from(with_history));
        let told = notices(&mut rig).join("\n");
        assert!(told.contains("your last message has 3000026 characters and does not fit"), "{told}");
        let last = rig.bodies().pop().unwrap()["messages"].to_string();
        assert!(last.contains("END-4711") && last.contains("They greeted.") == with_history, "{last}");
    }
}

/// A provider that only says "too long", again and again.
#[tokio::test]
async fn a_window_nobody_tells_is_found() {
    for refusals in 1..=4 {
        let too_long = || Turn::error(400, "invalid_request_error", "Input is too long for requested model.");
        let mut turns =
            vec![Turn::tool("Big", json!({"size": 9_000})), Turn::tool("Big", json!({"size": 9_000}))];
        turns.extend((0..refusals).map(|_| too_long()));
        turns.push(Turn::text("Fine."));
        let mut script = Script::from_turns(turns);
        no_summaries(&mut script);
        let mut rig = rig_with(script).await;
        let prompt = format!("{} END-4711", "go ".repeat(3_000));
        let end = rig.say(&prompt).await;
        assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "Fine."), "{refusals}");
    }
}

/// What does not fit at all is said with what to do, and the session lives on.
#[tokio::test]
async fn where_nothing_helps_it_is_said() {
    let too_long = Turn::error(400, "invalid_request_error", "prompt is too long: 900 tokens > 600 maximum");
    let mut rig = rig(vec![too_long.always()]).await;
    assert!(matches!(rig.say("hi").await.reason, EndReason::Failed(_)));
    let told = notices(&mut rig).join("\n");
    assert!(told.contains("a larger window (--model) or fewer tools (--tools)"), "{told}");
}

/// Parallel results: those the model never saw are shortened last, and only as
/// many as needed.
#[tokio::test]
async fn only_as_many_results_are_shortened_as_needed() {
    let reads = |count: usize| {
        Turn::from_pieces((0..count).map(|_| ReplyPiece::tool("Big", json!({"size": 40_000}))))
    };
    let mut rig =
        rig_with(Script { window: 120_000, ..Script::from_turns([reads(12), Turn::text("Done.")]) }).await;
    rig.agent.settings.max_tokens = Some(2_000);
    assert_eq!(rig.say("go").await.reason, EndReason::Completed);
    let whole = rig.last_results().iter().filter(|(text, _)| 30_000 < text.len()).count();
    assert!((6..12).contains(&whole), "{whole} of 12");
}

/// An answer that broke off after a complete block is forgotten in the conversation;
/// in the log it is one line about what was shown.
#[tokio::test]
async fn an_abandoned_answer_leaves_nothing_behind() {
    for cut in [StreamCut::Reset, StreamCut::End] {
        let broken = Turn::from_pieces([
            ReplyPiece::thinking("first thought"),
            ReplyPiece::text("First try."),
            ReplyPiece::OpenText(String::from("and")),
            ReplyPiece::Cut(cut),
        ]);
        let whole =
            Turn::from_pieces([ReplyPiece::thinking("second thought"), ReplyPiece::text("Second try.")]);
        let mut rig = rig(vec![broken, whole, Turn::text("Again.")]).await;
        let end = rig.say("go").await;
        assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "Second try."), "{cut:?}");
        rig.say("go on").await;
        let sent = rig.bodies().pop().unwrap()["messages"].to_string();
        let log = std::fs::read_to_string(rig.agent.conversation.log_path().unwrap()).unwrap();
        let (shown, log): (Vec<&str>, Vec<&str>) =
            log.lines().partition(|it| it.contains(r#""kind":"shown""#));
        assert!(shown.len() == 1 && shown[0].contains("First try."), "{cut:?} {shown:?}");
        for place in [sent, log.join("\n")] {
            assert!(place.contains("Second try."), "{cut:?}");
            assert!(!place.contains("First try.") && !place.contains("first thought"), "{cut:?} {place}");
        }
        assert_eq!(rig.model.refusals(), [""; 0]);
        // Whoever shows it hears which blocks were taken back, and only those.
        let (mut told, mut withdrawn) = (Vec::new(), Vec::new());
        while let Ok(event) = rig.events.try_recv() {
            match event {
                AgentEvent::Block(it) => told.push(it.uuid),
                AgentEvent::Withdrawn(it) => withdrawn.push((told.len(), it)),
                _ => (),
            }
        }
        assert_eq!(withdrawn.len(), 1, "{cut:?}");
        let (before, answer) = &withdrawn[0];
        assert_eq!((*before, answer.blocks.as_slice()), (2, &told[..2]), "{cut:?}");
        assert!(!answer.message_id.is_empty() && answer.calls.is_empty(), "{cut:?} {answer:?}");
    }
}

fn with_id(id: &str, text: &str) -> ReplyPiece {
    ReplyPiece::Tool(ToolPiece {
        name: String::from("Echo"),
        input: json!({"text": text}),
        id: Some(id.to_owned()),
        ..ToolPiece::default()
    })
}

/// One id for two calls of an answer, and again in the next: every call gets its
/// own result.
#[tokio::test]
async fn calls_with_one_id_keep_their_results_apart() {
    let mut rig = rig(vec![
        Turn::from_pieces([with_id("call_0", "a"), with_id("call_0", "b"), with_id("call_1", "c")]),
        Turn::from_pieces([with_id("call_0", "d")]),
        Turn::text("Done."),
    ])
    .await;
    assert_eq!(rig.say("go").await.reason, EndReason::Completed);
    assert_eq!(rig.model.refusals(), [""; 0]);
    let body = rig.bodies().pop().unwrap();
    let blocks: Vec<Value> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|it| it["content"].as_array().unwrap().clone())
        .collect();
    let mut seen = Vec::new();
    for call in blocks.iter().filter(|it| it["type"] == "tool_use") {
        let result = blocks.iter().find(|it| it["tool_use_id"] == call["id"]).unwrap();
        assert!(result["content"].to_string().contains(call["input"]["text"].as_str().unwrap()), "{result}");
        assert!(!seen.contains(&call["id"]), "{call}");
        seen.push(call["id"].clone());
    }
    assert_eq!(seen.len(), 4);
}

#[tokio::test]
async fn a_schema_that_means_nothing_is_refused() {
    let mut rig = rig(vec![]).await;
    let problem = rig.agent.require_output(json!({"type": "nope"})).unwrap_err();
    assert!(problem.contains("#/type is \"nope\""), "{problem}");
}

/// A call that only looks runs while its answer still comes in; one that acts
/// waits until the answer is certain.
#[tokio::test]
async fn the_last_call_starts_before_the_answer_ends() {
    for (tool, starts) in [("Echo", true), ("Append", true), ("Danger", false)] {
        let call = ReplyPiece::tool(tool, json!({"text": "x"}));
        let cut = Turn::from_pieces([
            call.clone(),
            ReplyPiece::Stall(StreamStall::Ms(1_500)),
            ReplyPiece::Cut(StreamCut::Reset),
        ]);
        let mut rig = rig(vec![cut, Turn::from_pieces([call]), Turn::text("Done.")]).await;
        let end = rig.say("go").await;
        assert_eq!(end.reason, EndReason::Completed, "{tool}");
        let ran = rig.appended.lock().unwrap().len();
        assert_eq!(ran, if tool == "Append" { 2 } else { 0 }, "{tool} {starts}");
        assert_eq!(rig.model.refusals(), [""; 0], "{tool}");
        assert_eq!(rig.last_results().len(), 1, "{tool}");
    }
}

fn compactions(rig: &mut Rig) -> usize {
    let mut count = 0;
    while let Ok(event) = rig.events.try_recv() {
        count += usize::from(matches!(event, AgentEvent::Compacted(_)));
    }
    count
}

/// What a request takes before anything was said, as the server counts.
async fn first_request() -> u64 {
    let mut rig = rig(vec![Turn::text("Fine.")]).await;
    rig.say("go").await;
    (rig.model.requests()[0].body.len() / 4) as u64
}

/// Tools and instructions nearly fill the window: what little is said beside them is
/// not thrown away with every request.
#[tokio::test]
async fn a_small_window_is_not_emptied_at_every_turn() {
    let window = first_request().await * 21 / 20 + 3_000;
    let echo = |number: usize| Turn::tool("Echo", json!({"text": format!("step {number}")}));
    let turns = (0..8).map(echo).chain([Turn::text("Done.")]);
    let mut rig = rig_with(Script { window, ..Script::from_turns(turns) }).await;
    assert_eq!(rig.say("go").await.reason, EndReason::Completed);
    assert_eq!(compactions(&mut rig), 0);
    let sent = rig.bodies().pop().unwrap()["messages"].to_string();
    assert!(sent.contains("step 0") && sent.contains("step 7"), "{sent}");
}

/// Where a refusal has no numbers it may be the answer that has no room: nothing of the
/// conversation is given up for it, and it is not tried again and again.
#[tokio::test]
async fn an_answer_without_room_becomes_shorter_before_the_conversation_does() {
    let window = first_request().await + 12_000;
    let words = Some(String::from("Input is too long for requested model."));
    let turns = [Turn::tool("Echo", json!({"text": "kept"})), Turn::text("Done."), Turn::text("Again.")];
    let mut rig = rig_with(Script { window, window_words: words, ..Script::from_turns(turns) }).await;
    assert_eq!(rig.say("go").await.reason, EndReason::Completed);
    assert_eq!(rig.say("on").await.text, "Again.");
    assert_eq!(compactions(&mut rig), 0);
    assert_eq!((rig.model.count(), rig.model.refusals().len()), (4, 1));
    assert!(rig.bodies().pop().unwrap()["messages"].to_string().contains("kept"));
}

/// What was seen of one model's window says nothing about the next one's.
#[tokio::test]
async fn another_model_has_another_window() {
    let too_long =
        Turn::error(400, "invalid_request_error", "prompt is too long: 90000 tokens > 30000 maximum");
    let summary = Turn::text("Little was said.").when("Sum up this conversation").always();
    let mut rig = rig(vec![summary, too_long, Turn::text("Fine."), Turn::text("Fine.")]).await;
    assert_eq!(rig.say("go").await.reason, EndReason::Completed);
    assert_eq!(rig.agent.window(), 30_000);
    rig.agent.settings.model = String::from("claude-sonnet-4-5");
    assert_eq!(rig.say("on").await.reason, EndReason::Completed);
    assert_eq!(rig.agent.window(), 200_000);
}
