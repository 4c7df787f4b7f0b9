//! Commits next to the user's own work: exactly what was named is committed, and every other staged
//! entry stays unchanged.

use crate::git_rig::{Repo, git_in};

use serde_json::json;

/// Returns every index entry that differs from `HEAD`, with its flags.
fn staged(repo: &Repo) -> Vec<String> {
    let entries = repo.git(&["ls-files", "-s", "-v", "--full-name"]);
    let flags = repo.git(&["ls-files", "--debug"]);
    let announced = repo.git(&["diff", "--name-only", "--diff-filter=A"]);
    let differs = repo.git(&["diff", "--cached", "--raw", "--no-abbrev", "--no-renames"]);
    assert!(!flags.is_empty());
    let mut all: Vec<String> = differs.lines().map(str::to_owned).collect();
    all.extend(announced.lines().map(|it| format!("announced {it}")));
    all.extend(entries.lines().filter(|it| !it.starts_with('H')).map(str::to_owned));
    all
}

struct Row {
    name: &'static str,
    /// Git commands the user ran before.
    person: &'static [&'static [&'static str]],
    /// Files written afterwards.
    files: &'static [(&'static str, &'static str)],
    gone: &'static [&'static str],
    paths: &'static [&'static str],
    /// What the commit changes; `None` if no commit must be made.
    committed: Option<&'static str>,
    /// Staged changes of the user that the commit includes, because it names their files.
    taken: &'static [&'static str],
}

const PLAIN: Row =
    Row { name: "", person: &[], files: &[], gone: &[], paths: &[], committed: None, taken: &[] };

const ROWS: &[Row] = &[
    Row {
        name: "beside another file",
        person: &[&["add", "b.txt"]],
        files: &[("a.txt", "mine\n")],
        paths: &["a.txt"],
        committed: Some("M a.txt"),
        ..PLAIN
    },
    Row {
        name: "a file that is half staged",
        person: &[&["add", "b.txt"]],
        files: &[("b.txt", "whole\n")],
        paths: &["b.txt"],
        committed: Some("M b.txt"),
        taken: &["b.txt"],
        ..PLAIN
    },
    Row {
        name: "beside a file that was announced",
        person: &[&["add", "-N", "new.txt"]],
        files: &[("a.txt", "mine\n")],
        paths: &["a.txt"],
        committed: Some("M a.txt"),
        ..PLAIN
    },
    Row {
        name: "a file that was announced",
        person: &[&["add", "-N", "new.txt"], &["add", "b.txt"]],
        paths: &["new.txt"],
        committed: Some("A new.txt"),
        taken: &["new.txt"],
        ..PLAIN
    },
    Row {
        name: "beside a rename",
        person: &[&["mv", "dir/c.txt", "dir/moved.txt"]],
        files: &[("a.txt", "mine\n")],
        paths: &["a.txt"],
        committed: Some("M a.txt"),
        ..PLAIN
    },
    Row {
        name: "both ends of a rename",
        person: &[&["mv", "dir/c.txt", "dir/moved.txt"], &["add", "b.txt"]],
        paths: &["dir/c.txt", "dir/moved.txt"],
        committed: Some("D dir/c.txt\nA dir/moved.txt"),
        taken: &["dir/c.txt", "dir/moved.txt"],
        ..PLAIN
    },
    Row {
        name: "one end of a rename",
        person: &[&["mv", "dir/c.txt", "dir/moved.txt"]],
        paths: &["dir/moved.txt"],
        committed: Some("A dir/moved.txt"),
        taken: &["dir/moved.txt"],
        ..PLAIN
    },
    Row {
        name: "beside a removal",
        person: &[&["rm", "-q", "--cached", "dir/c.txt"]],
        files: &[("a.txt", "mine\n")],
        paths: &["a.txt"],
        committed: Some("M a.txt"),
        ..PLAIN
    },
    Row {
        name: "a removal",
        person: &[&["add", "b.txt"]],
        gone: &["dir/c.txt"],
        paths: &["dir/c.txt"],
        committed: Some("D dir/c.txt"),
        ..PLAIN
    },
    Row {
        name: "a directory with new, changed, removed and ignored files",
        person: &[&["add", "b.txt"]],
        files: &[("dir/d.txt", "mine\n"), ("dir/new.txt", "new\n"), ("dir/x.log", "ignored\n")],
        gone: &["dir/c.txt"],
        paths: &["dir"],
        committed: Some("D dir/c.txt\nM dir/d.txt\nA dir/new.txt"),
        ..PLAIN
    },
    Row {
        name: "a name that differs in case only",
        person: &[&["add", "b.txt"]],
        files: &[("A.TXT", "other\n")],
        paths: &["A.TXT"],
        committed: Some("A A.TXT"),
        ..PLAIN
    },
    Row {
        name: "an ignored file",
        person: &[&["add", "b.txt"]],
        files: &[("x.log", "ignored\n")],
        paths: &["x.log"],
        ..PLAIN
    },
    Row { name: "a file that is not there", person: &[&["add", "b.txt"]], paths: &["nothing"], ..PLAIN },
    Row {
        name: "a file nobody changed, and a new one that is refused with it",
        person: &[&["add", "b.txt"]],
        paths: &["new.txt", "nothing"],
        ..PLAIN
    },
    Row {
        name: "beside files that are not looked at",
        person: &[
            &["update-index", "--assume-unchanged", "dir/c.txt"],
            &["update-index", "--skip-worktree", "dir/d.txt"],
        ],
        files: &[("a.txt", "mine\n"), ("dir/c.txt", "unseen\n")],
        paths: &["a.txt"],
        committed: Some("M a.txt"),
        ..PLAIN
    },
    Row {
        name: "on no branch",
        person: &[&["switch", "-q", "--detach"], &["add", "b.txt"]],
        files: &[("a.txt", "mine\n")],
        paths: &["a.txt"],
        committed: Some("M a.txt"),
        ..PLAIN
    },
    Row {
        name: "with a program bit",
        person: &[&["add", "b.txt"], &["update-index", "--chmod=+x", "dir/c.txt"]],
        files: &[("a.txt", "mine\n")],
        paths: &["a.txt"],
        committed: Some("M a.txt"),
        ..PLAIN
    },
];

fn repository() -> Repo {
    let repo = Repo::new();
    repo.put(".gitignore", "*.log\n");
    repo.put("dir/c.txt", "c\nc\nc\nc\n");
    repo.put("dir/d.txt", "d\n");
    repo.git(&["add", ".gitignore", "dir"]);
    repo.git(&["commit", "-qm", "Third"]);
    repo.put("b.txt", "staged\n");
    repo.put("new.txt", "new\n");
    repo
}

/// Parses the branch and the number of other staged files from the result of a commit.
fn said_of(text: &str) -> (String, usize) {
    let branch = text.strip_prefix("On ").and_then(|it| it.split(": ").next()).unwrap_or_default();
    let beside = text.lines().find(|it| it.ends_with(" other files are staged as before."));
    let count = beside.and_then(|it| it.split(' ').next()?.parse().ok());
    (branch.to_owned(), count.unwrap_or(0))
}

/// Returns the same values as reported by the status.
fn told_by_status(repo: &Repo) -> (String, usize) {
    let branch = match repo.git(&["branch", "--show-current"]) {
        none if none.is_empty() => String::from("no branch"),
        branch => branch,
    };
    let all = repo.git(&["status", "--porcelain"]);
    let staged = |it: &&str| !it.starts_with([' ', '?', 'U']) && !it[1..].starts_with('U');
    (branch, all.lines().filter(staged).count())
}

/// A file has replaced a directory that git tracked.
#[tokio::test]
async fn file_replacing_a_directory_is_committed() {
    let repo = repository();
    repo.git(&["add", "b.txt"]);
    std::fs::remove_dir_all(repo.dir().join("dir")).unwrap();
    repo.put("dir", "mine\n");
    let said = repo.said(json!({"operation": "commit", "message": "Mine", "paths": ["dir"]})).await;
    assert_eq!(said_of(&said), (String::from("main"), 1), "{said}");
    let shown = repo.git(&["diff", "--name-status", "--no-renames", "HEAD~1", "HEAD"]).replace('\t', " ");
    assert_eq!(shown, "A dir\nD dir/c.txt\nD dir/d.txt", "{said}");
}

#[tokio::test]
async fn commit_takes_named_paths_and_keeps_other_staged_entries() {
    for row in ROWS {
        let repo = repository();
        row.person.iter().for_each(|words| drop(repo.git(words)));
        row.files.iter().for_each(|(name, text)| repo.put(name, text));
        row.gone.iter().for_each(|name| std::fs::remove_file(repo.dir().join(name)).unwrap());
        let (before, head) = (staged(&repo), repo.git(&["rev-parse", "HEAD"]));
        let picture = repo.picture();
        let (id, got) =
            repo.call(json!({"operation": "commit", "message": "Mine", "paths": row.paths})).await;
        let name = row.name;
        match row.committed {
            None => {
                let said = got.unwrap_err().message;
                assert!(said.contains("committed") || said.contains("not"), "{name}: {said}");
                assert_eq!(repo.git(&["rev-parse", "HEAD"]), head, "{name}");
                assert_eq!(staged(&repo), before, "{name}");
                continue;
            }
            Some(want) => {
                let said = got.unwrap_or_else(|err| panic!("{name}: {}", err.message)).content.to_text();
                assert_eq!(said_of(&said), told_by_status(&repo), "{name}: {said}");
                let shown =
                    repo.git(&["diff", "--name-status", "--no-renames", "HEAD~1", "HEAD"]).replace('\t', " ");
                assert_eq!(shown, want, "{name}");
            }
        }
        let left: Vec<String> = before
            .iter()
            .filter(|line| !row.taken.iter().any(|path| line.ends_with(path)))
            .cloned()
            .collect();
        assert_eq!(staged(&repo), left, "{name}");
        // Undo restores all of it.
        repo.undo(&id);
        let now = repo.picture();
        let differs: Vec<_> =
            picture.keys().chain(now.keys()).filter(|it| picture.get(*it) != now.get(*it)).collect();
        assert!(differs.is_empty(), "{name}: {differs:?}");
    }
}

/// Before the first commit, in a worktree, in a submodule, with reftable, SHA-256 and split index.
#[tokio::test]
async fn commit_works_in_every_repository_format() {
    for (name, make) in [
        ("before the first commit", &["init", "-q", "-b", "main"][..]),
        ("reftable", &["init", "-q", "-b", "main", "--ref-format=reftable"]),
        ("sha256", &["init", "-q", "-b", "main", "--object-format=sha256"]),
    ] {
        let repo = Repo::empty();
        repo.git(make);
        repo.git(&["config", "user.name", "Ann"]);
        repo.git(&["config", "user.email", "ann@example.test"]);
        repo.git(&["config", "core.splitIndex", "true"]);
        repo.put("staged.txt", "the person's\n");
        repo.git(&["add", "staged.txt"]);
        repo.put("mine.txt", "mine\n");
        let before = repo.picture();
        let (id, got) =
            repo.call(json!({"operation": "commit", "message": "First", "paths": ["mine.txt"]})).await;
        let said = got.unwrap_or_else(|err| panic!("{name}: {}", err.message)).content.to_text();
        assert_eq!(said_of(&said), told_by_status(&repo), "{name}: {said}");
        assert_eq!(repo.git(&["show", "--name-only", "--format=", "HEAD"]), "mine.txt", "{name}");
        assert_eq!(repo.git(&["diff", "--cached", "--name-only"]), "staged.txt", "{name}");
        let said = repo.said(json!({"operation": "log"})).await;
        assert!(said.contains("Ann: First"), "{name}: {said}");
        repo.undo(&id);
        let now = repo.picture();
        let differs: Vec<_> = before
            .keys()
            .chain(now.keys())
            .filter(|it| before.get(*it) != now.get(*it) && !it.to_string_lossy().contains("sharedindex"))
            .collect();
        assert!(differs.is_empty(), "{name}: {differs:?}");
        assert!(repo.said(json!({"operation": "log"})).await.contains("no commit yet"), "{name}");
    }
    let repo = repository();
    repo.git(&["worktree", "add", "-q", "-b", "side", "../side"]);
    let side = repo.dir().join("../side");
    std::fs::write(side.join("b.txt"), "staged there\n").unwrap();
    git_in(&side, &["add", "b.txt"]);
    std::fs::write(side.join("a.txt"), "mine\n").unwrap();
    let commit = json!({"operation": "commit", "message": "There", "paths": ["a.txt"], "dir": "../side"});
    let (id, got) = repo.call(commit).await;
    got.unwrap();
    assert_eq!(git_in(&side, &["show", "--name-only", "--format=%s", "side"]), "There\n\na.txt");
    assert_eq!(git_in(&side, &["diff", "--cached", "--name-only"]), "b.txt");
    repo.undo(&id);
    assert_eq!(git_in(&side, &["log", "-1", "--format=%s"]), "Third");
    assert_eq!(git_in(&side, &["status", "--short"]), " M a.txt\nM  b.txt");
}

/// With unresolved conflicts, named files can be committed and the conflicts stay; committing everything
/// staged is rejected.
#[tokio::test]
async fn commit_of_named_files_leaves_conflicts_unresolved() {
    let repo = repository();
    repo.put("a.txt", "theirs\n");
    repo.git(&["stash", "-q"]);
    repo.put("a.txt", "ours\n");
    repo.git(&["commit", "-qm", "Ours", "a.txt"]);
    let mut pop = std::process::Command::new("git");
    pop.args(["stash", "pop"]).current_dir(repo.dir()).output().unwrap();
    repo.put("dir/d.txt", "mine\n");
    let (before, text) = (repo.git(&["ls-files", "-s", "-u"]), repo.read("a.txt"));
    assert!(!before.is_empty());
    let said = repo.said(json!({"operation": "commit", "message": "x", "staged": true})).await;
    assert!(said.contains("in conflict") && said.contains("resolved"), "{said}");
    assert_eq!(repo.git(&["log", "-1", "--format=%s"]), "Ours");
    let said = repo.said(json!({"operation": "commit", "message": "x", "paths": ["a.txt"]})).await;
    assert!(said.contains("markers of a conflict"), "{said}");
    let input = json!({"operation": "commit", "message": "Mine", "paths": ["dir/d.txt", "new.txt"]});
    let said = repo.ok(input).await.content.to_text();
    assert_eq!(said_of(&said), told_by_status(&repo), "{said}");
    assert_eq!(repo.git(&["show", "--name-only", "--format=%s", "HEAD"]), "Mine\n\ndir/d.txt\nnew.txt");
    assert_eq!(repo.git(&["ls-files", "-s", "-u"]), before);
    assert_eq!(repo.read("a.txt"), text);
}

/// File names that are not UTF-8 are shown in a form that the tool accepts as input.
#[tokio::test]
async fn non_utf8_paths_round_trip() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let repo = repository();
    let names: [&[u8]; 4] = [b"caf\xe9.txt", b"\xff\xfe", b"\"quoted\"", b"dir/it's \x80 \\.txt"];
    for name in names {
        std::fs::write(repo.dir().join(OsStr::from_bytes(name)), "x\n").unwrap();
    }
    let status = repo.ok(json!({"operation": "status"})).await;
    let entries: Vec<String> = status.data["data"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["code"] == "??")
        .map(|it| it["path"].as_str().unwrap().to_owned())
        .filter(|it| it.starts_with('"'))
        .collect();
    assert_eq!(entries.len(), names.len(), "{entries:?}");
    for (number, path) in entries.iter().enumerate() {
        assert!(status.content.to_text().contains(path.as_str()), "{path}");
        repo.ok(json!({"operation": "add", "paths": [path]})).await;
        repo.ok(json!({"operation": "diff", "staged": true, "paths": [path]})).await;
        let got = repo.ok(json!({"operation": "commit", "message": "n", "paths": [path]})).await;
        assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]), (4 + number).to_string(), "{path}");
        assert_eq!(got.data["gitOperation"]["commit"]["kind"], "committed");
    }
    let tracked = repo.git(&["ls-files", "-z"]);
    assert!(!tracked.contains("\\351"), "the bytes are in git, not their writing: {tracked}");
}

#[tokio::test]
async fn lock_is_retried_and_its_holder_named() {
    let repo = repository();
    repo.put("a.txt", "mine\n");
    let lock = repo.dir().join(".git/index.lock");
    let held = std::fs::File::create(&lock).unwrap();
    let add = || json!({"operation": "add", "paths": ["a.txt"]});
    let said = repo.said(add()).await;
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
    drop(held);
    let said = repo.said(add()).await;
    assert!(said.contains("no process is seen that has it open") && said.contains("index.lock"), "{said}");
    assert!(lock.exists());
    std::fs::remove_file(&lock).unwrap();
    repo.ok(add()).await;
}
