//! Worktrees of sessions and of agents, with a scripted model.

use std::{path::Path, process::Command as Program};

use haft_session::{
    ApproverSpec, Command, DenialText, Prompt, QuestionAnswer, QuestionSubject, Session, SessionEventKind,
};
use haft_tool_runtime::PermissionAnswer;
use haft_types::PermissionMode;
use serde_json::{Value, json};

use crate::{
    agents::{agent, is_child, last, main_results, reports},
    rig::{Place, Said, call, run, told},
};

pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = Program::new("git")
        .args(args)
        .current_dir(dir)
        .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn repository(place: &Place) {
    let ws = place.ws();
    git(&ws, &["init", "-q", "-b", "main"]);
    git(&ws, &["config", "user.name", "A"]);
    git(&ws, &["config", "user.email", "a@b.test"]);
    place.write("ws/a.txt", "one\n");
    place.write("ws/.gitignore", "*.log\n");
    git(&ws, &["add", "."]);
    git(&ws, &["commit", "-q", "-m", "first"]);
}

/// One call after the other, each in an answer of its own.
fn calls(place: &Place, wanted: Vec<(&'static str, Value)>) -> haft_session::SessionSpec {
    let (mut spec, _) = place.answering(move |request| {
        let done = request.messages.iter().filter(|it| it.role == haft_types::Role::Assistant).count();
        match wanted.get(done) {
            Some((tool, input)) => Said::Blocks(call(&format!("c{done}"), tool, input.clone())),
            None => Said::text("done"),
        }
    });
    spec.permissions.mode = Some(PermissionMode::AcceptEdits);
    spec
}

#[tokio::test]
async fn a_session_goes_into_a_worktree_and_out_again() {
    let place = Place::new();
    repository(&place);
    let write = |text: &str| ("Write", json!({"file_path": "new.txt", "content": text}));
    let spec = calls(
        &place,
        vec![
            ("ExitWorktree", json!({"action": "keep"})),
            ("EnterWorktree", json!({"name": "try"})),
            ("EnterWorktree", json!({"name": "other"})),
            write("in the worktree"),
            ("ExitWorktree", json!({"action": "remove"})),
            ("ExitWorktree", json!({"action": "remove", "discard_changes": true})),
            ("ExitWorktree", json!({"action": "keep"})),
            write("in the main checkout"),
        ],
    );
    let all = run(spec, "go").await;
    let results = main_results(&all);
    let said: Vec<&str> = results.iter().map(|it| it.1.as_str()).collect();
    assert!(results[0].0 && said[0].contains("no-op"), "{}", said[0]);
    assert!(!results[1].0 && said[1].contains(".claude/worktrees/try on branch worktree-try"), "{}", said[1]);
    assert!(results[2].0 && said[2].contains("already"), "{}", said[2]);
    assert!(!results[3].0, "{}", said[3]);
    assert!(results[4].0 && said[4].contains("1 file(s) with changes"), "{}", said[4]);
    // Nobody is there to say that changes may go.
    assert!(results[5].0, "{}", said[5]);
    assert!(!results[6].0 && said[6].contains("stays"), "{}", said[6]);
    let worktree = place.ws().join(".claude/worktrees/try");
    let text = |path: &Path| std::fs::read_to_string(path.join("new.txt")).unwrap();
    assert_eq!(text(&worktree), "in the worktree");
    assert_eq!(text(&place.ws()), "in the main checkout");
}

#[tokio::test]
async fn changes_go_only_with_a_persons_word_and_are_kept_then() {
    for yes in [true, false] {
        let place = Place::new();
        repository(&place);
        let mut spec = calls(
            &place,
            vec![
                ("EnterWorktree", json!({"name": "try"})),
                ("Write", json!({"file_path": "new.txt", "content": "PRECIOUS"})),
                ("ExitWorktree", json!({"action": "remove", "discard_changes": true})),
            ],
        );
        spec.asking = ApproverSpec::Face(DenialText::Explained);
        // Not even a session that asks nobody lets the model decide.
        spec.permissions.mode = Some(PermissionMode::BypassPermissions);
        spec.permissions.may_bypass = true;
        let (handle, mut events) = Session::open(spec).unwrap();
        handle.prompt(Prompt::text("go"));
        let mut asked = 0;
        while let Some(event) = events.next().await {
            match event.what {
                SessionEventKind::Asked(question) => {
                    let QuestionSubject::Permission(it) = &question.subject else { continue };
                    assert_eq!(it.tool, "ExitWorktree");
                    asked += 1;
                    let answer = if yes { PermissionAnswer::allow() } else { PermissionAnswer::deny("no") };
                    handle.answer(&question.id, QuestionAnswer::Permission(answer));
                }
                SessionEventKind::TurnEnded(_) => break,
                _ => (),
            }
        }
        handle.close().await;
        assert_eq!(asked, 1);
        let worktree = place.ws().join(".claude/worktrees/try");
        assert_eq!(worktree.exists(), !yes);
        if yes {
            assert_eq!(git(&place.ws(), &["show", "refs/haft/rescue/try/1:new.txt"]), "PRECIOUS");
        }
    }
}

#[tokio::test]
async fn an_isolated_agent_works_in_a_worktree_of_its_own() {
    // What it does, whether the worktree stays.
    for (input, tool, stays) in [
        (json!({"file_path": "own.txt", "content": "mine"}), "Write", true),
        (json!({"file_path": "a.txt"}), "Read", false),
    ] {
        let place = Place::new();
        repository(&place);
        let main_file = place.ws().join("a.txt");
        let (mut spec, _) =
            place.answering(move |request| match (is_child(request), request.messages.len()) {
                (false, 1) => agent("c1", json!({"run_in_background": false, "isolation": "worktree"})),
                (true, 1) => Said::Blocks(call("w1", tool, input.clone())),
                // The main checkout is not its to change.
                (true, 3) => Said::Blocks(call(
                    "w2",
                    "Write",
                    json!({"file_path": main_file, "content": "overwritten"}),
                )),
                _ => Said::text("done"),
            });
        spec.permissions.mode = Some(PermissionMode::BypassPermissions);
        spec.permissions.may_bypass = true;
        let all = run(spec, "go").await;
        let report = &reports(&all)[0];
        assert_eq!(std::fs::read_to_string(place.ws().join("a.txt")).unwrap(), "one\n");
        assert!(!place.ws().join("own.txt").exists());
        assert!(
            report.denials.iter().any(|it| it.tool == "Write" && it.reason.contains("worktree of its own")),
            "{:?}",
            report.denials
        );
        let trees = git(&place.ws(), &["worktree", "list"]).lines().count() - 1;
        assert_eq!((report.worktree.is_some(), trees), (stays, usize::from(stays)), "{report:?}");
        if let Some((path, branch)) = &report.worktree {
            assert_eq!(std::fs::read_to_string(path.join("own.txt")).unwrap(), "mine");
            assert!(branch.starts_with("worktree-agent-a"), "{branch}");
            assert!(main_results(&all)[0].1.contains(&path.display().to_string()));
        }
    }
}

#[tokio::test]
async fn commands_of_an_isolated_agent_stay_in_its_worktree() {
    let place = Place::new();
    repository(&place);
    let ws = place.ws();
    let script = format!(
        "echo in > here.txt; echo out > {}/out.txt; git add here.txt && git commit -qm own",
        ws.display()
    );
    let (mut spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
        (false, 1) => agent("c1", json!({"run_in_background": false, "isolation": "worktree"})),
        (true, 1) => {
            // Nothing in the line says where it writes.
            let hidden = format!("sh -c \"$(printf '%s' '{}')\"", script.replace('\'', "'\\''"));
            Said::Blocks(call("b1", "Bash", json!({"command": hidden, "description": "d"})))
        }
        _ => Said::text("done"),
    });
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    spec.permissions.may_bypass = true;
    let all = run(spec, "go").await;
    assert!(!ws.join("out.txt").exists(), "{:?}", reports(&all)[0].denials);
    let report = &reports(&all)[0];
    if let Some((path, branch)) = &report.worktree {
        assert_eq!(std::fs::read_to_string(path.join("here.txt")).unwrap(), "in\n");
        assert_eq!(git(&ws, &["show", &format!("{branch}:here.txt")]), "in");
    } else {
        eprintln!("SKIPPED: commands cannot be confined here: {report:?}");
    }
}

#[tokio::test]
async fn an_agent_whose_worktree_is_gone_does_not_wake_up_elsewhere() {
    let place = Place::new();
    repository(&place);
    let ws = place.ws();
    let (mut spec, _) = place.answering(move |request| match (is_child(request), last(request)) {
        (true, _) if request.messages.len() == 1 => {
            Said::Blocks(call("w1", "Write", json!({"file_path": "own.txt", "content": "mine"})))
        }
        (true, _) => Said::text("First report."),
        (false, words) if words == "go" => {
            agent("c1", json!({"name": "finder", "run_in_background": false, "isolation": "worktree"}))
        }
        (false, words) if words.contains("First report.") => {
            std::fs::remove_dir_all(ws.join(".claude/worktrees")).unwrap();
            Said::Blocks(call("s1", "SendMessage", json!({"to": "finder", "message": "go on"})))
        }
        _ => Said::text("ok"),
    });
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    spec.permissions.may_bypass = true;
    let (handle, events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("go"));
    handle.send(Command::Finish);
    let all = told(events).await;
    let second = reports(&all)[1].clone();
    assert!(second.why.as_deref().is_some_and(|it| it.contains("gone")), "{second:?}");
    assert!(!place.ws().join("own.txt").exists());
}

#[tokio::test]
async fn hooks_make_and_remove_worktrees() {
    let place = Place::new();
    repository(&place);
    let made = place.dir.path().canonicalize().unwrap().join("by-hook");
    let log = place.dir.path().join("hooks.log");
    let settings = json!({"hooks": {
        "WorktreeCreate": [{"hooks": [{"type": "command", "command": format!("cat >> {0}; mkdir -p {1}; echo made; echo {1}", log.display(), made.display())}]}],
        "WorktreeRemove": [{"hooks": [{"type": "command", "command": format!("cat >> {0}; rm -rf {1}", log.display(), made.display())}]}],
    }});
    place.write("home/.claude/settings.json", &settings.to_string());
    let spec = calls(
        &place,
        vec![("EnterWorktree", json!({"name": "try"})), ("ExitWorktree", json!({"action": "remove"}))],
    );
    let all = run(spec, "go").await;
    let results = main_results(&all);
    assert!(!results[0].0 && results[0].1.contains("by-hook"), "{results:?}");
    assert!(!results[1].0 && !made.exists(), "{results:?}");
    let heard = std::fs::read_to_string(log).unwrap();
    assert!(heard.contains("\"name\":\"try\"") && heard.contains("worktree_path"), "{heard}");
}
