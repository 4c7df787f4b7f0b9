//! Task lists and teams in sessions.

use haft_session::{LogStart, SessionSpec};
use haft_types::{MessageBlock, PermissionMode};
use serde_json::{Value, json};

use crate::{
    agents::{agent, is_child, last, reports},
    rig::{Place, Said, call, run},
};

/// All calls in one answer.
fn at_once(place: &Place, wanted: Vec<(&'static str, Value)>) -> SessionSpec {
    let blocks: Vec<MessageBlock> = wanted
        .into_iter()
        .enumerate()
        .flat_map(|(number, (tool, input))| call(&format!("c{number}"), tool, input))
        .collect();
    let (spec, _) = place.answering(move |request| match request.messages.len() {
        1 => Said::Blocks(blocks.clone()),
        _ => Said::text("done"),
    });
    spec
}

/// What results of the main agent's calls said, without the news that a tool is
/// declared from now on.
fn main_results(events: &[haft_session::SessionEvent]) -> Vec<(bool, String)> {
    let plain = |text: String| text.split("\n[").next().unwrap_or_default().to_owned();
    crate::agents::main_results(events).into_iter().map(|(is_error, text)| (is_error, plain(text))).collect()
}

fn create(subject: &str) -> (&'static str, Value) {
    ("TaskCreate", json!({"subject": subject, "description": "d"}))
}

fn update(input: Value) -> (&'static str, Value) {
    ("TaskUpdate", input)
}

#[tokio::test]
async fn calls_of_one_message_see_each_other_in_order() {
    let place = Place::new();
    let spec = at_once(
        &place,
        vec![
            create("one"),
            create("two"),
            create("three"),
            create("four"),
            update(json!({"taskId": "1", "status": "in_progress", "owner": "bob"})),
            update(json!({"taskId": "2", "addBlockedBy": ["1"]})),
            update(json!({"taskId": "3", "addBlocks": ["4"], "addBlockedBy": ["2"]})),
            update(json!({"taskId": "4", "addBlocks": ["1"]})),
            update(json!({"taskId": "9", "status": "completed"})),
            ("TaskList", json!({})),
            ("TaskGet", json!({"taskId": "3"})),
            update(json!({"taskId": "2", "status": "deleted"})),
            create("five"),
            ("TaskList", json!({})),
        ],
    );
    let results = main_results(&run(spec, "go").await);
    assert!(results.iter().all(|it| !it.0), "{results:?}");
    let text = |number: usize| results[number].1.as_str();
    assert!(text(7).contains("#4 → #1 → #2 → #3 → #4"), "{}", text(7));
    assert!(text(8).contains("there is no task #9"), "{}", text(8));
    assert_eq!(
        text(9),
        "#1 [in_progress] one (bob)\n#2 [pending] two [blocked by #1]\n#3 [pending] three [blocked by #2]\n#4 [pending] four [blocked by #3]"
    );
    assert!(text(10).contains("blocked by: #2\nblocks: #4"), "{}", text(10));
    assert_eq!(
        text(13),
        "#1 [in_progress] one (bob)\n#3 [pending] three\n#4 [pending] four [blocked by #3]\n#5 [pending] five"
    );
}

#[tokio::test]
async fn a_list_is_shared_with_agents_and_outlives_the_session() {
    let place = Place::new();
    let (spec, _) = place.answering(|request| match (is_child(request), request.messages.len()) {
        (false, 1) => Said::Blocks(
            [
                call("c1", "TaskCreate", json!({"subject": "shared", "description": "d"})),
                call("c2", "TaskCreate", json!({"subject": "other", "description": "d"})),
            ]
            .concat(),
        ),
        (false, 3) => agent("c3", json!({"name": "bee", "run_in_background": false})),
        (false, 5) => Said::Blocks(call("c4", "TaskList", json!({}))),
        (true, 1) => Said::Blocks(call("t1", "TaskUpdate", json!({"taskId": "1", "status": "in_progress"}))),
        _ => Said::text("done"),
    });
    let all = run(spec, "go").await;
    let listed = main_results(&all).last().unwrap().1.clone();
    assert_eq!(listed, "#1 [in_progress] shared (bee, which has ended)\n#2 [pending] other");
    // Resumed, it is the same list.
    let mut spec = at_once(&place, vec![("TaskList", json!({}))]);
    let (again, _) = place.answering(|request| match last(request).as_str() {
        "more" => Said::Blocks(call("c9", "TaskList", json!({}))),
        _ => Said::text("done"),
    });
    spec.model = again.model;
    spec.log.start = LogStart::Newest;
    let all = run(spec, "more").await;
    assert!(
        main_results(&all).last().unwrap().1.starts_with("#1 [in_progress] shared"),
        "{:?}",
        main_results(&all)
    );
}

#[tokio::test]
async fn hooks_can_refuse_tasks_and_their_completion() {
    let place = Place::new();
    let hook = |text: &str| format!("grep -q {text} && {{ echo not that >&2; exit 2; }}; exit 0");
    let settings = json!({"hooks": {
        "TaskCreated": [{"hooks": [{"type": "command", "command": hook("forbidden")}]}],
        "TaskCompleted": [{"hooks": [{"type": "command", "command": hook("hard")}]}],
    }});
    place.write("home/.claude/settings.json", &settings.to_string());
    let spec = at_once(
        &place,
        vec![
            create("forbidden thing"),
            create("hard thing"),
            create("easy thing"),
            update(json!({"taskId": "2", "status": "completed"})),
            update(json!({"taskId": "3", "status": "completed"})),
            ("TaskList", json!({})),
        ],
    );
    let results = main_results(&run(spec, "go").await);
    assert!(results[0].0 && results[0].1.contains("not that"), "{results:?}");
    assert!(results[3].1.contains("not that"), "{results:?}");
    assert_eq!(results[5].1, "#2 [pending] hard thing\n#3 [completed] easy thing");
}

#[tokio::test]
async fn a_team_has_a_list_of_its_own_and_ends_when_nobody_works() {
    let place = Place::new();
    let (mut spec, _) = place.answering(|request| {
        if is_child(request) {
            return if last(request).contains("You are asked to end") {
                Said::text("Last words.")
            } else {
                Said::Hang
            };
        }
        let done = request.messages.iter().filter(|it| it.role == haft_types::Role::Assistant).count();
        let one = |tool: &str, input: Value| Said::Blocks(call(&format!("c{done}"), tool, input));
        match done {
            0 => one("TaskCreate", json!({"subject": "own", "description": "d"})),
            1 => one("TeamCreate", json!({"team_name": "reds"})),
            2 => one("TaskCreate", json!({"subject": "of the team", "description": "d"})),
            3 => one("TaskList", json!({})),
            4 => agent("c4", json!({"name": "bee"})),
            5 => one("TeamDelete", json!({})),
            6 => one("SendMessage", json!({"to": "bee", "message": {"type": "shutdown_request"}})),
            7 => one("TeamDelete", json!({})),
            8 => one("TaskList", json!({})),
            _ => Said::text("done"),
        }
    });
    spec.permissions.mode = Some(PermissionMode::Default);
    let all = run(spec, "go").await;
    let said: Vec<String> = main_results(&all).into_iter().map(|it| it.1).collect();
    assert!(said[1].contains("reds"), "{said:?}");
    assert_eq!(said[3], "#1 [pending] of the team");
    assert!(said[5].contains("still work: bee"), "{said:?}");
    assert!(said[7].contains("has ended"), "{said:?}");
    assert_eq!(said[8], "#1 [pending] own");
    assert_eq!(reports(&all).len(), 1, "the member ended whatever its model did");
}

#[tokio::test]
async fn a_summary_names_what_was_done() {
    let place = Place::new();
    let mut spec = {
        let (spec, _) = place.answering(|request| {
            let done = request.messages.iter().filter(|it| it.role == haft_types::Role::Assistant).count();
            let one = |tool: &str, input: Value| Said::Blocks(call(&format!("c{done}"), tool, input));
            match done {
                0 => one("Write", json!({"file_path": "x.txt", "content": "x"})),
                1 => one("TaskCreate", json!({"subject": "left to do", "description": "d"})),
                2 => one("Brief", json!({})),
                3 => one("SendUserMessage", json!({"message": "Halfway.", "status": "proactive"})),
                _ => Said::text("done"),
            }
        });
        spec
    };
    spec.permissions.mode = Some(PermissionMode::AcceptEdits);
    let all = run(spec, "please write x").await;
    let said: Vec<String> = main_results(&all).into_iter().map(|it| it.1).collect();
    for part in ["- please write x", "x.txt", "- #1 [pending] left to do"] {
        assert!(said[2].contains(part), "{part}: {}", said[2]);
    }
    let told = |it: &haft_session::SessionEvent| matches!(&it.what, haft_session::SessionEventKind::Notice(text) if text == "Halfway.");
    assert!(all.iter().any(told));
}

/// Agents of one team have nothing to do with those of another that are called the same, not even with those of an
/// earlier team of the same name: in this process and in the next one.
#[tokio::test]
async fn names_are_those_of_one_team() {
    let place = Place::new();
    let bee = |id: &str, prompt: &str| {
        agent(id, json!({"name": "bee", "prompt": prompt, "run_in_background": false}))
    };
    let of_child = |request: &haft_model::Request| {
        let who = if crate::agents::first(request).contains("for the first") { "first" } else { "second" };
        Said::text(&format!("The {who} says: {}", request.messages.len()))
    };
    let calls_of = |request: &haft_model::Request| {
        let blocks = request.messages.iter().flat_map(|it| &it.content);
        blocks.filter(|it| matches!(it, MessageBlock::ToolUse(_))).count()
    };
    let (mut spec, _) = place.answering(move |request| {
        let done = calls_of(request);
        let id = format!("c{done}");
        let one = |tool: &str, input: Value| Said::Blocks(call(&id, tool, input));
        match done {
            _ if is_child(request) => of_child(request),
            0 => one("TeamCreate", json!({"team_name": "reds"})),
            1 => bee(&id, "for the first"),
            2 => one("TeamDelete", json!({})),
            3 => one("SendMessage", json!({"to": "bee", "message": "are you there?"})),
            4 => one("ListAgents", json!({})),
            5 => one("TeamCreate", json!({"team_name": "reds"})),
            6 => one("SendMessage", json!({"to": "bee", "message": "and now?"})),
            7 => bee(&id, "for the second"),
            _ => Said::text("done"),
        }
    });
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    let said: Vec<String> = main_results(&run(spec, "go").await).into_iter().map(|it| it.1).collect();
    assert!(said[2].contains("has ended"), "{said:?}");
    assert!(said[3].contains("there is no agent bee; there are: none"), "{said:?}");
    assert!(!said[4].contains("bee"), "{said:?}");
    assert!(said[6].contains("there is no agent bee"), "{said:?}");
    assert!(said[7].contains("The second says: 1"), "{said:?}");
    // The next process knows both, and means the one of the team it leads.
    let (mut spec, _) = place.answering(move |request| match (is_child(request), last(request)) {
        (true, _) => of_child(request),
        (false, words) if words == "again" => {
            Said::Blocks(call("again", "SendMessage", json!({"to": "bee", "message": "who are you?"})))
        }
        _ => Said::text("done"),
    });
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    spec.log.start = LogStart::Newest;
    let reports = reports(&run(spec, "again").await);
    let texts: Vec<&str> = reports.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(texts, ["The second says: 3"]);
}
