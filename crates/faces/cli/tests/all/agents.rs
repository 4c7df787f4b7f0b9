//! `haft agents`, `haft skills`, and agents in `haft -p`.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use common::Haft;
use haft_testkit::{MockModel, Script};
use serde_json::{Value, json};

#[test]
fn kinds_are_listed_with_where_they_come_from_and_what_is_wrong() {
    let haft = Haft::new();
    haft.write(
        ".claude/agents/rev.md",
        "---\nname: rev\ndescription: Reviews: all of it\ntools: [Read, Grep]\nmodel: haiku\n---\nR.",
    );
    haft.write(".haft/agents/broken.md", "---\nname: broken\n---\nB.");
    haft.write_home(".claude/agents/mine.md", "---\nname: mine\ndescription: Mine\nmaxTurns: 3\n---\nM.");
    let output = haft.run(&["agents"], "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "one file is lost");
    for line in [
        "rev  (project; model haiku; tools Read, Grep)\n    Reviews: all of it\n",
        "mine  (user; at most 3 turns; all tools)\n",
        "Explore  (built in; mode plan; all tools but Edit, MultiEdit, NotebookEdit, Write, Agent)\n",
        "broken.md:1: `description` is missing: the agent is left out",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json: Value = serde_json::from_slice(&haft.run(&["agents", "--json"], "").stdout).unwrap();
    let names: Vec<&str> =
        json["agents"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["rev", "mine", "general-purpose", "Explore", "Plan"]);
    assert_eq!((&json["problems"][0]["line"], &json["problems"][0]["isLost"]), (&json!(1), &json!(true)));
}

#[test]
fn skills_are_listed() {
    let haft = Haft::new();
    haft.write(".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Fills forms\n---\nP.");
    haft.write(
        ".claude/skills/own/SKILL.md",
        "---\nname: own\ndescription: O\ndisable-model-invocation: true\n---\nO.",
    );
    haft.write(".claude/commands/hi.md", "Say hi.");
    let text = haft.ok(&["skills"], "");
    for line in [
        "/pdf  (skill; project)\n    Fills forms",
        "/own  (skill, only for you; project)",
        "/hi  (command; project)",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

async fn run(haft: &Haft, turns: Value, args: &[&str]) -> (Option<i32>, String, String, Vec<Value>) {
    let script: Script = serde_json::from_value(json!({"turns": turns})).unwrap();
    let model = MockModel::start(script).await.unwrap();
    let output = haft
        .async_command()
        .args(args)
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(model.refusals(), [""; 0]);
    let bodies = model.requests().iter().map(|it| it.json()).collect();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr), bodies)
}

#[tokio::test]
async fn a_plain_run_waits_for_agents_in_the_background() {
    let haft = Haft::new();
    let turns = json!([
        {"when": {"system": "Another agent gave you this task"}, "reply": [{"text": "Found in b.rs."}]},
        {"reply": [{"tool": {"name": "Agent", "input": {"description": "looks", "prompt": "look", "subagent_type": "Explore"}}}]},
        {"when": {"last_user": "Found in b.rs."}, "times": "always", "reply": [{"text": "It is in b.rs."}]},
        {"reply": [{"text": "Waiting."}]},
    ]);
    let (code, stdout, stderr, bodies) = run(&haft, turns, &["-p", "where is it?"]).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "It is in b.rs.\n", ""));
    let child = bodies.iter().find(|it| it["system"].to_string().contains("Another agent gave you")).unwrap();
    let names: Vec<&str> =
        child["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    for name in ["Write", "Edit", "Agent", "AskUserQuestion", "ExitPlanMode"] {
        assert!(!names.contains(&name), "{names:?}");
    }
    assert!(names.contains(&"Read") && names.contains(&"Grep"), "{names:?}");
}

#[tokio::test]
async fn rules_about_skills_decide() {
    for (rule, runs) in
        [("Skill(other)", true), ("Skill(pdf)", false), ("Skill(pdf:*)", false), ("Skill", false)]
    {
        let haft = Haft::new();
        haft.write(".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Fills forms\n---\nMARKER-77");
        let turns = json!([
            {"reply": [{"tool": {"name": "Skill", "input": {"skill": "/pdf", "args": "a.pdf"}}}]},
            {"reply": [{"text": "done"}]},
        ]);
        let (_, _, _, bodies) = run(&haft, turns, &["-p", "go", "--disallowedTools", rule]).await;
        let said = bodies.last().unwrap()["messages"].to_string();
        assert_eq!(said.contains("MARKER-77"), runs, "{rule}: {said}");
    }
}
