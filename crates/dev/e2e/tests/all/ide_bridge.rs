//! An editor with the Claude Code extension provides its selection and shows diffs.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
};

use haft_testkit::{MockModel, Script, Turn};
use serde_json::json;

use crate::common::Haft;

struct EditorPlugin(Child, u16);

impl Drop for EditorPlugin {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn plugin(token: &str, words: &[String]) -> EditorPlugin {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/ide_server.py");
    let mut child = Command::new("python3")
        .arg(script)
        .arg(token)
        .args(words)
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
    EditorPlugin(child, port.trim().parse().unwrap())
}

/// Writes the lock file by which the editor is found.
fn lock(haft: &Haft, editor: &EditorPlugin, token: &str) {
    let lock = json!({"pid": editor.0.id(), "workspaceFolders": [haft.ws()], "ideName": "Some", "transport": "ws",
        "authToken": token});
    let path = haft.home().join(format!(".claude/ide/{}.lock", editor.1));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, lock.to_string()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The editor's selection is sent with the prompt, unless a rule denies reading the file.
#[tokio::test]
async fn what_is_selected_comes_with_the_prompt() {
    for (file, deny, want) in [
        ("a.rs", None, true),
        ("a.rs", Some("Read(a.rs)"), false),
        ("../outside.rs", None, false),
        ("not_saved_yet.rs", None, true),
    ] {
        let haft = Haft::new();
        haft.write("a.rs", "fn one() {}\nfn two() {}\n");
        haft.write_home("../outside.rs", "x\n");
        if let Some(rule) = deny {
            haft.write_home(".haft/settings.json", &json!({"permissions": {"deny": [rule]}}).to_string());
        }
        let path = haft.ws().join(file);
        let selected = json!({"text": "fn typed() {}", "filePath": path, "selection":
            {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 13}, "isEmpty": false}});
        let editor = plugin("right", &[selected.to_string()]);
        lock(&haft, &editor, "right");
        let model = MockModel::start(Script::from_turns([Turn::text("Seen.")])).await.unwrap();
        let ran = haft
            .async_command()
            .args(["-p", "What does this do?", "--ide", "--output-format", "json"])
            .env("ANTHROPIC_BASE_URL", model.url())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let asked = String::from_utf8_lossy(&model.requests()[0].body).into_owned();
        assert_eq!(asked.contains("fn typed() {}"), want, "{file} {deny:?} {asked}");
        assert_eq!(asked.contains("(line 2)"), want, "{asked}");
    }
}

#[tokio::test]
async fn the_selection_of_the_editor_is_a_tool_and_a_wrong_token_is_no_editor() {
    for (token, flags, want) in [
        ("right", &["--ide"][..], Some("selected words")),
        ("wrong", &["--ide"][..], None),
        ("right", &[][..], None),
    ] {
        let haft = Haft::new();
        let editor = plugin("right", &[]);
        lock(&haft, &editor, token);
        let script =
            Script::from_turns([Turn::tool("mcp__ide__getCurrentSelection", json!({})), Turn::text("Seen.")]);
        let model = MockModel::start(script).await.unwrap();
        let ran = haft
            .async_command()
            .args([
                "-p",
                "What is selected?",
                "--allowedTools",
                "mcp__ide__getCurrentSelection",
                "--output-format",
                "json",
            ])
            .args(flags)
            .env("ANTHROPIC_BASE_URL", model.url())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let noise = String::from_utf8_lossy(&ran.stderr);
        let second = String::from_utf8_lossy(&model.requests()[1].body).into_owned();
        assert_eq!(second.contains("selected words"), want.is_some(), "{token} {flags:?} {noise} {second}");
    }
}

/// A change is also shown in the editor and can be accepted or rejected there; the SDK host need not
/// answer.
#[tokio::test]
async fn a_change_is_agreed_to_or_rejected_in_the_editor() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
    for (verdict, want) in
        [("saved", "three\ntwo\n"), ("changed", "three\ntwo\nby hand\n"), ("rejected", "one\ntwo\n")]
    {
        let haft = Haft::new();
        haft.write("a.txt", "one\ntwo\n");
        let editor = plugin("right", &[String::from("null"), verdict.to_owned()]);
        lock(&haft, &editor, "right");
        let turns = [
            Turn::tool("Read", json!({"file_path": "a.txt"})),
            Turn::tool("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "three"})),
            Turn::text("Done."),
        ];
        let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
        let mut child = haft
            .async_command()
            .args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"])
            .args(["--permission-prompt-tool", "stdio", "--ide"])
            .env("ANTHROPIC_BASE_URL", model.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let prompt = json!({"type": "user", "message": {"role": "user", "content": "go"}});
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(format!("{prompt}\n").as_bytes()).await.unwrap();
        let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("\"type\":\"result\"") {
                break;
            }
        }
        drop(stdin);
        child.wait().await.unwrap();
        assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), want, "{verdict}");
        let last = String::from_utf8_lossy(&model.requests()[2].body).into_owned();
        assert_eq!(last.contains("rejected it"), verdict == "rejected", "{last}");
    }
}
