//! Processes that are killed while many agents work: every ending is told once.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{collections::BTreeMap, path::Path, time::Duration};

use haft_testkit::{MockModel, Script};
use serde_json::{Value, json};

use crate::common::Haft;

const AGENTS: usize = 30;

/// A model whose main agent starts all agents at once, and whose agents take
/// different times.
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

/// How often the log of the main agent tells every run.
fn told(log: &Path) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    for line in lines(log) {
        for run in line["origin"]["runIds"].as_array().into_iter().flatten() {
            *told.entry(run.as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    told
}

/// Runs that a call was told had begun.
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
    // After how many requests it is killed, and how often: from before anybody began to when all reports are on their way.
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
        // What was told is in what the model was sent, each once.
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
        // Nobody is left behind as if it still worked.
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
