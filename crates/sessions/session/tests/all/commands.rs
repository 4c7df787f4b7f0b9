//! Commands, questions and the end of a session.

use haft_session::{
    Activity, ApproverSpec, Command, DenialText, LogDestination, ModeRefused, Prompt, QuestionAnswer,
    QuestionOutcome, QuestionSubject, Reply, Session, SessionEventKind,
};
use haft_tool_runtime::PermissionAnswer;
use haft_types::{AgentId, PermissionMode};
use serde_json::json;

use crate::rig::{Place, call, ends, results, text, told};

#[tokio::test]
async fn a_question_is_a_value_and_closed_means_no() {
    for (answer, runs) in [
        (Some(PermissionAnswer::allow()), true),
        (Some(PermissionAnswer::deny("not now")), false),
        // The face goes away without an answer.
        (None, false),
    ] {
        let place = Place::new();
        let mut spec = place
            .spec(vec![call("1", "Write", json!({"file_path": "a.txt", "content": "x"})), text("Done.")]);
        spec.asking = ApproverSpec::Face(DenialText::Verbatim);
        let (handle, mut events) = Session::open(spec).unwrap();
        handle.prompt(Prompt::text("go"));
        let mut activities = Vec::new();
        let question = loop {
            match events.next().await.unwrap().what {
                SessionEventKind::Asked(question) => break question,
                SessionEventKind::Activity(activity) => activities.push(activity),
                _ => (),
            }
        };
        assert_eq!(activities, [Activity::Running, Activity::RequiresAction]);
        assert!(matches!(&question.subject, QuestionSubject::Permission(it) if it.tool == "Write"));
        assert_eq!(question.agent, AgentId::Main);
        match &answer {
            Some(answer) => handle.answer(&question.id, QuestionAnswer::Permission(answer.clone())),
            None => handle.send(Command::Finish),
        }
        handle.send(Command::Finish);
        let all = told(events).await;
        let settled =
            all.iter().any(|it| matches!(&it.what, SessionEventKind::Settled(id, _) if *id == question.id));
        assert!(settled || answer.is_none());
        assert_eq!(place.ws().join("a.txt").exists(), runs, "{answer:?}");
        assert_eq!(ends(&all)[0].end.denials.len(), usize::from(!runs));
    }
}

#[tokio::test]
async fn an_answer_of_another_kind_is_a_no_and_an_interrupt_takes_questions_back() {
    let place = Place::new();
    let answers = || vec![call("1", "Write", json!({"file_path": "a.txt", "content": "x"})), text("Done.")];
    let mut spec = place.spec(answers());
    spec.asking = ApproverSpec::Face(DenialText::Explained);
    let (handle, mut events) = Session::open(spec.clone()).unwrap();
    handle.prompt(Prompt::text("go"));
    loop {
        if let SessionEventKind::Asked(question) = events.next().await.unwrap().what {
            handle.answer(&question.id, QuestionAnswer::ServerTrust(true));
            break;
        }
    }
    handle.send(Command::Finish);
    let all = told(events).await;
    assert_eq!(ends(&all)[0].end.denials.len(), 1);

    spec.model = place.spec(answers()).model;
    let (handle, mut events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("go"));
    loop {
        if let SessionEventKind::Asked(_) = events.next().await.unwrap().what {
            handle.interrupt();
            break;
        }
    }
    let mut taken_back = false;
    loop {
        match events.next().await.unwrap().what {
            SessionEventKind::Settled(_, how) => taken_back = how == QuestionOutcome::TakenBack,
            SessionEventKind::TurnEnded(_) => break,
            _ => (),
        }
    }
    handle.close().await;
    assert!(taken_back);
    assert!(!place.ws().join("a.txt").exists());
}

#[tokio::test]
async fn modes_change_by_command_and_the_bypass_only_where_it_was_launched() {
    for (may_bypass, managed, mode, want) in [
        (false, None, PermissionMode::Plan, Ok(PermissionMode::Plan)),
        (false, None, PermissionMode::BypassPermissions, Err(ModeRefused::NotLaunched)),
        (true, None, PermissionMode::BypassPermissions, Ok(PermissionMode::BypassPermissions)),
        (
            true,
            Some(r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#),
            PermissionMode::BypassPermissions,
            Err(ModeRefused::Forbidden),
        ),
        (
            false,
            Some(r#"{"permissions": {"disableAutoMode": "disable"}}"#),
            PermissionMode::Auto,
            Err(ModeRefused::Forbidden),
        ),
    ] {
        let place = Place::new();
        let mut spec = place.spec(Vec::new());
        spec.permissions.may_bypass = may_bypass;
        spec.settings.managed = managed.map(str::to_owned);
        let (handle, events) = Session::open(spec).unwrap();
        let set = handle.ask(|reply| Command::SetMode { mode, reply }).await.unwrap();
        assert_eq!(set, want, "{may_bypass} {managed:?}");
        handle.close().await;
        let changed = told(events).await.iter().any(|it| matches!(it.what, SessionEventKind::ModeChanged(_)));
        assert_eq!(changed, want.is_ok());
    }
}

#[tokio::test]
async fn what_ends_in_the_background_is_told_to_the_model() {
    let place = Place::new();
    let mut spec = place.spec(vec![
        call("1", "Bash", json!({"command": "until [ -e go ]; do sleep 0.01; done; echo finished", "run_in_background": true})),
        text("Started."),
        text("I heard that it finished."),
    ]);
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    let (handle, mut events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("go"));
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        let is_ended = matches!(event.what, SessionEventKind::TurnEnded(_));
        all.push(event);
        if is_ended {
            break;
        }
    }
    // It ends only after the turn it was started in.
    place.write("ws/go", "");
    handle.send(Command::Finish);
    all.extend(told(events).await);
    let said: Vec<&str> = ends(&all).iter().map(|it| it.end.text.as_str()).collect();
    assert_eq!(said, ["Started.", "I heard that it finished."]);
}

#[tokio::test]
async fn slash_commands_mentions_and_titles_work_without_a_face_of_their_own() {
    let place = Place::new();
    place.write("ws/notes.md", "remember the milk");
    place.write("ws/.claude/commands/greet.md", "Say hello to $ARGUMENTS.");
    let spec = place.spec(vec![text("Hello."), text("Milk.")]);
    let (handle, events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("/greet Ada"));
    handle.prompt(Prompt::text("what is in @notes.md?"));
    handle.prompt(Prompt::text("/context"));
    handle.send(Command::Rename { title: String::from("milk"), session: None, reply: Reply::ignored() });
    handle.send(Command::Finish);
    let all = told(events).await;
    let log = std::fs::read_to_string(handle.log_path().unwrap()).unwrap();
    for part in ["Say hello to Ada.", "remember the milk", "\"customTitle\":\"milk\""] {
        assert!(log.contains(part), "{part} in {log}");
    }
    assert!(all.iter().any(|it| matches!(it.what, SessionEventKind::CommandEnded(_))));
}

#[tokio::test]
async fn a_log_has_one_writer_also_in_one_process() {
    let place = Place::new();
    let path = place.dir.path().join("one.jsonl");
    let mut spec = place.spec(vec![text("a"), text("b")]);
    spec.log.kept = LogDestination::File(path);
    let (first, _events) = Session::open(spec.clone()).unwrap();
    let refused = Session::open(spec.clone()).err().map(|err| err.to_string()).unwrap();
    assert!(refused.contains(&std::process::id().to_string()), "{refused}");
    first.close().await;
    let (again, _events) = Session::open(spec).unwrap();
    again.close().await;
}

#[tokio::test]
async fn a_session_without_a_model_runs_calls() {
    let place = Place::new();
    place.write("ws/a.txt", "hello");
    let mut spec = place.spec(Vec::new());
    spec.model = None;
    let (handle, events) = Session::open(spec).unwrap();
    let calls = vec![
        haft_types::ToolUse { id: "1".into(), name: "Read".into(), input: json!({"file_path": "a.txt"}) },
        haft_types::ToolUse { id: "2".into(), name: "Nope".into(), input: json!({}) },
    ];
    let reports = handle.run_calls(calls, Default::default()).await;
    assert!(reports[0].content.to_text().contains("hello") && reports[0].error.is_none());
    assert!(reports[1].error.is_some());
    handle.close().await;
    assert!(results(&told(events).await, place.dir.path()).is_empty());
}
