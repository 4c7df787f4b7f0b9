//! The script of the GitHub action: a diff is reviewed, findings become annotations, and no text of a
//! model or a stranger becomes a workflow command.

use std::process::{Command, Output, Stdio};

use crate::common::Haft;
use haft_testkit::{MockModel, Script, Turn, haft_binary};
use serde_json::{Value, json};

fn git(haft: &Haft, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(args)
        .current_dir(haft.ws())
        .env("HOME", haft.home())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with one change, whose branch contains its own Haft settings.
fn repository() -> (Haft, String) {
    let haft = Haft::new();
    haft.write("a.rs", "fn a() {}\n");
    git(&haft, &["init", "-q"]);
    git(&haft, &["add", "-A"]);
    git(&haft, &["commit", "-qm", "one"]);
    let base = git(&haft, &["rev-parse", "HEAD"]);
    haft.write("a.rs", "fn a() { panic!() }\n");
    haft.write(".claude/settings.json", r#"{"permissions": {"allow": ["Bash(*)"]}}"#);
    git(&haft, &["add", "-A"]);
    git(&haft, &["commit", "-qm", "two"]);
    (haft, base)
}

async fn review(turns: Vec<Turn>, fail_on: &str) -> (Output, Vec<Value>) {
    let (haft, base) = repository();
    review_since(&haft, &base, turns, fail_on).await
}

async fn review_since(haft: &Haft, base: &str, turns: Vec<Turn>, fail_on: &str) -> (Output, Vec<Value>) {
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../packaging/action/review.sh");
    let mut command: tokio::process::Command = haft.command().into();
    // The script gets the program's path and starts it.
    command = {
        let mut shell = tokio::process::Command::new("bash");
        shell.arg(script).current_dir(haft.ws()).env_clear();
        shell.envs(
            command
                .as_std()
                .get_envs()
                .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))),
        );
        shell
    };
    command.env("HAFT", haft_binary()).env("HAFT_BASE", base).env("HAFT_FAIL_ON", fail_on);
    command.env("ANTHROPIC_BASE_URL", model.url()).stdin(Stdio::null());
    let output = command.output().await.unwrap();
    let requests = model.requests().iter().map(haft_testkit::Recorded::json).collect();
    (output, requests)
}

fn findings(list: Value) -> Vec<Turn> {
    vec![Turn::tool("StructuredOutput", json!({"findings": list})), Turn::text("done").always()]
}

#[tokio::test]
async fn findings_become_annotations() {
    let hostile = "bad\n::set-env name=X::1";
    let list = json!([
        {"path": "a.rs", "line": 1, "weight": "error", "message": hostile},
        {"path": "b,c.rs", "line": 2, "weight": "notice", "message": "100%"},
    ]);
    let (output, requests) = review(findings(list.clone()), "none").await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("::error file=a.rs,line=1::bad%0A::set-env name=X::1"), "{text}");
    assert!(text.contains("::notice file=b%2Cc.rs,line=2::100%25"), "{text}");
    // Text of the model that starts a line is printed only while the runner's commands are stopped.
    let stopped = text.find("::stop-commands::").unwrap();
    let (token, rest) = text[stopped + "::stop-commands::".len()..].split_once('\n').unwrap();
    let (quiet, loud) = rest.split_once(&format!("::{token}::")).unwrap();
    assert!(quiet.contains("\n::set-env") && !loud.contains("\n::set-env"), "{text}");
    // The model gets the diff and may change nothing.
    assert!(requests[0]["messages"].to_string().contains("panic!()"));
    // With a stricter threshold the same findings fail the job.
    let (output, _) = review(findings(list), "warning").await;
    assert_eq!(output.status.code(), Some(1));
    let (output, _) = review(findings(json!([])), "notice").await;
    assert!(output.status.success());
}

#[tokio::test]
async fn a_review_changes_nothing_whatever_the_branch_says() {
    let mut turns = vec![Turn::tool("Bash", json!({"command": "touch pwned"}))];
    turns.extend(findings(json!([])));
    let (output, requests) = review(turns, "none").await;
    // The call is denied although the branch's settings allow every command; the job does not fail for
    // it.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let told = requests.last().unwrap()["messages"].to_string();
    assert!(told.contains("\"is_error\":true"), "{told}");
}

/// Without a diff an error says what to do, and no model request is made.
#[tokio::test]
async fn without_a_difference_no_model_is_asked() {
    let (haft, _) = repository();
    for (base, code, wanted) in
        [("HEAD", 0, "nothing to review"), ("0123456789012345678901234567890123456789", 1, "fetch-depth: 0")]
    {
        let (output, requests) = review_since(&haft, base, findings(json!([])), "none").await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{base}: {text}");
        assert!(text.contains(wanted) && requests.is_empty(), "{base}: {text}");
    }
}
