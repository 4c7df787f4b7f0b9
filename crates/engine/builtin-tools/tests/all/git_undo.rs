//! Undo of every changing operation restores every byte: files with type and mode, refs, reflogs, index,
//! stash, settings and the state of merges in progress.

use crate::git_rig::Repo;

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};

/// Returns type, mode and content of everything except objects.
fn picture(repo: &Repo) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![repo.dir().to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().flatten() {
            let path = entry.path();
            if path.ends_with(".git/objects") {
                continue;
            }
            let name = path.strip_prefix(repo.dir()).unwrap().to_owned();
            let about = std::fs::symlink_metadata(&path).unwrap();
            let content = match () {
                () if about.is_symlink() => {
                    std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                () if about.is_dir() => {
                    open.push(path);
                    continue;
                }
                () => std::fs::read(&path).unwrap(),
            };
            found.insert(name, (about.permissions().mode(), content));
        }
    }
    found
}

/// Creates a repository with a branch `side` with other files, types and modes, a branch `clash` that
/// changes the same lines, a remote that is ahead, a stash, tags, and uncommitted work.
fn template() -> Repo {
    let repo = Repo::new();
    let link = |to: &str, name: &str| {
        std::fs::remove_file(repo.dir().join(name)).ok();
        std::os::unix::fs::symlink(to, repo.dir().join(name)).unwrap();
    };
    repo.put("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(repo.dir().join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    repo.put("deep/er/only-main.txt", "main\n");
    link("a.txt", "link");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "Third"]);
    repo.git(&["switch", "-qc", "side", "HEAD~1"]);
    repo.put("side.txt", "side\n");
    repo.put("link", "a file here\n");
    repo.put("run.sh", "no program here\n");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "Side"]);
    repo.put("side.txt", "side 2\n");
    repo.git(&["commit", "-qam", "Side 2"]);
    repo.git(&["switch", "-qc", "calm", "main"]);
    repo.put("calm/new.txt", "calm\n");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "Calm"]);
    repo.git(&["switch", "-qc", "clash", "main~1"]);
    repo.put("a.txt", "one\nclash\nthree\n");
    repo.git(&["commit", "-qam", "Clash"]);
    repo.git(&["rm", "-q", "b.txt"]);
    repo.git(&["commit", "-qm", "Clash 2"]);
    repo.git(&["switch", "-q", "main"]);
    repo.put("a.txt", "one\nours\nthree\n");
    repo.git(&["commit", "-qam", "Ours"]);
    repo.git(&["tag", "-a", "v1", "-m", "One"]);
    repo.git(&["tag", "light"]);
    crate::git_rig::git_in(&repo.rig.outside, &["init", "-q", "--bare", "-b", "main", "remote.git"]);
    let remote = repo.rig.outside.join("remote.git").to_str().unwrap().to_owned();
    repo.git(&["remote", "add", "origin", &remote]);
    repo.put("ahead.txt", "ahead\n");
    repo.git(&["add", "ahead.txt"]);
    repo.git(&["commit", "-qm", "Ahead"]);
    repo.git(&["push", "-q", "origin", "main", "side", "v1"]);
    repo.git(&["reset", "-q", "--hard", "HEAD~1"]);
    repo.git(&["update-ref", "-d", "refs/remotes/origin/main"]);
    repo.put("a.txt", "one\nstashed\nthree\n");
    repo.put("stashed-new.txt", "new in the stash\n");
    repo.git(&["stash", "-q", "-u"]);
    repo
}

/// Copies the template; creating it again would dominate the runtime.
fn repository(template: &Repo) -> Repo {
    let repo = Repo::empty();
    let copied =
        std::process::Command::new("cp").arg("-a").arg(template.dir().join(".")).arg(repo.dir()).status();
    assert!(copied.unwrap().success());
    // The copied files have new timestamps.
    repo.git(&["update-index", "-q", "--refresh"]);
    repo
}

/// Uncommitted work that no operation may lose.
fn dirty(repo: &Repo) {
    repo.put("b.txt", "half\n");
    repo.git(&["add", "b.txt"]);
    repo.put("b.txt", "half and more\n");
    repo.put("untracked.txt", "precious\n");
    repo.put("ignored.log", "precious too\n");
    repo.put(".git/info/exclude", "*.log\n");
    repo.git(&["update-index", "--chmod=+x", "deep/er/only-main.txt"]);
}

type Commands = &'static [&'static [&'static str]];

/// Whether there is uncommitted work, commands run before, the operation, and whether it should stop at
/// conflicts.
type UndoRow = (bool, Commands, Value, bool);

const PACKED: Commands = &[&["pack-refs", "--all"], &["gc", "-q", "--prune=now"]];

fn rows_of_index_and_stash() -> Vec<UndoRow> {
    vec![
        (true, &[], json!({"operation": "add", "paths": ["."]}), false),
        (true, &[], json!({"operation": "add", "paths": ["untracked.txt"]}), false),
        (true, &[], json!({"operation": "restore", "paths": ["b.txt"], "rev": "HEAD~1"}), false),
        (true, &[], json!({"operation": "restore", "paths": ["."]}), false),
        (true, &[], json!({"operation": "restore", "paths": ["."], "staged": true}), false),
        (true, &[], json!({"operation": "restore", "paths": ["link", "run.sh"], "rev": "side"}), false),
        (true, &[], json!({"operation": "commit", "message": "x", "staged": true}), false),
        (
            true,
            &[],
            json!({"operation": "commit", "message": "x", "paths": ["b.txt", "untracked.txt"]}),
            false,
        ),
        (true, &[], json!({"operation": "commit", "amend": true, "message": "y", "staged": true}), false),
        (true, &[], json!({"operation": "commit", "amend": true, "paths": ["b.txt"]}), false),
        (true, &[], json!({"operation": "stash", "action": "push", "message": "mine"}), false),
        (true, &[], json!({"operation": "stash", "action": "push", "paths": ["b.txt"]}), false),
        (false, &[], json!({"operation": "stash", "action": "pop"}), false),
        (false, &[], json!({"operation": "stash", "action": "apply", "name": "0"}), false),
        (true, &[], json!({"operation": "stash", "action": "drop"}), false),
    ]
}

fn rows_of_branches_and_tags() -> Vec<UndoRow> {
    vec![
        (
            true,
            &[],
            json!({"operation": "branch", "action": "create", "name": "a/deep/one", "rev": "side"}),
            false,
        ),
        (
            true,
            &[],
            json!({"operation": "branch", "action": "delete", "name": "clash", "force": true}),
            false,
        ),
        (
            true,
            PACKED,
            json!({"operation": "branch", "action": "delete", "name": "clash", "force": true}),
            false,
        ),
        (
            true,
            &[
                &["config", "branch.side.remote", "origin"],
                &["config", "branch.side.merge", "refs/heads/side"],
            ],
            json!({"operation": "branch", "action": "rename", "name": "side", "new_name": "else/where"}),
            false,
        ),
        (
            true,
            &[],
            json!({"operation": "branch", "action": "rename", "name": "main", "new_name": "trunk"}),
            false,
        ),
        (true, &[], json!({"operation": "tag", "action": "create", "name": "v2", "message": "Two"}), false),
        (true, &[], json!({"operation": "tag", "action": "create", "name": "plain", "rev": "side"}), false),
        (true, &[], json!({"operation": "tag", "action": "delete", "name": "v1"}), false),
        (true, PACKED, json!({"operation": "tag", "action": "delete", "name": "light"}), false),
        (false, &[], json!({"operation": "switch", "name": "side"}), false),
        (true, &[], json!({"operation": "switch", "name": "new", "create": true}), false),
        (false, PACKED, json!({"operation": "switch", "name": "new", "create": true, "rev": "side"}), false),
    ]
}

fn rows_of_merges_and_resets() -> Vec<UndoRow> {
    let conflict: Commands = &[&["merge", "-q", "clash"]];
    let picking: Commands = &[&["cherry-pick", "clash~1"]];
    let rebasing: Commands = &[&["rebase", "-q", "clash"]];
    let rerere: Commands = &[&["config", "rerere.enabled", "true"]];
    vec![
        (false, &[], json!({"operation": "merge", "rev": "calm", "message": "Both"}), false),
        (false, &[], json!({"operation": "merge", "rev": "side"}), true),
        (false, &[], json!({"operation": "merge", "rev": "clash"}), true),
        (false, rerere, json!({"operation": "merge", "rev": "clash"}), true),
        (false, conflict, json!({"operation": "merge", "action": "abort"}), false),
        (false, conflict, json!({"operation": "add", "paths": ["a.txt"]}), false),
        (false, conflict, json!({"operation": "restore", "paths": ["deep"], "rev": "side"}), false),
        (false, conflict, json!({"operation": "reset", "mode": "hard", "rev": "HEAD"}), false),
        (false, &[], json!({"operation": "rebase", "rev": "calm"}), false),
        (false, &[], json!({"operation": "rebase", "rev": "side"}), true),
        (false, &[], json!({"operation": "rebase", "rev": "clash"}), true),
        (false, rebasing, json!({"operation": "rebase", "action": "abort"}), false),
        (false, rebasing, json!({"operation": "rebase", "action": "skip"}), true),
        (false, &[], json!({"operation": "cherry_pick", "rev": "calm"}), false),
        (false, &[], json!({"operation": "cherry_pick", "rev": "clash~1"}), true),
        (false, picking, json!({"operation": "cherry_pick", "action": "abort"}), false),
        (false, picking, json!({"operation": "cherry_pick", "action": "skip"}), false),
        (false, &[], json!({"operation": "revert", "rev": "HEAD"}), false),
        (false, &[], json!({"operation": "revert", "rev": "HEAD~2"}), true),
        (true, &[], json!({"operation": "reset", "mode": "hard", "rev": "side"}), false),
        (true, PACKED, json!({"operation": "reset", "mode": "hard", "rev": "HEAD~2"}), false),
        (true, &[], json!({"operation": "reset", "mode": "soft", "rev": "HEAD~1"}), false),
        (true, &[], json!({"operation": "reset", "rev": "side"}), false),
        (true, &[], json!({"operation": "reset", "paths": ["b.txt"]}), false),
        (true, &[], json!({"operation": "fetch", "remote": "origin"}), false),
        (true, &[], json!({"operation": "fetch", "remote": "origin", "branch": "side:taken"}), false),
        (false, &[], json!({"operation": "pull", "remote": "origin", "branch": "main"}), false),
    ]
}

async fn check(rows: &[UndoRow]) {
    let template = template();
    for (with_work, commands, input, stops) in rows {
        let repo = repository(&template);
        for words in *commands {
            let mut git = std::process::Command::new("git");
            git.args(*words).current_dir(repo.dir()).env("GIT_EDITOR", "true").output().unwrap();
        }
        if *with_work {
            dirty(&repo);
        }
        let before = picture(&repo);
        let (id, got) = repo.call(input.clone()).await;
        match (got, stops) {
            (Err(err), false) => panic!("{commands:?} {input}: {}", err.message),
            (Err(err), true) => assert!(err.message.contains("conflict"), "{input}: {}", err.message),
            _ => {}
        }
        assert!(picture(&repo) != before, "{commands:?} {input} did something");
        repo.undo(&id);
        let now = picture(&repo);
        let differs: Vec<_> =
            before.keys().chain(now.keys()).filter(|it| before.get(*it) != now.get(*it)).collect();
        assert!(differs.is_empty(), "{commands:?} {input}: {differs:?}");
        repo.git(&["fsck", "--no-progress"]);
    }
}

#[tokio::test]
async fn undo_of_index_and_stash_changes_restores_every_byte() {
    check(&rows_of_index_and_stash()).await;
}

#[tokio::test]
async fn undo_of_branch_and_tag_changes_restores_every_byte() {
    check(&rows_of_branches_and_tags()).await;
}

#[tokio::test]
async fn undo_of_merges_and_resets_restores_every_byte() {
    check(&rows_of_merges_and_resets()).await;
}

/// Hooks format files and stage them.
#[tokio::test]
async fn undo_covers_files_written_by_hooks() {
    let script = "#!/bin/sh\n[ -e made-by-hook.txt ] && exit 0\necho formatted >> a.txt\necho made > made-by-hook.txt\n\
                  git add made-by-hook.txt || true\n";
    let template = template();
    for (hook, input) in [
        ("pre-commit", json!({"operation": "commit", "message": "x", "paths": ["b.txt"]})),
        ("post-commit", json!({"operation": "commit", "message": "x", "staged": true})),
        ("post-rewrite", json!({"operation": "commit", "amend": true, "message": "y", "staged": true})),
        ("post-checkout", json!({"operation": "restore", "paths": ["b.txt"], "staged": true})),
        ("post-index-change", json!({"operation": "reset", "paths": ["b.txt"]})),
    ] {
        let repo = repository(&template);
        dirty(&repo);
        repo.put(&format!(".git/hooks/{hook}"), script);
        let path = repo.dir().join(".git/hooks").join(hook);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let before = picture(&repo);
        let (id, got) = repo.call(input).await;
        got.unwrap_or_else(|err| panic!("{hook}: {}", err.message));
        assert!(repo.dir().join("made-by-hook.txt").exists(), "{hook}");
        repo.undo(&id);
        let now = picture(&repo);
        let differs: Vec<_> =
            before.keys().chain(now.keys()).filter(|it| before.get(*it) != now.get(*it)).collect();
        assert!(differs.is_empty(), "{hook}: {differs:?}");
    }
}

/// Undo does not overwrite what was changed since.
#[tokio::test]
async fn undo_keeps_later_changes_of_others() {
    use haft_workspace::{ChangeOrigin, UndoTarget};
    let template = template();
    let repo = repository(&template);
    let (id, got) = repo.call(json!({"operation": "reset", "mode": "hard", "rev": "HEAD~1"})).await;
    got.unwrap();
    repo.put("theirs.txt", "by the person\n");
    repo.git(&["add", "theirs.txt"]);
    repo.git(&["commit", "-qm", "By the person"]);
    let theirs = repo.git(&["rev-parse", "HEAD"]);
    let origin = ChangeOrigin { session: None, turn: None, call: "undo".into(), tool: String::from("undo") };
    let report = repo.files.workspace().undo(&UndoTarget::Call(id.as_str().into()), &origin).unwrap();
    assert!(!report.conflicts.is_empty());
    assert_eq!(repo.git(&["rev-parse", "HEAD"]), theirs);
    assert_eq!(repo.read("theirs.txt"), "by the person\n");
    repo.git(&["fsck", "--no-progress"]);
}
