//! Calls that may change something run only after the session log has recorded them. If neither the home
//! nor the temporary directory can store the log, the run does not succeed.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{path::Path, process::Command};

use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};

use crate::common::Haft;

/// A full tmpfs. Unmounted when dropped.
struct FullDisk<'a>(&'a Path);

impl<'a> FullDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(at);
        mount.output().ok()?.status.success().then_some(())?;
        let disk = Self(at);
        std::fs::write(at.join("fill"), vec![0; 1 << 20]).unwrap_err();
        Some(disk)
    }
}

impl Drop for FullDisk<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0).output().ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_whose_calls_could_not_be_recorded_is_incomplete() {
    let write = || Turn::tool("Write", json!({"file_path": "new.txt", "content": "x"}));
    let read = || Turn::tool("Read", json!({"file_path": "a.txt"}));
    for (turns, code, outcome) in [
        (vec![write(), Turn::text("It is written.")], 1, "incomplete"),
        (vec![read(), Turn::text("alpha")], 0, "success"),
    ] {
        let haft = Haft::new();
        haft.write("a.txt", "alpha\n");
        let (home, temp) = (haft.home(), haft.dir.path().join("temp"));
        let (Some(_home), Some(_temp)) = (FullDisk::mount(&home), FullDisk::mount(&temp)) else {
            return eprintln!("SKIPPED: a tmpfs cannot be mounted here (needs root)");
        };
        let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
        let mut run = haft.command();
        run.args(["-p", "go", "--output-format", "json", "--permission-mode", "acceptEdits"]);
        run.env("TMPDIR", &temp).env("ANTHROPIC_BASE_URL", model.url()).env("ANTHROPIC_API_KEY", "key");
        let ended = tokio::task::spawn_blocking(move || run.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{said}");
        let frame: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!((&frame["exit_code"], &frame["outcome"]), (&json!(code), &json!(outcome)), "{frame}");
        assert_eq!(frame["is_error"], json!(code != 0), "{frame}");
        assert!(!haft.ws().join("new.txt").exists());
        let told = said.contains("did not run (Write)") && said.contains("set HAFT_CONFIG_DIR");
        assert_eq!(told, code != 0, "{said}");
    }
}
