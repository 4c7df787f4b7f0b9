//! What the log says about calls, and what it allows.

use std::{collections::HashMap, path::Path};

use haft_agent::{
    AgentEvent, Conversation, EndReason,
    log::{LogEntry, LogFile, LogState, read},
};
use haft_permission::Behavior;
use haft_testkit::{ReplyPiece, Turn};
use haft_tool_runtime::{AnsweredBy, ApprovalRecord};
use haft_types::{CallId, MessageBlock, PermissionMode};
use serde_json::{Value, json};

use crate::common::{Rig, rig};

fn danger(text: &str) -> ReplyPiece {
    ReplyPiece::tool("Danger", json!({"text": text}))
}

fn echo(text: &str) -> ReplyPiece {
    ReplyPiece::tool("Echo", json!({"text": text}))
}

/// A rig whose calls may act.
async fn acting(turns: Vec<Turn>) -> Rig {
    let rig = rig(turns).await;
    rig.agent.tools.pipeline.gate.set_mode(PermissionMode::BypassPermissions);
    rig
}

fn entries(path: &Path) -> Vec<LogEntry> {
    let mut all = Vec::new();
    read(path, |entry| all.push(entry)).unwrap();
    all
}

/// Lines that concern calls, in one word each.
fn words(path: &Path) -> Vec<String> {
    let mut words = Vec::new();
    for entry in entries(path) {
        match entry {
            LogEntry::Haft(LogState::Writer(_)) => words.push(String::from("writer")),
            LogEntry::Haft(LogState::Started(line)) => words.push(format!("started {}", line.tool)),
            LogEntry::Haft(LogState::Call(line)) => words.push(format!("call {}", line.tool)),
            LogEntry::User(line) | LogEntry::Assistant(line) => {
                words.extend(line.message.message.content.iter().filter_map(|block| match block {
                    MessageBlock::ToolUse(call) => Some(format!("use {}", call.name)),
                    MessageBlock::ToolResult { is_error: true, .. } => Some(String::from("error")),
                    MessageBlock::ToolResult { .. } => Some(String::from("result")),
                    _ => None,
                }));
            }
            _ => (),
        }
    }
    words
}

fn notices(rig: &mut Rig) -> Vec<String> {
    let mut notices = Vec::new();
    while let Ok(event) = rig.events.try_recv() {
        if let AgentEvent::Notice(text) = event {
            notices.push(text);
        }
    }
    notices
}

#[tokio::test]
async fn a_call_that_acts_is_in_the_log_before_it_runs_and_every_call_after() {
    let mut rig = acting(vec![Turn::from_pieces([danger("b"), echo("a")]), Turn::text("Done.")]).await;
    rig.say("go").await;
    let path = rig.agent.conversation.log_path().unwrap().to_owned();
    assert_eq!(
        words(&path),
        [
            "writer",
            "use Danger",
            "use Echo",
            "started Danger",
            "result",
            "call Danger",
            "result",
            "call Echo"
        ]
    );
    let mut digests = Vec::new();
    for entry in entries(&path) {
        match entry {
            LogEntry::Haft(LogState::Started(line)) => {
                let decision = line.decision.unwrap();
                assert_eq!((decision.behavior, decision.source.as_str()), (Behavior::Allow, "mode"));
                assert_eq!(line.agent.as_str(), "main");
                digests.push(line.input);
            }
            LogEntry::Haft(LogState::Call(line)) => {
                assert_eq!((line.error, line.denied_by), (None, None));
                assert!(line.decision.is_some() && line.micros.run < 60_000_000, "{:?}", line.micros);
            }
            _ => (),
        }
    }
    assert_eq!(digests.len(), 1);
    assert!(digests[0].len() == 16 && digests[0].bytes().all(|it| it.is_ascii_hexdigit()), "{digests:?}");
}

#[tokio::test]
async fn a_call_that_is_denied_does_not_start_and_the_log_says_by_whom() {
    let mut rig = rig(vec![Turn::from_pieces([danger("b")]), Turn::text("Done.")]).await;
    rig.say("go").await;
    let path = rig.agent.conversation.log_path().unwrap().to_owned();
    assert_eq!(words(&path), ["writer", "use Danger", "error", "call Danger"]);
    let line = entries(&path).into_iter().find_map(|entry| match entry {
        LogEntry::Haft(LogState::Call(line)) => Some(line),
        _ => None,
    });
    let line = line.unwrap();
    let asked = ApprovalRecord { answered_by: AnsweredBy::Nobody, answer: Behavior::Deny };
    let decision = line.decision.unwrap();
    assert_eq!((decision.behavior, decision.asked), (Behavior::Ask, Some(asked)));
    assert_eq!(line.denied_by.as_deref(), Some("asked"));
}

#[tokio::test]
async fn while_the_log_is_gone_calls_only_read() {
    let mut rig = acting(vec![
        Turn::text("Ready."),
        Turn::from_pieces([danger("a"), echo("b")]),
        Turn::from_pieces([danger("c")]),
        Turn::text("Sorry."),
        Turn::from_pieces([danger("d")]),
        Turn::text("Done."),
    ])
    .await;
    rig.say("begin").await;
    let path = rig.agent.conversation.log_path().unwrap().to_owned();
    let before = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let reason = rig.say("go").await.reason;
    assert!(
        matches!(&reason, EndReason::Incomplete(why) if why.contains("could not be written")),
        "{reason:?}"
    );
    let bodies = rig.bodies();
    let told = bodies[2]["messages"].to_string();
    assert!(told.contains("Danger did not run: the session log") && told.contains("was deleted"), "{told}");
    assert!(told.contains("\"b\""), "{told}");
    let heard = notices(&mut rig);
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].contains("the session log could not be written"), "{heard:?}");

    std::fs::write(&path, before).unwrap();
    assert_eq!(rig.say("again").await.reason, EndReason::Completed);
    let heard = notices(&mut rig);
    assert_eq!(heard, ["the session log is written again; nothing is missing in it"]);
    assert_eq!(
        words(&path),
        [
            "writer",
            "use Danger",
            "use Echo",
            "error",
            "call Danger",
            "result",
            "call Echo",
            "use Danger",
            "error",
            "call Danger",
            "use Danger",
            "started Danger",
            "result",
            "call Danger",
        ]
    );
    let (resumed, _) = Conversation::resume("session".into(), rig.dir.path(), &path, None).unwrap();
    assert_eq!(resumed.messages().len(), rig.agent.conversation.messages().len());
}

/// What a log that ends here makes of its calls.
fn outcomes(path: &Path) -> HashMap<CallId, String> {
    let (conversation, _) = Conversation::resume("session".into(), Path::new("/"), path, None).unwrap();
    let blocks = conversation.messages().iter().flat_map(|it| it.content.clone());
    let results = blocks.filter_map(|block| match block {
        MessageBlock::ToolResult { tool_use_id, content, .. } => Some((tool_use_id, content.to_text())),
        _ => None,
    });
    results.collect()
}

/// A log cut at any byte: a call that was said to start may have had its effect,
/// one that was not has none, and one that is done keeps its result.
#[tokio::test]
async fn any_prefix_is_honest_about_its_calls() {
    let mut rig = acting(vec![
        Turn::from_pieces([echo("r"), danger("x")]),
        Turn::from_pieces([danger("y"), danger("z")]),
        Turn::text("Done."),
    ])
    .await;
    rig.say("go").await;
    let log = std::fs::read(rig.agent.conversation.log_path().unwrap()).unwrap();
    let path = rig.dir.path().join("cut.jsonl");
    let (mut unknown, mut without) = (0, 0);
    // Every place around the end of a line, and some in the middle of each.
    let is_near = |at: usize| log[at.saturating_sub(3)..(at + 2).min(log.len())].contains(&b'\n');
    for length in (0..=log.len()).filter(|at| at % 97 == 0 || is_near(*at)) {
        let prefix = &log[..length];
        std::fs::write(&path, prefix).unwrap();
        let found = outcomes(&path);
        // What the whole lines say, read without the code that is tested. A last
        // line without its end counts if it is whole.
        let mut want: HashMap<String, &str> = HashMap::new();
        let mut seen_writer = false;
        for line in prefix.split(|it| *it == b'\n').filter_map(|it| serde_json::from_slice::<Value>(it).ok())
        {
            if line["kind"] == "writer" {
                seen_writer = true;
            } else if line["kind"] == "started" {
                want.insert(line["call"].as_str().unwrap().to_owned(), "outcome unknown");
            }
            for block in line["message"]["content"].as_array().into_iter().flatten() {
                if let Some(id) = block["id"].as_str() {
                    assert!(seen_writer);
                    want.insert(id.to_owned(), "had no effect");
                } else if let Some(id) = block["tool_use_id"].as_str() {
                    want.remove(id);
                    assert!(!found[&CallId::from(id)].contains("interrupted"), "{length}");
                }
            }
        }
        for (id, words) in want {
            let text = &found[&CallId::from(id.as_str())];
            assert!(text.contains(words), "{length} {id}: {text}");
            *(if words == "had no effect" { &mut without } else { &mut unknown }) += 1;
        }
    }
    assert!(0 < unknown && 0 < without, "{unknown} {without}");
}

#[tokio::test]
async fn what_is_not_certain_is_unknown() {
    let mut rig = acting(vec![Turn::from_pieces([danger("x")]), Turn::text("Done.")]).await;
    rig.say("go").await;
    let log = std::fs::read_to_string(rig.agent.conversation.log_path().unwrap()).unwrap();
    let path = rig.dir.path().join("cut.jsonl");
    let until_use: Vec<&str> = {
        let at = log.lines().position(|it| it.contains("tool_use")).unwrap();
        log.lines().take(at + 1).collect()
    };
    let own = format!("\"pid\":{}", std::process::id());
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let whole = format!("{}\n", until_use.join("\n"));
    for (what, log, want) in [
        ("this process, which let go of it", whole.clone(), "had no effect"),
        ("a process that has ended", whole.replace(&own, "\"pid\":4194305"), "had no effect"),
        ("a process that goes on: the log is a copy", whole.replace(&own, "\"pid\":1"), "outcome unknown"),
        ("a boot that is over", whole.replace(boot.trim(), "another"), "outcome unknown"),
        (
            "a version that did not say what starts",
            until_use.iter().filter(|it| !it.contains("\"writer\"")).map(|it| format!("{it}\n")).collect(),
            "outcome unknown",
        ),
    ] {
        std::fs::write(&path, log).unwrap();
        let found = outcomes(&path);
        assert!(found.len() == 1 && found.values().all(|it| it.contains(want)), "{what}: {found:?}");
    }
}

#[tokio::test]
async fn what_resuming_says_about_a_call_stays() {
    let mut rig = acting(vec![Turn::from_pieces([danger("x")]), Turn::text("Done.")]).await;
    rig.say("go").await;
    let log = std::fs::read_to_string(rig.agent.conversation.log_path().unwrap()).unwrap();
    let at = log.lines().position(|it| it.contains("\"started\"")).unwrap();
    let cut: String = log.lines().take(at + 1).map(|it| format!("{it}\n")).collect();
    let path = rig.dir.path().join("cut.jsonl");
    std::fs::write(&path, cut).unwrap();
    let seen = |_: &CallId| Some(String::from("a.txt was written"));
    let (mut first, _) =
        Conversation::resume_with("session".into(), rig.dir.path(), &path, None, &seen).unwrap();
    first.set_log(LogFile::open(&path).unwrap());
    let said: Vec<_> = first.messages().iter().map(|it| it.content.clone()).collect();
    assert!(format!("{said:?}").contains("a.txt was written"), "{said:?}");
    drop(first);
    let (second, restored) = Conversation::resume("session".into(), rig.dir.path(), &path, None).unwrap();
    assert_eq!(restored.report.unreadable, 0);
    assert_eq!(second.messages().iter().map(|it| it.content.clone()).collect::<Vec<_>>(), said);
}

#[tokio::test]
async fn a_mirror_has_the_results_that_resuming_added() {
    let mut rig = acting(vec![Turn::from_pieces([danger("x")]), Turn::text("Done.")]).await;
    rig.say("go").await;
    let log = std::fs::read_to_string(rig.agent.conversation.log_path().unwrap()).unwrap();
    let at = log.lines().position(|it| it.contains("\"started\"")).unwrap();
    let cut: String = log.lines().take(at + 1).map(|it| format!("{it}\n")).collect();
    for mirror_first in [false, true] {
        let path = rig.dir.path().join("cut.jsonl");
        std::fs::write(&path, &cut).unwrap();
        let (mut resumed, _) = Conversation::resume("session".into(), rig.dir.path(), &path, None).unwrap();
        if mirror_first {
            resumed.mirror();
        }
        resumed.set_log(LogFile::open(&path).unwrap());
        resumed.mirror();
        let mirrored = resumed.take_mirrored();
        assert!(matches!(&mirrored[..], [LogEntry::User(_)]), "{mirrored:?}");
        let in_log = entries(&path).into_iter().filter(|it| *it == mirrored[0]).count();
        assert_eq!(in_log, 1, "{mirror_first}");
    }
}

/// A log of Claude Code: the parent comes first, a result follows its own call,
/// and lines of types we do not know stand between.
#[test]
fn calls_side_by_side_in_a_foreign_log_are_no_branches() {
    let line = |uuid: &str, parent: Option<&str>, rest: Value| {
        let mut all =
            json!({"parentUuid": parent, "uuid": uuid, "sessionId": "session", "isSidechain": false});
        all.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        all.to_string()
    };
    let said = |uuid: &str, parent: &str, words: &str| {
        line(uuid, Some(parent), json!({"type": "user", "message": {"role": "user", "content": words}}))
    };
    let used = |uuid: &str, parent: &str, id: &str| {
        let call = json!({"type": "tool_use", "id": id, "name": "Read", "input": {}});
        let message = json!({"role": "assistant", "id": "msg", "model": "m", "content": [call]});
        line(uuid, Some(parent), json!({"type": "assistant", "message": message}))
    };
    let result = |uuid: &str, parent: &str, id: &str| {
        let content =
            json!([{"tool_use_id": id, "type": "tool_result", "content": format!("result of {id}")}]);
        let message = json!({"role": "user", "content": content});
        let more = json!({"type": "user", "message": message, "sourceToolAssistantUUID": parent});
        line(uuid, Some(parent), more)
    };
    let answer = |uuid: &str, parent: &str, words: &str| {
        let message = json!({"role": "assistant", "id": words, "model": "m", "content": [{"type": "text", "text": words}]});
        line(uuid, Some(parent), json!({"type": "assistant", "message": message}))
    };
    let begin = vec![
        json!({"type": "mode", "mode": "normal", "sessionId": "session"}).to_string(),
        line("u0", None, json!({"type": "user", "message": {"role": "user", "content": "go"}})),
        used("u1", "u0", "A"),
        used("u2", "u1", "B"),
        used("u3", "u2", "C"),
    ];
    let notice = line("u8", Some("u7"), json!({"type": "system", "subtype": "turn_duration"}));
    for (order, followed) in [(["A", "B", "C"], "r2"), (["C", "A", "B"], "r2"), (["B", "C", "A"], "r0")] {
        let mut log = begin.clone();
        for (number, id) in order.into_iter().enumerate() {
            let parent = ["u1", "u2", "u3"][["A", "B", "C"].iter().position(|it| *it == id).unwrap()];
            log.push(result(&format!("r{number}"), parent, id));
        }
        log.extend([answer("u7", followed, "first"), notice.clone()]);
        // Said, taken back, and said otherwise.
        log.extend([said("o1", "u8", "old"), answer("o2", "o1", "old answer"), said("n1", "u8", "new")]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("foreign.jsonl");
        std::fs::write(&path, log.join("\n") + "\n").unwrap();
        let (found, restored) = Conversation::resume("session".into(), dir.path(), &path, None).unwrap();
        let words = format!("{:?}", found.messages());
        let results: Vec<usize> =
            ["A", "B", "C"].iter().map(|id| words.matches(&format!("result of {id}")).count()).collect();
        assert_eq!((results, words.matches("ToolUse(").count()), (vec![1, 1, 1], 3), "{order:?}: {words}");
        assert_eq!((words.contains("old"), words.contains("new")), (false, true), "{order:?}: {words}");
        assert_eq!(restored.report.unreadable, 0, "{order:?}");
    }
}
