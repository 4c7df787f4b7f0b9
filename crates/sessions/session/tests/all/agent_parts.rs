//! Servers, limits, hooks and models of definitions and skills; hooks about teams and memory.

use haft_session::{AgentStatus, Command, HostAgent, Prompt, Session, SessionEventKind};
use haft_types::PermissionMode;
use serde_json::{Value, json};

use crate::{
    agents::{agent, is_child, last, main_results, reports, tools},
    rig::{Place, Said, call, ends, run, told},
    skills::{notices, one_by_one, whole},
};

/// A server with one tool. When its input ends it waits until it may end.
const SERVER: &str = r#"
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
where = sys.argv[1]
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    method, answer = ask["method"], {}
    if method == "initialize":
        answer = {"protocolVersion": ask["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "own", "version": "1"}}
    elif method == "tools/list":
        answer = {"tools": [{"name": "shout", "inputSchema": {"type": "object"},
                             "annotations": {"readOnlyHint": True}}]}
    elif method == "tools/call":
        answer = {"content": [{"type": "text", "text": "SHOUTED " + os.environ.get("LOUD", "")}]}
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": answer}), flush=True)
open(where + "/closing", "w").close()
while not os.path.exists(where + "/may-end"):
    time.sleep(0.02)
"#;

/// Servers of a definition exist for its runs only, a project's are not started, and a report does not
/// wait for a server to stop.
#[tokio::test]
async fn servers_of_a_definition_are_its_own_and_reports_do_not_wait_for_them() {
    let place = Place::new();
    place.write("server.py", SERVER);
    let dir = place.dir.path().canonicalize().unwrap();
    let server = json!({"own": {"command": "python3", "args": [dir.join("server.py"), dir],
        "env": {"LOUD": "${HOME}"}}, "gone": {"command": "/nonexistent/program"}});
    place.write(
        "home/.claude/agents/k.md",
        &format!("---\nname: k\ndescription: d\ntools: Read\nmcpServers: [{server}]\n---\nK"),
    );
    place.write(
        "ws/.claude/agents/p.md",
        &format!("---\nname: p\ndescription: d\nmcpServers: [{server}]\n---\nP"),
    );
    place.write("home/.claude/settings.json", r#"{"permissions": {"allow": ["mcp__own"]}}"#);
    let (spec, requests) = place.answering(|request| match (is_child(request), request.messages.len()) {
        (false, 1) => Said::Blocks(
            ["k", "p"]
                .iter()
                .flat_map(|kind| {
                    let input = json!({"description": kind, "prompt": kind, "subagent_type": kind,
                        "run_in_background": false});
                    call(kind, "Agent", input)
                })
                .collect(),
        ),
        (true, 1) if tools(request).iter().any(|it| it == "mcp__own__shout") => {
            Said::Blocks(call("s", "mcp__own__shout", json!({})))
        }
        (true, _) => Said::text(&format!("heard: {}", last(request))),
        _ => Said::text("done"),
    });
    let (handle, mut events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("go"));
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        let is_over = matches!(event.what, SessionEventKind::TurnEnded(_));
        all.push(event);
        if is_over {
            break;
        }
    }
    assert!(!dir.join("may-end").exists(), "the turn ended although the server had not");
    place.write("may-end", "");
    handle.send(Command::Finish);
    all.extend(told(events).await);
    let child = requests.all().into_iter().find(|it| is_child(it) && whole(it).contains("SHOUTED")).unwrap();
    assert_eq!(tools(&child), ["Read", "mcp__own__shout"]);
    assert!(whole(&child).contains(&format!("SHOUTED {}", place.home().display())), "{}", whole(&child));
    let others =
        requests.all().into_iter().filter(|it| !tools(it).contains(&String::from("mcp__own__shout")));
    assert_eq!(others.filter(is_child).count(), 1, "the project's agent has no server");
    assert!(
        requests
            .all()
            .iter()
            .filter(|it| !is_child(it))
            .all(|it| !tools(it).iter().any(|it| it.contains("own")))
    );
    let said = notices(&all);
    assert!(said.contains("does without its server gone") && said.contains("p.md:4"), "{said}");
    assert!(reports(&all).iter().all(|it| it.status == AgentStatus::Completed));
}

/// A definition's cost limit covers a run and its sub-agents, also in a session without a limit. No
/// request is sent without money for it.
#[tokio::test]
async fn a_definition_limits_the_money_of_its_runs() {
    let place = Place::new();
    let (spec, _) = place.answering(|_| Said::text("ok"));
    let one = ends(&run(spec, "go").await)[0].bill.usd;
    for (most, wanted) in [(0.2, AgentStatus::TruncatedByBudget), (1_000.0, AgentStatus::Completed)] {
        let place = Place::new();
        let (mut spec, requests) = place.answering(|request| match (is_child(request), whole(request)) {
            (false, _) if request.messages.len() == 1 => {
                agent("c1", json!({"subagent_type": "frugal", "run_in_background": false}))
            }
            (true, text) if !text.contains("inner") && request.messages.len() < 9 => {
                agent(&format!("i{}", request.messages.len()), json!({"prompt": "inner"}))
            }
            _ => Said::text(&"word ".repeat(200)),
        });
        let definition = json!({"maxBudgetUsd": most * one});
        let frugal =
            HostAgent { description: "d".into(), prompt: "P".into(), definition, ..HostAgent::default() };
        spec.extensions.agents = vec![(String::from("frugal"), frugal)];
        let events = run(spec, "go").await;
        let all = reports(&events);
        let outer = all.iter().find(|it| it.kind == "frugal").unwrap();
        assert_eq!(outer.status, wanted, "{most}: {:?}", outer.why);
        let spent: f64 = all.iter().map(|it| it.usd).sum();
        assert!(spent <= most * one, "{most}: {spent}");
        let sent = requests.all().iter().filter(|it| is_child(it)).count();
        assert_eq!(sent == 0, wanted != AgentStatus::Completed, "{most}: {sent}");
        if wanted == AgentStatus::TruncatedByBudget {
            let why = outer.why.clone().unwrap();
            assert!(why.contains(&format!("{}", most * one)), "{why}");
        }
    }
}

/// Hooks of a skill run while it is active: for the main agent until the turn ends, for a sub-agent
/// until it ends; a project's only after approval.
#[tokio::test]
async fn hooks_of_a_skill_run_while_it_is_active() {
    let skill = |place: &Place, at: &str| {
        let file = place.dir.path().join("heard");
        let hook = |word: &str| {
            let command = format!("echo {word} >> {}", file.display());
            json!([{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}])
        };
        let hooks = json!({"PreToolUse": hook("ran"), "Stop": [{"hooks": [{"type": "command",
            "command": format!("echo stopped >> {}", file.display())}]}]});
        place.write(at, &format!("---\ndescription: d\nhooks: {hooks}\n---\nBODY"));
    };
    let echo = |id: &str| Said::Blocks(call(id, "Bash", json!({"command": "echo hi"})));
    let heard = |place: &Place| std::fs::read_to_string(place.dir.path().join("heard")).unwrap_or_default();
    // The main agent: before, while, after.
    let place = Place::new();
    skill(&place, "home/.claude/skills/x/SKILL.md");
    place.write("home/.claude/settings.json", r#"{"permissions": {"allow": ["Skill(x)"]}}"#);
    let (spec, _) = place.answering(move |request| match request.messages.len() {
        1 => echo("a"),
        3 => Said::Blocks(call("s", "Skill", json!({"skill": "x"}))),
        5 => echo("b"),
        7 => Said::text("end of the turn"),
        9 => echo("c"),
        _ => Said::text("done"),
    });
    let events = one_by_one(spec, &["one", "two"]).await;
    assert_eq!(heard(&place), "ran\nstopped\n", "{:?}", main_results(&events));
    // A child that uses it: only for itself, and its end is a stop.
    let place = Place::new();
    skill(&place, "home/.claude/skills/x/SKILL.md");
    place.write("home/.claude/settings.json", r#"{"permissions": {"allow": ["Skill(x)"]}}"#);
    let (spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
        (false, 1) => agent("c", json!({"run_in_background": false})),
        (false, 3) => echo("m"),
        (true, 1) => Said::Blocks(call("s", "Skill", json!({"skill": "x"}))),
        (true, 3) => echo("k"),
        _ => Said::text("done"),
    });
    run(spec, "go").await;
    assert_eq!(heard(&place), "ran\nstopped\n");
    // A fork of a skill, and switched off.
    for (settings, want) in [(json!({}), "ran\nstopped\n"), (json!({"disableAllHooks": true}), "")] {
        let place = Place::new();
        skill(&place, "home/.claude/skills/x/SKILL.md");
        let text = std::fs::read_to_string(place.home().join(".claude/skills/x/SKILL.md")).unwrap();
        place.write(
            "home/.claude/skills/x/SKILL.md",
            &text.replace("description: d", "description: d\ncontext: fork"),
        );
        let mut whole = settings.clone();
        whole["permissions"] = json!({"allow": ["Skill(x)"]});
        place.write("home/.claude/settings.json", &whole.to_string());
        let (spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
            (false, 1) => Said::Blocks(call("s", "Skill", json!({"skill": "x"}))),
            (false, 3) => echo("m"),
            (true, 1) => echo("k"),
            _ => Said::text("done"),
        });
        run(spec, "go").await;
        assert_eq!(heard(&place), want, "{settings}");
    }
    // A skill of the project is asked about because of them; nobody is there.
    let place = Place::new();
    skill(&place, "ws/.claude/skills/x/SKILL.md");
    let (spec, _) = place.answering(move |request| match request.messages.len() {
        1 => Said::Blocks(call("s", "Skill", json!({"skill": "x"}))),
        3 => echo("b"),
        _ => Said::text("done"),
    });
    let results = main_results(&run(spec, "go").await);
    assert!(results[0].0, "{results:?}");
    assert_eq!(heard(&place), "");
}

/// Hooks of a skill are added to those of the sub-agent: each runs once, for this agent only, also if
/// the skill is used again.
#[tokio::test]
async fn hooks_of_a_skill_run_beside_those_of_the_agent() {
    let place = Place::new();
    let file = place.dir.path().join("heard");
    let hooks = |word: &str| {
        let command = |event: &str| json!({"type": "command", "command": format!("echo {word} {event} >> {}", file.display())});
        json!({"PreToolUse": [{"matcher": "Bash", "hooks": [command("before")]}], "Stop": [{"hooks": [command("stop")]}]})
    };
    place.write(
        "home/.claude/skills/x/SKILL.md",
        &format!("---\ndescription: d\nhooks: {}\n---\nBODY", hooks("skill")),
    );
    place.write(
        "home/.claude/agents/own.md",
        &format!("---\nname: own\ndescription: d\nhooks: {}\n---\nYou work.", hooks("agent")),
    );
    place.write("home/.claude/settings.json", r#"{"permissions": {"allow": ["Skill(x)"]}}"#);
    let echo = |id: &str| Said::Blocks(call(id, "Bash", json!({"command": "echo hi"})));
    let use_skill = |id: &str| Said::Blocks(call(id, "Skill", json!({"skill": "x"})));
    let (spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
        (false, 1) => agent("c", json!({"subagent_type": "own", "run_in_background": false})),
        (false, 3) => echo("m"),
        (true, 1) => echo("k1"),
        (true, 3) => use_skill("s1"),
        (true, 5) => echo("k2"),
        (true, 7) => use_skill("s2"),
        (true, 9) => echo("k3"),
        _ => Said::text("done"),
    });
    let events = run(spec, "go").await;
    let heard = std::fs::read_to_string(&file).unwrap_or_default();
    let mut lines: Vec<&str> = heard.lines().collect();
    assert_eq!(lines.first(), Some(&"agent before"), "{heard} {:?}", main_results(&events));
    lines.sort_unstable();
    let want = [
        "agent before",
        "agent before",
        "agent before",
        "agent stop",
        "skill before",
        "skill before",
        "skill stop",
    ];
    assert_eq!(lines, want, "{heard}");
}

/// The model of a skill is used until the turn ends, also if the model itself called the skill; a
/// sub-agent keeps it to its end.
#[tokio::test]
async fn the_model_of_a_skill_answers_until_the_turn_ends() {
    let place = Place::new();
    place.write("home/.claude/skills/x/SKILL.md", "---\ndescription: d\nmodel: haiku\n---\nBODY");
    let (spec, requests) = place.answering(|request| match (is_child(request), request.messages.len()) {
        (true, 1) => Said::Blocks(call("s", "Skill", json!({"skill": "x"}))),
        (false, 1) => agent("c", json!({"run_in_background": false})),
        (false, 3) => Said::Blocks(call("s", "Skill", json!({"skill": "x"}))),
        _ => Said::text("done"),
    });
    one_by_one(spec, &["one", "two"]).await;
    let is_small: Vec<(bool, bool)> =
        requests.all().iter().map(|it| (is_child(it), it.model.contains("haiku"))).collect();
    let want = [(false, false), (true, false), (true, true), (false, false), (false, true), (false, false)];
    assert_eq!(is_small, want);
}

/// A hook can give more work to an idle team member; agents without a team are not affected.
#[tokio::test]
async fn hooks_may_keep_a_member_at_work() {
    for (in_team, wanted) in [(true, 2), (false, 1)] {
        let place = Place::new();
        let heard = place.dir.path().join("heard");
        let command = format!(
            "cat >> {0}; test -e {0}.once && exit 0; touch {0}.once; echo also sweep >&2; exit 2",
            heard.display()
        );
        let hooks =
            json!({"hooks": {"TeammateIdle": [{"hooks": [{"type": "command", "command": command}]}]}});
        place.write("home/.claude/settings.json", &hooks.to_string());
        let (spec, requests) =
            place.answering(move |request| match (is_child(request), request.messages.len()) {
                (false, 1) if in_team => Said::Blocks(call("t", "TeamCreate", json!({"team_name": "reds"}))),
                (false, 1 | 3) if !whole(request).contains("The agent a") => {
                    agent("c", json!({"name": "bee", "run_in_background": false}))
                }
                (true, _) if last(request).contains("also sweep") => Said::text("Swept."),
                (true, _) => Said::text("First."),
                _ => Said::text("done"),
            });
        let events = run(spec, "go").await;
        assert_eq!(requests.all().iter().filter(|it| is_child(it)).count(), wanted, "{in_team}");
        assert_eq!(reports(&events)[0].text, if in_team { "Swept." } else { "First." });
        let input = std::fs::read_to_string(&heard).unwrap_or_default();
        assert_eq!(
            input.contains(r#""teammate_name":"bee""#) && input.contains(r#""team_name":"reds""#),
            in_team,
            "{input}"
        );
    }
}

/// Hooks run again for memory files that are reloaded after a compaction.
#[tokio::test]
async fn hooks_hear_of_memory_after_a_summary() {
    let place = Place::new();
    place.write("ws/CLAUDE.md", "ROOT");
    let heard = place.dir.path().join("heard");
    let command = format!("cat >> {0}; echo >> {0}", heard.display());
    let hooks =
        json!({"hooks": {"InstructionsLoaded": [{"hooks": [{"type": "command", "command": command}]}]}});
    place.write("home/.claude/settings.json", &hooks.to_string());
    let (spec, _) = place.answering(|_| Said::text("words"));
    let (handle, mut events) = Session::open(spec).unwrap();
    for prompt in ["one", "/compact"] {
        handle.prompt(Prompt::text(prompt));
        while let Some(event) = events.next().await {
            if matches!(event.what, SessionEventKind::TurnEnded(_) | SessionEventKind::CommandEnded(_)) {
                break;
            }
        }
    }
    let reasons = || -> Vec<String> {
        let text = std::fs::read_to_string(&heard).unwrap_or_default();
        let lines = text.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
        lines.map(|it| it["load_reason"].as_str().unwrap().to_owned()).collect()
    };
    let mut waited = 0;
    while reasons().len() < 2 && waited < 6_000 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        waited += 1;
    }
    assert_eq!(reasons(), ["session_start", "compact"]);
    handle.close().await;
}

/// A skill file cannot set the permission mode.
#[tokio::test]
async fn a_broken_hook_of_a_skill_is_named() {
    let place = Place::new();
    place.write("ws/.claude/skills/x/SKILL.md", "---\ndescription: d\nhooks: {\"Nonsense\": []}\n---\nB");
    let (mut spec, _) = place.answering(|_| Said::text("ok"));
    spec.permissions.mode = Some(PermissionMode::Default);
    let said = notices(&run(spec, "go").await);
    assert!(said.contains("SKILL.md:3") && said.contains("Nonsense"), "{said}");
}
