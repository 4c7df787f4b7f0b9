//! Ends of sub-agents that must be reported: stopped agents, messages to an agent that just ended,
//! killed processes.

use haft_model::Request;
use haft_session::{Command, LogStart, Prompt, Session, SessionEventKind, SessionSpec};
use serde_json::{Value, json};

use crate::{
    agents::{agent, is_child, last, main_results, reports},
    rig::{Place, Said, call, run, told},
};

/// The first request of the main agent that holds some words of a person.
fn asked(requests: &[Request], words: &str) -> Option<Request> {
    requests.iter().find(|it| !is_child(it) && last(it).contains(words)).cloned()
}

/// Agents that take long to stop: their hook still runs.
#[tokio::test]
async fn a_stopped_agent_is_told_with_the_next_request() {
    for background in [true, false] {
        let place = Place::new();
        let slow =
            json!({"hooks": {"SubagentStart": [{"hooks": [{"type": "command", "command": "sleep 3"}]}]}});
        place.write("home/.claude/settings.json", &slow.to_string());
        let (spec, requests) =
            place.answering(move |request| match (is_child(request), last(request).as_str()) {
                (true, _) => Said::Hang,
                (false, "go") => agent("c1", json!({"run_in_background": background})),
                _ => Said::text("ok"),
            });
        let (handle, mut events) = Session::open(spec).unwrap();
        handle.prompt(Prompt::text("go"));
        // It is stopped while its hook runs, and the next prompt follows at once.
        let mut all = Vec::new();
        while let Some(event) = events.next().await {
            let begins = matches!(event.what, SessionEventKind::ChildStarted(_));
            let ended = matches!(event.what, SessionEventKind::TurnEnded(_));
            all.push(event);
            if begins && !background {
                handle.interrupt();
            }
            if ended {
                if background {
                    handle.send(Command::StopAgents);
                }
                handle.prompt(Prompt::text("next"));
                break;
            }
        }
        handle.send(Command::Finish);
        all.extend(told(events).await);
        let next = asked(&requests.all(), "next").unwrap();
        let said = serde_json::to_string(&next.messages).unwrap();
        let words = if background { "the user stopped it" } else { "was interrupted" };
        assert!(said.contains(words), "background {background}: {said}");
        assert_eq!(said.matches("<task-id>").count() + said.matches("agentId").count(), 1, "{said}");
    }
}

#[tokio::test]
async fn everything_that_nobody_heard_is_told_when_a_session_goes_on() {
    // A session with one agent that ended and was heard of.
    let place = Place::new();
    let script = |request: &Request| match (is_child(request), last(request).as_str()) {
        (true, _) => Said::text("The report."),
        (false, "go") => agent("c1", json!({"name": "finder"})),
        _ => Said::text("ok"),
    };
    let (spec, _) = place.answering(script);
    let all = run(spec, "go").await;
    let report = reports(&all)[0].clone();
    let child_log = report.log.clone().unwrap();
    let main_log = child_log.parent().unwrap().parent().unwrap().with_extension("jsonl");
    let (main_whole, child_whole) =
        (std::fs::read_to_string(&main_log).unwrap(), std::fs::read_to_string(&child_log).unwrap());
    let lines: Vec<&str> = main_whole.lines().collect();
    let is_told = |it: &&str| it.contains("\"runIds\"");
    let heard_at = lines.iter().position(is_told).unwrap();
    let launched_at = lines.iter().position(|it| it.contains("async_launched")).unwrap();
    let went_on = |spec: SessionSpec| SessionSpec {
        log: haft_session::LogSpec { start: LogStart::Session(session_of(&main_log)), ..spec.log.clone() },
        ..spec
    };
    // How much of the logs was on disk, and whether the report itself was.
    let rows: [(&str, usize, bool, bool); 4] = [
        ("all", lines.len(), true, true),
        ("before it was heard", heard_at, true, true),
        ("before it ended", heard_at, false, true),
        ("before its log began", launched_at + 1, false, false),
    ];
    for (what, main_lines, has_ended, has_log) in rows {
        let kept: String = lines[..main_lines].iter().flat_map(|it| [*it, "\n"]).collect();
        std::fs::write(&main_log, kept).unwrap();
        let ended: String = child_whole
            .lines()
            .filter(|it| has_ended || !it.contains("The report.\",\"usage") && !it.contains("run_ended"))
            .flat_map(|it| [it, "\n"])
            .collect();
        let meta = child_log.with_extension("meta.json");
        let meta_text = std::fs::read_to_string(&meta).unwrap();
        if has_log {
            std::fs::write(&child_log, ended).unwrap()
        } else {
            std::fs::remove_file(&child_log).unwrap();
            std::fs::remove_file(&meta).unwrap();
        }
        for round in 0..2 {
            let (spec, requests) = place.answering(script);
            run(went_on(spec), "and now?").await;
            let request = asked(&requests.all(), "and now?").unwrap();
            let said = serde_json::to_string(&request.messages).unwrap();
            assert_eq!(said.matches("<task-id>").count(), 1, "{what}, round {round}: {said}");
        }
        std::fs::write(&main_log, &main_whole).unwrap();
        std::fs::write(&child_log, &child_whole).unwrap();
        std::fs::write(&meta, meta_text).unwrap();
    }
}

/// A parent that waited for an agent has received its outcome, which is not reported again when the
/// session is resumed.
#[tokio::test]
async fn an_end_that_was_waited_for_is_not_told_again() {
    for (prompt, ends_well) in [
        ("go", true),
        ("go", false),
        ("use it", true),
        ("use it", false),
        ("/apart", true),
        ("/apart", false),
    ] {
        let place = Place::new();
        place.write("ws/.claude/skills/apart/SKILL.md", "---\ndescription: d\ncontext: fork\n---\nLook.");
        let script = move |request: &Request| match (is_child(request), last(request).as_str()) {
            (true, _) if ends_well => Said::text("The report."),
            (true, _) => Said::Fail,
            (false, "go") => agent("c1", json!({"run_in_background": false})),
            (false, "use it") => Said::Blocks(call("c1", "Skill", json!({"skill": "apart"}))),
            _ => Said::text("ok"),
        };
        let opened = || {
            let (mut spec, requests) = place.answering(script);
            spec.permissions.mode = Some(haft_types::PermissionMode::BypassPermissions);
            (spec, requests)
        };
        let all = run(opened().0, prompt).await;
        let log = reports(&all)[0].log.clone().unwrap();
        let session = session_of(log.parent().unwrap().parent().unwrap());
        for round in 0..2 {
            let (mut spec, requests) = opened();
            spec.log.start = LogStart::Session(session.clone());
            run(spec, "and now?").await;
            let said = serde_json::to_string(&asked(&requests.all(), "and now?").unwrap().messages).unwrap();
            let told = said.matches("The agent a").count();
            assert_eq!(told, 1, "{prompt}, well: {ends_well}, round {round}: {said}");
        }
    }
}

/// An agent whose process was killed is reported with its activity until then.
#[tokio::test]
async fn a_killed_run_is_told_with_what_it_did() {
    let place = Place::new();
    place.write("ws/notes.txt", "x\n");
    let script = |request: &Request| match (is_child(request), request.messages.len()) {
        (true, 1) => Said::Blocks(call("r1", "Read", json!({"file_path": "notes.txt"}))),
        (true, _) => Said::text("The report."),
        (false, 1) => agent("c1", json!({})),
        _ => Said::text("ok"),
    };
    let (spec, _) = place.answering(script);
    let all = run(spec, "go").await;
    let log = reports(&all)[0].log.clone().unwrap();
    let main_log = log.parent().unwrap().parent().unwrap().with_extension("jsonl");
    let cut = |path: &std::path::Path, at: &str| {
        let whole = std::fs::read_to_string(path).unwrap();
        let kept = whole.lines().take_while(|it| !it.contains(at)).flat_map(|it| [it, "\n"]);
        std::fs::write(path, kept.collect::<String>()).unwrap();
    };
    cut(&log, "The report.");
    cut(&main_log, "runIds");
    let (mut spec, requests) = place.answering(script);
    spec.log.start = LogStart::Session(session_of(&main_log));
    run(spec, "and now?").await;
    let said = serde_json::to_string(&asked(&requests.all(), "and now?").unwrap().messages).unwrap();
    assert!(said.contains("1 tool calls, 1 requests"), "{said}");
}

/// Reports that wait at the same time are delivered in one turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reports_that_wait_together_cost_one_request() {
    const AGENTS: usize = 6;
    let place = Place::new();
    let projects = place.home().join(".haft/projects");
    let (spec, requests) =
        place.answering(move |request| match (is_child(request), last(request).as_str()) {
            (true, _) => Said::text("The report."),
            (false, "go") => Said::Blocks(
                (0..AGENTS)
                    .flat_map(|it| {
                        call(&format!("c{it}"), "Agent", json!({"description": "looks", "prompt": "look"}))
                    })
                    .collect(),
            ),
            // All of them end while it thinks.
            (false, words) if words.contains("works in the background") => {
                for _ in 0..600 {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    if ended_runs(&projects) == AGENTS {
                        break;
                    }
                }
                std::thread::sleep(std::time::Duration::from_millis(300));
                Said::text("I wait.")
            }
            _ => Said::text("ok"),
        });
    let all = run(spec, "go").await;
    assert_eq!(reports(&all).len(), AGENTS);
    let main: Vec<Request> = requests.all().into_iter().filter(|it| !is_child(it)).collect();
    let said = serde_json::to_string(&main.last().unwrap().messages).unwrap();
    assert_eq!(said.matches("<task-id>").count(), AGENTS, "{said}");
    assert_eq!(main.len(), 3, "{AGENTS} reports");
}

/// Runs of agents whose logs say that they ended.
fn ended_runs(dir: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path());
    let count = |path: std::path::PathBuf| {
        if path.is_dir() {
            ended_runs(&path)
        } else {
            std::fs::read_to_string(path).unwrap_or_default().matches("\"run_ended\"").count()
        }
    };
    entries.map(count).sum()
}

fn session_of(log: &std::path::Path) -> String {
    log.file_stem().unwrap().to_string_lossy().into_owned()
}

#[tokio::test]
async fn siblings_do_not_overwrite_each_other() {
    let place = Place::new();
    place.write("ws/f.txt", "shared\n");
    let edit = |id: &str, to: &str| {
        Said::Blocks(call(
            id,
            "Edit",
            json!({"file_path": "f.txt", "old_string": "shared", "new_string": to}),
        ))
    };
    let (mut spec, requests) = place.answering(move |request| {
        let (child, len) = (is_child(request), request.messages.len());
        let first = crate::agents::first(request);
        match (child, len, first.as_str()) {
            (false, 1, _) => Said::Blocks(
                ["one", "two"]
                    .iter()
                    .flat_map(|it| {
                        call(
                            it,
                            "Agent",
                            json!({"description": "d", "prompt": it, "run_in_background": false}),
                        )
                    })
                    .collect::<Vec<_>>(),
            ),
            (true, 1, _) => Said::Blocks(call("r", "Read", json!({"file_path": "f.txt"}))),
            (true, 3, it) => edit("e", it),
            _ => Said::text("done"),
        }
    });
    spec.permissions.mode = Some(haft_types::PermissionMode::AcceptEdits);
    run(spec, "go").await;
    let text = std::fs::read_to_string(place.ws().join("f.txt")).unwrap();
    let refused: Vec<Value> = requests
        .all()
        .iter()
        .filter(|it| is_child(it) && it.messages.len() == 5)
        .map(|it| json!(last(it)))
        .collect();
    let count = refused.iter().filter(|it| !it.to_string().contains("Undo id")).count();
    assert!(text == "one\n" || text == "two\n", "{text}");
    assert_eq!(count, 1, "one of the two is refused: {refused:?}");
}

#[tokio::test]
async fn words_to_an_agent_that_just_ended_are_not_lost() {
    let place = Place::new();
    // The message is sent while the answer that ends the agent is on its way.
    let (spec, requests) = place.answering(|request| match (is_child(request), last(request)) {
        (true, words) if words.contains("one more thing") => Said::text("Did that, too."),
        (true, _) => Said::text("First report."),
        (false, words) if words == "go" => Said::Blocks(
            [
                call("c1", "Agent", json!({"description": "d", "prompt": "p", "name": "bee"})),
                call("c2", "SendMessage", json!({"to": "bee", "message": "one more thing"})),
            ]
            .concat(),
        ),
        _ => Said::text("ok"),
    });
    let all = run(spec, "go").await;
    let heard =
        requests.all().iter().filter(|it| is_child(it) && last(it).contains("one more thing")).count();
    assert_eq!(heard, 1, "{:?}", main_results(&all));
    assert!(reports(&all).iter().any(|it| it.text == "Did that, too."));
}

/// Agents stopped together with all others can be resumed; an agent stopped individually cannot.
#[tokio::test]
async fn agents_stopped_with_all_others_go_on_with_a_message() {
    for (stops_all, goes_on) in [(true, true), (false, false)] {
        let place = Place::new();
        let (spec, requests) = place.answering(|request| match (is_child(request), last(request).as_str()) {
            (true, words) if words.contains("and now") => Said::text("went on"),
            (true, _) => Said::Hang,
            (false, "go") => agent("c1", json!({"name": "worker"})),
            (false, words) if words.contains("next") => {
                let message = json!({"to": "worker", "message": "and now the rest"});
                Said::Blocks(crate::rig::call("s", "SendMessage", message))
            }
            _ => Said::text("ok"),
        });
        let (handle, mut events) = Session::open(spec).unwrap();
        handle.prompt(Prompt::text("go"));
        let (mut id, mut all) = (String::new(), Vec::new());
        while let Some(event) = events.next().await {
            if let SessionEventKind::ChildStarted(facts) = &event.what {
                id = facts.id.to_string();
            }
            let is_over = matches!(event.what, SessionEventKind::TurnEnded(_));
            all.push(event);
            if is_over {
                break;
            }
        }
        if stops_all {
            handle.send(Command::StopAgents)
        } else {
            handle.ask(|reply| Command::StopTask { task: id, reply }).await;
        }
        handle.prompt(Prompt::text("next"));
        handle.send(Command::Finish);
        all.extend(told(events).await);
        let went_on = requests.all().iter().any(|it| is_child(it) && last(it).contains("and now"));
        assert_eq!(went_on, goes_on, "all: {stops_all}");
        let ended = crate::agents::reports(&all);
        assert_eq!(ended.iter().any(|it| it.text == "went on"), goes_on, "{ended:?}");
    }
}
