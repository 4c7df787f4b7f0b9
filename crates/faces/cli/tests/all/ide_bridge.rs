//! An editor with the plugin that Claude Code talks to lends its selection.

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

fn plugin(token: &str) -> EditorPlugin {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/ide_server.py");
    let mut child = Command::new("python3")
        .arg(script)
        .arg(token)
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
    EditorPlugin(child, port.trim().parse().unwrap())
}

#[tokio::test]
async fn the_selection_of_the_editor_is_a_tool_and_a_wrong_token_is_no_editor() {
    for (token, flags, want) in [
        ("right", &["--ide"][..], Some("selected words")),
        ("wrong", &["--ide"][..], None),
        ("right", &[][..], None),
    ] {
        let haft = Haft::new();
        let editor = plugin("right");
        let lock = json!({"pid": editor.0.id(), "workspaceFolders": [haft.ws()], "ideName": "Some", "transport": "ws",
            "authToken": token});
        let path = haft.home().join(format!(".claude/ide/{}.lock", editor.1));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, lock.to_string()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let script =
            Script::of([Turn::tool("mcp__ide__getCurrentSelection", json!({})), Turn::text("Seen.")]);
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
