//! `haft -p` against a scripted model.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use common::Haft;
use haft_testkit::{ByteFault, MockForm, MockModel, ReplyPiece, Script, StreamStall, Turn};
use serde_json::{Value, json};

/// Runs `haft -p` with these turns; returns exit code, standard output, standard error and requests.
async fn run(haft: &Haft, turns: Vec<Turn>, args: &[&str]) -> (Option<i32>, String, String, Vec<Value>) {
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
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
async fn reads_edits_and_answers() {
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    haft.write("CLAUDE.md", "Be terse-4711.");
    let turns = || {
        vec![
            Turn::from_pieces([
                ReplyPiece::text("Reading."),
                ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
            ]),
            Turn::tool("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
            Turn::text("Changed it."),
        ]
    };
    let args = ["-p", "change one to two", "--permission-mode", "acceptEdits"];
    let (code, stdout, stderr, bodies) = run(&haft, turns(), &args).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "Changed it.\n", ""));
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "two\n");
    assert!(bodies[0]["system"].to_string().contains("terse-4711"));

    haft.write("a.txt", "one\n");
    let (_, stdout, _, _) =
        run(&haft, turns(), &[&args[..], &["--output-format", "stream-json"]].concat()).await;
    let frames: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = frames.iter().map(|frame| frame["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["system", "assistant", "assistant", "user", "assistant", "user", "assistant", "result"]
    );
    assert_eq!(frames[7]["result"], "Changed it.");
    assert_eq!(frames[7]["num_turns"], 3);
}

#[tokio::test]
async fn exit_codes_tell_the_ends_apart() {
    let haft = Haft::new();
    let write = || Turn::tool("Write", json!({"file_path": "x", "content": "x"}));
    let denied = run(&haft, vec![write(), Turn::text("Could not.")], &["-p", "go"]).await;
    assert_eq!(denied.0, Some(3), "{}", denied.2);
    assert!(
        denied.2.contains("no rule allows") && denied.2.contains("haft permissions allow"),
        "{}",
        denied.2
    );
    let turns =
        run(&haft, vec![write(), write()], &["-p", "go", "--max-turns", "1", "--output-format", "json"])
            .await;
    assert_eq!(turns.0, Some(4));
    assert_eq!(serde_json::from_str::<Value>(&turns.1).unwrap()["subtype"], "error_max_turns");
    let failed = run(&haft, vec![Turn::error(400, "invalid_request_error", "no")], &["-p", "go"]).await;
    assert_eq!(failed.0, Some(6), "{}", failed.2);
}

#[tokio::test]
async fn sessions_go_on() {
    let haft = Haft::new();
    let first =
        run(&haft, vec![Turn::text("Noted.")], &["-p", "remember 4711", "--output-format", "json"]).await;
    let id = serde_json::from_str::<Value>(&first.1).unwrap()["session_id"].as_str().unwrap().to_owned();
    for args in [
        vec!["-p", "what?", "--continue"],
        vec!["-p", "what?", "--resume", &id],
        vec!["-p", "what?", "--resume", &id, "--fork-session"],
    ] {
        let again = run(&haft, vec![Turn::text("4711.")], &args).await;
        assert_eq!((again.0, again.1.as_str()), (Some(0), "4711.\n"), "{args:?} {}", again.2);
        assert!(again.3[0]["messages"].to_string().contains("remember 4711"), "{args:?}");
    }
    let unknown = run(&haft, vec![], &["-p", "x", "--resume", "nope"]).await;
    assert_eq!(unknown.0, Some(2));
    assert!(unknown.2.contains("No conversation found with session ID: nope"));
}

#[tokio::test]
async fn structured_output_is_printed() {
    let haft = Haft::new();
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let turns = vec![Turn::tool("StructuredOutput", json!({"n": 7}))];
    let (code, stdout, _, _) = run(&haft, turns, &["-p", "count", "--json-schema", schema]).await;
    assert_eq!((code, stdout.as_str()), (Some(0), "{\"n\":7}\n"));
}

#[tokio::test]
async fn settings_that_speak_about_the_model_count() {
    let haft = Haft::new();
    for (settings, model, refused) in [
        (json!({"availableModels": ["sonnet"]}), "opus", Some("availableModels: sonnet")),
        (json!({"availableModels": ["opus", "sonnet"]}), "opus", None),
        (json!({"deniedModels": ["claude-opus*"]}), "opus", Some("deniedModels: claude-opus*")),
    ] {
        let settings = settings.to_string();
        let args = ["-p", "hi", "--model", model, "--settings", &settings];
        let turns = if refused.is_some() { Vec::new() } else { vec![Turn::text("Hello.")] };
        let (code, _, stderr, _) = run(&haft, turns, &args).await;
        assert_eq!(code == Some(0), refused.is_none(), "{settings}: {stderr}");
        assert!(stderr.contains(refused.unwrap_or_default()), "{settings}: {stderr}");
    }
    // An agent whose definition names a model that is not available uses its parent's.
    let settings = json!({"availableModels": ["opus"], "language": "Latin-4711"}).to_string();
    let turns = vec![
        Turn::tool(
            "Agent",
            json!({"description": "look", "prompt": "look", "subagent_type": "general-purpose", "model": "haiku", "run_in_background": false}),
        ),
        Turn::text("Looked."),
        Turn::text("Done."),
    ];
    let args =
        ["-p", "hi", "--model", "opus", "--settings", &settings, "--permission-mode", "bypassPermissions"];
    let (code, _, stderr, bodies) = run(&haft, turns, &args).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(3 <= bodies.len() && bodies.iter().all(|it| it["model"] == bodies[0]["model"]), "{bodies:?}");
    assert!(bodies[0].to_string().contains("Latin-4711"));
}

/// With `--brief` SendUserMessage is in the first request, with instructions to use it; without it the
/// tool is loaded on demand.
#[tokio::test]
async fn brief_runs_tell_the_user_what_matters() {
    for brief in [true, false] {
        let haft = Haft::new();
        let turns = vec![
            Turn::tool("SendUserMessage", json!({"message": "Halfway there-4711.", "status": "normal"})),
            Turn::text("Done."),
        ];
        let mut args = vec!["-p", "go", "--append-system-prompt", "ADDED"];
        args.extend(brief.then_some("--brief"));
        let (code, stdout, stderr, bodies) = run(&haft, turns, &args).await;
        assert_eq!((code, stdout.as_str()), (Some(0), "Done.\n"), "{stderr}");
        assert!(stderr.contains("Halfway there-4711."), "{stderr}");
        let declared = bodies[0]["tools"].as_array().unwrap();
        assert_eq!(declared.iter().any(|it| it["name"] == "SendUserMessage"), brief);
        let system = bodies[0]["system"].to_string();
        assert!(system.contains("ADDED"));
        assert_eq!(system.contains("what you send with SendUserMessage"), brief, "{system}");
    }
}

/// The login shell's start-up files, which the first command waits for, are read while the model still
/// generates the call. A session without commands does not start the login shell.
#[tokio::test]
async fn the_login_shell_is_asked_while_the_first_command_is_written() {
    let haft = Haft::new();
    haft.write_home(".bash_profile", "echo asked > ~/asked\n");
    haft.write("a.txt", "one\n");
    let asked = haft.home().join("asked");
    let reads = vec![Turn::tool("Read", json!({"file_path": "a.txt"})), Turn::text("one")];
    assert_eq!(run(&haft, reads, &["-p", "go"]).await.0, Some(0));
    assert!(!asked.exists());
    let model = MockModel::start(Script::from_turns([
        Turn::tool("Bash", json!({"command": "true"})),
        Turn::text("done"),
    ]));
    let model = model.await.unwrap();
    let mut child = haft.async_command();
    child.args(["-p", "go"]).env("ANTHROPIC_BASE_URL", model.url()).env("HAFT_NO_LOGIN_SHELL", "1");
    assert!(child.stdin(std::process::Stdio::null()).output().await.unwrap().status.success());
    assert!(!asked.exists());

    let mut command = Turn::tool("Bash", json!({"command": "true"}));
    let bytes = command.bytes(MockForm::Messages, "claude-opus-4-5");
    let byte = String::from_utf8_lossy(&bytes).find("input_json_delta").unwrap();
    command.stall = Some(ByteFault { byte, what: StreamStall::Forever });
    let model = MockModel::start(Script::from_turns([command])).await.unwrap();
    let mut child = haft.async_command();
    child.args(["-p", "go"]).env("ANTHROPIC_BASE_URL", model.url()).stdin(std::process::Stdio::null());
    let mut child = child.kill_on_drop(true).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !asked.exists() {
        assert!(std::time::Instant::now() < until, "nobody asked");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    child.kill().await.unwrap();
}
