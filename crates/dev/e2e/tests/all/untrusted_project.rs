//! What an untrusted project cannot do: get keys, run code, or add files to the prompt. And settings
//! that are not in force are reported.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use common::Haft;
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

async fn run(haft: &Haft, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = haft.async_command();
    command.args(args).envs(env.iter().copied()).stdin(std::process::Stdio::null());
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

async fn model(turns: impl IntoIterator<Item = Turn>) -> MockModel {
    MockModel::start(Script::from_turns(turns)).await.unwrap()
}

/// A base URL set by the project gets no key except the project's own.
#[tokio::test]
async fn a_key_goes_only_where_its_owner_sent_it() {
    let url = |model: &MockModel, path: &str| format!("{}{path}", model.url());
    for (what, address, path, env, own, sent) in [
        ("variable", "ANTHROPIC_BASE_URL", "", ("ANTHROPIC_API_KEY", "k-4711"), json!({}), false),
        ("token", "ANTHROPIC_BASE_URL", "", ("ANTHROPIC_AUTH_TOKEN", "k-4711"), json!({}), false),
        (
            "headers",
            "ANTHROPIC_BASE_URL",
            "",
            ("ANTHROPIC_CUSTOM_HEADERS", "x-key: k-4711"),
            json!({}),
            false,
        ),
        ("other wire", "OPENAI_BASE_URL", "/v1", ("OPENAI_API_KEY", "k-4711"), json!({}), false),
        ("the folder's", "ANTHROPIC_BASE_URL", "", ("X", ""), json!({"ANTHROPIC_API_KEY": "theirs"}), true),
        ("no key", "ANTHROPIC_BASE_URL", "", ("X", ""), json!({}), true),
    ] {
        for file in [".claude/settings.json", ".haft/settings.local.json"] {
            let haft = Haft::new();
            let model = model([Turn::text("Hello.").always()]).await;
            let mut variables = own.clone();
            variables[address] = json!(url(&model, path));
            haft.write(file, &json!({"env": variables}).to_string());
            assert_eq!(run(&haft, &["trust", "--yes"], &[]).await.code, Some(0), "{what}");
            let ran = run(&haft, &["-p", "hi"], &[env]).await;
            assert_eq!(ran.code == Some(0), sent, "{what} {file}: {}", ran.stderr);
            assert_eq!(model.count(), usize::from(sent), "{what} {file}");
            if !sent {
                assert!(ran.stderr.contains(file) && ran.stderr.contains(address), "{what}: {}", ran.stderr);
                assert!(!ran.stderr.contains("4711"), "{what}: {}", ran.stderr);
            }
        }
    }
    // The user's own settings may set any base URL.
    let haft = Haft::new();
    let model = model([Turn::text("Hello.")]).await;
    haft.write_home(".haft/settings.json", &json!({"env": {"ANTHROPIC_BASE_URL": model.url()}}).to_string());
    let ran = run(&haft, &["-p", "hi"], &[("ANTHROPIC_API_KEY", "k-4711")]).await;
    assert_eq!((ran.code, model.count()), (Some(0), 1), "{}", ran.stderr);
}

/// Naming the project as a settings source does not trust it, and settings that wait for trust are
/// reported.
#[tokio::test]
async fn what_waits_for_trust_does_nothing_and_is_said() {
    let haft = Haft::new();
    let mark = haft.ws().join("ran");
    let hook = json!([{"hooks": [{"type": "command", "command": format!("touch {}", mark.display())}]}]);
    let settings = json!({
        "hooks": {"SessionStart": hook}, "permissions": {"allow": ["Bash(touch *)"]}, "env": {"BASH_ENV": "x"},
    });
    haft.write(".claude/settings.json", &settings.to_string());
    for args in [&["-p", "hi"][..], &["-p", "hi", "--setting-sources", "project"]] {
        let model = model([Turn::text("Hello.")]).await;
        let url = model.url();
        let ran = run(&haft, args, &[("ANTHROPIC_BASE_URL", &url)]).await;
        assert_eq!((ran.code, mark.exists()), (Some(0), false), "{args:?} {}", ran.stderr);
        let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("not in force")).collect();
        let [line] = lines[..] else { panic!("{args:?}: {}", ran.stderr) };
        for part in ["1 hook", "1 allow rule", "1 variable", "haft trust"] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    run(&haft, &["trust", "--yes"], &[]).await;
    let model = model([Turn::text("Hello.")]).await;
    let url = model.url();
    let ran = run(&haft, &["-p", "hi"], &[("ANTHROPIC_BASE_URL", &url)]).await;
    assert_eq!((ran.stderr.as_str(), mark.exists()), ("", true));
}

/// A memory file cannot include files outside the project or denied files.
#[tokio::test]
async fn memory_brings_nothing_in_that_must_not_be_read() {
    let haft = Haft::new();
    haft.write_home("key", "SECRET-4711");
    haft.write("notes/private.md", "SECRET-4712");
    haft.write("notes/public.md", "PUBLIC-4713");
    haft.write("CLAUDE.md", "@~/key\n@notes/private.md\n@notes/public.md\n@/proc/self/environ\n");
    haft.write_home(
        ".haft/settings.json",
        &json!({"permissions": {"deny": ["Read(./notes/private.md)"]}}).to_string(),
    );
    let model = model([Turn::text("Hello.")]).await;
    let url = model.url();
    let ran = run(&haft, &["-p", "hi"], &[("ANTHROPIC_BASE_URL", &url)]).await;
    let sent = model.requests()[0].json().to_string();
    assert!(
        sent.contains("PUBLIC-4713") && !sent.contains("SECRET-471") && !sent.contains("PATH="),
        "{sent}"
    );
    assert_eq!(ran.stderr.matches("left out of the prompt").count(), 3, "{}", ran.stderr);
}

/// All files below a directory, recursively.
fn files_below(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()))
        } else {
            found.push(entry.path())
        }
    }
    found
}

/// Secrets in key files reach neither the model nor logs nor recordings, and the file can still be
/// edited.
#[tokio::test]
async fn secrets_stay_where_they_are() {
    let haft = Haft::new();
    let secret = "Zx9-tr0ub4dor-77";
    haft.write(
        ".env",
        &format!("PORT=3000\nDB_PASSWORD={secret}\nSTRIPE_KEY=sk_live_0123456789abcdefABCD\n"),
    );
    let turns = [
        Turn::from_pieces([
            ReplyPiece::tool("Read", json!({"file_path": ".env"})),
            ReplyPiece::tool("Bash", json!({"command": "cat .env"})),
            ReplyPiece::tool("Grep", json!({"pattern": "DB_", "path": ".", "output_mode": "content"})),
        ]),
        Turn::tool(
            "Write",
            json!({"file_path": ".env", "content": "PORT=4000\nDB_PASSWORD=«secret:DB_PASSWORD»\nNEW=1\n"}),
        ),
        Turn::text("Done."),
    ];
    let model = model(turns).await;
    let url = model.url();
    let args = [
        "-p",
        "go",
        "--permission-mode",
        "acceptEdits",
        "--record",
        "tape.jsonl",
        "--allowedTools",
        "Bash(cat *)",
    ];
    let ran = run(&haft, &args, &[("ANTHROPIC_BASE_URL", &url)]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let sent: String = model.requests().iter().map(|it| it.json().to_string()).collect();
    assert!(sent.contains("PORT=3000") && sent.contains("«secret:DB_PASSWORD»"), "{sent}");
    assert!(!sent.contains(secret) && !sent.contains("sk_live_0123"), "{sent}");
    let written = std::fs::read_to_string(haft.ws().join(".env")).unwrap();
    assert_eq!(written, format!("PORT=4000\nDB_PASSWORD={secret}\nNEW=1\n"), "{}", ran.stdout);
    let logs = haft.home().join(".haft/projects");
    let kept = files_below(&logs).into_iter().chain([haft.ws().join("tape.jsonl")]);
    for file in kept {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains(secret) && !text.contains("sk_live_0123"), "{}", file.display());
    }
}

/// Repeated identical failures (apart from a number) end the run.
#[tokio::test]
async fn a_run_that_gets_nowhere_ends() {
    let haft = Haft::new();
    let step = || {
        Turn::from_pieces([
            ReplyPiece::tool("Write", json!({"file_path": "a.txt", "content": "same\n"})),
            ReplyPiece::tool("Bash", json!({"command": "date +%N; false"})),
        ])
    };
    let model = model((0..40).map(|_| step())).await;
    let url = model.url();
    let args = ["-p", "go", "--permission-mode", "bypassPermissions", "--output-format", "json"];
    let ran = run(&haft, &args, &[("ANTHROPIC_BASE_URL", &url), ("IS_SANDBOX", "1")]).await;
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(model.count() < 12, "{} requests: {result}", model.count());
    assert_ne!(ran.code, Some(0));
}

/// An unreachable provider is named in one line for all retries.
#[tokio::test]
async fn a_provider_that_is_not_there_is_named() {
    let haft = Haft::new();
    // Bound without listening, so that no other process gets the port.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = deaf.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let env =
        [("ANTHROPIC_BASE_URL", url.as_str()), ("ANTHROPIC_API_KEY", "k-4711"), ("HAFT_MAX_RETRIES", "2")];
    let ran = run(&haft, &["-p", "hi"], &env).await;
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains(&format!("127.0.0.1:{port}")), "{}", ran.stderr);
    let reason = ran.stderr.lines().filter(|line| line.contains("refused")).count();
    assert!(reason <= 2, "{}", ran.stderr);
    assert!(!ran.stderr.contains("4711"));
    // An invalid URL is not retried.
    for address in ["notaurl", "ftp://models.example"] {
        let ran =
            run(&haft, &["-p", "hi"], &[("ANTHROPIC_BASE_URL", address), ("ANTHROPIC_API_KEY", "k")]).await;
        assert_ne!(ran.code, Some(0), "{address}");
        assert!(
            ran.stderr.contains("https://") && !ran.stderr.contains("again"),
            "{address}: {}",
            ran.stderr
        );
    }
    // Without a key no request is sent.
    let ran = run(&haft, &["-p", "hi", "--provider", "openai"], &[]).await;
    assert!(ran.stderr.contains("OPENAI_API_KEY") && !ran.stderr.contains("retry"), "{}", ran.stderr);
}

/// Programs of the project are never started instead of the system's, whatever `PATH` contains, and a
/// symlink in the project does not make its target part of it.
#[tokio::test]
async fn a_folder_brings_no_programs_and_no_foreign_files() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let haft = Haft::new();
    let (outside, canary) = (haft.dir.path().join("outside"), haft.dir.path().join("canary"));
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "FOREIGN-4711\n").unwrap();
    std::fs::write(outside.join("named"), "NAMED-4712\n").unwrap();
    symlink(outside.join("secret"), haft.ws().join("notes.txt")).unwrap();
    symlink(&outside, haft.ws().join("docs")).unwrap();
    haft.write("here.txt", "HERE-4713\n");
    assert!(
        std::process::Command::new("git")
            .args(["init", "-q"])
            .current_dir(haft.ws())
            .status()
            .unwrap()
            .success()
    );
    for name in ["git", "sh", "bash", "rg", "ls", "node"] {
        haft.write(name, &format!("#!/bin/sh\ntouch '{}'\n", canary.display()));
        std::fs::set_permissions(haft.ws().join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let real = std::env::var("PATH").unwrap();
    let model = model((0..9).map(|_| Turn::text("Fine."))).await;
    let url = model.url();
    let prompt = format!("@notes.txt @docs/secret @docs @here.txt @{}", outside.join("named").display());
    for path in [format!(".:{real}"), format!(":{real}"), format!("./:..:{real}:"), format!("../ws:{real}")] {
        for args in [
            &["-p", prompt.as_str()][..],
            &["doctor"],
            &["context"],
            &["worktrees"],
            &["tool", "call", "Bash", r#"{"command": "ls; git status"}"#],
        ] {
            run(&haft, args, &[("ANTHROPIC_BASE_URL", &url), ("PATH", &path)]).await;
            assert!(!canary.exists(), "{args:?} with {path}");
        }
        let sent = model.requests().pop().unwrap().json()["messages"].to_string();
        assert!(sent.contains("HERE-4713") && sent.contains("NAMED-4712"), "{sent}");
        assert!(!sent.contains("FOREIGN-4711"), "{sent}");
    }
}
