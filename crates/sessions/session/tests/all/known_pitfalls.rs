//! Known problems of similar programs, tested here.

use std::time::Duration;

use haft_model::Request;
use haft_permission::{Destination, PermissionUpdate};
use haft_session::{
    ApproverSpec, Command, DenialText, EventStream, LogStart, Prompt, QuestionAnswer, Session, SessionEvent,
    SessionEventKind, SessionHandle, SessionSpec,
};
use haft_tool_runtime::PermissionAnswer;
use haft_types::PermissionMode;
use serde_json::{Value, json};

use crate::{
    agents::{agent, first, is_child, last, main_results, reports, tools},
    rig::{Place, Said, call, run, told},
    skills::whole,
};

/// Everything until a turn has ended; questions are answered by a function.
pub async fn until_turn_ends(
    handle: &SessionHandle,
    events: &mut EventStream,
    mut answer: impl FnMut(&str) -> Option<PermissionAnswer>,
) -> Vec<SessionEvent> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        if let SessionEventKind::Asked(question) = &event.what
            && let haft_session::QuestionSubject::Permission(asked) = &question.subject
            && let Some(answer) = answer(&asked.tool)
        {
            handle.answer(&question.id, QuestionAnswer::Permission(answer));
        }
        let is_over = matches!(event.what, SessionEventKind::TurnEnded(_));
        all.push(event);
        if is_over {
            break;
        }
    }
    all
}

pub fn asked(mut spec: SessionSpec, mode: PermissionMode) -> SessionSpec {
    spec.asking = ApproverSpec::Face(DenialText::Verbatim);
    spec.permissions.mode = Some(mode);
    spec
}

/// Plan mode binds all descendants, whatever the host answers; after switching it on, the next write is
/// refused.
#[tokio::test]
async fn nothing_changes_while_somebody_plans() {
    let place = Place::new();
    let write = |name: &str| call(name, "Write", json!({"file_path": name, "content": "x"}));
    let touch =
        |name: &str| call(name, "Bash", json!({"command": format!("touch {name}; echo x > {name}2")}));
    let (spec, _) = place.answering(move |request| {
        let said = request.messages.iter().filter(|it| it.role == haft_types::Role::Assistant).count();
        let task = if whole(request).contains("outer task") { "outer" } else { "inner" };
        match (is_child(request), task, said) {
            (false, _, 0) => Said::Blocks([write("a"), touch("b")].concat()),
            (false, _, 1) => agent("c", json!({"prompt": "outer task", "run_in_background": false})),
            (true, "outer", 0) => Said::Blocks([write("c"), touch("d")].concat()),
            (true, "outer", 1) => agent("e", json!({"prompt": "inner task"})),
            (true, "inner", 0) => Said::Blocks([write("e"), touch("f")].concat()),
            _ => Said::text("done"),
        }
    });
    let (handle, mut events) = Session::open(asked(spec, PermissionMode::Plan)).unwrap();
    handle.prompt(Prompt::text("go"));
    let all = until_turn_ends(&handle, &mut events, |_| Some(PermissionAnswer::allow())).await;
    let left: Vec<_> = std::fs::read_dir(place.ws()).unwrap().flatten().map(|it| it.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(reports(&all).len(), 2);
    handle.close().await;

    let (spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
        (false, 1) => agent("c", json!({"run_in_background": true})),
        (true, 1) => Said::Blocks(write("first")),
        (true, 3) => Said::Blocks(write("second")),
        _ => Said::text("done"),
    });
    let (handle, mut events) = Session::open(asked(spec, PermissionMode::Default)).unwrap();
    handle.prompt(Prompt::text("go"));
    let (mut questions, mut ended) = (0, None);
    while ended.is_none() {
        match events.next().await.unwrap().what {
            SessionEventKind::Asked(question) => {
                questions += 1;
                let mode = PermissionMode::Plan;
                handle.ask(|reply| Command::SetMode { mode, reply }).await.unwrap().unwrap();
                handle.answer(&question.id, QuestionAnswer::Permission(PermissionAnswer::allow()));
            }
            SessionEventKind::ChildEnded(_, report) => ended = Some(report),
            _ => (),
        }
    }
    assert_eq!(questions, 1, "while somebody plans, nobody is asked about a write");
    assert!(!place.ws().join("second").exists());
    assert_eq!(ended.unwrap().denials.len(), 1);
    handle.close().await;
}

/// The answer to a plan decides the mode, also after the session is resumed.
#[tokio::test]
async fn the_answer_to_a_plan_decides_the_mode() {
    let set = |mode| {
        let update = PermissionUpdate::SetMode { mode, destination: Destination::Session };
        PermissionAnswer::Allow { updated_input: None, updates: vec![update] }
    };
    let other =
        PermissionAnswer::Allow { updated_input: Some(json!({"plan": "another plan"})), updates: Vec::new() };
    let stop = PermissionAnswer::Deny { message: String::from("stop"), interrupt: true };
    type Row = (Option<PermissionAnswer>, PermissionMode, PermissionMode);
    let rows: [Row; 8] = [
        (Some(PermissionAnswer::allow()), PermissionMode::Default, PermissionMode::Default),
        (Some(PermissionAnswer::allow()), PermissionMode::AcceptEdits, PermissionMode::AcceptEdits),
        (Some(set(PermissionMode::Default)), PermissionMode::AcceptEdits, PermissionMode::Default),
        (Some(set(PermissionMode::AcceptEdits)), PermissionMode::Default, PermissionMode::AcceptEdits),
        (Some(other), PermissionMode::Default, PermissionMode::Default),
        (Some(PermissionAnswer::deny("not like that")), PermissionMode::AcceptEdits, PermissionMode::Plan),
        (Some(stop), PermissionMode::Default, PermissionMode::Plan),
        // The person interrupts while the question is open.
        (None, PermissionMode::AcceptEdits, PermissionMode::Plan),
    ];
    for (number, (answer, before, after)) in rows.into_iter().enumerate() {
        let place = Place::new();
        let talk = |request: &Request| match request.messages.len() {
            1 => Said::Blocks(call("p", "EnterPlanMode", json!({}))),
            3 => Said::Blocks(call("x", "ExitPlanMode", json!({"plan": "the plan"}))),
            _ => Said::text("done"),
        };
        let (spec, requests) = place.answering(talk);
        let (handle, mut events) = Session::open(asked(spec, before)).unwrap();
        handle.prompt(Prompt::text("go"));
        let mut mode = before;
        loop {
            match events.next().await.unwrap().what {
                SessionEventKind::Asked(question) => match &answer {
                    Some(answer) => handle.answer(&question.id, QuestionAnswer::Permission(answer.clone())),
                    None => handle.interrupt(),
                },
                SessionEventKind::ModeChanged(now) => mode = now,
                SessionEventKind::TurnEnded(_) => break,
                _ => (),
            }
        }
        assert_eq!(mode, after, "row {number}");
        let session = handle.id().to_string();
        handle.close().await;
        drop(handle);
        told(events).await;
        if number == 4 {
            assert!(whole(requests.all().last().unwrap()).contains("another plan"));
        }
        let (mut spec, _) = place.answering(|_| Said::text("done"));
        spec.log.start = LogStart::Session(session);
        let (handle, mut events) = Session::open(spec).unwrap();
        handle.prompt(Prompt::text("go on"));
        let begun = loop {
            if let SessionEventKind::TurnBegan(turn) = events.next().await.unwrap().what {
                break turn.facts.mode;
            }
        };
        assert_eq!(begun == PermissionMode::Plan, after == PermissionMode::Plan, "row {number}, taken up");
        handle.close().await;
    }
}

/// A sub-agent's prompt names no tool that it lacks.
#[tokio::test]
async fn a_child_is_told_of_no_tool_it_lacks() {
    let place = Place::new();
    place.write("ws/.claude/agents/k.md", "---\nname: k\ndescription: d\ntools: Read\n---\nLook.");
    place.write("ws/.claude/skills/x/SKILL.md", "---\ndescription: a skill\n---\nB");
    place.write("ws/a.txt", "a\n");
    for mode in [PermissionMode::Default, PermissionMode::Plan] {
        let (mut spec, requests) =
            place.answering(|request| match (is_child(request), request.messages.len()) {
                (false, 1) => agent("c", json!({"subagent_type": "k", "run_in_background": false})),
                (true, 1) => Said::Blocks(call("r", "Read", json!({"file_path": "a.txt"}))),
                (true, 3) => Said::text(""),
                _ => Said::text("done"),
            });
        spec.permissions.mode = Some(mode);
        run(spec, "go").await;
        let all = requests.all();
        let main = all.iter().find(|it| !is_child(it)).unwrap();
        let known: Vec<String> =
            tools(main).into_iter().chain(["ToolSearch", "ExitPlanMode"].map(str::to_owned)).collect();
        for request in all.iter().filter(|it| is_child(it)) {
            let system: String = request.system.iter().map(|it| it.text.as_str()).collect();
            let text = format!("{system}\n{}", whole(request));
            let own = tools(request);
            // Names that are no words of the language.
            let is_name = |it: &&String| it.chars().skip(1).any(char::is_uppercase) && !own.contains(*it);
            for tool in known.iter().filter(is_name) {
                assert!(!text.contains(tool.as_str()), "{mode}: {tool} in\n{text}");
            }
        }
    }
}

/// Requests of two sub-agents of the same kind are identical up to their task.
#[tokio::test]
async fn siblings_share_everything_before_their_task() {
    let place = Place::new();
    place.write("ws/CLAUDE.md", "MEMORY");
    let (spec, requests) = place.answering(|request| match (is_child(request), request.messages.len()) {
        (false, 1) => Said::Blocks(
            ["task one", "quite another task"]
                .iter()
                .flat_map(|it| {
                    let input = json!({"description": it, "prompt": it, "run_in_background": false});
                    call(it.split(' ').next().unwrap(), "Agent", input)
                })
                .collect(),
        ),
        _ => Said::text("done"),
    });
    run(spec, "go").await;
    let all = requests.all();
    let children: Vec<&Request> = all.iter().filter(|it| is_child(it)).collect();
    let [one, two] = children[..] else { panic!("{}", children.len()) };
    assert_eq!(one.system, two.system);
    assert_eq!(tools(one), tools(two));
    assert!(one.system.iter().any(|it| it.text.contains("MEMORY")));
    let blocks = |it: &Request| it.messages[0].content.iter().map(|it| json!(it)).collect::<Vec<Value>>();
    let (one, two) = (blocks(one), blocks(two));
    assert_eq!(one.len(), two.len());
    let differ = one.iter().zip(&two).filter(|(a, b)| a != b).count();
    assert_eq!(differ, 1, "{one:?} {two:?}");
}

/// The second agent that changes a file is told who changed it first; the parent is told which of its
/// reads are outdated.
#[tokio::test]
async fn who_overwrites_whom_is_said() {
    for tool in ["Edit", "Write"] {
        let mut tries = 0..50;
        while !they_meet(tool).await {
            tries.next().expect("two agents that have both read before one of them writes");
        }
    }
}

/// Lets two agents read and change a file. False if one had done both before the
/// other began: then there is nothing to say.
async fn they_meet(tool: &'static str) -> bool {
    let place = Place::new();
    place.write("ws/f.txt", "shared\n");
    let change = move |to: &str| {
        let input = match tool {
            "Edit" => json!({"file_path": "f.txt", "old_string": "shared", "new_string": to}),
            _ => json!({"file_path": "f.txt", "content": format!("{to}\n")}),
        };
        Said::Blocks(call("e", tool, input))
    };
    let read = || call("r", "Read", json!({"file_path": "f.txt"}));
    let (mut spec, requests) = place.answering(move |request| {
        match (is_child(request), request.messages.len(), first(request).as_str()) {
            (false, 1, _) => Said::Blocks(read()),
            (false, 3, _) => Said::Blocks(
                ["one", "two"]
                    .iter()
                    .flat_map(|it| {
                        let input =
                            json!({"description": "d", "prompt": it, "name": it, "run_in_background": false});
                        call(it, "Agent", input)
                    })
                    .collect(),
            ),
            (true, 1, _) => Said::Blocks(read()),
            (true, 3, it) => change(it),
            _ => Said::text("done"),
        }
    });
    spec.permissions.mode = Some(PermissionMode::AcceptEdits);
    let events = run(spec, "go").await;
    let text = std::fs::read_to_string(place.ws().join("f.txt")).unwrap();
    let winner = text.trim();
    let asked = requests.all();
    let of_child = |length: usize| asked.iter().filter(move |it| is_child(it) && it.messages.len() == length);
    if !of_child(3).map(last).all(|it| it.contains("shared")) {
        return false;
    }
    let refusal = of_child(5).map(last).find(|it| !it.contains("Undo id")).unwrap();
    assert!(refusal.contains(&format!("the agent {winner}")), "{tool}: {refusal}");
    assert!(refusal.matches(winner).count() == 2, "and what it wrote: {tool}: {refusal}");
    let heard: Vec<String> = main_results(&events).into_iter().map(|it| it.1).collect();
    let told: Vec<&String> = heard.iter().filter(|it| it.contains("read them again: ")).collect();
    assert_eq!(told.len(), 1, "{tool}: {heard:?}");
    assert!(told[0].contains("f.txt"));
    true
}

/// Without an approver, the question tool is missing or says that nobody can answer.
#[tokio::test]
async fn questions_that_nobody_answers_say_so() {
    let questions = json!({"questions": [{"question": "Which?", "header": "W", "multiSelect": false,
        "options": [{"label": "a", "description": "a"}, {"label": "b", "description": "b"}]}]});
    for (mode, face) in [
        (PermissionMode::Default, false),
        (PermissionMode::DontAsk, false),
        (PermissionMode::BypassPermissions, false),
        (PermissionMode::DontAsk, true),
    ] {
        let place = Place::new();
        let input = questions.clone();
        let (mut spec, requests) = place.answering(move |request| match request.messages.len() {
            1 => Said::Blocks(call("q", "AskUserQuestion", input.clone())),
            _ => Said::text("done"),
        });
        spec.permissions.mode = Some(mode);
        if face {
            spec.asking = ApproverSpec::Face(DenialText::Verbatim);
        }
        let events = run(spec, "go").await;
        let is_there = tools(&requests.all()[0]).iter().any(|it| it == "AskUserQuestion");
        let (is_error, said) = main_results(&events)[0].clone();
        assert!(is_error, "{mode} {face}: {said}");
        assert!(!said.contains("The user's answers"), "{said}");
        assert!(!is_there || said.to_lowercase().contains("nobody") || face, "{mode}: {said}");
    }
    // Empty answers are none; a no is a no.
    for (answers, says) in [
        (PermissionAnswer::Allow { updated_input: None, updates: Vec::new() }, "answered none"),
        (PermissionAnswer::deny("go away"), "go away"),
    ] {
        let place = Place::new();
        let input = questions.clone();
        let (spec, _) = place.answering(move |request| match request.messages.len() {
            1 => Said::Blocks(call("q", "AskUserQuestion", input.clone())),
            _ => Said::text("done"),
        });
        let (handle, mut events) = Session::open(asked(spec, PermissionMode::BypassPermissions)).unwrap();
        handle.prompt(Prompt::text("go"));
        let all = until_turn_ends(&handle, &mut events, |_| Some(answers.clone())).await;
        let said = main_results(&all)[0].1.clone();
        assert!(said.contains(says), "{said}");
        handle.close().await;
    }
}

/// Starting a background agent returns at once, whatever happens to the agent.
#[tokio::test]
async fn a_start_never_hangs() {
    for fate in ["hangs", "fails"] {
        let place = Place::new();
        let (spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
            (false, 1) => Said::Blocks(
                (0..100)
                    .flat_map(|n| {
                        call(&format!("c{n}"), "Agent", json!({"description": "d", "prompt": format!("{n}")}))
                    })
                    .collect(),
            ),
            (true, _) if fate == "hangs" => Said::Hang,
            (true, _) => Said::Fail,
            _ => Said::text("done"),
        });
        let (handle, mut events) = Session::open(spec).unwrap();
        handle.prompt(Prompt::text("go"));
        let all =
            tokio::time::timeout(Duration::from_secs(120), until_turn_ends(&handle, &mut events, |_| None));
        let results = main_results(&all.await.unwrap());
        assert_eq!(results.len(), 100, "{fate}");
        assert!(results.iter().all(|it| !it.0), "{fate}: {:?}", results[0]);
        handle.close().await;
    }
}

/// An agent that waits for its sub-agents sends no requests meanwhile, and its text about their reports
/// is its report.
#[tokio::test]
async fn an_agent_rests_until_its_own_agents_report() {
    let place = Place::new();
    let (spec, requests) = place.answering(|request| {
        let (first, last) = (first(request), last(request));
        match (is_child(request), first.contains("outer task"), last.as_str()) {
            (false, _, "go") => agent("c1", json!({"prompt": "outer task", "run_in_background": false})),
            (false, ..) => Said::text("done"),
            (true, false, _) => Said::text("inner report 4711"),
            (true, true, last) if last.contains("inner report 4711") => Said::text("outer answer"),
            (true, true, _) if request.messages.len() == 1 => {
                agent("c2", json!({"prompt": "inner task", "run_in_background": true}))
            }
            (true, true, _) => Said::text("I wait."),
        }
    });
    let all = run(spec, "go").await;
    let texts: Vec<String> = reports(&all).iter().map(|it| it.text.clone()).collect();
    assert_eq!(texts, ["inner report 4711", "outer answer"]);
    let outer = requests.all().iter().filter(|it| first(it).contains("outer task")).count();
    assert!(outer <= 3, "{outer} requests");
}

/// Nobody can approve a plan, so plan mode could not be left again.
#[tokio::test]
async fn unattended_session_offers_no_way_into_plan_mode() {
    let place = Place::new();
    let (mut spec, requests) = place.answering(|request| match request.messages.len() {
        1 => Said::Blocks(call("p", "EnterPlanMode", json!({}))),
        3 => Said::Blocks(call("w", "Write", json!({"file_path": "made.txt", "content": "made"}))),
        _ => Said::text("done"),
    });
    assert!(matches!(spec.asking, haft_session::ApproverSpec::Nobody));
    spec.permissions.mode = Some(PermissionMode::AcceptEdits);
    run(spec, "go").await;
    let all = requests.all();
    assert!(all.iter().all(|it| tools(it).iter().all(|name| !name.contains("PlanMode"))));
    let said = whole(&all[1]);
    assert!(said.contains("no tool named EnterPlanMode"), "{said}");
    assert_eq!(std::fs::read_to_string(place.ws().join("made.txt")).unwrap(), "made");
}
