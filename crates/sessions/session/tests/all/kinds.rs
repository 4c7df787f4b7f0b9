//! Fields of agent files, one by one.

use haft_model::{Effort, Request};
use haft_session::{AgentStatus, HostAgent};
use haft_types::EnvVars;
use serde_json::{Value, json};

use crate::{
    agents::{agent, first, is_child, main_results, reports, tools},
    rig::{Place, Said, call, run},
    skills::{notices, whole},
};

/// Order of precedence of the model: the call, the definition, the variable, the parent. The report
/// names the model that was used.
#[tokio::test]
async fn the_model_of_an_agent_has_four_sources() {
    for (called, defined, variable, want, why) in [
        (Some("haiku"), Some("sonnet"), Some("opus"), "haiku", "the call"),
        (None, Some("sonnet"), Some("opus"), "sonnet", "agents/k.md)"),
        (None, None, Some("haiku"), "haiku", "CLAUDE_CODE_SUBAGENT_MODEL"),
        (None, Some("inherit"), None, "opus", "the agent that started it"),
        (None, None, None, "opus", "the agent that started it"),
    ] {
        let place = Place::new();
        let model = defined.map(|it| format!("model: {it}\n")).unwrap_or_default();
        place.write("ws/.claude/agents/k.md", &format!("---\nname: k\ndescription: d\n{model}---\nK"));
        let mut input = json!({"subagent_type": "k", "run_in_background": false});
        if let Some(called) = called {
            input["model"] = json!(called);
        }
        let (mut spec, requests) = place.answering(move |request| {
            if is_child(request) {
                Said::text("done")
            } else if request.messages.len() == 1 {
                agent("c1", input.clone())
            } else {
                Said::text("done")
            }
        });
        if let Some(variable) = variable {
            let more = ("CLAUDE_CODE_SUBAGENT_MODEL".into(), variable.into());
            let all = spec.place.variables.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            spec.place.variables = all.chain([more]).collect::<EnvVars>();
        }
        let events = run(spec, "go").await;
        let child = requests.all().into_iter().find(is_child).unwrap();
        assert!(child.model.contains(want), "{called:?} {defined:?} {variable:?}: {}", child.model);
        let report = &reports(&events)[0];
        assert_eq!(report.model, child.model);
        assert!(
            report.model_from.ends_with(why),
            "{called:?} {defined:?} {variable:?}: {}",
            report.model_from
        );
        let json = report.to_json();
        assert_eq!(
            (&json["resolvedModel"], &json["modelFrom"]),
            (&json!(child.model), &json!(report.model_from))
        );
    }
}

#[tokio::test]
async fn fields_of_a_definition_count() {
    let check = async |head: &str, look: &dyn Fn(&Request) -> bool| {
        let place = Place::new();
        place.write("ws/CLAUDE.md", "ROOT-MEMORY");
        place.write("ws/.claude/agent-memory/k/MEMORY.md", "LEARNED");
        place.write(
            "ws/.claude/agents/k.md",
            &format!("---\nname: k\ndescription: d\n{head}\n---\nYOU ARE K"),
        );
        let (spec, requests) = place.answering(|request| {
            if is_child(request) {
                Said::text("done")
            } else if request.messages.len() == 1 {
                agent("c1", json!({"subagent_type": "k"}))
            } else {
                Said::text("done")
            }
        });
        run(spec, "go").await;
        let child = requests.all().into_iter().find(is_child).unwrap();
        assert!(look(&child), "{head}: {:?}", child.system);
    };
    let system = |it: &Request| it.system.iter().map(|it| it.text.clone()).collect::<String>();
    check("color: red", &|it| system(it).contains("YOU ARE K") && system(it).contains("ROOT-MEMORY")).await;
    check("omitClaudeMd: true", &|it| !system(it).contains("ROOT-MEMORY")).await;
    check("memory: project", &|it| system(it).contains("LEARNED")).await;
    check("effort: high", &|it| it.effort == Some(Effort::High)).await;
    check("effort: 5", &|it| it.effort == Some(Effort::Low)).await;
    check("tools: Read, Grep", &|it| tools(it) == ["Grep", "Read"] || tools(it) == ["Read", "Grep"]).await;
    check("disallowedTools: [Bash, Write]", &|it| !tools(it).contains(&String::from("Bash"))).await;
    check("criticalSystemReminder_EXPERIMENTAL: REMEMBER", &|it| first(it).ends_with("REMEMBER")).await;
    check("initialPrompt: NEVER HERE", &|it| !whole(it).contains("NEVER HERE")).await;
}

/// `--agent`: the session uses the definition's prompt, tools and limits, and its first prompt is a turn
/// before the user's.
#[tokio::test]
async fn the_agent_of_a_session_speaks_first() {
    let place = Place::new();
    place.write(
        "ws/.claude/agents/k.md",
        "---\nname: k\ndescription: d\ninitialPrompt: SAY HELLO\ndisallowedTools: Bash\neffort: max\n---\nYOU ARE K",
    );
    let (mut spec, requests) = place.answering(|_| Said::text("ok"));
    spec.model.as_mut().unwrap().agent = Some(String::from("k"));
    run(spec, "the person's").await;
    let all = requests.all();
    assert_eq!(all.len(), 2);
    assert_eq!(first(&all[0]), "SAY HELLO");
    assert!(whole(&all[1]).contains("the person's"));
    assert!(all[0].system[0].text.contains("YOU ARE K") && !tools(&all[0]).contains(&String::from("Bash")));
    assert_eq!(all[0].effort, Some(Effort::Max));
}

/// A report matches its JSON Schema, or the outcome says that it does not.
#[tokio::test]
async fn a_report_follows_the_schema_of_its_kind() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]});
    for (attempts, status, n) in [
        (vec![json!({"n": 7})], AgentStatus::Completed, json!(7)),
        (vec![json!({"n": 0}), json!({"n": "x"}), json!({"n": 2})], AgentStatus::Completed, json!(2)),
        (vec![json!({"n": 0}); 9], AgentStatus::Incomplete, Value::Null),
    ] {
        let place = Place::new();
        let (mut spec, requests) = place.answering(move |request| {
            if is_child(request) {
                let at = (request.messages.len() - 1) / 2;
                Said::Blocks(call(&format!("s{at}"), "StructuredOutput", attempts[at].clone()))
            } else if request.messages.len() == 1 {
                agent("c1", json!({"subagent_type": "k", "run_in_background": false}))
            } else {
                Said::text("done")
            }
        });
        let definition = json!({"outputSchema": schema});
        let kind = HostAgent {
            description: String::from("d"),
            prompt: String::from("K"),
            definition,
            ..HostAgent::default()
        };
        spec.extensions.agents.push((String::from("k"), kind));
        let events = run(spec, "go").await;
        let report = &reports(&events)[0];
        assert_eq!(report.status, status, "{report:?}");
        assert_eq!(report.structured.as_ref().map_or(Value::Null, |it| it["n"].clone()), n);
        let main = requests.all().into_iter().find(|it| !is_child(it)).unwrap();
        assert!(!tools(&main).contains(&String::from("StructuredOutput")), "the agent's alone");
        assert_eq!(main_results(&events)[0].0, status != AgentStatus::Completed);
    }
}

/// Problems in agent files are reported with file and line, whether or not the agent is usable.
#[tokio::test]
async fn files_with_mistakes_are_named() {
    for (text, is_there, line, says) in [
        ("---\nname: k\ndescription: a: b: c\n---\nB", true, 0, ""),
        ("\u{feff}---\r\nname: k\r\ndescription: d\r\n---\r\nB", true, 0, ""),
        ("---\nname: k\n\tdescription: tabbed\n---\nB", false, 1, "`description` is missing"),
        ("---\nname: k\ndescription: d\neffort: huge\n---\nB", true, 4, "effort \"huge\""),
        (
            "---\nname: k\ndescription: d\nmcpServers: {\"x\": {\"command\": \"evil\"}}\n---\nB",
            true,
            4,
            "not started",
        ),
        ("---\nname: k\ndescription: d\nhooks: {Stop: []}\n---\nB", true, 4, "are not run"),
        ("---\nname: k\ndescription: d\nautoCompactWindow: lots\n---\nB", true, 4, "autoCompactWindow"),
        ("---\nname: k\ndescription: d\noutputSchema: no\n---\nB", true, 4, "outputSchema"),
        ("---\nname: k\ndescription: d\nmood: good\n---\nB", true, 4, "`mood` is no field"),
        ("---\ndescription: d\n---\nB", false, 1, "`name` is missing"),
    ] {
        let place = Place::new();
        place.write("ws/.claude/agents/k.md", text);
        place.write("ws/.claude/agents/good.md", "---\nname: good\ndescription: d\n---\nG");
        let (spec, requests) = place.answering(|_| Said::text("ok"));
        let events = run(spec, "go").await;
        let all = requests.all();
        let listed =
            all[0].tools.definitions().iter().find(|it| it.name == "Agent").unwrap().description.clone();
        assert!(listed.contains("- good: d"), "{text}");
        assert_eq!(listed.contains("- k: "), is_there, "{text}: {listed}");
        let said = notices(&events);
        match says {
            "" => assert!(!said.contains("k.md"), "{text}: {said}"),
            says => assert!(said.contains(&format!("k.md:{line}:")) && said.contains(says), "{text}: {said}"),
        }
    }
}
