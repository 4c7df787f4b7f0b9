//! Permission questions of sub-agents: who receives them, what an approval covers, and what happens
//! without an approver.

use std::time::Duration;

use haft_permission::{Behavior, Destination, PermissionUpdate, RuleList, RuleText};
use haft_session::{
    ApproverSpec, Command, DenialText, Prompt, QuestionAnswer, QuestionSubject, Session, SessionEvent,
    SessionEventKind, SessionSpec,
};
use haft_tool_runtime::PermissionAnswer;
use haft_types::PermissionMode;
use serde_json::json;

use crate::{
    agents::{agent, first, is_child, main_results, reports},
    known_pitfalls::asked,
    rig::{Place, Said, call, run, told},
};

fn write(id: &str, file: &str) -> Said {
    Said::Blocks(call(id, "Write", json!({"file_path": file, "content": "x"})))
}

fn wants_to_write(place: &Place, background: bool) -> SessionSpec {
    let (spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
        (false, 1) => agent("c1", json!({"name": "scribe", "run_in_background": background})),
        (true, 1) => write("w", "made.txt"),
        _ => Said::text("done"),
    });
    asked(spec, PermissionMode::Default)
}

/// Without an approver, a call that would ask is denied at once, also for background agents, and the
/// report names the rule.
#[tokio::test]
async fn what_nobody_answers_is_denied_and_told() {
    for background in [true, false] {
        let place = Place::new();
        let spec = SessionSpec { asking: ApproverSpec::Nobody, ..wants_to_write(&place, background) };
        let events = tokio::time::timeout(Duration::from_secs(100), run(spec, "go")).await.unwrap();
        let report = &reports(&events)[0];
        assert_eq!(report.denials.len(), 1, "{report:?}");
        assert_eq!(report.denials[0].tool, "Write");
        assert!(!place.ws().join("made.txt").exists());
        if !background {
            let said = main_results(&events)[0].1.clone();
            assert!(said.contains("Not allowed:\n- Write"), "{said}");
        }
    }
}

/// The user disconnects while an agent waits for an answer: the question is denied, the agent ends, and
/// nothing was written.
#[tokio::test]
async fn questions_end_when_the_person_is_gone() {
    #[derive(Clone, Copy, Debug)]
    enum Goes {
        SaysNothingMore,
        Closes,
        DropsHandle,
        ReadsNoMore,
    }
    for (goes, background) in [Goes::SaysNothingMore, Goes::Closes, Goes::DropsHandle, Goes::ReadsNoMore]
        .into_iter()
        .flat_map(|it| [(it, true), (it, false)])
    {
        let place = Place::new();
        let (handle, mut events) = Session::open(wants_to_write(&place, background)).unwrap();
        handle.prompt(Prompt::text("go"));
        let mut log = None;
        loop {
            match events.next().await.unwrap().what {
                SessionEventKind::ChildStarted(facts) => log = facts.log.clone(),
                SessionEventKind::Asked(_) => break,
                _ => (),
            }
        }
        let rest = async {
            match goes {
                Goes::SaysNothingMore => {
                    handle.send(Command::Finish);
                    told(events).await
                }
                Goes::Closes => {
                    handle.close().await;
                    told(events).await
                }
                Goes::DropsHandle => {
                    drop(handle);
                    told(events).await
                }
                Goes::ReadsNoMore => {
                    drop(events);
                    let log = log.clone().unwrap();
                    while !std::fs::read_to_string(&log).unwrap().contains("run_ended") {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    handle.close().await;
                    Vec::new()
                }
            }
        };
        let all: Vec<SessionEvent> = tokio::time::timeout(Duration::from_secs(60), rest)
            .await
            .unwrap_or_else(|_| panic!("{goes:?} {background}: the question never ends"));
        assert!(!place.ws().join("made.txt").exists(), "{goes:?} {background}");
        let log = std::fs::read_to_string(log.unwrap()).unwrap();
        assert!(log.contains("run_ended"), "{goes:?} {background}: {log}");
        if matches!(goes, Goes::SaysNothingMore) {
            let report = &reports(&all)[0];
            assert_eq!(report.denials.len(), 1, "{goes:?} {background}: {report:?}");
        }
    }
}

fn rule_for(destination: Destination) -> PermissionAnswer {
    let rule = RuleText { tool_name: String::from("Bash"), rule_content: Some(String::from("touch *")) };
    let list = RuleList { rules: vec![rule], behavior: Behavior::Allow, destination };
    PermissionAnswer::Allow { updated_input: None, updates: vec![PermissionUpdate::AddRules(list)] }
}

/// An approval for one agent covers that agent and its sub-agents; an approval for the session covers
/// all. The log names the approval that allowed a call.
#[tokio::test]
async fn a_yes_to_one_agent_is_not_everybodys() {
    for (answer, asks) in [
        // Each of: the first agent twice, the one it starts, its sibling, the main agent.
        (PermissionAnswer::allow(), ["first 1", "first 2", "below", "second", "main"].as_slice()),
        (rule_for(Destination::Agent), &["first 1", "second", "main"]),
        (rule_for(Destination::Session), &["first 1"]),
    ] {
        let place = Place::new();
        let touch = |id: &str, file: &str| {
            Said::Blocks(call(id, "Bash", json!({"command": format!("touch '{file}'"), "description": "d"})))
        };
        let starts =
            |id: &str, prompt: &str| agent(id, json!({"prompt": prompt, "run_in_background": false}));
        let (spec, _) = place.answering(move |request| {
            match (is_child(request), first(request).as_str(), request.messages.len()) {
                (false, _, 1) => starts("m1", "first"),
                (false, _, 3) => starts("m2", "second"),
                (false, _, 5) => touch("m3", "main"),
                (true, "first", 1) => touch("f1", "first 1"),
                (true, "first", 3) => touch("f2", "first 2"),
                (true, "first", 5) => starts("f3", "below"),
                (true, "below", 1) => touch("b1", "below"),
                (true, "second", 1) => touch("s1", "second"),
                _ => Said::text("done"),
            }
        });
        let (handle, mut events) = Session::open(asked(spec, PermissionMode::Default)).unwrap();
        handle.prompt(Prompt::text("go"));
        let (mut questions, mut allowed_by) = (Vec::new(), Vec::new());
        while let Some(event) = events.next().await {
            match &event.what {
                SessionEventKind::Asked(question) => {
                    let QuestionSubject::Permission(permission) = &question.subject else { continue };
                    let command = permission.input["command"].as_str().unwrap();
                    questions.push(command.trim_start_matches("touch '").trim_end_matches('\'').to_owned());
                    // The first answer is the one that is tried; the others are for once.
                    let is_first = questions.len() == 1;
                    let given = if is_first { answer.clone() } else { PermissionAnswer::allow() };
                    handle.answer(&question.id, QuestionAnswer::Permission(given));
                }
                SessionEventKind::Agent(haft_agent::AgentEvent::ResultLogged { answered, .. }) => {
                    allowed_by.extend(answered.report.decision.as_ref().and_then(|it| it.rule.clone()));
                }
                SessionEventKind::TurnEnded(_) => break,
                _ => (),
            }
        }
        handle.close().await;
        assert_eq!(questions, asks);
        for file in ["first 1", "first 2", "below", "second", "main"] {
            assert!(place.ws().join(file).exists(), "{file}: {questions:?}");
        }
        // Of five calls, so many ran by the rule that the answer brought.
        assert_eq!(
            allowed_by.iter().filter(|it| *it == "Bash(touch *)").count(),
            5 - asks.len(),
            "{allowed_by:?}"
        );
    }
}

/// An approval for one agent does not override a deny rule, in any mode.
#[tokio::test]
async fn a_yes_to_one_agent_lifts_no_denial() {
    let place = Place::new();
    place.write("home/.claude/settings.json", r#"{"permissions": {"deny": ["Bash(touch denied*)"]}}"#);
    let touch = |id: &str, file: &str| {
        Said::Blocks(call(id, "Bash", json!({"command": format!("touch {file}"), "description": "d"})))
    };
    let (mut spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
        (false, 1) => agent("c1", json!({"run_in_background": false})),
        (true, 1) => touch("t1", "fine"),
        (true, 3) => touch("t2", "denied.txt"),
        _ => Said::text("done"),
    });
    spec.asking = ApproverSpec::Face(DenialText::Verbatim);
    let (handle, mut events) = Session::open(asked(spec, PermissionMode::Default)).unwrap();
    handle.prompt(Prompt::text("go"));
    let all =
        crate::known_pitfalls::until_turn_ends(&handle, &mut events, |_| Some(rule_for(Destination::Agent)))
            .await;
    assert_eq!(reports(&all)[0].denials.len(), 1);
    assert!(place.ws().join("fine").exists() && !place.ws().join("denied.txt").exists());
    handle.close().await;
}

/// A call that the user denied to one agent prompts again for another, also in a mode that would allow it.
#[tokio::test]
async fn call_denied_to_an_agent_prompts_again_for_another() {
    let place = Place::new();
    place.write("ws/.claude/agents/k.md", "---\nname: k\ndescription: d\npermissionMode: default\n---\nK");
    let write = |id: &str| Said::Blocks(call(id, "Write", json!({"file_path": "x.txt", "content": "x"})));
    let (mut spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
        (true, 1) => write("c1"),
        (false, 1) => agent("m1", json!({"subagent_type": "k", "run_in_background": false})),
        (false, 3) => write("m2"),
        _ => Said::text("done"),
    });
    spec.permissions.mode = Some(PermissionMode::AcceptEdits);
    spec.asking = ApproverSpec::Face(DenialText::Explained);
    let (handle, mut events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("go"));
    let mut asked = Vec::new();
    while let Some(event) = events.next().await {
        if let SessionEventKind::Asked(question) = &event.what {
            let QuestionSubject::Permission(permission) = &question.subject else { continue };
            asked.push((event.agent.is_main(), permission.decision.reason.clone()));
            handle.answer(&question.id, QuestionAnswer::Permission(PermissionAnswer::deny("no")));
        }
        if matches!(event.what, SessionEventKind::TurnEnded(_)) {
            break;
        }
    }
    handle.close().await;
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[1].1.contains("denied the same call to k "), "{asked:?}");
    assert!(!place.ws().join("x.txt").exists());
}
