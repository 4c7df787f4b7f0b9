//! `haft agents`, `haft skills`, and sub-agents in `haft -p`.
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
        "rev  (project; model haiku from its definition; tools Read, Grep)\n    Reviews: all of it\n",
        "mine  (user; the model of who starts it; at most 3 turns; all tools)\n",
        "Explore  (built in; the model of who starts it; mode plan; all tools but Edit, MultiEdit, NotebookEdit, Write, Agent)\n",
        "broken.md:1: `description` is missing: the agent is left out",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json: Value = serde_json::from_slice(&haft.run(&["agents", "--json"], "").stdout).unwrap();
    let names: Vec<&str> =
        json["agents"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["rev", "mine", "general-purpose", "Explore", "Plan"]);
    assert_eq!((&json["problems"][0]["line"], &json["problems"][0]["isLost"]), (&json!(1), &json!(true)));
    // The listing says why an agent uses its model.
    let json = haft.command().args(["agents", "--json"]).env("CLAUDE_CODE_SUBAGENT_MODEL", "sonnet").output();
    let json: Value = serde_json::from_slice(&json.unwrap().stdout).unwrap();
    let of = |number: usize| (&json["agents"][number]["model"], json["agents"][number]["modelFrom"].as_str());
    assert!(of(0).0 == "haiku" && of(0).1.unwrap().ends_with("agents/rev.md)"), "{json}");
    assert_eq!(of(1), (&json!("sonnet"), Some("CLAUDE_CODE_SUBAGENT_MODEL")));
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

/// The request of a forked agent equals its parent's byte for byte, except for the last two messages and
/// the cache markers.
#[tokio::test]
async fn a_fork_sends_the_bytes_of_its_parent() {
    let haft = Haft::new();
    (0..6).for_each(|n| haft.write(&format!("f{n}.txt"), "text\n"));
    let mut turns: Vec<Value> = vec![json!({"when": {"last_user": "You are a fork of the agent above"},
        "times": "always", "reply": [{"text": "forked"}]})];
    turns.extend((0..6).map(
        |n| json!({"reply": [{"tool": {"name": "Read", "input": {"file_path": format!("f{n}.txt")}}}]}),
    ));
    let input =
        json!({"description": "f", "prompt": "go on", "subagent_type": "fork", "run_in_background": false});
    turns.push(json!({"reply": [{"text": "I look."}, {"tool": {"name": "Agent", "input": input}}]}));
    turns.push(json!({"reply": [{"text": "done"}]}));
    let (code, _, stderr, bodies) = run(&haft, json!(turns), &["-p", "go"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    let is_fork = |it: &&Value| it["messages"].to_string().contains("You are a fork of the agent above");
    let at = bodies.iter().position(|it| is_fork(&it)).unwrap();
    let (parent, fork) = (&bodies[at - 1], &bodies[at]);
    let unmarked = |value: &Value| {
        let mut value = value.clone();
        forget_marks(&mut value);
        value
    };
    for part in ["system", "tools", "model", "thinking"] {
        assert_eq!(unmarked(&parent[part]).to_string(), unmarked(&fork[part]).to_string(), "{part}");
    }
    let messages = |it: &Value| -> Vec<String> {
        it["messages"].as_array().unwrap().iter().map(|it| unmarked(it).to_string()).collect()
    };
    let (parent, fork) = (messages(parent), messages(fork));
    assert_eq!(fork.len(), parent.len() + 2);
    assert_eq!(fork[..parent.len()], parent[..]);
}

fn forget_marks(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(forget_marks);
        }
        Value::Array(list) => list.iter_mut().for_each(forget_marks),
        _ => (),
    }
}

/// The result has the usage of each agent, which adds up to the totals by model and the cost, and the
/// number of agents.
#[tokio::test]
async fn results_say_who_used_what() {
    let haft = Haft::new();
    let turns = json!([
        {"when": {"system": "Another agent gave you this task"}, "times": "always", "reply": [{"text": "Found."}]},
        {"reply": [
            {"tool": {"name": "Agent", "input": {"description": "a", "prompt": "one", "run_in_background": false}}},
            {"tool": {"name": "Agent", "input": {"description": "b", "prompt": "two", "subagent_type": "Explore"}}},
        ]},
        {"times": "always", "reply": [{"text": "done"}]},
    ]);
    let (code, stdout, stderr, _) =
        run(&haft, turns, &["-p", "go", "--output-format", "stream-json", "--verbose"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    let frames: Vec<Value> = stdout.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let result = frames.iter().rfind(|it| it["type"] == "result").unwrap();
    let sum = |of: &str, field: &str| -> f64 {
        result[of].as_object().unwrap().values().map(|it| it[field].as_f64().unwrap()).sum()
    };
    for field in
        ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "costUSD"]
    {
        assert!((sum("agentUsage", field) - sum("modelUsage", field)).abs() < 1e-9, "{field}: {result}");
    }
    assert!(
        (sum("agentUsage", "costUSD") - result["total_cost_usd"].as_f64().unwrap()).abs() < 1e-9,
        "{result}"
    );
    let kinds: Vec<&Value> =
        result["agentUsage"].as_object().unwrap().values().map(|it| &it["agentType"]).collect();
    assert!(kinds.contains(&&json!("Explore")) && kinds.contains(&&json!("general-purpose")), "{result}");
    let stats = &result["subagent_stats"];
    assert_eq!(
        (&stats["spawned"], &stats["completed"], &stats["max_depth"], &stats["started_in_background"]),
        (&json!(2), &json!(2), &json!(1), &json!(1)),
        "{stats}"
    );
    assert_eq!(stats["requested"], json!({"background": 0, "foreground": 1, "unset": 1}));
}
