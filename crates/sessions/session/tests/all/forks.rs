//! Forks: sub-agents that continue their parent's conversation.

use haft_model::Request;
use haft_session::{AgentStatus, Command, LogStart, Prompt, Session};
use haft_types::MessageBlock;
use serde_json::json;

use crate::{
    agents::{last, main_results, reports},
    rig::{Place, Said, call, run, text, told},
    skills::whole,
};

fn is_fork(request: &Request) -> bool {
    whole(request).contains("You are a fork of the agent above")
}

fn fork(id: &str, task: &str) -> Vec<MessageBlock> {
    let input = json!({"description": "f", "prompt": task, "subagent_type": "Fork", "model": "haiku",
        "effort": "low", "run_in_background": false});
    call(id, "Agent", input)
}

/// All but the last two messages are identical to the parent's; of the message with the call only that
/// call is kept; a fork cannot start agents.
#[tokio::test]
async fn a_fork_begins_with_the_bytes_of_its_parent() {
    let place = Place::new();
    place.write("ws/CLAUDE.md", "ROOT");
    place.write("ws/a.txt", "alpha\n");
    place.write("ws/.claude/skills/s/SKILL.md", "---\ndescription: d\n---\nB");
    let (mut spec, requests) = place.answering(|request| match (is_fork(request), request.messages.len()) {
        (false, 1) => Said::Blocks(call("r1", "Read", json!({"file_path": "a.txt"}))),
        (false, 3) => Said::Blocks([text("I look."), fork("f1", "first"), fork("f2", "second")].concat()),
        (true, 5) => Said::Blocks(
            [
                call("x1", "Agent", json!({"description": "d", "prompt": "p"})),
                call("x2", "Explore", json!({"prompt": "p"})),
                call("x3", "AskUserQuestion", json!({"questions": []})),
            ]
            .concat(),
        ),
        (true, _) => Said::text(&format!("report: {}", last(request))),
        (false, _) => Said::text("done"),
    });
    spec.model.as_mut().unwrap().output_schema = None;
    let events = run(spec, "go").await;
    let all = requests.all();
    let parent = all.iter().filter(|it| !is_fork(it)).nth(1).unwrap();
    let forks: Vec<&Request> = all.iter().filter(|it| is_fork(it) && it.messages.len() == 5).collect();
    assert_eq!(forks.len(), 2);
    for (request, (id, task)) in forks.iter().zip([("f1", "first"), ("f2", "second")]) {
        assert_eq!(request.system, parent.system);
        assert_eq!(request.tools.definitions(), parent.tools.definitions());
        assert_eq!((&request.model, request.effort), (&parent.model, parent.effort));
        assert_eq!(request.messages[..3], parent.messages[..]);
        let MessageBlock::ToolUse(kept) = &request.messages[3].content[0] else { panic!("no call") };
        // Which of the two came first does not matter.
        assert!(["f1", "f2"].contains(&kept.id.as_str()), "{id}");
        assert_eq!(request.messages[3].content.len(), 1, "nothing else of the message");
        assert!(last(request).contains("first") || last(request).contains("second"), "{task}");
    }
    let reports = reports(&events);
    assert!(reports.iter().all(|it| it.status == AgentStatus::Completed && it.kind == "fork"), "{reports:?}");
    let said = &reports[0].text;
    assert_eq!(said.matches("a fork does its work itself").count(), 2, "{said}");
    assert!(said.contains("AskUserQuestion"), "{said}");
    assert_eq!(main_results(&events).len(), 3);
}

/// A message to a fork that has ended leads to a request that begins with the bytes of its last one,
/// also in another process.
#[tokio::test]
async fn a_fork_goes_on_where_it_left_off() {
    let place = Place::new();
    let (spec, requests) = place.answering(|request| match (is_fork(request), request.messages.len()) {
        (false, 1) => Said::Blocks(call("f1", "Agent", json!({
            "description": "f", "prompt": "task", "subagent_type": "fork", "name": "twin", "run_in_background": false,
        }))),
        (true, 3) => Said::text("first report"),
        (true, _) => Said::text("second report"),
        (false, 5) => Said::Blocks(call("m1", "SendMessage", json!({"to": "twin", "message": "more"}))),
        (false, _) => Said::text("done"),
    });
    let (handle, events) = Session::open(spec.clone()).unwrap();
    let id = handle.id().to_string();
    handle.prompt(Prompt::text("one"));
    handle.send(Command::Finish);
    drop(handle);
    told(events).await;
    let mut again = spec;
    again.log.start = LogStart::Session(id);
    run(again, "two").await;
    let forks: Vec<Request> = requests.all().into_iter().filter(is_fork).collect();
    assert_eq!(forks.len(), 2);
    let (before, after) = (&forks[0], &forks[1]);
    assert_eq!(before.system, after.system);
    assert_eq!(before.tools.definitions(), after.tools.definitions());
    assert_eq!(before.messages[..], after.messages[..before.messages.len()]);
    assert!(last(after).contains("more"));
}
