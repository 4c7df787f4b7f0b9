//! Undo restores what commands destroyed: byte for byte, with modes, links and empty directories,
//! through the real binary.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    collections::BTreeMap,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use common::{Haft, eventually, text};
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

/// All entries of a directory: type, mode, content.
fn picture(dir: &Path) -> BTreeMap<String, String> {
    fn add(root: &Path, dir: &Path, out: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata().unwrap());
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if name == ".git" {
                continue;
            }
            let mode = meta.permissions().mode() & 0o7777;
            let shown = if meta.is_symlink() {
                format!("link {}", std::fs::read_link(&path).unwrap().display())
            } else if meta.is_dir() {
                add(root, &path, out);
                format!("dir {mode:o}")
            } else {
                format!("file {mode:o} {:?}", std::fs::read(&path).unwrap())
            };
            out.insert(name, shown);
        }
    }
    let mut out = BTreeMap::new();
    add(dir, dir, &mut out);
    out
}

fn furnish(haft: &Haft) {
    for number in 0..40 {
        haft.write(&format!("a/{}/f{number}.x", number % 7), &format!("content {number}\n").repeat(number));
    }
    haft.write("b/deep/er/data.bin", "\u{0}\u{1}binary");
    haft.write("run.sh", "#!/bin/sh\nrm -rf b\nmkdir b\necho new > b/new\n");
    haft.write("notes.txt", "one\ntwo\n");
    haft.write("log", "log\n");
    let ws = haft.ws();
    std::fs::create_dir_all(ws.join("empty/inner")).unwrap();
    std::fs::create_dir_all(ws.join("sub")).unwrap();
    symlink("notes.txt", ws.join("link")).unwrap();
    symlink("a", ws.join("dirlink")).unwrap();
    symlink("nowhere", ws.join("a/dangling")).unwrap();
    for (path, mode) in [("run.sh", 0o755), ("notes.txt", 0o640), ("empty", 0o750), ("a/3", 0o700)] {
        std::fs::set_permissions(ws.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn bash(haft: &Haft, id: &str, command: &str) -> Value {
    let line = json!({"id": id, "name": "Bash", "input": {"command": command}});
    haft.reports(&["--permission-mode", "bypassPermissions"], &[line]).remove(0)
}

#[test]
fn destructive_commands_can_be_undone_and_redone() {
    let haft = Haft::new();
    furnish(&haft);
    let git = |args: &[&str]| {
        let done = Command::new("git").args(args).current_dir(haft.ws()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "notes.txt"]);
    git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]);
    for (number, command) in [
        "rm -rf a",
        "find . -name '*.x' -delete",
        "python3 -c \"import shutil; shutil.rmtree('b')\"",
        "mv log sub/ && rm -rf sub",
        "git clean -fdxq",
        "sed -i 's/one/1/' notes.txt",
        "./run.sh",
        "ls | xargs rm -rf --",
        "chmod 600 run.sh; chmod 711 empty; rm link; ln -s run.sh link",
        "rm notes.txt; mkdir notes.txt; echo x > notes.txt/x",
        "rm -rf a; echo now a file > a",
        "rm dirlink; mkdir dirlink; touch dirlink/x",
        "truncate -s 0 b/deep/er/data.bin; rmdir empty/inner; echo more >> log",
        "git mv notes.txt moved.txt; echo $RANDOM > random.txt; mkdir -p n/e/w",
    ]
    .iter()
    .enumerate()
    {
        let before = picture(&haft.ws());
        let id = format!("call_{number}");
        let report = bash(&haft, &id, command);
        assert_eq!(report["is_error"], false, "{command}: {report}");
        let after = picture(&haft.ws());
        assert_ne!(before, after, "{command} changed nothing");
        haft.ok(&["undo", &id], "");
        assert_eq!(picture(&haft.ws()), before, "undo of {command}");
        haft.ok(&["redo"], "");
        assert_eq!(picture(&haft.ws()), after, "redo of {command}");
        haft.ok(&["undo", &id], "");
        assert_eq!(picture(&haft.ws()), before, "second undo of {command}");
    }
}

#[test]
fn a_repository_that_was_removed_comes_back() {
    let haft = Haft::new();
    haft.write("f", "x");
    let git = |args: &[&str]| Command::new("git").args(args).current_dir(haft.ws()).output().unwrap();
    git(&["init", "-q"]);
    git(&["add", "f"]);
    git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first"]);
    for command in ["rm -rf .git", "python3 -c \"import shutil; shutil.rmtree('.git')\""] {
        bash(&haft, "gone", command);
        assert!(!haft.ws().join(".git").exists(), "{command}");
        haft.ok(&["undo"], "");
        let log = git(&["log", "--format=%s"]);
        assert_eq!(String::from_utf8_lossy(&log.stdout), "first\n", "{command}");
        assert!(git(&["fsck"]).status.success());
    }
    // Commits of a command stay: undo restores files only.
    bash(&haft, "commit", "echo y > f && git -c user.name=t -c user.email=t@t commit -qam second");
    haft.ok(&["undo"], "");
    assert_eq!(std::fs::read_to_string(haft.ws().join("f")).unwrap(), "x");
    assert_eq!(String::from_utf8_lossy(&git(&["log", "--format=%s"]).stdout), "second\nfirst\n");
}

#[test]
fn nobody_removes_what_everything_is_in() {
    let haft = Haft::new();
    haft.write("keep", "x");
    haft.write_home("precious", "x");
    let home = haft.home().display().to_string();
    symlink(haft.home(), haft.ws().join("tohome")).unwrap();
    for command in [
        "rm -rf \"$HOME\"",
        "rm -rf ~",
        "rm -rf $HOME/",
        "rm -rf ~/*",
        "rm -rf /",
        "rm -rf tohome/",
        "rm -rf ../ws",
        "rm -rf .",
        "rm -rf ..",
        "cd .. && rm -rf w*",
        &format!("d={home}; rm -rf \"$d\""),
        &format!("export D={home}; eval 'rm -rf \"$D\"'"),
        &format!("D=$(echo {home}); rm -rf \"$D\""),
        &format!("read -r D <<< {home}; rm -rf -- \"$D\""),
        "find \"$HOME\" -delete",
    ] {
        let report = bash(&haft, "no", command);
        assert_eq!(report["is_error"], true, "{command}: {report}");
        assert!(haft.ws().join("keep").exists() && haft.home().join("precious").exists(), "{command}");
    }
    let report = bash(&haft, "no", "rm -rf \"$HOME\"");
    assert!(text(&report).contains(&haft.home().canonicalize().unwrap().display().to_string()), "{report}");
}

#[test]
fn what_somebody_else_changed_meanwhile_stays() {
    let haft = Haft::new();
    haft.write("p", "one\n");
    haft.write("r", "mine\n");
    bash(&haft, "call", "sed -i s/one/two/ p; echo theirs > r; echo q > q");
    haft.write("r", "mine again\n");
    let undone = haft.run(&["undo", "call", "--json"], "");
    let undone = String::from_utf8(undone.stdout).unwrap();
    assert!(undone.contains("conflicts") && undone.contains("/r"), "{undone}");
    let read = |name: &str| std::fs::read_to_string(haft.ws().join(name)).ok();
    assert_eq!(
        (read("p"), read("r"), read("q")),
        (Some(String::from("one\n")), Some(String::from("mine again\n")), None)
    );
}

#[test]
fn a_session_that_is_killed_while_a_command_runs_leaves_it_undoable() {
    let haft = Haft::new();
    furnish(&haft);
    let before = picture(&haft.ws());
    let line = json!({"id": "killed", "name": "Bash", "input": {"command": "rm -rf a b; echo gone > done.tmp; sleep 60"}});
    let mut child = haft.spawn(&["tool", "run", "--permission-mode", "bypassPermissions"]);
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), format!("{line}\n").as_bytes()).unwrap();
    common::eventually("the command has run", || haft.ws().join("done.tmp").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    haft.ok(&["undo"], "");
    assert_eq!(picture(&haft.ws()), before);
}

/// Everything except `.git`.
fn files(picture: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = |path: &&String| !path.starts_with(".git");
    picture.keys().filter(own).map(|path| (path.clone(), picture[path].clone())).collect()
}

/// A turn of commands with edits, commits, resets, creations and deletions, while a user works in the
/// same directory.
#[test]
fn undo_covers_a_turn_and_destroys_nothing_of_the_user() {
    let haft = Haft::new();
    let git = |args: &[&str]| {
        let done = Command::new("git").args(args).current_dir(haft.ws()).output().unwrap();
        assert!(done.status.success(), "{args:?} {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["config", "user.name", "t"]);
    git(&["config", "user.email", "t@t"]);
    for (name, content) in [("p", "one\n"), ("s", "s\n"), ("r", "r\n")] {
        haft.write(name, content);
    }
    git(&["add", "-A"]);
    git(&["commit", "-qm", "base"]);
    haft.write("stashed", "x");
    git(&["add", "stashed"]);
    git(&["stash", "-q"]);
    haft.write("s", "staged by the user\n");
    git(&["add", "s"]);
    haft.write("p", "changed in turn one\n");
    haft.write("u", "untracked, of the user\n");
    haft.write("other/v", "not in git\n");
    let before = files(&picture(&haft.ws()));
    let command = "sed -i s/turn/TURN/ p && git commit -qam 'made by the command' && git reset -q --hard HEAD~1 && echo q > q && rm u && rm -r other && echo theirs > r";
    let report = bash(&haft, "turn2", command);
    assert_eq!(report["is_error"], false, "{report}");
    let after = files(&picture(&haft.ws()));
    haft.write("r", "edited by the user meanwhile\n");
    let state = || {
        let moves = git(&["log", "--format=%H %s", "-g", "HEAD"]);
        (git(&["rev-parse", "HEAD"]), git(&["stash", "list"]), git(&["ls-files", "-s"]), moves)
    };
    let kept = state();
    let undone: Value = serde_json::from_slice(&haft.run(&["undo", "turn2", "--json"], "").stdout).unwrap();
    // The earlier state is back, and the user's edit is kept and named.
    let with_edit = |mut want: BTreeMap<String, String>, got: &BTreeMap<String, String>| {
        want.insert(String::from("r"), got["r"].clone());
        want
    };
    let got = files(&picture(&haft.ws()));
    assert_eq!(got, with_edit(before, &got));
    let edited = std::fs::read_to_string(haft.ws().join("r")).unwrap();
    assert_eq!(edited, "edited by the user meanwhile\n");
    assert!(undone["conflicts"].to_string().contains("/r"), "{undone}");
    // Git's state is unchanged, and the commit is named and reachable.
    assert_eq!(state(), kept);
    let named = undone["commits"][0].as_str().unwrap();
    assert!(named.ends_with(" made by the command"), "{undone}");
    let name = named.split(' ').next().unwrap();
    assert_eq!(git(&["log", "-1", "--format=%s", name]), "made by the command\n");
    // Redo.
    haft.ok(&["redo"], "");
    let got = files(&picture(&haft.ws()));
    assert_eq!(got, with_edit(after, &got));
}

/// Undo directly after a kill: running commands of the killed session are ended first, so everything
/// they wrote is undone and nothing is written afterwards.
#[test]
fn undo_after_a_kill_waits_for_nobody_who_still_writes() {
    const WRITERS: [&str; 4] = [
        // In the foreground, in the background, ignoring signals, and in another process group.
        "i=0; while :; do i=$((i+1)); echo $i > data/n$i; echo $i >> log; done",
        "(i=0; while :; do i=$((i+1)); mv data data.$i; mkdir -p data; echo $i > notes.txt; mv data.$i data; done) & wait",
        "trap '' TERM HUP INT; while :; do date +%N >> notes.txt; rm -rf b; mkdir -p b; date > b/x; done",
        "setsid -f bash -c 'while :; do date +%N >> log; cp log b/copy$RANDOM; done'; sleep 600",
    ];
    for (round, command) in WRITERS.iter().enumerate() {
        for background in [false, true] {
            let haft = Haft::new();
            furnish(&haft);
            std::fs::create_dir_all(haft.ws().join("data")).unwrap();
            let before = picture(&haft.ws());
            let mut child = haft.spawn(&["tool", "run", "--permission-mode", "bypassPermissions"]);
            let id = format!("writer_{round}");
            let input = json!({"command": command, "run_in_background": background});
            let line = json!({"id": id, "name": "Bash", "input": input});
            std::io::Write::write_all(child.stdin.as_mut().unwrap(), format!("{line}\n").as_bytes()).unwrap();
            eventually("it writes", || picture_if_still(&haft.ws()).is_none_or(|now| now != before));
            child.kill().unwrap();
            child.wait().unwrap();
            haft.ok(&["undo", &id], "");
            assert_eq!(picture(&haft.ws()), before, "{command}");
            assert_eq!(haft.ok(&["tasks", "--json"], ""), "", "{command}");
        }
    }
}

/// Like [`picture`]; `None` if an entry disappeared meanwhile.
fn picture_if_still(dir: &Path) -> Option<BTreeMap<String, String>> {
    std::panic::catch_unwind(|| picture(dir)).ok()
}

/// A killed session that is resumed ends its leftover processes, like a new session, and its changes can
/// be undone.
#[tokio::test]
async fn a_killed_session_that_is_resumed_ends_its_orphans() {
    let haft = Haft::new();
    haft.write("log", "0\n");
    let forever =
        "setsid -f bash -c 'while :; do date +%N >> log; done'; setsid -f sleep 643; touch begun; sleep 644";
    let turns = [
        Turn::tool("Bash", json!({"command": forever})),
        Turn::text("Here again."),
        Turn::text("And again."),
    ];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let command = |args: &[&str]| {
        let mut command = haft.async_command();
        command.args(args).env("ANTHROPIC_BASE_URL", model.url()).kill_on_drop(true);
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    };
    let mut child = command(&["-p", "go", "--permission-mode", "bypassPermissions"]).spawn().unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(120), async {
        while !haft.ws().join("begun").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    child.kill().await.unwrap();
    let tasks = || haft.ok(&["tasks", "--json"], "");
    assert!(tasks().contains("left by a session that is gone"), "{}", tasks());
    let output = command(&["-p", "still there?", "--continue"]).output().await.unwrap();
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert_eq!(tasks(), "", "the orphans were ended");
    haft.ok(&["undo"], "");
    assert_eq!(std::fs::read_to_string(haft.ws().join("log")).unwrap(), "0\n");
    assert!(!haft.ws().join("begun").exists());
}

/// `--turn` undoes everything done for one prompt, given the turn's id or that of any change in it.
#[tokio::test]
async fn a_turn_is_taken_back_as_a_whole() {
    for by in ["turn", "id", "call"] {
        let haft = Haft::new();
        for name in ["one.txt", "two.txt", "three.txt"] {
            haft.write(name, "old\n");
        }
        let edit = |file: &str, old: &str, new: &str| {
            ReplyPiece::tool("Edit", json!({"file_path": file, "old_string": old, "new_string": new}))
        };
        let read = |file: &str| ReplyPiece::tool("Read", json!({ "file_path": file }));
        let turns = [
            Turn::from_pieces([read("one.txt"), read("two.txt")]),
            Turn::from_pieces([edit("one.txt", "old", "first"), edit("two.txt", "old", "first")]),
            Turn::tool("Bash", json!({"command": "rm three.txt; mkdir -p deep; echo x > deep/x"})),
            Turn::text("Done."),
            Turn::from_pieces([edit("one.txt", "first", "second")]),
            Turn::text("Done again."),
        ];
        let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
        for prompt in [&["-p", "first"][..], &["-p", "second", "--continue"]] {
            let mut command = haft.async_command();
            command.args(prompt).args(["--permission-mode", "bypassPermissions"]);
            let output = command.env("ANTHROPIC_BASE_URL", model.url()).output().await.unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let history = haft.ok(&["history", "--json"], "");
        let lines: Vec<Value> = history.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        let turn_of = |line: &Value| line["turn"].as_str().unwrap().to_owned();
        assert_eq!(lines.len(), 4, "{history}");
        assert!(lines[1..].iter().all(|it| turn_of(it) == turn_of(&lines[1])), "{history}");
        assert_ne!(turn_of(&lines[0]), turn_of(&lines[1]), "{history}");
        let read = |name: &str| std::fs::read_to_string(haft.ws().join(name)).unwrap_or_default();
        let named = |line: &Value| line[by].as_str().unwrap().to_owned();
        haft.ok(&["undo", &named(&lines[0]), "--turn"], "");
        assert_eq!((read("one.txt").as_str(), read("two.txt").as_str()), ("first\n", "first\n"), "{by}");
        haft.ok(&["undo", &named(&lines[2]), "--turn"], "");
        for name in ["one.txt", "two.txt", "three.txt"] {
            assert_eq!(read(name), "old\n", "{by}: {name}");
        }
        assert!(!haft.ws().join("deep").exists(), "{by}");
        let unknown = haft.run(&["undo", "nothing-like-it", "--turn"], "");
        let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
        assert!(!unknown.status.success() && said.contains("see `haft history`"), "{said}");
    }
}
