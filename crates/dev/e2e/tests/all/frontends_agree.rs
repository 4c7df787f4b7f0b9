//! All frontends share one engine: the same scripted session gives the same requests and the same log in
//! each. Flags work in every frontend they make sense for, and others reject them with a reason.

use std::{path::Path, process::Stdio, sync::Arc};

use haft_model::{KeySettings, ProviderChoice, ProviderOptions};
use haft_session::{
    Command, LocationSpec, LogDestination, ModelSpec, Prompt, ProviderSpec, Session, SessionEventKind,
    SessionSpec,
};
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use haft_types::{EnvVars, PermissionMode};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::common::Haft;

const PROMPT: &str = "/greet @a.txt";

/// Every frontend that can run a whole session.
#[derive(Clone, Copy, Debug)]
enum Face {
    Text,
    Json,
    StreamJson,
    Sdk,
    Library,
}

const FACES: [Face; 5] = [Face::Text, Face::Json, Face::StreamJson, Face::Sdk, Face::Library];

fn script() -> Script {
    Script::from_turns([
        Turn::from_pieces([
            ReplyPiece::text("Looking."),
            ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
            ReplyPiece::tool("Bash", json!({"command": "sh wait.sh", "run_in_background": true})),
        ]),
        Turn::tool("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
        Turn::text("Changed it."),
        Turn::text("And the command has ended."),
    ])
}

/// A project with settings, a command, a skill and hooks, which every frontend must honour.
fn project() -> Haft {
    let haft = Haft::new();
    haft.write("a.txt", "one\n");
    haft.write("wait.sh", "while [ ! -e go ]; do sleep 0.05; done; echo two\n");
    haft.write("CLAUDE.md", "Be brief.");
    haft.write(".claude/commands/greet.md", "Greet whoever $ARGUMENTS names.");
    haft.write_home(".haft/skills/tidy/SKILL.md", "---\ndescription: Tidies up.\n---\nTidy.");
    let hook = |name: &str| json!([{"hooks": [{"type": "command", "command": format!("echo {name} >> \"$HOME/hooks.txt\"")}]}]);
    let settings = json!({
        "permissions": {"allow": ["Bash(sh wait.sh)", "Edit"]},
        "hooks": {"SessionStart": hook("start"), "UserPromptSubmit": hook("prompt"), "Stop": hook("stop"),
                  "SessionEnd": hook("end")},
    });
    haft.write_home(".haft/settings.json", &settings.to_string());
    haft
}

async fn run(face: Face, haft: &Haft, model: &MockModel) {
    let format = match face {
        Face::Library => return library(haft, model).await,
        Face::Sdk => return sdk(haft, model).await,
        Face::Text => "text",
        Face::Json => "json",
        Face::StreamJson => "stream-json",
    };
    let output = haft
        .async_command()
        .args(["-p", PROMPT, "--output-format", format])
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{face:?}: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("And the command has ended."), "{face:?}: {said}");
}

/// Ends the background command after the turn that started it.
async fn end_command(haft: &Haft, model: &MockModel) {
    model.wait_until(|requests| 3 <= requests.len()).await;
    let hooks = haft.home().join("hooks.txt");
    let begin = std::time::Instant::now();
    // Wait until the last hook has run, at most 10 s.
    while !std::fs::read_to_string(&hooks).unwrap_or_default().contains("stop") {
        if 10 < begin.elapsed().as_secs() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    haft.write("go", "");
    std::future::pending().await
}

async fn sdk(haft: &Haft, model: &MockModel) {
    let mut child = haft
        .async_command()
        .args(["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"])
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = json!({"type": "user", "message": {"role": "user", "content": PROMPT}});
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    drop(stdin);
    assert!(child.wait_with_output().await.unwrap().status.success());
}

async fn library(haft: &Haft, model: &MockModel) {
    let variables: EnvVars = [
        ("PATH", std::env::var("PATH").unwrap_or_default()),
        ("HOME", haft.home().display().to_string()),
        ("ANTHROPIC_BASE_URL", model.url()),
    ]
    .into_iter()
    .collect();
    let keys = KeySettings::default();
    let choice = ProviderChoice::from_env(&|name| variables.text(name), &keys).unwrap();
    let provider = Arc::new(choice.build(ProviderOptions::default()).unwrap());
    let place = LocationSpec { variables, ..LocationSpec::new(haft.ws()) };
    let spec = SessionSpec {
        model: Some(ModelSpec {
            provider: ProviderSpec::Given { provider, catalog: None },
            ..ModelSpec::default()
        }),
        ..SessionSpec::new(place)
    };
    let (handle, mut events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text(PROMPT));
    handle.send(Command::Finish);
    while let Some(event) = events.next().await {
        if matches!(event.what, SessionEventKind::Closed) {
            break;
        }
    }
}

/// The model requests of a frontend, without parts that differ between runs.
fn requests(model: &MockModel, haft: &Haft) -> Vec<Value> {
    let sent = model.requests();
    sent.iter()
        .map(|request| {
            let mut body = request.json();
            // Contains the session id.
            body.as_object_mut().unwrap().remove("metadata");
            plain(body, haft)
        })
        .collect()
}

/// Lines of the only session log, without parts that differ between runs.
pub fn log_lines(haft: &Haft) -> Vec<Value> {
    let mut logs = Vec::new();
    for root in [".haft", ".claude"] {
        collect(&haft.home().join(root).join("projects"), &mut logs);
    }
    assert_eq!(logs.len(), 1, "{logs:?}");
    let text = std::fs::read_to_string(&logs[0]).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| plain(line, haft)).collect()
}

fn collect(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|it| it == "jsonl") {
            found.push(path);
        }
    }
}

/// Removes ids, times, paths, sizes that depend on them, and the frontend's name.
fn plain(value: Value, haft: &Haft) -> Value {
    const DIFFERS: &[&str] = &[
        "uuid",
        "parentUuid",
        "sessionId",
        "timestamp",
        "entrypoint",
        "pid",
        "boot",
        "session",
        "micros",
        "sent",
        "usd",
        "digest",
        "hash",
        "id",
        "undoId",
        "call",
        "tool_use_id",
        "journal",
        "meta",
        "durationMs",
        "userType",
        "usage",
    ];
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(key, _)| !DIFFERS.contains(&key.as_str()))
            .map(|(key, value)| (key, plain(value, haft)))
            .collect(),
        Value::Array(items) => items.into_iter().map(|it| plain(it, haft)).collect(),
        Value::String(text) => {
            let dir = haft.dir.path().canonicalize().unwrap().display().to_string();
            let text = text.replace(&dir, "DIR");
            let key = dir.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
            let text = text.replace(&key, "KEY");
            // Frontends differ in whether an approver is available.
            let nobody = "Nobody can answer: what needs a yes is denied, so do not wait for one";
            let text = text.replace(nobody, "WHO").replace("A person answers questions", "WHO");
            // Ids of sessions, tasks and output files.
            let words = text.split_inclusive(|it: char| !(it.is_ascii_alphanumeric() || it == '-'));
            let words = words.map(|word| {
                let name = word.trim_end_matches(|it: char| !(it.is_ascii_alphanumeric() || it == '-'));
                let is_name = 8 <= name.len() && name.chars().any(|it| it.is_ascii_digit());
                if is_name { word.replace(name, "NAME") } else { word.to_owned() }
            });
            Value::String(words.collect())
        }
        other => other,
    }
}

#[tokio::test]
async fn one_scripted_session_is_the_same_through_every_face() {
    let mut seen: Option<(Face, Vec<Value>, Vec<Value>, String)> = None;
    for face in FACES {
        let haft = project();
        let model = MockModel::start(script()).await.unwrap();
        tokio::select! {
            () = run(face, &haft, &model) => (),
            () = end_command(&haft, &model) => (),
        }
        assert_eq!(model.refusals(), [""; 0], "{face:?}");
        assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "two\n", "{face:?}");
        let hooks = std::fs::read_to_string(haft.home().join("hooks.txt")).unwrap();
        assert!(hooks.starts_with("start\nprompt\n") && hooks.ends_with("stop\nend\n"), "{face:?} {hooks}");
        let (requests, lines) = (requests(&model, &haft), log_lines(&haft));
        match &seen {
            None => seen = Some((face, requests, lines, hooks)),
            Some((first, sent, logged, ran)) => {
                assert_eq!(requests.len(), sent.len(), "{face:?} against {first:?}");
                for (at, (a, b)) in requests.iter().zip(sent).enumerate() {
                    assert_eq!(a, b, "request {at} of {face:?} against {first:?}");
                }
                // Concurrent calls start in any order, so the position of their `started` lines is
                // ignored.
                let kinds = |lines: &[Value]| -> Vec<String> {
                    let lines = lines.iter().filter(|it| it["kind"] != "started");
                    lines.map(|it| format!("{} {}", it["type"], it["kind"])).collect()
                };
                let started = |lines: &[Value]| lines.iter().filter(|it| it["kind"] == "started").count();
                assert_eq!(kinds(&lines), kinds(logged), "log of {face:?} against {first:?}");
                assert_eq!(started(&lines), started(logged), "{face:?} against {first:?}");
                assert_eq!(&hooks, ran, "{face:?} against {first:?}");
            }
        }
    }
}

#[tokio::test]
async fn flags_of_a_run_work_or_are_refused_with_a_reason() {
    let haft = project();
    haft.write_home(
        ".haft/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews.\n---\nYou review.",
    );
    for (args, code, said) in [
        (vec!["--permission-prompt-tool", "stdio"], 2, "needs a host that answers"),
        (vec!["--permission-prompts", "host"], 2, "needs a host that answers"),
        (vec!["--include-partial-messages"], 2, "needs --output-format stream-json"),
        (vec!["--include-hook-events"], 2, "needs --output-format stream-json"),
        (vec!["--replay-user-messages"], 2, "needs --output-format stream-json"),
        (vec!["--session-mirror"], 2, "needs --output-format stream-json"),
        (vec!["--agent", "nobody"], 2, "reviewer"),
        (vec!["--agent", "reviewer"], 0, "Hi."),
        (vec!["--disable-slash-commands"], 0, "Hi."),
        (
            vec!["--output-format", "stream-json", "--include-partial-messages"],
            0,
            "\"type\":\"stream_event\"",
        ),
        (vec!["--output-format", "stream-json", "--include-hook-events"], 0, "hook_response"),
        (vec!["--output-format", "stream-json", "--replay-user-messages"], 0, "\"isReplay\":true"),
        (vec!["--output-format", "stream-json", "--session-mirror"], 0, "transcript_mirror"),
        (vec!["--dangerously-skip-permissions"], 0, "Hi."),
    ] {
        let model = MockModel::start(Script::from_turns([Turn::text("Hi.")])).await.unwrap();
        let output = haft
            .async_command()
            .args(["-p", "hello"])
            .args(&args)
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("IS_SANDBOX", "1")
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let all =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}: {all}");
        assert!(all.contains(said), "{args:?}: {all}");
        let requests = model.requests();
        if args == ["--agent", "reviewer"] {
            assert!(requests[0].json()["system"].to_string().contains("You review."));
        }
    }
}

#[test]
fn flags_of_a_run_are_no_flags_of_other_commands() {
    let haft = Haft::new();
    for args in [
        vec!["--model", "x", "tool", "list"],
        vec!["--max-turns", "3", "sessions", "list"],
        vec!["--agent", "x", "permissions", "list"],
    ] {
        let output = haft.run(&args, "");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(args[0]) && said.contains("haft -p"), "{args:?}: {said}");
    }
}

#[test]
fn calls_without_a_model_know_servers_of_the_command_line() {
    let haft = Haft::new();
    let config = json!({"mcpServers": {"gone": {"command": "false"}}}).to_string();
    let input = json!({"name": "mcp__gone__x", "input": {}});
    let reports = haft.reports(&["--mcp-config", &config], &[input]);
    assert_eq!(reports[0]["is_error"], true);
    assert!(reports[0]["content"].to_string().contains("gone"), "{reports:?}");
    let bad = haft.run(&["tool", "run", "--mcp-config", "{"], "");
    assert_eq!(bad.status.code(), Some(2));
}

#[tokio::test]
async fn nothing_is_logged_where_nobody_wants_a_log() {
    let haft = project();
    let model = MockModel::start(Script::from_turns([Turn::text("Hi.")])).await.unwrap();
    let variables: EnvVars = [("HOME", haft.home().display().to_string())].into_iter().collect();
    let mut spec = SessionSpec::new(LocationSpec { variables, ..LocationSpec::new(haft.ws()) });
    let env = |name: &str| (name == "ANTHROPIC_BASE_URL").then(|| model.url());
    let choice = ProviderChoice::from_env(&env, &KeySettings::default()).unwrap();
    let provider = Arc::new(choice.build(ProviderOptions::default()).unwrap());
    spec.model =
        Some(ModelSpec { provider: ProviderSpec::Given { provider, catalog: None }, ..ModelSpec::default() });
    spec.log.kept = LogDestination::Nowhere;
    spec.permissions.mode = Some(PermissionMode::Plan);
    let (handle, _events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("hi"));
    handle.send(Command::Finish);
    handle.close().await;
    assert!(!haft.home().join(".haft/projects").exists());
}
