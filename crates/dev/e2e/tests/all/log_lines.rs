//! Session logs when the process is killed, when two processes use a session, and when the log cannot be
//! written.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common::{Haft, eventually};

use std::process::{Command, Output, Stdio};

use haft_testkit::{MockModel, Script, Turn};
use serde_json::json;

const ID: &str = "7d3c1c9e-5f1b-4c53-9d7f-0c1a2b3c4d5e";

fn haft_p(haft: &Haft, url: &str, args: &[&str]) -> Command {
    let mut command = haft.command();
    command
        .args(["-p", "go", "--permission-mode", "bypassPermissions"])
        .args(args)
        .env("ANTHROPIC_BASE_URL", url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn last_said(model: &MockModel) -> String {
    let last = model.requests().last().unwrap().json();
    last["messages"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_call_is_unknown_and_a_running_session_is_not_shared() {
    let haft = Haft::new();
    let model = MockModel::start(Script::from_turns([
        Turn::tool("Bash", json!({"command": "touch begun; sleep 1000", "timeout": 600_000})),
        Turn::text("A copy."),
        Turn::text("Understood."),
    ]))
    .await
    .unwrap();
    let mut running = haft_p(&haft, &model.url(), &["--session-id", ID]).spawn().unwrap();
    eventually("the command runs", || haft.ws().join("begun").exists());

    let second = output(haft_p(&haft, &model.url(), &["--resume", ID])).await;
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    let pid = format!("(pid {})", running.id());
    assert!(!second.status.success() && told.contains(&pid) && told.contains("--fork-session"), "{told}");
    haft.ok(&["sessions", "title", ID, "The long one"], "");
    assert!(haft.ok(&["sessions", "list"], "").contains("The long one"));
    let copy = output(haft_p(&haft, &model.url(), &["--resume", ID, "--fork-session"])).await;
    assert!(copy.status.success(), "{}", String::from_utf8_lossy(&copy.stderr));
    assert!(last_said(&model).contains("outcome unknown"), "{}", last_said(&model));

    running.kill().unwrap();
    running.wait().unwrap();
    let resumed = output(haft_p(&haft, &model.url(), &["--resume", ID])).await;
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let said = last_said(&model);
    assert!(said.contains("Check before doing it again") && !said.contains("had no effect"), "{said}");
    assert_eq!(model.refusals(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_full_disk_calls_only_read() {
    // Whether SIGXFSZ was ignored or would kill: exceeding the limit is a write error.
    for before in ["trap '' XFSZ; ", ""] {
        only_reads_at_a_limit(before).await;
    }
}

async fn only_reads_at_a_limit(before: &str) {
    let haft = Haft::new();
    haft.write("long.txt", &"some words in a line of a file\n".repeat(1_000));
    haft.write("short.txt", "needle\n");
    let model = MockModel::start(Script::from_turns([
        Turn::tool("Read", json!({"file_path": "long.txt"})),
        Turn::tool("Write", json!({"file_path": "new.txt", "content": "x"})),
        Turn::tool("Read", json!({"file_path": "short.txt"})),
        Turn::text("It could not be written."),
    ]))
    .await
    .unwrap();
    // A file size limit of 16 kB.
    let inner = haft_p(&haft, &model.url(), &["--session-id", ID]);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", &format!("{before}ulimit -f 32; exec \"$0\" \"$@\"")])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(haft.ws())
        .env_clear()
        .stdin(Stdio::null());
    for (name, value) in inner.get_envs() {
        limited.env(name, value.unwrap_or_default());
    }
    let ended = output(limited).await;
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.matches("the session log could not be written").count(), 1, "{stderr}");
    assert!(stderr.contains("calls that may change something did not run (Write)"), "{stderr}");
    assert!(!haft.ws().join("new.txt").exists());
    let said = last_said(&model);
    assert!(said.contains("Write did not run: the session log") && said.contains("needle"), "{said}");
    assert_eq!(model.refusals(), [""; 0]);
}
