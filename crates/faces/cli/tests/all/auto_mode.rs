//! Auto mode: a small model answers what would ask, and never more than that.

use std::process::Stdio;

use crate::common::Haft;
use haft_testkit::{MockModel, Script, Turn, When};
use serde_json::json;

/// A run in auto mode: what the guard says, what the agent calls, and what came
/// of it. Gives the exit code, the requests to the guard and all results.
async fn run(haft: &Haft, guard: Turn, command: &str, args: &[&str]) -> (Option<i32>, usize, String) {
    let of = |model: &str| When { model: Some(haft_testkit::Matcher::contains(model)), ..When::default() };
    let guard = Turn { when: of("guard"), ..guard.always() };
    let call = Turn { when: of("worker"), ..Turn::tool("Bash", json!({"command": command})) };
    let end = Turn { when: of("worker"), ..Turn::text("over") };
    haft.write("make.sh", "touch new.txt");
    let model = MockModel::start(Script::of([guard, call, end])).await.unwrap();
    let mut child = haft.async_command();
    child.args(["-p", "go", "--model", "worker", "--permission-mode", "auto"]).args(args);
    child.env("ANTHROPIC_BASE_URL", model.url()).env("IS_SANDBOX", "1");
    let output = child.stdin(Stdio::null()).output().await.unwrap();
    let asked = model.requests().iter().filter(|it| it.json()["model"] == "guard-1").count();
    let said: String = model.requests().iter().map(|it| it.json()["messages"].to_string()).collect();
    (output.status.code(), asked, said + &String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn a_small_model_answers_what_would_ask() {
    for (says, command, code, is_done, words) in [
        ("ALLOW", "sh make.sh", Some(0), true, ""),
        ("BLOCK: it is not wanted", "sh make.sh", Some(3), false, "it is not wanted"),
        // No clear word: the person would be asked, and nobody is there.
        ("ASK", "sh make.sh", Some(3), false, ""),
        ("ALLOW, I think", "sh make.sh", Some(3), false, ""),
    ] {
        let haft = Haft::new();
        haft.write_home(".haft/settings.json", r#"{"autoMode": {"model": "guard-1"}}"#);
        let (got, asked, said) = run(&haft, Turn::text(says), command, &[]).await;
        assert_eq!((got, asked, haft.ws().join("new.txt").exists()), (code, 1, is_done), "{says}: {said}");
        assert!(said.contains(words), "{says}: {said}");
    }
    // A guard that fails is no guard.
    let haft = Haft::new();
    haft.write_home(".haft/settings.json", r#"{"autoMode": {"model": "guard-1"}}"#);
    let broken = Turn::error(400, "invalid_request_error", "no");
    let (code, _, said) = run(&haft, broken, "sh make.sh", &[]).await;
    assert!(code == Some(3) && !haft.ws().join("new.txt").exists(), "{said}");
}

#[tokio::test]
async fn it_is_never_looser_than_the_rules() {
    // Whatever it says: it is not asked, or its yes does not count.
    for (settings, command) in [
        (r#"{"autoMode": {"model": "guard-1"}, "permissions": {"deny": ["Bash(sh *)"]}}"#, "sh make.sh"),
        (r#"{"autoMode": {"model": "guard-1"}, "permissions": {"ask": ["Bash(sh *)"]}}"#, "sh make.sh"),
        (r#"{"autoMode": {"model": "guard-1"}}"#, "rm -rf / ; sh make.sh"),
        (r#"{"autoMode": {"model": "guard-1"}}"#, "rm -rf ~ ; sh make.sh"),
        // Without a model nobody answers.
        ("{}", "sh make.sh"),
    ] {
        let haft = Haft::new();
        haft.write_home(".haft/settings.json", settings);
        let (code, _, said) = run(&haft, Turn::text("ALLOW"), command, &[]).await;
        assert!(code == Some(3) && !haft.ws().join("new.txt").exists(), "{settings} {command}: {said}");
        assert!(haft.home().exists());
    }
    // A project cannot name the guard before it is trusted.
    let haft = Haft::new();
    haft.write(".haft/settings.json", r#"{"autoMode": {"model": "guard-1"}}"#);
    let (code, asked, said) = run(&haft, Turn::text("ALLOW"), "sh make.sh", &[]).await;
    assert_eq!((code, asked), (Some(3), 0), "{said}");
}

#[tokio::test]
async fn what_only_reads_is_not_asked_about() {
    let haft = Haft::new();
    haft.write_home(".haft/settings.json", r#"{"autoMode": {"model": "guard-1"}}"#);
    let (code, asked, said) = run(&haft, Turn::text("BLOCK: no"), "ls", &[]).await;
    assert_eq!((code, asked), (Some(0), 0), "{said}");
}
