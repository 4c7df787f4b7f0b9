//! Sessions are listed, shown, named and resumed; the mock model runs as a program.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::process::Stdio;

use common::Haft;
use haft_testkit::{MockModel, ReplyPiece, Script, Turn, haft_binary};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

async fn run(haft: &Haft, url: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let output = haft
        .async_command()
        .args(args)
        .env("ANTHROPIC_BASE_URL", url)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn sessions_are_listed_shown_searched_and_named() {
    let haft = Haft::new();
    haft.write("a.txt", "needle-4711\n");
    let model = MockModel::start(Script::from_turns([
        Turn::from_pieces([
            ReplyPiece::text("Reading."),
            ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
        ]),
        Turn::text("It says needle."),
        Turn::text("Other."),
    ]))
    .await
    .unwrap();
    run(&haft, &model.url(), &["-p", "what is in a.txt?"]).await;
    run(&haft, &model.url(), &["-p", "something else"]).await;

    let list = haft.ok(&["sessions", "list", "--json"], "");
    let lines: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let titles: Vec<&str> = lines.iter().map(|line| line["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["something else", "what is in a.txt?"]);
    let id = lines[1]["id"].as_str().unwrap();

    let shown = haft.ok(&["sessions", "show", &id[..8]], "");
    assert!(shown.contains("› what is in a.txt?") && shown.contains("It says needle."), "{shown}");
    let found = haft.ok(&["sessions", "search", "NEEDLE-4711"], "");
    assert!(found.contains(&id[..8]) && found.contains("needle-4711"), "{found}");
    assert_eq!(haft.run(&["sessions", "search", "nowhere-1"], "").status.code(), Some(1));

    haft.ok(&["sessions", "title", id, "The file"], "");
    let list = haft.ok(&["sessions", "list"], "");
    assert!(list.contains("The file") && !list.contains("what is in a.txt?"), "{list}");

    let context = haft.ok(&["context", id, "--json"], "");
    let fill: Value = serde_json::from_str(&context).unwrap();
    let names: Vec<&str> =
        fill["parts"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"tools") && names.contains(&"results of Read"), "{names:?}");
    assert!(fill["total"].as_u64().unwrap() < fill["window"].as_u64().unwrap());
    let before = std::fs::read(haft.ok(&["sessions", "path", id], "").trim()).unwrap();
    haft.ok(&["context"], "");
    assert_eq!(before, std::fs::read(haft.ok(&["sessions", "path", id], "").trim()).unwrap());
}

#[tokio::test]
async fn what_was_read_is_known_again_after_a_resume() {
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    let model = MockModel::start(Script::from_turns([
        Turn::tool("Read", json!({"file_path": "a.txt"})),
        Turn::text("Read it."),
        Turn::tool("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
        Turn::text("Changed it."),
    ]))
    .await
    .unwrap();
    run(&haft, &model.url(), &["-p", "read"]).await;
    let again = run(&haft, &model.url(), &["-p", "edit", "-c", "--permission-mode", "acceptEdits"]).await;
    assert_eq!((again.0, again.1.as_str()), (Some(0), "Changed it.\n"), "{}", again.2);
    assert_eq!(std::fs::read(haft.ws().join("a.txt")).unwrap(), b"two\n");
    assert_eq!(model.refusals(), [""; 0]);
}

/// A repeated Read is shortened only while the first result is still in the context.
#[tokio::test]
async fn after_a_compaction_files_are_shown_again() {
    let haft = Haft::new();
    let body: String = (0..400).map(|n| format!("line {n} of the file\n")).collect();
    haft.write("a.txt", &body);
    haft.write("big.txt", &"words and words and words\n".repeat(1500));
    haft.write_home(".haft/models.json", r#"[{"id": "small", "window": 12000, "max_output": 1500}]"#);
    let read = |path: &str| Turn::tool("Read", json!({"file_path": path}));
    let mut script = Script::from_turns([
        read("a.txt"),
        read("./a.txt"),
        read("big.txt"),
        Turn::tool("Bash", json!({"command": "cat big.txt"})),
        read("a.txt"),
        Turn::text("Done."),
    ]);
    script.turns.insert(0, Turn::text("Summary: much was read.").when("Sum up this conversation").always());
    let model = MockModel::start(script).await.unwrap();
    let (code, stdout, stderr) = run(&haft, &model.url(), &["-p", "go", "--model", "small"]).await;
    assert_eq!((code, stdout.as_str()), (Some(0), "Done.\n"), "{stderr}");
    assert_eq!(model.refusals(), [""; 0]);
    let bodies: Vec<String> = model
        .requests()
        .iter()
        .map(|it| it.json()["messages"].as_array().unwrap().last().unwrap().to_string())
        .filter(|last| !last.contains("Sum up this conversation"))
        .collect();
    assert!(bodies[1].contains("line 399 of the file"), "{}", bodies[1]);
    assert!(!bodies[2].contains("line 399 of the file"), "{}", bodies[2]);
    assert!(bodies.last().unwrap().contains("line 399 of the file"), "{}", bodies.last().unwrap());
}

#[tokio::test]
async fn a_damaged_log_says_what_is_lost() {
    let haft = Haft::new();
    let model =
        MockModel::start(Script::from_turns([Turn::text("Noted."), Turn::text("4711.")])).await.unwrap();
    run(&haft, &model.url(), &["-p", "remember 4711"]).await;
    let list: Value = serde_json::from_str(haft.ok(&["sessions", "list", "--json"], "").trim()).unwrap();
    let path = list["path"].as_str().unwrap();
    let mut log = std::fs::read(path).unwrap();
    log.extend_from_slice(b"{\"type\":\"user\",\"uu");
    log.extend_from_slice(&[0; 4096]);
    std::fs::write(path, log).unwrap();
    let (code, stdout, stderr) = run(&haft, &model.url(), &["-p", "what?", "--continue"]).await;
    assert_eq!((code, stdout.as_str()), (Some(0), "4711.\n"));
    assert!(stderr.contains("1 lines of the session log cannot be read"), "{stderr}");
    assert_eq!(model.refusals(), [""; 0]);
    let titles = haft.ok(&["sessions", "list"], "");
    assert!(titles.contains("remember 4711"), "{titles}");
}

#[tokio::test]
async fn the_mock_model_is_a_program() {
    let haft = Haft::new();
    haft.write("script.json", r#"{"turns": [{"reply": [{"text": "From the script."}]}]}"#);
    let mut server = tokio::process::Command::new(haft_binary())
        .args(["dev", "mock-model", "script.json", "--requests", "requests.jsonl"])
        .current_dir(haft.ws())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).await.unwrap();
    let (code, stdout, stderr) = run(&haft, url.trim(), &["-p", "go"]).await;
    assert_eq!((code, stdout.as_str()), (Some(0), "From the script.\n"), "{stderr}");
    let pid = server.id().unwrap();
    std::process::Command::new("sh").args(["-c", &format!("kill -INT {pid}")]).status().unwrap();
    let output = server.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 requests, 0 refused, 0 turns left"));
    let line: Value =
        serde_json::from_str(std::fs::read_to_string(haft.ws().join("requests.jsonl")).unwrap().trim())
            .unwrap();
    assert_eq!((&line["status"], &line["path"]), (&json!(200), &json!("/v1/messages")));
}
