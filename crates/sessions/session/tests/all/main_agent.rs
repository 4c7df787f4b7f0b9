//! Sessions whose main agent uses a definition, which binds it like a sub-agent.

use haft_session::{AgentStatus, ClientParts, Command, HostAgent, Prompt, Session, SessionSpec};
use haft_types::PermissionMode;
use serde_json::{Map, Value, json};

use crate::{
    agents::{agent, is_child, last, main_results, reports, tools},
    rig::{Place, Requests, Said, call, run, told},
};

/// A session whose main agent is described by a file with this head.
fn led(place: &Place, head: &str, answer: fn(&haft_model::Request) -> Said) -> (SessionSpec, Requests) {
    place.write("ws/.claude/agents/lead.md", &format!("---\nname: lead\ndescription: d\n{head}\n---\nLEAD"));
    place.write("ws/.claude/agents/leaf.md", "---\nname: leaf\ndescription: d\n---\nLEAF");
    place.write("ws/.claude/skills/mine/SKILL.md", "---\ndescription: d\n---\nMINE-BODY");
    place.write("ws/.claude/skills/other/SKILL.md", "---\ndescription: d\n---\nOTHER-BODY");
    let (mut spec, requests) = place.answering(answer);
    spec.model.as_mut().unwrap().agent = Some(String::from("lead"));
    (spec, requests)
}

/// Brackets in its tool list limit the agent kinds it and its sub-agents may start, and its skills.
#[tokio::test]
async fn brackets_in_its_tools_are_limits() {
    let place = Place::new();
    let (mut spec, requests) = led(&place, "tools: Agent(leaf), Skill(mine), Read", |request| {
        let start = |id: &str, kind: &str| {
            let input =
                json!({"description": "d", "prompt": "p", "subagent_type": kind, "run_in_background": false});
            call(id, "Agent", input)
        };
        let skill = |id: &str, name: &str| call(id, "Skill", json!({"skill": name}));
        match (is_child(request), request.messages.len()) {
            (false, 1) => Said::Blocks(
                [
                    start("a", "general-purpose"),
                    start("b", "Explore"),
                    start("c", "leaf"),
                    skill("d", "other"),
                    skill("e", "mine"),
                ]
                .concat(),
            ),
            // What it starts may start no more than it.
            (true, 1) => Said::Blocks(start("g", "general-purpose")),
            (true, _) => Said::text(&format!("told: {}", last(request))),
            _ => Said::text("done"),
        }
    });
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    let events = run(spec, "go").await;
    let all = requests.all();
    let of_main = tools(&all[0]);
    for (name, is_there) in
        [("Agent", true), ("Skill", true), ("Read", true), ("Bash", false), ("Write", false)]
    {
        assert_eq!(of_main.iter().any(|it| it == name), is_there, "{name}: {of_main:?}");
    }
    let results = main_results(&events);
    for at in [0, 1] {
        assert!(results[at].0 && results[at].1.contains("kinds: leaf"), "{at}: {results:?}");
    }
    let report = reports(&events);
    assert_eq!((report.len(), report[0].kind.as_str()), (1, "leaf"), "{report:?}");
    assert!(report[0].text.contains("kinds: leaf"), "{report:?}");
    assert!(results[3].0 && results[3].1.contains("only use these skills: mine"), "{results:?}");
    assert!(!results[4].0, "{results:?}");
}

/// Its disallowed tools are denied to it and its sub-agents, in any mode, and after settings were
/// reloaded.
#[tokio::test]
async fn what_it_must_not_do_is_denied() {
    let place = Place::new();
    let pushes = |id: &str| {
        call(id, "Bash", json!({"command": "git push --dry-run /nowhere main", "description": "d"}))
    };
    let head = "disallowedTools: Bash(git push:*), Edit(secret/**), Agent(leaf)";
    let answer = move |request: &haft_model::Request| {
        match (is_child(request), last(request).as_str()) {
        (false, "go" | "again") => Said::Blocks(
            [
                pushes("a"),
                call("w", "Write", json!({"file_path": "secret/x", "content": "x"})),
                call("l", "Agent", json!({"description": "d", "prompt": "p", "subagent_type": "leaf"})),
                call(
                    "g",
                    "Agent",
                    json!({"description": "d", "prompt": "p", "subagent_type": "general-purpose", "run_in_background": false}),
                ),
            ]
            .concat(),
        ),
        (true, "p") => Said::Blocks(pushes("c")),
        _ => Said::text("done"),
    }
    };
    place.write("ws/.claude/agents/lead.md", &format!("---\nname: lead\ndescription: d\n{head}\n---\nLEAD"));
    place.write("ws/.claude/agents/leaf.md", "---\nname: leaf\ndescription: d\n---\nLEAF");
    let (mut spec, requests) = place.answering(answer);
    spec.model.as_mut().unwrap().agent = Some(String::from("lead"));
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    let (handle, mut events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("go"));
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        let is_over = matches!(event.what, haft_session::SessionEventKind::TurnEnded(_));
        all.push(event);
        if is_over {
            break;
        }
    }
    let flags = Map::from_iter([(String::from("outputStyle"), Value::from("Learning"))]);
    handle.ask(|reply| Command::ChangeFlagSettings { changes: flags, reply }).await.unwrap().unwrap();
    handle.prompt(Prompt::text("again"));
    handle.send(Command::Finish);
    all.extend(told(events).await);
    assert!(tools(&requests.all()[0]).contains(&String::from("Bash")), "it is denied in part only");
    let results = main_results(&all);
    assert_eq!(results.len(), 8, "{results:?}");
    for turn in results.chunks(4) {
        for denied in &turn[..3] {
            assert!(denied.0 && denied.1.contains("lead"), "{turn:?}");
        }
        assert!(!turn[3].0, "{turn:?}");
    }
    for report in reports(&all) {
        assert_eq!(report.status, AgentStatus::Completed);
        assert!(report.denials.iter().any(|it| it.reason.contains("git push")), "{report:?}");
    }
    assert!(!place.ws().join("secret").exists());
}

/// Its mode applies if the spec names none: a stricter one always, a looser one if the host wrote the
/// definition.
#[tokio::test]
async fn its_mode_is_only_stricter_unless_the_host_describes_it() {
    // Whether a rule allows it, and whether it is done.
    for (mode, of_host, chosen, is_allowed, is_written) in [
        ("default", false, None, true, true),
        ("plan", false, None, true, false),
        ("acceptEdits", false, None, false, false),
        ("bypassPermissions", false, None, false, false),
        ("acceptEdits", true, None, false, true),
        ("bypassPermissions", true, None, false, false),
        ("plan", false, Some(PermissionMode::AcceptEdits), false, true),
        ("acceptEdits", true, Some(PermissionMode::Plan), false, false),
    ] {
        let place = Place::new();
        let head = format!("permissionMode: {mode}");
        let (mut spec, _) = led(&place, &head, |request| match request.messages.len() {
            1 => Said::Blocks(call("w", "Write", json!({"file_path": "made", "content": "x"}))),
            _ => Said::text("done"),
        });
        spec.permissions.mode = chosen;
        spec.permissions.allow.extend(is_allowed.then(|| String::from("Write")));
        if of_host {
            let definition = json!({"permissionMode": mode});
            let described = HostAgent { description: String::from("d"), definition, ..HostAgent::default() };
            spec.extensions.agents.push((String::from("lead"), described));
        }
        run(spec, "go").await;
        let made = place.ws().join("made").exists();
        assert_eq!(made, is_written, "{mode}, of the host: {of_host}, chosen: {chosen:?}");
    }
}

/// A host that requests summaries of sub-agents gets text of their models, from requests that begin like
/// the agent's own; other hosts get none.
#[tokio::test]
async fn hosts_hear_what_agents_do() {
    for (wanted, variable, is_told) in [
        (true, None, true),
        (false, None, false),
        (true, Some(("CLAUDE_CODE_DISABLE_AGENT_PROGRESS_SUMMARIES", "1")), false),
    ] {
        let place = Place::new();
        let asked = |request: &haft_model::Request| last(request).contains("what you are doing right now");
        let (mut spec, requests) = place.answering(move |request| {
            let is_again = request.messages.len() == 3;
            match (is_child(request), asked(request)) {
                (true, true) => Said::text("  Reading the tests of the parser\n"),
                // It works until it was asked, or for as long as it would take.
                (true, false) if is_again => Said::text("done"),
                (true, false) => {
                    let most = if is_told { 2_000 } else { 10 };
                    let wait = format!("for i in $(seq {most}); do test -e told && break; sleep 0.05; done");
                    Said::Blocks(call("b", "Bash", json!({"command": wait, "description": "d"})))
                }
                (false, _) if request.messages.len() == 1 => agent("c", json!({"run_in_background": false})),
                _ => Said::text("done"),
            }
        });
        spec.permissions.mode = Some(PermissionMode::BypassPermissions);
        let more = [("HAFT_AGENT_SUMMARY_MS", "20")].into_iter().chain(variable);
        let more = more.map(|(name, value)| (name.into(), value.into()));
        let old = spec.place.variables.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        spec.place.variables = old.chain(more).collect();
        let (handle, mut events) = Session::open(spec).unwrap();
        let parts = ClientParts { agent_summaries: wanted, ..ClientParts::default() };
        handle.ask(|reply| Command::Equip { parts: Box::new(parts), reply }).await.unwrap();
        handle.prompt(Prompt::text("go"));
        handle.send(Command::Finish);
        let mut summaries = Vec::new();
        while let Some(event) = events.next().await {
            if let haft_session::SessionEventKind::ChildProgress(_, progress) = &event.what
                && let Some(summary) = &progress.summary
            {
                summaries.push(summary.clone());
                place.write("ws/told", "");
            }
            if matches!(event.what, haft_session::SessionEventKind::Closed) {
                break;
            }
        }
        assert_eq!(!summaries.is_empty(), is_told, "{wanted} {variable:?}: {summaries:?}");
        assert!(summaries.iter().all(|it| it == "Reading the tests of the parser"), "{summaries:?}");
        let all = requests.all();
        let (asides, own): (Vec<_>, Vec<_>) = all.iter().filter(|it| is_child(it)).partition(|it| asked(it));
        assert_eq!(asides.is_empty(), !is_told);
        for aside in asides {
            let begins = |own: &&haft_model::Request| {
                let (last, before) = aside.messages.split_last().unwrap();
                own.messages.len() == aside.messages.len()
                    && own.messages[..before.len()] == *before
                    && last.content.starts_with(&own.messages.last().unwrap().content)
            };
            assert!(own.iter().copied().any(|it| begins(&it)), "{aside:?}");
            assert_eq!((&aside.system, &aside.model), (&own[0].system, &own[0].model));
            assert_eq!(tools(aside), tools(own[0]));
        }
        assert!(own.iter().all(|it| !asked(it)), "the conversation does not hold it");
    }
}
