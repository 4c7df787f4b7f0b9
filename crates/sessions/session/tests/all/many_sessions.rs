//! Many sessions in one process behave as each would alone.

use haft_session::{SessionEvent, SessionEventKind, SessionSpec};
use haft_types::PermissionMode;
use serde_json::{Value, json};

use crate::rig::{Place, call, ends, results, run, text};

const MODES: [PermissionMode; 4] = [
    PermissionMode::Default,
    PermissionMode::AcceptEdits,
    PermissionMode::Plan,
    PermissionMode::BypassPermissions,
];

/// A session with its own settings, hooks, rules, servers, mode, home directory and variables.
fn differs(place: &Place, number: usize) -> SessionSpec {
    let mark = format!("mark-{number}");
    let settings = json!({
        "env": {"MARK": mark},
        "permissions": {"allow": [format!("Bash(echo {mark} *)"), "Bash(env)"]},
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": format!("echo {mark} > $HOME/started")}]}],
                  "SessionEnd": [{"hooks": [{"type": "command", "command": format!("echo {mark} > $HOME/ended")}]}]},
    });
    place.write("home/.haft/settings.json", &settings.to_string());
    place.write("home/.haft/skills/own/SKILL.md", &format!("---\ndescription: {mark}\n---\nbody"));
    let command = format!("echo {mark} $MARK; pwd; echo $HOME");
    let mut spec = place.spec(vec![
        call("1", "Bash", json!({"command": command})),
        call("2", "Write", json!({"file_path": "note.txt", "content": mark})),
        call("3", "Skill", json!({"skill": "own"})),
        text(&format!("Done with {mark}.")),
    ]);
    spec.permissions.mode = Some(MODES[number % MODES.len()]);
    spec.servers.configs =
        vec![json!({"mcpServers": {format!("server{number}"): {"command": "false"}}}).to_string()];
    spec
}

/// The externally visible behaviour of a session.
fn seen(events: &[SessionEvent], place: &Place, number: usize) -> Value {
    let facts = events.iter().find_map(|it| match &it.what {
        SessionEventKind::TurnBegan(began) => Some(began.facts.clone()),
        _ => None,
    });
    let facts = facts.unwrap();
    let ends = ends(events);
    let (_, turn) = (ends.len(), ends[0]);
    let read = |path: &str| std::fs::read_to_string(place.dir.path().join(path)).ok();
    let servers: Vec<_> = facts.servers.iter().map(|it| it.name.clone()).collect();
    assert_eq!(servers, [format!("server{number}")]);
    json!({
        "results": results(events, place.dir.path()), "mode": facts.mode.name(), "servers": servers,
        "skills": facts.skills, "text": turn.end.text, "reason": turn.end.reason.word(),
        "denials": turn.end.denials.len(), "turns": turn.end.turns, "note": read("ws/note.txt"),
        "started": read("home/started"), "ended": read("home/ended"),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_sessions_at_once_are_what_each_is_alone() {
    const COUNT: usize = 50;
    let places: Vec<Place> = (0..COUNT).map(|_| Place::new()).collect();
    let runs = places.iter().enumerate().map(|(number, place)| {
        let spec = differs(place, number);
        tokio::spawn(async move { run(spec, "go").await })
    });
    let mut together = Vec::new();
    for (number, handle) in runs.collect::<Vec<_>>().into_iter().enumerate() {
        together.push(seen(&handle.await.unwrap(), &places[number], number));
    }
    for number in (0..COUNT).step_by(7) {
        let place = Place::new();
        let alone = run(differs(&place, number), "go").await;
        assert_eq!(together[number], seen(&alone, &place, number), "session {number}");
    }
    for (number, it) in together.iter().enumerate() {
        let mark = format!("mark-{number}\n");
        assert_eq!((&it["started"], &it["ended"]), (&json!(mark), &json!(mark)), "{it}");
        assert!(it["results"][0][2].as_str().unwrap().contains("PLACE/home"), "{it}");
        let writes = [PermissionMode::AcceptEdits, PermissionMode::BypassPermissions];
        let wrote = writes.contains(&MODES[number % MODES.len()]);
        assert_eq!(it["note"].is_string(), wrote, "{it}");
    }
}

#[tokio::test]
async fn a_session_that_ends_leaves_the_commands_of_others_alone() {
    let places = [Place::new(), Place::new()];
    let sleeps = |place: &Place| {
        let mut spec = place.spec(vec![
            call("1", "Bash", json!({"command": "sleep 300", "run_in_background": true})),
            text("Started."),
        ]);
        spec.permissions.mode = Some(PermissionMode::BypassPermissions);
        spec
    };
    let mut open = Vec::new();
    for place in &places {
        let (handle, mut events) = haft_session::Session::open(sleeps(place)).unwrap();
        handle.prompt(haft_session::Prompt::text("go"));
        let mut task = None;
        while let Some(event) = events.next().await {
            match event.what {
                SessionEventKind::TaskStarted(info, _) => task = Some(info.id),
                SessionEventKind::TurnEnded(_) => break,
                _ => (),
            }
        }
        open.push((handle, task.unwrap()));
    }
    for place in &places {
        listed_at_last(place).await;
    }
    let (second, task) = open.pop().unwrap();
    let (first, _) = open.pop().unwrap();
    first.close().await;
    let left = haft_process::everything(&haft_shell::run::Shell::registries(&places[0].home().join(".haft")));
    assert!(left.is_empty(), "{left:?}");
    let tail = second.ask(|reply| haft_session::Command::TaskTail { task, reply }).await.unwrap();
    assert!(tail.is_some());
    // A list that is being written anew is empty for a moment; a command that was
    // ended never comes back.
    listed_at_last(&places[1]).await;
    second.close().await;
}

/// Waits until the command of a place is listed.
async fn listed_at_last(place: &Place) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while listed(place) == 0 {
        assert!(std::time::Instant::now() < deadline, "no command is listed");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Number of running commands of a session.
fn listed(place: &Place) -> usize {
    let registries = haft_shell::run::Shell::registries(&place.home().join(".haft"));
    haft_process::everything(&registries).len()
}
