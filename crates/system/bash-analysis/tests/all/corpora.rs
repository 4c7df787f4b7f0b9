//! Runs the shared corpora against the analysis.

#![allow(clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::judging;

use std::{path::Path, time::Duration};

use judging::{Decision, Judge, Rules};
use serde_json::Value;

fn rows(name: &str) -> Vec<Value> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/testkit/corpora");
    let text = std::fs::read_to_string(corpora.join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn decide(row: &Value) -> Decision {
    let list = |key: &str| -> Vec<String> {
        row["rules"][key].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let rules = Rules { allow: list("allow"), ask: list("ask"), deny: list("deny") };
    let judge = Judge {
        rules: &rules,
        mode: row["mode"].as_str().unwrap(),
        cwd: row["cwd"].as_str().unwrap().as_ref(),
        home: row["home"].as_str().unwrap().as_ref(),
    };
    judge.decide(row["command"].as_str().unwrap())
}

fn name(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask | Decision::Insist => "ask",
        Decision::Deny => "deny",
    }
}

#[test]
fn strict() {
    let mut wrong = Vec::new();
    for row in rows("bash_permissions.jsonl") {
        let got = name(decide(&row));
        if row["expect"] != got {
            wrong.push(format!("{}: want {} got {got}: {}", row["id"], row["expect"], row["command"]));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// CPU time of this thread, which does not depend on the machine's load.
fn time_on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or_default())
}

#[test]
fn minimum() {
    let mut unpreferred = 0;
    for row in rows("bash_permissions_min.jsonl") {
        let judged = row.clone();
        let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
        let judge = move || (name(decide(&judged)), time_on_cpu());
        let (got, took) = thread.spawn(judge).unwrap().join().unwrap();
        assert_ne!(got, "allow", "{}", row["id"]);
        if row["prefer"] != got {
            unpreferred += 1;
            eprintln!("{} prefers {} got {got}", row["id"], row["prefer"]);
        }
        if let Some(limit) = row["max_ms"].as_u64() {
            assert!(took < Duration::from_millis(limit), "{} took {took:?}", row["id"]);
        }
    }
    eprintln!("{unpreferred} not as preferred");
}

#[test]
fn usability() {
    let rows = rows("bash_usability_extra.jsonl");
    let asks: Vec<String> = rows
        .iter()
        .filter(|row| decide(row) != Decision::Allow)
        .map(|row| row["command"].to_string())
        .collect();
    assert!(asks.is_empty(), "{} of {} ask:\n{}", asks.len(), rows.len(), asks.join("\n"));
}
