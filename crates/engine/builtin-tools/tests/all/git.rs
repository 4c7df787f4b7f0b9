//! The git tool: output, commits, undo.

use crate::git_rig::{Repo, git_in};

use std::path::PathBuf;

use haft_permission::{Behavior, Destination, HookOpinion, Policy, RuleSource};
use haft_tool::CallContext;
use serde_json::{Value, json};

#[test]
fn git_tool_description_matches_snapshot() {
    let repo = Repo::empty();
    let spec = repo.tool.spec();
    insta::assert_json_snapshot!(json!({
        "name": repo.tool.name(), "description": spec.description, "input": spec.input_schema }));
}

#[tokio::test]
async fn git_results_and_errors_match_snapshot() {
    let repo = Repo::new();
    repo.git(&["tag", "v1", "HEAD~1"]);
    repo.git(&["branch", "other", "HEAD~1"]);
    repo.put("a.txt", "one\n2\n3\n");
    repo.put("staged.txt", "staged\n");
    repo.git(&["add", "staged.txt"]);
    repo.put("new.txt", "new\n");
    repo.put("package-lock.json", "{}\n");
    let mut told = String::new();
    for input in [
        json!({"operation": "status"}),
        json!({"operation": "diff"}),
        json!({"operation": "diff", "staged": true}),
        json!({"operation": "diff", "from": "v1", "to": "main", "stat": true}),
        json!({"operation": "log"}),
        json!({"operation": "log", "limit": 1, "patch": true}),
        json!({"operation": "show", "rev": "v1:b.txt"}),
        json!({"operation": "blame", "paths": ["a.txt"], "rev": "HEAD"}),
        json!({"operation": "branch"}),
        json!({"operation": "tag"}),
        json!({"operation": "stash"}),
        json!({"operation": "show", "rev": "nothing"}),
        json!({"operation": "commit", "message": "x"}),
        json!({"operation": "commit", "message": "x", "paths": ["a.txt"], "rev": "HEAD"}),
        json!({"operation": "push", "force": true, "branch": "main"}),
        json!({"operation": "show", "rev": "--output=x"}),
        json!({"operation": "add", "paths": ["missing"]}),
        json!({"operation": "commit", "message": "Only what is named", "paths": ["a.txt", "new.txt"]}),
        json!({"operation": "commit", "message": "Again", "paths": ["a.txt"]}),
        json!({"operation": "branch", "action": "delete", "name": "main"}),
        json!({"operation": "status", "dir": "/"}),
    ] {
        let said = repo.said(input.clone()).await;
        told.push_str(&format!(">>> {input}\n{said}\n\n"));
    }
    let told = without_names(&told).replace(&*repo.dir().to_string_lossy(), "WORK");
    insta::assert_snapshot!(told);
}

/// Replaces commit ids and dates, which differ in every run.
fn without_names(text: &str) -> String {
    let mut out = String::new();
    for (at, word) in text.split_inclusive(|it: char| !it.is_ascii_alphanumeric() && it != '-').enumerate() {
        let bare = word.trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
        let is_sha = 7 <= bare.len() && bare.len() <= 40 && bare.bytes().all(|it| it.is_ascii_hexdigit());
        let is_day = bare.len() == 10 && bare.starts_with("20") && bare.matches('-').count() == 2;
        let shown = if is_sha && at != 0 {
            "SHA"
        } else if is_day {
            "DAY"
        } else {
            bare
        };
        out.push_str(shown);
        out.push_str(&word[bare.len()..]);
    }
    out
}

#[tokio::test]
async fn commit_takes_named_files_and_leaves_other_staged_ones() {
    let repo = Repo::new();
    repo.put("staged.txt", "the person's\n");
    repo.put("b.txt", "half\n");
    repo.git(&["add", "staged.txt", "b.txt"]);
    let staged = repo.git(&["ls-files", "-s", "staged.txt", "b.txt"]);
    repo.put("a.txt", "mine\n");
    repo.put("deep/new file.txt", "mine\n");
    let got = repo
        .ok(json!({"operation": "commit", "message": "It's \"mine\" $(x)\n\nbody", "paths": ["a.txt", "deep"]}))
        .await;
    assert_eq!(
        repo.git(&["show", "--name-only", "--format=%B", "HEAD"]),
        "It's \"mine\" $(x)\n\nbody\n\n\na.txt\ndeep/new file.txt"
    );
    assert_eq!(repo.git(&["ls-files", "-s", "staged.txt", "b.txt"]), staged);
    assert_eq!(repo.git(&["diff", "--cached", "--name-only"]), "b.txt\nstaged.txt");
    assert_eq!(got.data["gitOperation"]["commit"]["kind"], "committed");
    assert_eq!(got.data["gitOperation"]["commit"]["sha"], repo.git(&["rev-parse", "HEAD"]));
    repo.put("b.txt", "whole\n");
    repo.ok(json!({"operation": "commit", "message": "All of b", "paths": ["b.txt"]})).await;
    assert_eq!(repo.git(&["show", "HEAD:b.txt"]), "whole");
    repo.ok(json!({"operation": "commit", "amend": true, "message": "Better words"})).await;
    assert_eq!(repo.git(&["show", "--name-only", "--format=%s", "HEAD"]), "Better words\n\nb.txt");
    repo.ok(json!({"operation": "commit", "message": "Staged", "staged": true})).await;
    assert_eq!(repo.git(&["show", "--name-only", "--format=%s", "HEAD"]), "Staged\n\nstaged.txt");
}

#[tokio::test]
async fn undo_of_git_operations_restores_every_byte() {
    let start = |input: Value| (Vec::<Vec<&'static str>>::new(), input);
    let after =
        |commands: &[&[&'static str]], input: Value| (commands.iter().map(|it| it.to_vec()).collect(), input);
    let side: &[&[&str]] = &[
        &["stash", "-q", "-u"],
        &["switch", "-qc", "side", "HEAD~1"],
        &["commit", "-q", "--allow-empty", "-m", "Side"],
        &["switch", "-q", "main"],
    ];
    let rows: Vec<(Vec<Vec<&str>>, Value)> = vec![
        start(json!({"operation": "add", "paths": ["a.txt", "new.txt"]})),
        start(json!({"operation": "restore", "paths": ["a.txt"]})),
        start(json!({"operation": "restore", "paths": ["staged.txt"], "staged": true})),
        start(json!({"operation": "commit", "message": "x", "paths": ["a.txt", "new.txt"]})),
        start(json!({"operation": "commit", "message": "x", "staged": true})),
        start(json!({"operation": "commit", "amend": true, "message": "y"})),
        start(json!({"operation": "stash", "action": "push"})),
        start(json!({"operation": "reset", "mode": "hard", "rev": "HEAD~1"})),
        start(json!({"operation": "reset", "rev": "HEAD~1"})),
        start(json!({"operation": "reset", "mode": "soft", "rev": "HEAD~1"})),
        start(json!({"operation": "reset", "paths": ["staged.txt"]})),
        start(json!({"operation": "branch", "action": "create", "name": "one"})),
        start(json!({"operation": "switch", "name": "two", "create": true})),
        start(json!({"operation": "tag", "action": "create", "name": "t", "message": "m"})),
        after(&[&["branch", "x"]], json!({"operation": "branch", "action": "delete", "name": "x"})),
        after(
            &[&["branch", "x"]],
            json!({"operation": "branch", "action": "rename", "name": "x", "new_name": "z"}),
        ),
        after(&[&["stash", "-q", "-u"]], json!({"operation": "stash", "action": "pop"})),
        after(&[&["stash", "-q", "-u"]], json!({"operation": "stash", "action": "drop"})),
        after(side, json!({"operation": "merge", "rev": "side"})),
        after(side, json!({"operation": "rebase", "rev": "side"})),
        after(side, json!({"operation": "switch", "name": "side"})),
        after(side, json!({"operation": "revert", "rev": "HEAD"})),
        after(
            &[&["stash", "-q", "-u"], &["pack-refs", "--all"]],
            json!({"operation": "reset", "mode": "hard", "rev": "HEAD~1"}),
        ),
    ];
    for (commands, input) in rows {
        let repo = Repo::new();
        repo.put("a.txt", "changed\n");
        repo.put("staged.txt", "staged\n");
        repo.git(&["add", "staged.txt"]);
        repo.put("new.txt", "new\n");
        for command in &commands {
            repo.git(command);
        }
        let before = repo.picture();
        let (id, got) = repo.call(input.clone()).await;
        got.unwrap_or_else(|err| panic!("{input}: {}", err.message));
        let changed = repo.picture();
        assert_ne!(changed, before, "{input} did something");
        repo.undo(&id);
        let now = repo.picture();
        let differs: Vec<_> =
            before.keys().chain(now.keys()).filter(|it| before.get(*it) != now.get(*it)).collect();
        assert!(differs.is_empty(), "{input}: {differs:?}");
        repo.git(&["fsck", "--no-progress"]);
    }
}

#[tokio::test]
async fn merge_conflicts_are_explained_and_can_be_aborted() {
    let repo = Repo::new();
    repo.git(&["switch", "-qc", "side", "HEAD~1"]);
    repo.put("a.txt", "one\nTWO\nthree\n");
    repo.git(&["rm", "-q", "b.txt"]);
    repo.git(&["commit", "-qam", "Side"]);
    repo.git(&["switch", "-q", "main"]);
    repo.put("b.txt", "changed\n");
    repo.git(&["commit", "-qam", "Third"]);
    let before = repo.picture();
    for (input, abort) in [
        (json!({"operation": "merge", "rev": "side"}), "merge"),
        (json!({"operation": "rebase", "rev": "side"}), "rebase"),
        (json!({"operation": "cherry_pick", "rev": "side"}), "cherry_pick"),
    ] {
        let (id, got) = repo.call(input.clone()).await;
        let said = got.unwrap_err().message;
        assert!(said.contains("stopped at conflicts") && said.contains("both sides changed it"), "{said}");
        assert!(said.contains(&format!("{abort} with action continue")), "{said}");
        let status = repo.said(json!({"operation": "status"})).await;
        assert!(status.contains(&format!("In the middle of a {abort}")), "{status}");
        let refused = repo.said(json!({"operation": "commit", "message": "x", "paths": ["a.txt"]})).await;
        assert!(refused.contains("still has the markers of a conflict"), "{refused}");
        repo.undo(&id);
        assert!(repo.picture() == before, "{abort} is taken back");
    }
    repo.call(json!({"operation": "merge", "rev": "side"})).await.1.unwrap_err();
    repo.ok(json!({"operation": "merge", "action": "abort"})).await;
    assert_eq!(repo.read("b.txt"), "changed\n");
    repo.call(json!({"operation": "merge", "rev": "side"})).await.1.unwrap_err();
    repo.put("a.txt", "merged\n");
    repo.ok(json!({"operation": "add", "paths": ["a.txt", "b.txt"]})).await;
    repo.ok(json!({"operation": "merge", "action": "continue"})).await;
    assert_eq!(repo.git(&["rev-list", "--count", "--merges", "HEAD"]), "1");
}

#[tokio::test]
async fn failed_commit_reports_the_reason() {
    let repo = Repo::new();
    repo.put("a.txt", "x\n");
    let hooks = repo.dir().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    let hook = |text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(hooks.join("pre-commit"), text).unwrap();
        std::fs::set_permissions(hooks.join("pre-commit"), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let commit = || json!({"operation": "commit", "message": "x", "paths": ["a.txt", "fresh.txt"]});
    repo.put("fresh.txt", "new\n");
    hook("#!/bin/sh\necho the hook says no >&2\nexit 1\n");
    let before = repo.git(&["ls-files", "-s"]);
    let said = repo.said(commit()).await;
    assert!(said.contains("the hook says no") && said.contains("hooks are not skipped"), "{said}");
    assert_eq!(repo.git(&["ls-files", "-s"]), before, "nothing stays announced");
    std::fs::remove_file(hooks.join("pre-commit")).unwrap();
    repo.git(&["config", "user.name", ""]);
    let said = repo.said(commit()).await;
    assert!(said.contains("git config --global user.email") && said.contains("none is invented"), "{said}");
    repo.git(&["config", "user.name", "Ann"]);
    let lock = repo.dir().join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let said = repo.said(json!({"operation": "add", "paths": ["a.txt"]})).await;
    assert!(said.contains("holds a lock") && lock.exists(), "{said}");
    std::fs::remove_file(&lock).unwrap();
    repo.git(&["config", "commit.gpgsign", "true"]);
    repo.git(&["config", "gpg.program", "/bin/false"]);
    let said = repo.said(commit()).await;
    assert!(said.contains("has to be signed") && said.contains("not committed unsigned"), "{said}");
}

/// Reading operations take no lock: they never block a commit made at the same time, and leave the index
/// unchanged.
#[tokio::test]
async fn reading_does_not_block_concurrent_commits() {
    let repo = Repo::new();
    repo.put("a.txt", "0\n");
    repo.git(&["add", "a.txt"]);
    let dir = repo.dir().to_owned();
    let person = std::thread::spawn(move || {
        for number in 1..=20 {
            std::fs::write(dir.join("a.txt"), format!("{number}\n")).unwrap();
            let mut command = std::process::Command::new("git");
            let done = command.args(["commit", "-aqm", "by hand"]).current_dir(&dir).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    });
    while !person.is_finished() {
        let said = repo.said(json!({"operation": "status"})).await;
        assert!(!said.contains("lock"), "{said}");
    }
    person.join().unwrap();
    let index = || std::fs::read(repo.dir().join(".git/index")).unwrap();
    let before = index();
    repo.ok(json!({"operation": "status"})).await;
    assert_eq!(index(), before, "looking rewrites nothing");
    assert!(!repo.dir().join(".git/index.lock").exists());
}

#[tokio::test]
async fn push_overwrites_a_remote_only_with_the_expected_lease() {
    let repo = Repo::new();
    let remote = repo.rig.outside.join("remote.git");
    git_in(&repo.rig.outside, &["init", "-q", "--bare", "-b", "main", "remote.git"]);
    repo.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    let push = |more: Value| {
        let mut input = json!({"operation": "push", "remote": "origin", "branch": "main"});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    let got = repo.ok(push(json!({}))).await;
    assert_eq!(got.data["gitOperation"]["push"]["branch"], "main");
    assert!(got.content.to_text().contains("cannot be taken back"));
    let pushed = repo.git(&["rev-parse", "HEAD"]);
    repo.git(&["reset", "-q", "--hard", "HEAD~1"]);
    repo.put("a.txt", "other\n");
    repo.git(&["commit", "-qam", "Other"]);
    let said = repo.said(push(json!({}))).await;
    assert!(said.contains("fetch, then merge or rebase"), "{said}");
    let said = repo.said(push(json!({"force": true, "expect": "0".repeat(40)}))).await;
    assert!(said.contains("Somebody pushed in between"), "{said}");
    let (id, got) = repo.call(json!({"operation": "fetch", "remote": "origin"})).await;
    got.unwrap();
    repo.undo(&id);
    repo.ok(push(json!({"force": true, "expect": pushed}))).await;
    assert_eq!(git_in(&remote, &["rev-parse", "main"]), repo.git(&["rev-parse", "HEAD"]));
    let said = repo.said(json!({"operation": "fetch", "remote": "https://127.0.0.1:1/x"})).await;
    assert!(said.starts_with("failed: git fetch failed"), "{said}");
}

#[tokio::test]
async fn large_diffs_are_counted_and_paged() {
    let repo = Repo::new();
    let long: String = (0..40_000).map(|it| format!("line {it}\n")).collect();
    for name in ["p1.txt", "p2.txt", "p3.txt", "package-lock.json"] {
        repo.put(name, &long[..20_000]);
    }
    repo.put("huge.txt", &long.repeat(8));
    std::fs::write(repo.dir().join("bin.dat"), [0_u8, 1, 2, 255]).unwrap();
    repo.git(&["add", "."]);
    let said = repo.said(json!({"operation": "diff", "staged": true})).await;
    assert!(said.len() < 40_000, "{}", said.len());
    for name in ["p1.txt", "p3.txt", "huge.txt", "package-lock.json (made by a program)", "bin.dat"] {
        assert!(said.contains(name), "{name}");
    }
    assert!(!said.contains("+++ b/package-lock.json"));
    let next = said.rsplit("Next: Git ").next().unwrap().trim_end().trim_end_matches(']');
    let next: Value = serde_json::from_str(next).unwrap();
    assert_eq!(next["staged"], true);
    assert!(next["paths"].as_array().unwrap().len() >= 2, "{next}");
    let again = repo.said(next).await;
    assert!(again.contains("+++ b/p"), "{again:.300}");
}

/// Fifty megabytes of changes, including a lock file: the output fits, every file is counted, the next
/// call returns the rest, and memory stays below the maximum output taken from git.
#[tokio::test]
async fn diff_of_fifty_megabytes_fits_one_page() {
    let repo = Repo::new();
    let line = "a line of a file that somebody generated and somebody else committed\n";
    let large = line.repeat((5 << 20) / line.len());
    for number in 0..9 {
        repo.put(&format!("gen/part{number}.txt"), &large);
    }
    repo.put("Cargo.lock", &large);
    repo.put("src/main.rs", "fn main() {}\n");
    repo.git(&["add", "."]);
    let whole = crate::git_rig::git_in(repo.dir(), &["diff", "--cached", "--shortstat"]);
    assert!(whole.contains("11 files"), "{whole}");
    let before = resident();
    let (_, got) = repo.call(json!({"operation": "diff", "staged": true})).await;
    let said = got.unwrap().content.to_text();
    let grown = peak().saturating_sub(before);
    assert!(said.len() < 40_000, "{}", said.len());
    assert!(grown < 64 << 20, "{grown} bytes more than before");
    for number in 0..9 {
        assert!(said.contains(&format!("gen/part{number}.txt")), "{number}");
    }
    assert!(said.contains("Cargo.lock (made by a program)") && said.contains("src/main.rs"), "{said:.2000}");
    assert!(!said.contains("+++ b/Cargo.lock"));
    let next = said.rsplit("Next: Git ").next().unwrap().trim_end().trim_end_matches(']');
    let next: Value = serde_json::from_str(next).unwrap();
    assert_eq!((&next["operation"], &next["staged"]), (&json!("diff"), &json!(true)));
    let again = repo.said(next).await;
    assert!(again.contains("gen/part") && again.len() < 40_000, "{again:.300}");
}

/// Reads a value in kB from `/proc/self/status` and returns bytes.
fn told_by_kernel(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().find_map(|it| it.parse::<usize>().ok()).unwrap_or_default() << 10
}

fn resident() -> usize {
    // Resets the peak memory, where the kernel allows it.
    std::fs::write("/proc/self/clear_refs", "5").ok();
    told_by_kernel("VmHWM:")
}

fn peak() -> usize {
    told_by_kernel("VmHWM:")
}

#[tokio::test]
async fn paths_with_special_characters_are_taken_literally() {
    let repo = Repo::new();
    let names = ["-x", ":(glob)*", "a b\"c", "line\nbreak", "ünïcode", "$(touch pwned)", "*"];
    for name in names {
        repo.put(name, "x\n");
    }
    let status = repo.ok(json!({"operation": "status"})).await;
    let entries = status.data["data"]["entries"].as_array().unwrap();
    for name in names {
        assert!(entries.iter().any(|it| it["path"] == name), "{name:?}");
        repo.ok(json!({"operation": "add", "paths": [format!("./{name}")]})).await;
        let staged = repo.git(&["diff", "--cached", "--name-only", "-z"]);
        assert_eq!(staged, format!("{name}\0"), "{name:?}");
        repo.ok(json!({"operation": "commit", "message": "n", "paths": [name]})).await;
    }
    assert!(!repo.dir().join("pwned").exists());
}

#[test]
fn bash_rules_for_git_apply_to_the_git_tool() {
    let repo = Repo::empty();
    let judge = |allow: &[&str], deny: &[&str], input: Value| {
        let origin = RuleSource::new("table", Destination::CliArg);
        let policy = Policy::builder("/ws")
            .commands(std::sync::Arc::new(haft_permission::BashJudge))
            .rules(&origin, Behavior::Allow, allow.iter().map(|it| (*it).to_owned()))
            .rules(&origin, Behavior::Deny, deny.iter().map(|it| (*it).to_owned()))
            .build();
        let cx = CallContext::detached("call_1", PathBuf::from("/ws"));
        let call = std::sync::Arc::clone(&repo.tool).parse(input, &cx).unwrap();
        call.validate(&cx).unwrap();
        policy.judge("Git", &*call, &cx, &HookOpinion::None).behavior
    };
    let commit = || json!({"operation": "commit", "message": "it's done", "paths": ["a.txt"]});
    let push = || json!({"operation": "push", "remote": "origin", "branch": "main"});
    let force = || json!({"operation": "push", "remote": "origin", "branch": "main", "force": true, "expect": "0".repeat(40)});
    for (allow, deny, input, want) in [
        (&[][..], &[][..], json!({"operation": "status"}), Behavior::Allow),
        (&[], &[], json!({"operation": "diff", "staged": true, "paths": ["x y"]}), Behavior::Allow),
        (&[], &[], json!({"operation": "log", "limit": 5}), Behavior::Allow),
        (&[], &[], json!({"operation": "show", "rev": "HEAD~2"}), Behavior::Allow),
        (&[], &[], json!({"operation": "blame", "paths": ["a.txt"]}), Behavior::Allow),
        (&[], &[], json!({"operation": "branch"}), Behavior::Allow),
        (&[], &[], json!({"operation": "stash"}), Behavior::Allow),
        (&[], &[], json!({"operation": "tag"}), Behavior::Allow),
        (&[], &[], json!({"operation": "worktree"}), Behavior::Allow),
        (&[], &[], commit(), Behavior::Ask),
        (&["Bash(git commit:*)"], &[], commit(), Behavior::Allow),
        (&["Bash(git commit:*)"], &[], push(), Behavior::Ask),
        (&["Bash(git push:*)"], &[], push(), Behavior::Allow),
        (&["Bash(git:*)"], &["Bash(git push:*)"], push(), Behavior::Deny),
        (&["Bash(git:*)"], &[], force(), Behavior::Ask),
        (&["Git"], &[], commit(), Behavior::Allow),
        (&[], &["Git"], json!({"operation": "status"}), Behavior::Deny),
    ] {
        assert_eq!(judge(allow, deny, input.clone()), want, "{allow:?} {deny:?} {input}");
    }
}
