//! Reading a repository needs no prompt, whatever the repository's configuration names. Paths outside it
//! and denied paths stay protected.

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::{Value, json};

use crate::common::{Haft, text};

fn git(dir: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=n", "-c", "user.email=e@x.test"]).args(words).current_dir(dir);
    let done = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn repository(haft: &Haft) {
    haft.write("a.txt", "one\n");
    haft.write("secret.txt", "a secret\n");
    git(&haft.ws(), &["init", "-q", "-b", "main"]);
    git(&haft.ws(), &["add", "."]);
    git(&haft.ws(), &["commit", "-qm", "First"]);
    haft.write("secret.txt", "another secret\n");
    git(&haft.ws(), &["commit", "-qam", "Second"]);
    git(&haft.ws(), &["branch", "a.txt"]);
    haft.write("a.txt", "two\n");
}

fn looks() -> Vec<Value> {
    let input = |input: Value| json!({"name": "Git", "input": input});
    [
        json!({"operation": "status"}),
        json!({"operation": "diff"}),
        json!({"operation": "log", "patch": true}),
        json!({"operation": "show"}),
        json!({"operation": "blame", "paths": ["a.txt"]}),
        json!({"operation": "branch"}),
        json!({"operation": "tag"}),
        json!({"operation": "stash"}),
        json!({"operation": "worktree"}),
    ]
    .into_iter()
    .map(input)
    .collect()
}

#[test]
fn looking_asks_nobody_and_runs_nothing() {
    let haft = Haft::new();
    repository(&haft);
    let (trap, mark) = (haft.dir.path().join("trap"), haft.dir.path().join("mark"));
    std::fs::write(&trap, format!("#!/bin/sh\ntouch '{}'\ncat\n", mark.display())).unwrap();
    std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o755)).unwrap();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "diff.external",
        "diff.x.textconv",
        "filter.x.clean",
        "gpg.program",
        "unknown.program",
    ] {
        git(&haft.ws(), &["config", key, trap.to_str().unwrap()]);
    }
    git(&haft.ws(), &["config", "alias.st", &format!("!{}", trap.display())]);
    haft.write(".git/info/attributes", "* filter=x diff=x\n");
    std::fs::copy(&trap, haft.ws().join(".git/hooks/post-index-change")).unwrap();
    std::fs::remove_file(&mark).ok();
    for mode in ["default", "plan"] {
        for report in haft.reports(&["--permission-mode", mode], &looks()) {
            assert_eq!(report["is_error"], false, "{mode}: {report}");
        }
    }
    assert!(!mark.exists(), "the repository ran something");
    // The same command in Bash asks: git would run programs that the repository configures.
    let line = json!({"name": "Bash", "input": {"command": "git status"}});
    let changing = json!({"name": "Git", "input": {"operation": "add", "paths": ["a.txt"]}});
    for call in [line, changing] {
        let report = haft.reports(&["--permission-mode", "plan"], std::slice::from_ref(&call));
        assert_eq!(report[0]["is_error"], true, "{call}");
    }
}

#[test]
fn rules_and_other_repositories_bind_as_ever() {
    let haft = Haft::new();
    repository(&haft);
    git(&haft.ws(), &["config", "core.pager", "evil"]);
    let refused = |args: &[&str], input: Value| {
        let call = json!({"name": "Git", "input": input});
        let reports = haft.reports(args, &[call]);
        let said = text(&reports[0]).to_owned();
        assert_eq!(reports[0]["is_error"], true, "{input}: {said}");
        assert!(!said.contains("secret\n"), "{input}: {said}");
    };
    let secret = ["--disallowedTools", "Read(./secret.txt)"];
    for input in [
        json!({"operation": "log", "patch": true}),
        json!({"operation": "show"}),
        json!({"operation": "diff", "from": "HEAD~1"}),
        // A branch with the name of a file is not taken for the file.
        json!({"operation": "diff", "from": "a.txt~1", "to": "a.txt"}),
        json!({"operation": "log", "patch": true, "to": "a.txt"}),
        json!({"operation": "blame", "paths": ["secret.txt"]}),
    ] {
        refused(&secret, input);
    }
    refused(&["--disallowedTools", "Bash(git log:*)"], json!({"operation": "log"}));
    refused(&["--disallowedTools", "Git"], json!({"operation": "status"}));
    // Outside the workspace, or outside this repository.
    let other = haft.dir.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    git(&other, &["init", "-q"]);
    refused(&[], json!({"operation": "log", "dir": other}));
    std::fs::create_dir_all(haft.ws().join("pointing")).unwrap();
    haft.write("pointing/.git", &format!("gitdir: {}\n", other.join(".git").display()));
    refused(&[], json!({"operation": "log", "dir": "pointing"}));
}
