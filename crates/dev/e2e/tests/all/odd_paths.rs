//! Names that are not UTF-8: nothing panics and nothing is lost.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::PathBuf, process::Output};

use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};

use crate::common::Haft;

fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Undo with file names and a project path that are not UTF-8.
#[test]
fn undo_of_names_that_are_not_utf8_restores_and_reports() {
    let haft = Haft::new();
    for place in [haft.ws(), haft.ws().join(OsStr::from_bytes(b"odd\xff"))] {
        fs::create_dir_all(&place).unwrap();
        let file = |name: &[u8]| place.join(OsStr::from_bytes(name));
        fs::write(file(b"old\xff"), "old").unwrap();
        let run = |args: &[&str]| {
            let output = haft.command().current_dir(&place).args(args).output().unwrap();
            assert!(!text(&output).contains("panicked"), "{args:?}: {}", text(&output));
            assert!(output.status.success(), "{args:?}: {}", text(&output));
            text(&output)
        };
        let command = json!({"command": "printf new > \"$(printf 'new\\377')\"; rm old*"}).to_string();
        run(&["tool", "call", "Bash", &command, "--permission-mode", "bypassPermissions"]);
        let names = || {
            let all = fs::read_dir(&place).unwrap().map(|it| it.unwrap().path());
            let mut all: Vec<PathBuf> = all.filter(|it| it.is_file()).collect();
            all.sort();
            all
        };
        assert_eq!(names(), [file(b"new\xff")]);
        for json in [&[][..], &["--json"]] {
            for (verb, left, removed) in [("undo", "old", "new"), ("redo", "new", "old")] {
                run(&[&["history"], json].concat());
                if verb == "undo" {
                    run(&[&["diff"], json].concat());
                }
                let said = run(&[&[verb], json].concat());
                assert_eq!(names(), [file(&[left.as_bytes(), b"\xff"].concat())], "{verb}");
                assert!(said.contains(&format!("{removed}\u{fffd}")), "{said}");
                let line = format!("removed {}", file(&[removed.as_bytes(), b"\xff"].concat()).display());
                assert!(!json.is_empty() || said.contains(&line), "{said}");
            }
        }
        fs::remove_file(file(b"new\xff")).unwrap();
    }
}

/// A session in a directory whose path is not UTF-8 starts and works.
#[tokio::test]
async fn stream_json_in_a_directory_that_is_not_utf8_is_announced() {
    let (haft, model) =
        (Haft::new(), MockModel::start(Script::from_turns([Turn::text("done")])).await.unwrap());
    let place = haft.ws().join(OsStr::from_bytes(b"odd\xff"));
    let other = haft.ws().join(OsStr::from_bytes(b"other\xff"));
    [&place, &other].iter().for_each(|it| fs::create_dir_all(it).unwrap());
    let output = haft
        .async_command()
        .current_dir(&place)
        .args(["-p", "go", "--output-format", "stream-json", "--verbose", "--add-dir"])
        .arg(&other)
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("ANTHROPIC_API_KEY", "k")
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let first: Value =
        serde_json::from_slice(output.stdout.split(|it| *it == b'\n').next().unwrap()).unwrap();
    assert!(first["cwd"].as_str().unwrap().ends_with("odd\u{fffd}"), "{first}");
    assert!(first["additional_directories"][0].as_str().unwrap().ends_with("other\u{fffd}"), "{first}");
}
