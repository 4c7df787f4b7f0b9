//! `haft cost`, and other output that reports prompt cache misses.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{path::PathBuf, process::Stdio};

use common::Haft;
use haft_testkit::{MockModel, Script, Turn, UsageReply};
use serde_json::{Value, json};

/// Runs `haft -p` with these turns; returns standard output and standard error.
async fn run(haft: &Haft, turns: Vec<Turn>, args: &[&str]) -> (String, String) {
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let output = haft
        .async_command()
        .args(["-p", "go"])
        .args(args)
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("SHOP_TOKEN", "very-secret-4711")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert_eq!(model.refusals(), [""; 0]);
    (stdout, stderr)
}

/// A turn with these numbers of tokens written to and read from the cache.
fn answer(text: &str, written: u64, read: u64) -> Turn {
    let usage = UsageReply {
        input_tokens: Some(7),
        output_tokens: Some(3),
        cache_creation_input_tokens: written,
        cache_read_input_tokens: read,
        ..UsageReply::default()
    };
    Turn { usage: Some(usage), ..Turn::text(text) }
}

fn cost(haft: &Haft) -> Value {
    serde_json::from_str(&haft.ok(&["cost", "--json"], "")).unwrap()
}

fn log(haft: &Haft) -> PathBuf {
    let listed = haft.ok(&["sessions", "list", "--json"], "");
    let first: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    first["path"].as_str().unwrap().into()
}

#[tokio::test]
async fn a_loss_is_told_with_what_the_provider_counted() {
    let haft = Haft::new();
    assert!(!haft.run(&["cost"], "").status.success(), "there is nothing yet");
    let (_, stderr) = run(&haft, vec![answer("One.", 20_000, 0)], &[]).await;
    assert_eq!(stderr, "");
    // The cache is hit.
    let (_, stderr) = run(&haft, vec![answer("Two.", 100, 20_000)], &["--continue"]).await;
    assert_eq!(stderr, "");
    assert_eq!(cost(&haft)["busts"], json!([]));
    assert!(haft.ok(&["cost"], "").contains("The cached prefix was never lost."));
    // Another model has its own cache.
    let other = ["--continue", "--model", "claude-sonnet-4-5"];
    let (stdout, stderr) = run(&haft, vec![answer("Three.", 20_200, 0)], &other).await;
    assert_eq!(stdout, "Three.\n");
    assert_eq!(
        stderr,
        "haft: the provider's cache was lost (model_changed): 20 100 tokens were billed again; see `haft cost`\n"
    );
    // The request is unchanged, but the provider has evicted it.
    let json = [&other[..], &["--output-format", "json"]].concat();
    let (stdout, _) = run(&haft, vec![answer("Four.", 20_300, 0)], &json).await;
    let result: Value = serde_json::from_str(&stdout).unwrap();
    let bust = &result["cache_busts"][0];
    assert_eq!(
        (&bust["cause"], &bust["tokens"], &bust["request"]),
        (&json!("expired"), &json!(20_200), &json!(4))
    );

    let cost = cost(&haft);
    assert_eq!(
        (&cost["requests"], &cost["complete"], &cost["priced"]),
        (&json!(4), &json!(true), &json!(true))
    );
    assert_eq!(cost["usage"]["cache_creation_input_tokens"], 60_600);
    assert_eq!(cost["usage"]["cache_read_input_tokens"], 20_000);
    assert_eq!(cost["tokens_billed_again"], 40_300);
    assert_eq!(cost["models"]["claude-sonnet-4-5"]["requests"], 2);
    let people = haft.ok(&["cost"], "");
    for part in [
        "requests 4\n",
        "lost 2 times; 40 300 tokens",
        "model_changed: claude-sonnet-4-5 answers",
        "expired: ",
    ] {
        assert!(people.contains(part), "{part}: {people}");
    }
}

#[tokio::test]
async fn what_the_log_must_not_keep_is_a_loss_that_is_named() {
    let haft = Haft::new();
    haft.write("a.txt", "the key is very-secret-4711\n");
    haft.write_home(".haft/settings.json", r#"{"maskSecrets": "off"}"#);
    let read = Turn::tool("Read", json!({"file_path": "a.txt"}));
    run(&haft, vec![read, Turn::text("Read.")], &[]).await;
    assert!(!std::fs::read_to_string(log(&haft)).unwrap().contains("very-secret-4711"));
    run(&haft, vec![Turn::text("Again.")], &["--continue"]).await;
    let cost = cost(&haft);
    let causes: Vec<&Value> = cost["busts"].as_array().unwrap().iter().map(|it| &it["cause"]).collect();
    assert_eq!(causes, ["resumed"], "{cost}");
}

#[tokio::test]
async fn sessions_from_before_this_report_show_what_they_know() {
    let haft = Haft::new();
    let read = Turn::tool("Read", json!({"file_path": "nowhere.txt"}));
    run(&haft, vec![read, answer("Done.", 500, 900)], &[]).await;
    let path = log(&haft);
    let whole = cost(&haft);
    let kinds = ["asked", "prompt", "told", "tools", "more_tools"];
    let is_old = |line: &&str| {
        let line: Value = serde_json::from_str(line).unwrap();
        !(line["type"] == "haft" && kinds.iter().any(|kind| line["kind"] == *kind))
    };
    let text = std::fs::read_to_string(&path).unwrap();
    let old: String = text.lines().filter(is_old).map(|line| format!("{line}\n")).collect();
    assert_ne!(old, text);
    std::fs::write(&path, old).unwrap();
    let known = cost(&haft);
    assert_eq!((&known["complete"], &known["requests"]), (&json!(false), &json!(2)), "{known}");
    assert_eq!((&known["usage"], &known["busts"]), (&whole["usage"], &json!([])));
    assert_eq!(known["usd"], whole["usd"]);
    assert!(haft.ok(&["cost"], "").contains("older than this report"));
    // Then the cache is hit again.
    run(&haft, vec![Turn::text("On.")], &["--continue"]).await;
    let known = cost(&haft);
    assert_eq!((&known["complete"], &known["requests"]), (&json!(false), &json!(3)), "{known}");
}

#[tokio::test]
async fn what_cost_nothing_is_not_less_than_nothing() {
    let haft = Haft::new();
    let model = MockModel::start(Script::from_turns([Turn::error(400, "invalid_request_error", "no")]))
        .await
        .unwrap();
    let mut child = haft.async_command();
    child.args(["-p", "go"]).env("ANTHROPIC_BASE_URL", model.url()).stdin(Stdio::null());
    assert_eq!(child.output().await.unwrap().status.code(), Some(6));
    let said = haft.ok(&["cost"], "");
    assert!(said.contains("cost     $0.0000\n"), "{said}");
}
