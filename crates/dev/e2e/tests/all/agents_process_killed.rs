//! Processes killed while many sub-agents work: the end of each is reported exactly once.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{collections::BTreeMap, path::Path, time::Duration};

use haft_testkit::{MockModel, Script};
use serde_json::{Value, json};

use crate::common::Haft;

const AGENTS: usize = 30;

/// A model whose main agent starts all agents at once; the agents take different times.
async fn model() -> MockModel {
    let start: Vec<Value> = (0..AGENTS)
        .map(|n| json!({"tool": {"name": "Agent", "input": {"description": format!("job {n}"), "prompt": format!("job-{n}-")}}}))
        .collect();
    let mut turns: Vec<Value> = (0..AGENTS)
        .map(|n| {
            json!({
                "when": {"system": "Another agent gave you this task", "last_user": format!("job-{n}-")},
                "times": "always", "delay_ms": (n % 7) * 60, "reply": [{"text": format!("report-{n}-")}],
            })
        })
        .collect();
    turns.push(json!({"when": {"last_user": {"equals": "start them"}}, "times": "always", "reply": start}));
    turns.push(json!({"times": "always", "delay_ms": 20, "reply": [{"text": "ok"}]}));
    let script: Script = serde_json::from_value(json!({"turns": turns, "strict": false})).unwrap();
    MockModel::start(script).await.unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read(path).map(|it| String::from_utf8_lossy(&it).into_owned()).unwrap_or_default();
    text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect()
}

/// How often the main agent's log reports the end of each agent.
fn told(log: &Path) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    for line in lines(log) {
        for run in line["origin"]["runIds"].as_array().into_iter().flatten() {
            *told.entry(run.as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    told
}

/// Agents whose start a call reported.
fn launched(log: &Path) -> Vec<String> {
    let begun = |it: &Value| {
        (it["toolUseResult"]["status"] == "async_launched").then(|| it["toolUseResult"]["runId"].clone())
    };
    lines(log).iter().filter_map(begun).map(|it| it.as_str().unwrap().to_owned()).collect()
}

fn log_of(haft: &Haft) -> std::path::PathBuf {
    let id = haft.ok(&["sessions", "--json"], "");
    let id: Value = serde_json::from_str(id.lines().next().unwrap()).unwrap();
    id["path"].as_str().unwrap().into()
}

#[tokio::test]
async fn every_ending_is_told_once_whenever_the_process_is_killed() {
    // Kill after this many requests, possibly several times: from before the first agent starts to when
    // all reports are pending.
    for kills in [&[1_usize][..], &[2], &[9], &[17], &[28], &[31], &[6, 4], &[12, 3, 2]] {
        let haft = Haft::new();
        let model = model().await;
        let start = |prompt: &str, resumes: bool| {
            let mut command = haft.async_command();
            command.args(["-p", prompt]).env("ANTHROPIC_BASE_URL", model.url()).env("HAFT_MAX_AGENTS", "30");
            if resumes {
                command.arg("--continue");
            }
            command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
            command.kill_on_drop(true).spawn().unwrap()
        };
        let mut prompt = "start them";
        for (number, after) in kills.iter().enumerate() {
            let (from, mut child) = (model.count(), start(prompt, 0 < number));
            loop {
                if from + after <= model.count() {
                    break;
                }
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            child.kill().await.ok();
            prompt = "go on";
        }
        let end = start("what became of them?", true).wait().await.unwrap();
        assert!(end.success(), "{kills:?}");
        let log = log_of(&haft);
        let (told, launched) = (told(&log), launched(&log));
        let doubled: Vec<_> = told.iter().filter(|it| 1 < *it.1).collect();
        assert!(doubled.is_empty(), "{kills:?}: told more than once: {doubled:?}");
        let lost: Vec<_> = launched.iter().filter(|it| !told.contains_key(*it)).collect();
        assert!(lost.is_empty(), "{kills:?}: never told: {lost:?} of {}", launched.len());
        // Each report in the log was sent to the model once.
        let last = model.requests().last().unwrap().json()["messages"].to_string();
        for run in lines(&log)
            .iter()
            .filter(|it| it["origin"]["runIds"].is_array())
            .flat_map(|it| it["message"]["content"].as_array().cloned().unwrap_or_default())
        {
            let text = run["text"].as_str().unwrap_or_default().to_owned();
            let id = text.split("<task-id>").nth(1).and_then(|it| it.split('<').next()).map(str::to_owned);
            if let Some(id) = id {
                assert_eq!(last.matches(&format!("<task-id>{id}")).count(), 1, "{kills:?}: {id}");
            }
        }
        // No agent is listed as running.
        let shown: Value = serde_json::from_str(
            haft.ok(&["sessions", "show", log.file_stem().unwrap().to_str().unwrap(), "--json"], "")
                .lines()
                .last()
                .unwrap(),
        )
        .unwrap();
        if !launched.is_empty() {
            assert!(shown["agents"].as_array().is_some(), "{shown}");
        }
    }
}

/// A model whose agents act before they report: most append a line to a shared file, every third writes
/// a file in its own worktree.
async fn acting_model(acted: &Path) -> MockModel {
    let is_apart = |n: usize| n.is_multiple_of(3);
    let start: Vec<Value> = (0..AGENTS)
        .map(|n| {
            let mut input = json!({"description": format!("job {n}"), "prompt": format!("job-{n}-")});
            if is_apart(n) {
                input["isolation"] = json!("worktree");
            }
            json!({"tool": {"name": "Agent", "input": input}})
        })
        .collect();
    let mut turns = Vec::new();
    for n in 0..AGENTS {
        let act = if is_apart(n) {
            json!({"name": "Write", "input": {"file_path": "made.txt", "content": format!("acted-{n}-")}})
        } else {
            let command = format!("echo acted-{n}- | tee -a '{}'", acted.display());
            json!({"name": "Bash", "input": {"command": command, "description": "acts"}})
        };
        let child = |more: Value, reply: Value| {
            let mut when = json!({"system": "Another agent gave you this task"});
            when.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"when": when, "times": "always", "delay_ms": (n % 7) * 20, "reply": [reply]})
        };
        let done = if is_apart(n) { "made.txt".to_owned() } else { format!("acted-{n}-") };
        turns.push(child(json!({"tool_result": done}), json!({"text": "report"})));
        turns.push(child(json!({"last_user": format!("job-{n}-")}), json!({"tool": act})));
    }
    turns.push(json!({"when": {"last_user": {"equals": "start them"}}, "times": "always", "reply": start}));
    turns.push(json!({"times": "always", "delay_ms": 20, "reply": [{"text": "ok"}]}));
    let script: Script = serde_json::from_value(json!({"turns": turns, "strict": false})).unwrap();
    MockModel::start(script).await.unwrap()
}

/// Kills the process repeatedly at random moments while agents work. No action happens twice; the end of
/// each started agent is reported once; files written in a worktree are still there and the worktree is
/// listed; an empty worktree is removed or listed with its problem. `HAFT_KILL_ROUNDS` sets the number
/// of rounds, `HAFT_KILL_SEED` the moments.
#[tokio::test]
async fn kills_lose_no_work_and_do_nothing_twice() {
    let number =
        |name: &str, usual: u64| std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(usual);
    let (rounds, seed) = (number("HAFT_KILL_ROUNDS", 4), number("HAFT_KILL_SEED", 7));
    let mut state = seed;
    let mut dice = move |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for round in 0..rounds {
        let haft = Haft::new();
        let git = |words: &[&str]| {
            let done = std::process::Command::new("git").args(words).current_dir(haft.ws()).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        git(&["init", "-q", "-b", "main"]);
        haft.write("a.txt", "a\n");
        haft.write(".gitignore", ".claude/\nacted\n");
        git(&["add", "."]);
        git(&["-c", "user.name=A", "-c", "user.email=a@b.test", "commit", "-qm", "First"]);
        let acted = haft.ws().join("acted");
        let model = acting_model(&acted).await;
        let start = |prompt: &str, resumes: bool| {
            let mut command = haft.async_command();
            command.args(["-p", prompt, "--permission-mode", "acceptEdits", "--allowedTools", "Bash"]);
            command.env("ANTHROPIC_BASE_URL", model.url()).env("HAFT_MAX_AGENTS", "30");
            if resumes {
                command.arg("--continue");
            }
            command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
            command.kill_on_drop(true).spawn().unwrap()
        };
        let mut moments = Vec::new();
        for kill in 0..=dice(2) {
            let prompt = if kill == 0 { "start them" } else { "go on" };
            let (from, mut child) = (model.count(), start(prompt, 0 < kill));
            let (after, more) = (1 + dice(2 * AGENTS as u64), dice(40));
            moments.push((after, more));
            while model.count() < from + usize::try_from(after).unwrap()
                && child.try_wait().unwrap().is_none()
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(more)).await;
            child.kill().await.ok();
        }
        let about = format!("round {round} of seed {seed}, killed at {moments:?}");
        let end = start("what became of them?", true).wait().await.unwrap();
        assert!(end.success(), "{about}");
        let log = log_of(&haft);
        let (told, launched) = (told(&log), launched(&log));
        assert!(told.values().all(|it| *it == 1), "{about}: {told:?}");
        let lost: Vec<_> = launched.iter().filter(|it| !told.contains_key(*it)).collect();
        assert!(lost.is_empty(), "{about}: never told: {lost:?}");
        let done = std::fs::read_to_string(&acted).unwrap_or_default();
        let mut once: Vec<&str> = done.lines().collect();
        let count = once.len();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), count, "{about}: done twice: {done}");
        // Agents of this session may be resumed in their worktrees; the next session removes the empty
        // ones.
        assert!(start("something else", false).wait().await.unwrap().success(), "{about}");
        check_worktrees(&haft, &about);
    }
}

/// Checks that every worktree on disk is listed and still has its files.
fn check_worktrees(haft: &Haft, about: &str) {
    let listed = haft.ok(&["worktrees", "--json"], "");
    let left = std::fs::read_dir(haft.ws().join(".claude/worktrees")).into_iter().flatten().flatten();
    for place in left.map(|it| it.path()).filter(|it| it.is_dir()) {
        let name = place.display().to_string();
        assert!(listed.contains(&name), "{about}: {name} is not listed: {listed}");
        let made = std::fs::read_to_string(place.join("made.txt")).unwrap_or_default();
        let all: Value = serde_json::from_str(&listed).unwrap();
        let all = all["worktrees"].as_array().unwrap();
        let entry = all.iter().find(|it| it["path"] == *name).unwrap();
        let is_half = entry["problem"].is_string();
        assert!(is_half || made.starts_with("acted-"), "{about}: {made:?} is in {entry}");
    }
}
