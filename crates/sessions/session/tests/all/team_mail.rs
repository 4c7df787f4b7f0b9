//! Mail of teams: for those who are in the team, and for nobody once it has ended,
//! whenever a process dies.

use haft_model::Request;
use haft_session::{LogStart, SessionSpec};
use haft_types::{MessageBlock, PermissionMode};
use serde_json::{Value, json};

use crate::{
    agents::{agent, is_child, last, main_results},
    rig::{Place, Requests, Said, call, run},
    skills::whole,
};

fn calls_of(request: &Request) -> usize {
    let blocks = request.messages.iter().flat_map(|it| &it.content);
    blocks.filter(|it| matches!(it, MessageBlock::ToolUse(_))).count()
}

fn free(mut spec: SessionSpec) -> SessionSpec {
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    spec
}

/// A session that leads a team with one member that has ended.
async fn led(place: &Place) {
    let (spec, _) = place.answering(|request| match (is_child(request), calls_of(request)) {
        (true, _) => Said::text("report"),
        (false, 0) => Said::Blocks(call("t", "TeamCreate", json!({"team_name": "blues"}))),
        (false, 1) => {
            Said::Blocks(call("k", "TaskCreate", json!({"subject": "old work", "description": "d"})))
        }
        (false, 2) => agent("a", json!({"name": "wasp", "prompt": "p", "run_in_background": false})),
        _ => Said::text("done"),
    });
    run(free(spec), "go").await;
}

/// The one file below the place's home with this name.
fn find(place: &Place, name: &str) -> std::path::PathBuf {
    let mut left = vec![place.home()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(name) {
                return entry.path();
            }
            if entry.path().is_dir() {
                left.push(entry.path());
            }
        }
    }
    panic!("there is no {name}");
}

async fn goes_on(place: &Place, prompt: &str) -> (Requests, Vec<String>) {
    let wanted = prompt.to_owned();
    let (mut spec, requests) = place.answering(move |request| {
        let heard = last(request);
        if is_child(request) {
            Said::text(&format!("heard {}", whole(request).matches("secret plan").count()))
        } else if heard.starts_with(&wanted) {
            let input = json!({"to": "wasp", "message": "are you there?"});
            Said::Blocks(call("s", "SendMessage", input))
        } else if calls_of(request) == 0 {
            Said::text("done")
        } else if heard.contains("wasp") && !heard.contains("created") {
            Said::Blocks(call("t2", "TeamCreate", json!({"team_name": "blues"})))
        } else if heard.contains("blues") {
            Said::Blocks(call("l", "TaskList", json!({})))
        } else {
            Said::text("done")
        }
    });
    spec.log.start = LogStart::Newest;
    let events = run(free(spec), prompt).await;
    let said = main_results(&events).into_iter().map(|it| it.1).collect();
    (requests, said)
}

/// A member has mail that it has not read. The process dies right behind the one step
/// that ends the team, before the mail is voided: the mail is for nobody, the name
/// means nobody, and the next team of that name begins with an empty list.
#[tokio::test]
async fn mail_of_an_ended_team_is_for_nobody() {
    for is_ended in [false, true] {
        let place = Place::new();
        led(&place).await;
        let meta = find(&place, "agent-");
        let agents = meta.parent().unwrap();
        let name = meta.file_name().unwrap().to_string_lossy().into_owned();
        let id = name.trim_start_matches("agent-").split('.').next().unwrap().to_owned();
        let letter: Value =
            json!({"id": "l1", "from": "main", "name": "main", "to": id, "body": "the secret plan"});
        std::fs::write(agents.join("mail.jsonl"), format!("{letter}\n")).unwrap();
        if is_ended {
            let team = find(&place, "teams").join("blues");
            std::fs::rename(&team, team.with_file_name(".blues.ended-1234567890123")).unwrap();
        }
        let (requests, said) = goes_on(&place, "are they there").await;
        let reached = requests.all().iter().any(|it| is_child(it) && whole(it).contains("secret plan"));
        assert_eq!(reached, !is_ended, "{said:?}");
        if is_ended {
            assert!(said[0].contains("there is no agent wasp"), "{said:?}");
            assert!(!said.iter().any(|it| it.contains("old work")), "{said:?}");
            let kept = find(&place, "blues.ended-1234567890123");
            assert!(std::fs::read_to_string(kept.join("log.jsonl")).unwrap().contains("old work"));
        }
    }
}
