//! `haft demo` on a bare machine: no key, no home, no network.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use haft_testkit::haft_binary;

fn demo(dir: &std::path::Path) -> Command {
    let mut command = Command::new(haft_binary());
    command
        .args(["demo"])
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TMPDIR", dir)
        .stdin(Stdio::null());
    command
}

#[test]
fn a_recorded_model_repairs_a_project_with_real_tools() {
    let dir = tempfile::tempdir().unwrap();
    let output = demo(dir.path()).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{shown}");
    for part in [
        "FAIL  party: expected 33.32, got 13.98",
        "+    net += $2 * $3",
        "ok    sugar: 1.18",
        "✗ Bash $ curl",
        "was not allowed to run",
        "✓ the tests pass (9 calls, 2 edits, 1 refused, 6 answers",
    ] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "colours in a pipe");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
}

/// A missing program of the demo project is named.
#[test]
fn what_the_demo_needs_and_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (has, missing) in [(&["sh"][..], "awk"), (&["awk"], "sh"), (&[], "sh")] {
        let path = dir.path().join(format!("without-{missing}-{}", has.len()));
        std::fs::create_dir(&path).unwrap();
        for name in has {
            std::os::unix::fs::symlink("/bin/sh", path.join(name)).unwrap();
        }
        let output = demo(dir.path()).env("PATH", &path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
        assert!(said.contains(&format!("there is no {missing} in PATH")), "{said}");
    }
}

#[test]
fn what_is_kept_is_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let output = demo(dir.path()).arg("--keep").output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let project = shown.lines().last().unwrap().strip_prefix("The project stays in ").unwrap();
    let passes = Command::new("sh").arg("test.sh").current_dir(project).output().unwrap();
    assert!(passes.status.success(), "{}", String::from_utf8_lossy(&passes.stdout));
}

#[test]
fn nobody_has_to_watch_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = demo(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "haft demo\n");
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 141)), "{:?}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
