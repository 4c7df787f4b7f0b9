//! `haft worktrees`, and what users see of sub-agents.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{path::Path, process::Command};

use haft_testkit::{MockModel, Script};
use serde_json::{Value, json};

use crate::common::Haft;

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn repository(haft: &Haft) {
    let ws = haft.ws();
    git(&ws, &["init", "-q", "-b", "main"]);
    git(&ws, &["config", "user.name", "A"]);
    git(&ws, &["config", "user.email", "a@b.test"]);
    haft.write("a.txt", "one\n");
    haft.write(".gitignore", "*.log\n");
    git(&ws, &["add", "."]);
    git(&ws, &["commit", "-q", "-m", "first"]);
}

async fn run(haft: &Haft, turns: Value, args: &[&str]) {
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
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn worktrees_are_listed_rescued_removed_and_brought_back() {
    let haft = Haft::new();
    repository(&haft);
    let turns = json!([
        {"reply": [{"tool": {"name": "EnterWorktree", "input": {"name": "try"}}}]},
        {"reply": [{"tool": {"name": "Write", "input": {"file_path": "new.txt", "content": "PRECIOUS"}}}]},
        {"reply": [{"tool": {"name": "Write", "input": {"file_path": "x.log", "content": "IGNORED"}}}]},
        {"reply": [{"text": "done"}]},
    ]);
    run(&haft, turns, &["-p", "go", "--permission-mode", "acceptEdits"]).await;
    let worktree = haft.ws().join(".claude/worktrees/try");
    assert_eq!(std::fs::read_to_string(worktree.join("new.txt")).unwrap(), "PRECIOUS");
    let list = || -> Value { serde_json::from_str(&haft.ok(&["worktrees", "--json"], "")).unwrap() };
    let one = list()["worktrees"][0].clone();
    assert_eq!(
        (&one["name"], &one["state"], &one["changedFiles"], &one["ignoredFiles"], &one["untouched"]),
        (&json!("try"), &json!("left"), &json!(1), &json!(1), &json!(false)),
        "{one}"
    );
    assert!(haft.ok(&["worktrees"], "").contains("1 file(s) with changes"));
    let kept: Value = serde_json::from_str(&haft.ok(&["worktrees", "rescue", "try", "--json"], "")).unwrap();
    assert_eq!(kept["rescued"], json!(["refs/haft/rescue/try/1"]));
    assert!(worktree.join("new.txt").exists());
    let removed: Value =
        serde_json::from_str(&haft.ok(&["worktrees", "remove", "try", "--json"], "")).unwrap();
    assert!(!worktree.exists());
    assert_eq!(git(&haft.ws(), &["show", "refs/haft/rescue/try/1:new.txt"]), "PRECIOUS");
    assert_eq!(list()["worktrees"][0]["state"], "removed");
    haft.ok(&["undo", removed["undo"].as_str().unwrap()], "");
    assert_eq!(std::fs::read_to_string(worktree.join("x.log")).unwrap(), "IGNORED");
    assert!(git(&worktree, &["status", "--porcelain"]).contains("new.txt"));
    assert_eq!(list()["worktrees"][0]["state"], "left");
    let unknown = haft.run(&["worktrees", "remove", "nobody"], "");
    assert!(!unknown.status.success());
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there are: try"));
}

#[tokio::test]
async fn the_tree_of_agents_and_what_each_cost_is_shown() {
    let haft = Haft::new();
    let child = "Another agent gave you this task";
    let start = |name: &str, prompt: &str| {
        json!({"tool": {"name": "Agent", "input": {
            "description": format!("does {prompt}"), "prompt": prompt, "name": name, "run_in_background": false,
        }}})
    };
    let turns = json!([
        {"when": {"system": child, "last_user": "upper"}, "reply": [start("leaf", "lower")]},
        {"when": {"system": child, "last_user": "lower"}, "reply": [{"text": "Lower done."}]},
        {"when": {"system": child}, "reply": [{"text": "Upper done."}]},
        {"reply": [start("boss", "upper")]},
        {"reply": [{"text": "done"}]},
    ]);
    run(&haft, turns, &["-p", "go"]).await;
    let listed: Value =
        serde_json::from_str(haft.ok(&["sessions", "--json"], "").lines().next().unwrap()).unwrap();
    let id = listed["id"].as_str().unwrap();
    let text = haft.ok(&["sessions", "show", id], "");
    let (boss, leaf) = (text.find("  boss does upper").unwrap(), text.find("    leaf does lower").unwrap());
    assert!(boss < leaf && text.contains("general-purpose, completed, claude-"), "{text}");
    assert!(text.contains(" from the agent that started it, 2 requests"), "{text}");
    let last = haft.ok(&["sessions", "show", id, "--json"], "");
    let agents: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!(agents["agents"][1]["parent"], agents["agents"][0]["id"]);
    let cost: Value = serde_json::from_str(&haft.ok(&["cost", "--json"], "")).unwrap();
    let of = |number: usize| cost["agents"][number]["usd"].as_f64().unwrap();
    let sum = cost["usd"].as_f64().unwrap() + of(0) + of(1);
    assert!((cost["usd_with_agents"].as_f64().unwrap() - sum).abs() < 1e-9 && 0.0 < of(1), "{cost}");
    assert!(haft.ok(&["cost"], "").contains("together $"));
}

#[test]
fn rights_of_an_agent_are_explained() {
    let haft = Haft::new();
    haft.write(
        ".claude/agents/reader.md",
        "---\nname: reader\ndescription: Reads\ntools: Read, Bash\npermissionMode: plan\n---\nR.",
    );
    for (agent, tool, input, code, words) in [
        ("reader", "Write", r#"{"file_path": "x", "content": ""}"#, 2, "reader"),
        ("reader", "Bash", r#"{"command": "touch x"}"#, 2, "plan"),
        ("general-purpose", "Read", r#"{"file_path": "a.txt"}"#, 0, "general-purpose: mode default"),
        ("GENERAL_PURPOSE", "Bash", r#"{"command": "touch /etc/x"}"#, 1, "strictest answer counts"),
    ] {
        let output = haft.run(&["permissions", "explain", tool, input, "--agent", agent], "");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{agent} {tool}: {text}");
        assert!(text.contains(words), "{agent} {tool}: {text}");
    }
    let output = haft.run(&["permissions", "explain", "ls", "--agent", "nobody"], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no kind of agent nobody"));
    let json = haft.run(&["permissions", "explain", "ls", "--agent", "reader", "--json"], "");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["agent"], json["levels"].as_array().unwrap().len()), (&json!("reader"), 3));
}

/// A worktree whose creation was killed: it is listed, its name can be used again, and files written in
/// it are kept when it is removed.
#[tokio::test]
async fn a_worktree_that_was_cut_off_is_named_and_goes() {
    let haft = Haft::new();
    repository(&haft);
    let enter = |then: Value| {
        json!([
            {"reply": [{"tool": {"name": "EnterWorktree", "input": {"name": "try"}}}]},
            {"reply": [then]},
            {"reply": [{"text": "done"}]},
        ])
    };
    let write = json!({"tool": {"name": "Write", "input": {"file_path": "new.txt", "content": "WORK"}}});
    let accept = ["-p", "go", "--permission-mode", "acceptEdits"];
    run(&haft, enter(write.clone()), &accept).await;
    let worktree = haft.ws().join(".claude/worktrees/try");
    // The state left by a session that was killed together with its git.
    let cut_off = || {
        let dir = haft.home().join(".haft/worktrees");
        let mut files = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
        let file = files.find(|it| it.extension().is_some_and(|it| it == "json")).unwrap();
        let mut record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        record["state"] = json!("making");
        record["owner"] = json!({"pid": 1, "start": 1});
        record["adminDir"] = json!("");
        record["link"] = json!("");
        std::fs::write(&file, record.to_string()).unwrap();
        let admin = haft.ws().join(".git/worktrees/try");
        std::fs::write(admin.join("locked"), "initializing").unwrap();
        std::fs::rename(admin.join("index"), admin.join("index.lock")).unwrap();
        std::fs::remove_file(worktree.join(".gitignore")).unwrap();
        std::fs::write(worktree.join("a.txt"), "on").unwrap();
    };
    cut_off();
    let list = || -> Value { serde_json::from_str(&haft.ok(&["worktrees", "--json"], "")).unwrap() };
    assert_eq!(list()["worktrees"][0]["state"], "cut off");
    let said = haft.ok(&["worktrees"], "");
    assert!(said.contains("1 file(s)") && said.contains("haft worktrees remove try"), "{said}");
    let removed: Value =
        serde_json::from_str(&haft.ok(&["worktrees", "remove", "try", "--json"], "")).unwrap();
    assert!(!worktree.exists() && git(&haft.ws(), &["branch", "--list", "worktree-try"]).is_empty());
    haft.ok(&["undo", removed["undo"].as_str().unwrap()], "");
    assert_eq!(std::fs::read_to_string(worktree.join("new.txt")).unwrap(), "WORK");
    std::fs::remove_dir_all(&worktree).unwrap();
    // Without files of the user a call with the same name creates it again.
    run(&haft, enter(write.clone()), &accept).await;
    std::fs::remove_file(worktree.join("new.txt")).unwrap();
    cut_off();
    run(&haft, enter(write), &accept).await;
    assert_eq!(std::fs::read_to_string(worktree.join("a.txt")).unwrap(), "one\n");
    assert_eq!(std::fs::read_to_string(worktree.join("new.txt")).unwrap(), "WORK");
    assert_eq!(list()["worktrees"][0]["state"], "left");
}
