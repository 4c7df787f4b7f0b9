//! Agent definitions added during a session, and team members that end.

use haft_model::Request;
use haft_session::{AgentStatus, Command, Prompt, Session, SessionEventKind};
use haft_types::PermissionMode;
use serde_json::json;

use crate::{
    agents::{agent, is_child, last, main_results, reports, tools},
    rig::{Place, Said, call, run, told},
    skills::whole,
};

/// Pain 21: an agent's file that is written while a session runs can be started with the
/// next prompt, the model is told, and what requests begin with stays byte for byte. One
/// that is changed has its new prompt, one that is gone is refused.
#[tokio::test]
async fn a_new_agent_is_there_with_the_next_prompt() {
    let place = Place::new();
    place.write("ws/.claude/agents/old.md", "---\nname: old\ndescription: d\n---\nOLD-PROMPT");
    let (spec, requests) = place.answering(|request| match (is_child(request), last(request)) {
        (true, _) => Said::text("done"),
        (false, words) if words.contains("start fresh") => {
            agent("f", json!({"subagent_type": "fresh", "run_in_background": false}))
        }
        (false, words) if words.contains("start old") => {
            agent("o", json!({"subagent_type": "old", "run_in_background": false}))
        }
        _ => Said::text("ok"),
    });
    let (handle, mut events) = Session::open(spec).unwrap();
    let mut all = Vec::new();
    for (prompt, change) in [
        ("hello", ("fresh", Some("FRESH-PROMPT"))),
        ("start fresh", ("old", Some("CHANGED-PROMPT"))),
        ("start old", ("old", None)),
        ("now start old again", ("nobody", None)),
    ] {
        handle.prompt(Prompt::text(prompt));
        while let Some(event) = events.next().await {
            let is_over = matches!(event.what, SessionEventKind::TurnEnded(_));
            all.push(event);
            if is_over {
                break;
            }
        }
        let (name, text) = change;
        let file = format!("ws/.claude/agents/{name}.md");
        match text {
            Some(text) => {
                place.write(&file, &format!("---\nname: {name}\ndescription: About {name}\n---\n{text}"))
            }
            None => drop(std::fs::remove_file(place.dir.path().join(&file))),
        }
    }
    handle.send(Command::Finish);
    all.extend(told(events).await);
    let asked = requests.all();
    let main: Vec<&Request> = asked.iter().filter(|it| !is_child(it)).collect();
    for request in &main {
        assert_eq!((&request.system, tools(request)), (&main[0].system, tools(main[0])));
        let definitions = |it: &Request| format!("{:?}", it.tools.definitions());
        assert_eq!(definitions(request), definitions(main[0]), "what it begins with stays");
    }
    assert!(whole(main[1]).contains("fresh: About fresh"), "{}", whole(main[1]));
    let prompts: Vec<String> =
        asked.iter().filter(|it| is_child(it)).map(|it| format!("{:?}", it.system)).collect();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert!(prompts[0].contains("FRESH-PROMPT") && prompts[1].contains("CHANGED-PROMPT"), "{prompts:?}");
    let results = main_results(&all);
    assert!(results[2].0 && results[2].1.contains("old"), "{results:?}");
}

/// Pain 34: what a member of a team said last reaches the lead although it sent nothing,
/// one that never answers ends when it is asked to, and a message to one that has ended
/// lets it go on.
#[tokio::test]
async fn members_of_a_team_are_alive_or_ended() {
    for (hangs, status) in [(false, AgentStatus::Completed), (true, AgentStatus::Interrupted)] {
        let place = Place::new();
        let (mut spec, requests) = place.answering(move |request| {
            if is_child(request) {
                return match last(request).as_str() {
                    _ if hangs => Said::Hang,
                    words if words.contains("once more") => Said::text("More findings."),
                    _ => Said::text("My findings."),
                };
            }
            let done = request.messages.len() / 2;
            let send = |message: serde_json::Value| {
                Said::Blocks(call(
                    &format!("s{done}"),
                    "SendMessage",
                    json!({"to": "bee", "message": message}),
                ))
            };
            match done {
                0 => Said::Blocks(call("t", "TeamCreate", json!({"team_name": "reds"}))),
                1 => agent("a", json!({"name": "bee"})),
                2 if hangs => send(json!({"type": "shutdown_request"})),
                _ if last(request).contains("My findings.") => send(json!("once more")),
                _ => Said::text("ok"),
            }
        });
        spec.permissions.mode = Some(PermissionMode::Default);
        let all = tokio::time::timeout(std::time::Duration::from_secs(120), run(spec, "go")).await.unwrap();
        let ended = reports(&all);
        assert_eq!(ended[0].status, status, "{ended:?}");
        let heard: String = requests.all().iter().filter(|it| !is_child(it)).map(whole).collect();
        if hangs {
            assert_eq!(ended.len(), 1, "{ended:?}")
        } else {
            let texts: Vec<&str> = ended.iter().map(|it| it.text.as_str()).collect();
            assert_eq!(texts, ["My findings.", "More findings."]);
            assert!(heard.contains("More findings."), "{heard}");
        }
    }
}
