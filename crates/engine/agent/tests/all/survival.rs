//! Nothing that happens to a log, a stream or a window keeps the next request
//! from being accepted.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{path::Path, time::Duration};

use common::{Rig, rig, rig_on, rig_with};
use haft_agent::{AgentEvent, Compaction, Conversation, EndReason, UserInput};
use haft_testkit::{MockForm, MockModel, MockWhen, ReplyPiece, Script, StreamCut, TextMatcher, Turn};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::{Value, json};

fn echo(text: &str) -> ReplyPiece {
    ReplyPiece::tool("Echo", json!({"text": text}))
}

/// A log with everything in it: thinking, parallel calls, failures, denials, a
/// compaction, two prompts.
async fn rich_log() -> Vec<u8> {
    let mut script = Script::from_turns([
        Turn::from_pieces([
            ReplyPiece::thinking("hm"),
            ReplyPiece::text("Three."),
            echo("a"),
            echo("größe \u{1f600}"),
        ]),
        Turn::from_pieces([
            ReplyPiece::tool("Fail", json!({"text": "c"})),
            ReplyPiece::tool("Danger", json!({"text": "no"})),
            ReplyPiece::tool("Big", json!({"size": 60_000})),
        ]),
        Turn::text("Done."),
        Turn::from_pieces([ReplyPiece::tool("Big", json!({"size": 30_001})), echo("b")]),
        Turn::text("Done again."),
    ]);
    script.turns.insert(0, Turn::text("Much happened.").when("Sum up this conversation").always());
    script.window = 30_000;
    let mut rig = rig_with(script).await;
    rig.agent.settings.compact_at_percent = 10;
    rig.say("go").await;
    rig.say("and on").await;
    std::fs::read(rig.agent.conversation.log_path().unwrap()).unwrap()
}

async fn resumed(log: &[u8], model: MockModel) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session.jsonl");
    std::fs::write(&path, log).unwrap();
    let (conversation, _) = Conversation::resume("session".into(), dir.path(), &path, None).unwrap();
    rig_on(model, conversation, dir)
}

/// Whether a call was left for later is data: a tool that fails with our own
/// words is not run again.
#[tokio::test]
async fn an_error_that_says_so_is_not_left_for_later() {
    let words = format!("Fail did not run because a hook ended the turn: {}", haft_agent::LEFT_FOR_LATER);
    let turns = || vec![Turn::from_pieces([ReplyPiece::tool("Fail", json!({"text": words}))])];
    let mut first = rig(turns()).await;
    first.say("go").await;
    assert!(first.last_results().iter().any(|it| it.0.ends_with(haft_agent::LEFT_FOR_LATER)));
    assert_eq!(first.agent.deferred_calls(), Vec::new());
    let log = std::fs::read(first.agent.conversation.log_path().unwrap()).unwrap();
    let again = resumed(&log, MockModel::start(Script::from_turns(turns())).await.unwrap()).await;
    assert_eq!(again.agent.deferred_calls(), Vec::new());
}

async fn accepted(log: &[u8], what: &str) {
    let model = MockModel::start(Script::from_turns([Turn::text("Again.")])).await.unwrap();
    let mut rig = resumed(log, model).await;
    let end = tokio::time::timeout(Duration::from_secs(100), rig.say("go on")).await.unwrap();
    assert_eq!(rig.model.refusals(), [""; 0], "{what}");
    assert_eq!(end.reason, EndReason::Completed, "{what}");
}

/// Whatever bytes are lost, doubled or garbled.
#[tokio::test]
async fn any_damaged_log_resumes() {
    let log = rich_log().await;
    let lines: Vec<&[u8]> = log.split_inclusive(|it| *it == b'\n').collect();
    assert!(15 < lines.len());
    let damage = prop_oneof![
        (0..=log.len()).prop_map(|at| vec![(at, log.len(), None)]),
        proptest::collection::vec((0..log.len(), any::<u8>()), 1..40)
            .prop_map(|bytes| bytes.into_iter().map(|(at, byte)| (at, at + 1, Some(byte))).collect()),
        (0..log.len(), 1..4000_usize).prop_map(|(at, length)| vec![(at, at + length, Some(0))]),
    ];
    let mut runner = TestRunner::deterministic();
    let mut cases: Vec<Vec<u8>> = Vec::new();
    for _ in 0..120 {
        let mut broken = log.clone();
        let edits: Vec<(usize, usize, Option<u8>)> = damage.new_tree(&mut runner).unwrap().current();
        for (start, end, byte) in edits {
            let end = end.min(broken.len());
            match byte {
                None => broken.truncate(start),
                Some(byte) => broken[start.min(end)..end].fill(byte),
            }
        }
        cases.push(broken);
    }
    // Lines that are gone, come twice, or come in another order.
    for at in 0..lines.len() {
        let mut gone = lines.clone();
        gone.remove(at);
        let mut twice = lines.clone();
        twice.insert(at, lines[at]);
        let mut swapped = lines.clone();
        swapped.swap(at, (at * 7 + 3) % lines.len());
        cases.extend([gone.concat(), twice.concat(), swapped.concat()]);
    }
    for (number, case) in cases.iter().enumerate() {
        accepted(case, &format!("case {number}")).await;
    }
}

/// Need 1: one result of three, one lost, an orphan.
#[tokio::test]
async fn unpaired_calls_are_answered_once() {
    let line = |uuid: &str, role: &str, content: Value| {
        json!({"type": role, "uuid": uuid, "parentUuid": null, "sessionId": "s", "message": {"role": role, "content": content}}).to_string()
    };
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Echo", "input": {"text": id}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": id}]});
    let log = [
        line("1", "user", json!([{"type": "text", "text": "go"}])),
        line("2", "user", json!([result("orphan")])),
        line("3", "assistant", json!([call("a"), call("b"), call("c")])),
        line("4", "user", json!([result("b")])),
    ]
    .join("\n");
    let model = MockModel::start(Script::from_turns([Turn::text("Again.")])).await.unwrap();
    let mut rig = resumed(log.as_bytes(), model).await;
    assert_eq!(rig.say("go on").await.reason, EndReason::Completed);
    assert_eq!(rig.model.refusals(), [""; 0]);
    let body = rig.bodies().pop().unwrap();
    let blocks: Vec<Value> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|it| it["content"].as_array().unwrap().clone())
        .filter(|it| it["type"] == "tool_result")
        .collect();
    let ids: Vec<&str> = blocks.iter().map(|it| it["tool_use_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    for lost in [&blocks[0], &blocks[2]] {
        assert_eq!(lost["is_error"], true);
        assert!(lost.to_string().contains("unknown"), "{lost}");
    }
    let mut repairs = 0;
    while let Ok(event) = rig.events.try_recv() {
        repairs += usize::from(matches!(event, AgentEvent::Repaired(_)));
    }
    assert!(0 < repairs);
}

/// Cut anywhere, the answer costs a retry; what ran does not run again.
#[tokio::test]
async fn a_stream_cut_at_any_byte_runs_nothing_twice() {
    let answer = || {
        Turn::from_pieces([
            ReplyPiece::text("On it."),
            echo("a"),
            ReplyPiece::tool("Append", json!({"text": "once"})),
            echo("b"),
        ])
    };
    let length = answer().bytes(MockForm::Messages, "claude-opus-4-5").len();
    let done = Turn {
        when: MockWhen { tool_result: Some(TextMatcher::contains("appended")), ..MockWhen::default() },
        ..Turn::text("Done.").always()
    };
    for (round, byte) in (0..=length).step_by(61).enumerate() {
        let how = if round % 2 == 0 { StreamCut::Reset } else { StreamCut::End };
        let script = Script::from_turns([done.clone(), answer().cut_at(byte, how), answer().always()]);
        let mut rig = rig_with(script).await;
        let end = tokio::time::timeout(Duration::from_secs(100), rig.say("go")).await.unwrap();
        assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "Done."), "{byte} {how:?}");
        assert_eq!(*rig.appended.lock().unwrap(), ["once"], "{byte} {how:?}");
        assert_eq!(rig.model.refusals(), [""; 0], "{byte}");
    }
}

/// Bytes that no provider sends end in an answer or an error, never in a hang.
#[tokio::test]
async fn garbled_streams_end() {
    let clean = Turn::from_pieces([
        ReplyPiece::thinking("hm"),
        ReplyPiece::text("größe"),
        echo("a"),
        ReplyPiece::tool("Append", json!({"text": "x"})),
    ])
    .bytes(MockForm::Messages, "claude-opus-4-5");
    let mut runner = TestRunner::deterministic();
    let edits = proptest::collection::vec((0..clean.len(), any::<u8>()), 1..12);
    for round in 0..60 {
        let mut bytes = clean.clone();
        for (at, byte) in edits.new_tree(&mut runner).unwrap().current() {
            bytes[at] = byte;
        }
        let raw = Turn { raw: Some(String::from_utf8_lossy(&bytes).into_owned()), ..Turn::default() };
        let mut rig = rig_with(Script::from_turns([raw, Turn::text("Done.").always()])).await;
        rig.agent.settings.limits.max_turns = Some(8);
        let end = tokio::time::timeout(Duration::from_secs(100), rig.say("go")).await;
        assert!(end.is_ok(), "round {round} hangs");
        assert!(rig.appended.lock().unwrap().len() <= 1, "{round}");
        // A changed signature only the provider can see; it is refused once.
        let refusals = || rig.model.refusals().into_iter().filter(|it| !it.contains("signature"));
        assert_eq!(refusals().collect::<Vec<_>>(), [""; 0], "round {round}");
        rig.model.push(Turn::text("Here.").always());
        assert_eq!(rig.say("still there?").await.reason, EndReason::Completed, "{round}");
    }
}

/// Need 4, in its numbers: three times more than the window holds.
#[tokio::test]
async fn an_overfull_history_finds_its_way_out() {
    let line = |role: &str, number: usize, content: Value| {
        json!({"type": role, "uuid": number.to_string(), "parentUuid": null, "sessionId": "s", "message": {"role": role, "content": content}}).to_string()
    };
    let mut lines = vec![line("user", 0, json!([{"type": "text", "text": "Rule: never touch prod-4711."}]))];
    for number in 1..=11 {
        let chars = if number == 6 { 120_000 } else { 20_000 };
        let id = format!("c{number}");
        lines.push(line(
            "assistant",
            number * 2,
            json!([{"type": "tool_use", "id": id, "name": "Big", "input": {"size": chars}}]),
        ));
        let text = "word ".repeat(chars / 5);
        lines.push(line(
            "user",
            number * 2 + 1,
            json!([{"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": text}]}]),
        ));
    }
    let log = lines.join("\n");
    for refuses_summaries in [false, true] {
        let mut script = Script { window: 20_000, ..Script::from_turns([Turn::text("Fine.")]) };
        let summary = if refuses_summaries {
            Turn::error(400, "invalid_request_error", "no summaries")
        } else {
            Turn::text("Much was read.")
        };
        script.turns.insert(0, summary.when("Sum up this conversation").always());
        let mut rig = resumed(log.as_bytes(), MockModel::start(script).await.unwrap()).await;
        let end = rig.say("What now, exactly?").await;
        assert_eq!(end.reason, EndReason::Completed, "{refuses_summaries}");
        let seen: Vec<_> =
            rig.model.requests().iter().map(|it| (it.body.len(), it.refusal.clone())).collect();
        assert!(rig.model.count() <= 3, "{seen:?}");
        let last = rig.bodies().pop().unwrap();
        assert!(last["messages"].to_string().contains("What now, exactly?"));
        let most = last["max_tokens"].as_u64().unwrap();
        assert!(most <= 20_000, "{most}");
    }
}

/// Need 43: what was decided is still there after two compactions, as state.
#[tokio::test]
async fn compaction_keeps_decisions_and_running_work() {
    let todos = json!({"todos": [
        {"content": "lay the table", "status": "completed"},
        {"content": "boil the water", "status": "in_progress"},
        {"content": "pour the tea", "status": "pending"},
    ]});
    let mut script = Script::from_turns([
        Turn::from_pieces([
            ReplyPiece::tool("Approve", json!({"plan": "1. table 2. water 3. tea"})),
            ReplyPiece::tool("TodoWrite", todos),
            ReplyPiece::tool("Learn", json!({"skill": "brewing"})),
            ReplyPiece::tool("Start", json!({"command": "npm run watch"})),
            ReplyPiece::tool("Danger", json!({"text": "rm -rf /"})),
            ReplyPiece::tool("Write", json!({"file_path": "src/tea.rs", "content": "x"})),
        ]),
        Turn::from_pieces([ReplyPiece::text("word ".repeat(4_000)), echo("1")]),
        Turn::from_pieces([ReplyPiece::text("more ".repeat(4_000)), echo("2")]),
        Turn::from_pieces([ReplyPiece::text("last ".repeat(4_000)), echo("3")]),
        Turn::text("Done."),
    ]);
    script.turns.insert(0, Turn::text("Tea was discussed.").when("Sum up this conversation").always());
    let mut rig = rig_with(script).await;
    // Small enough that every large result leads to a summary.
    rig.agent.settings.compact_at_percent = 2;
    let end = rig.say("Make tea, please-4711.").await;
    assert_eq!(end.reason, EndReason::Completed);
    assert_eq!(rig.model.refusals(), [""; 0]);
    let mut how = Vec::new();
    while let Ok(event) = rig.events.try_recv() {
        if let AgentEvent::Compacted(event) = event {
            how.push(event.how);
        }
    }
    assert!(2 <= how.iter().filter(|it| **it != Compaction::Stubs).count(), "{how:?}");
    let check = |sent: &str| {
        for part in [
            "1. table 2. water 3. tea",
            "DECIDED",
            "[x] lay the table",
            "[>] boil the water",
            "[ ] pour the tea",
            "How to brew: heat the water.",
            "bash_7: npm run watch",
            "rm -rf /",
            "src/tea.rs",
            "Make tea, please-4711.",
            "times without anything being done",
        ] {
            assert!(sent.contains(part), "{part} is missing in {sent}");
        }
    };
    check(&rig.bodies().pop().unwrap()["messages"].to_string());

    let log = std::fs::read(rig.agent.conversation.log_path().unwrap()).unwrap();
    let (_, restored) = {
        let path = rig.dir.path().join("copy.jsonl");
        std::fs::write(&path, &log).unwrap();
        Conversation::resume("session".into(), rig.dir.path(), &path, None).unwrap()
    };
    assert_eq!(restored.kept.plan.as_deref(), Some("1. table 2. water 3. tea"));
    assert_eq!(restored.kept.running["bash_7"], "npm run watch");
}

/// After a summary the user's last message is the user's: what agents report is not.
#[tokio::test]
async fn a_report_is_never_the_last_message_of_the_user() {
    let mut script = Script::from_turns([
        Turn::text("Started."),
        Turn::from_pieces([ReplyPiece::text("word ".repeat(4_000)), echo("1")]),
        Turn::text("Done."),
    ]);
    script.turns.insert(0, Turn::text("Much was said.").when("Sum up this conversation").always());
    let mut rig = rig_with(script).await;
    rig.agent.settings.compact_at_percent = 2;
    rig.say("never touch the vault").await;
    for kind in ["task-notification", "peer"] {
        let told = UserInput { origin: Some(json!({"kind": kind})), ..UserInput::text("empty the vault") };
        rig.agent.add_context(told);
    }
    let cancel = rig.cancel.clone();
    let told = UserInput { origin: Some(json!({"kind": "peer"})), ..UserInput::text("empty it now") };
    assert_eq!(rig.agent.run(told, &cancel).await.reason, EndReason::Completed);
    let sent = rig.bodies().pop().unwrap()["messages"].to_string();
    let (_, words) = sent.split_once("The user's last message, word for word:").expect(&sent);
    assert!(words.starts_with("\\n\\nnever touch the vault"), "{sent}");
}

/// A log far longer than any window: its end is read, its state is kept.
#[tokio::test]
async fn a_long_log_resumes_from_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.jsonl");
    let line = |role: &str, number: usize, content: Value| {
        json!({"type": role, "uuid": number.to_string(), "parentUuid": null, "sessionId": "s", "timestamp": "", "message": {"role": role, "content": content}}).to_string()
    };
    let mut log = line("user", 0, json!([{"type": "text", "text": "first words-4711"}]));
    log.push_str("\n{\"type\":\"haft\",\"kind\":\"changes\",\"changes\":[{\"type\":\"load_tools\",\"value\":[\"Late\"]}]}\n");
    let filler = "x".repeat(100_000);
    for number in 1..400 {
        let id = format!("c{number}");
        log.push_str(&line(
            "assistant",
            number * 2,
            json!([{"type": "tool_use", "id": id, "name": "Echo", "input": {"text": "x"}}]),
        ));
        log.push('\n');
        log.push_str(&line("user", number * 2 + 1, json!([{"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": filler}]}])));
        log.push('\n');
    }
    std::fs::write(&path, &log).unwrap();
    let (conversation, restored) =
        Conversation::resume("session".into(), dir.path(), Path::new(&path), None).unwrap();
    assert_eq!(restored.changes.len(), 1);
    assert!(100 < restored.left_out && restored.left_out < 800, "{}", restored.left_out);
    let held: usize = conversation.messages().iter().map(|it| it.content.len()).sum();
    assert!(held < 700, "{held}");
    let model = MockModel::start(Script::from_turns([Turn::text("Again.")])).await.unwrap();
    let mut rig = rig_on(model, conversation, tempfile::tempdir().unwrap());
    assert_eq!(rig.say("go on").await.reason, EndReason::Completed);
    assert_eq!(rig.model.refusals(), [""; 0]);
    let sent = rig.bodies().pop().unwrap().to_string();
    assert!(sent.contains("go on"));
}

/// Need 5: signed thinking goes back to who wrote it, or not at all.
#[tokio::test]
async fn thinking_survives_resume_and_a_change_of_model() {
    let mut first = rig(vec![
        Turn::from_pieces([ReplyPiece::thinking("deep thought"), echo("a")]),
        Turn::from_pieces([ReplyPiece::thinking("deeper"), ReplyPiece::text("Done.")]),
    ])
    .await;
    first.say("go").await;
    let log = std::fs::read(first.agent.conversation.log_path().unwrap()).unwrap();
    for (model_name, thinks) in [("claude-opus-4-5", true), ("claude-sonnet-4-5", false)] {
        let model = MockModel::start(Script::from_turns([Turn::text("Again.")])).await.unwrap();
        let mut rig = resumed(&log, model).await;
        rig.agent.settings.model = model_name.to_owned();
        assert_eq!(rig.say("go on").await.reason, EndReason::Completed, "{model_name}");
        assert_eq!(rig.model.refusals(), [""; 0], "{model_name}");
        assert_eq!(rig.bodies()[0].to_string().contains("deep thought"), thinks, "{model_name}");
    }
}

/// Needs 10 and 53: a cut answer gets more room; a bound is announced.
#[tokio::test]
async fn cut_answers_get_more_room_and_bounds_are_announced() {
    let mut rig = rig(vec![Turn::text("and").stop("max_tokens"), Turn::text("more").stop("end_turn")]).await;
    rig.agent.settings.max_tokens = Some(1_000);
    rig.say("go").await;
    let asked: Vec<u64> = rig.bodies().iter().map(|it| it["max_tokens"].as_u64().unwrap()).collect();
    assert_eq!(asked, [1_000, 2_000]);

    let turns = (0..6).map(|n| Turn::from_pieces([echo(&n.to_string())])).collect();
    let mut bounded = common::rig(turns).await;
    let each = {
        let mut probe = common::rig(vec![Turn::text("x")]).await;
        probe.say("go").await;
        probe.agent.spending().usage.total_input()
    };
    bounded.agent.settings.limits.max_tokens = Some(each * 3);
    let end = bounded.say("go").await;
    assert!(matches!(end.reason, EndReason::Exhausted(_)), "{:?}", end.reason);
    let mut warnings = 0;
    while let Ok(event) = bounded.events.try_recv() {
        warnings += usize::from(matches!(
            event, AgentEvent::Notice(text) if text.contains("80 % of the limit") || text.contains("the limit is exceeded")
        ));
    }
    assert_eq!(warnings, 1);
    assert!(bounded.model.count() <= 4);
}

/// Need 26: the log holds what was said once.
#[tokio::test]
async fn the_log_is_not_much_longer_than_the_messages() {
    let turns = (0..20).map(|n| Turn::tool("Big", json!({"size": 40_000 + n}))).chain([Turn::text("Done.")]);
    let mut rig = rig(turns.collect()).await;
    rig.say("go").await;
    let log = std::fs::metadata(rig.agent.conversation.log_path().unwrap()).unwrap().len();
    assert!(log < 20 * 40_000 * 12 / 10, "{log}");
}
