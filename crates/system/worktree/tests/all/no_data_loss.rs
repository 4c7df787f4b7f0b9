//! All work in a worktree is reachable after it was removed.

use std::{
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use haft_workspace::{EntryId, UndoTarget};
use haft_worktree::RemovalBackup;

use crate::rig::{Repo, files, git, origin, write};

/// An action in a worktree.
type Work = fn(&Path);

/// Name, action, whether it creates work that exists only there, and texts that must be in reachable
/// commits afterwards.
const ROWS: &[(&str, Work, bool, &[&str])] = &[
    ("nothing", |_| (), false, &[]),
    ("changed", |it| write(&it.join("a.txt"), b"CHANGED-1\n"), true, &["CHANGED-1"]),
    (
        "new",
        |it| {
            write(&it.join("new file.txt"), b"NEW-1");
            write(&it.join("odd \"\\\n.txt"), b"NEW-2");
            write(&it.join("\u{e4}/\u{f6}.txt"), b"NEW-3");
        },
        true,
        &["NEW-1", "NEW-2", "NEW-3"],
    ),
    ("deleted", |it| std::fs::remove_file(it.join("b/c.txt")).unwrap(), true, &[]),
    (
        "line ends",
        |it| {
            write(&it.join(".gitattributes"), b"* text=auto eol=lf\n");
            write(&it.join("crlf.txt"), b"CRLF-1\r\nCRLF-2\r\n");
        },
        true,
        &["CRLF-1\r\nCRLF-2\r\n"],
    ),
    (
        "staged and changed again",
        |it| {
            write(&it.join("a.txt"), b"STAGED-1\n");
            git(it, &["add", "a.txt"]);
            write(&it.join("a.txt"), b"AGAIN-1\n");
        },
        true,
        &["STAGED-1", "AGAIN-1"],
    ),
    (
        "staged and taken back",
        |it| {
            write(&it.join("a.txt"), b"STAGED-2\n");
            git(it, &["add", "a.txt"]);
            write(&it.join("a.txt"), b"one\n");
        },
        true,
        &["STAGED-2"],
    ),
    (
        "mode and link",
        |it| {
            write(&it.join("run.sh"), b"#!/bin/sh\n# RUN-1\n");
            std::fs::set_permissions(it.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
            symlink("a.txt", it.join("link")).unwrap();
        },
        true,
        &["RUN-1"],
    ),
    ("ignored", |it| write(&it.join("build/out.bin"), b"\x00\xffIGNORED"), true, &[]),
    (
        "committed",
        |it| {
            write(&it.join("a.txt"), b"COMMITTED-1\n");
            git(it, &["commit", "-q", "-am", "own"]);
        },
        true,
        &["COMMITTED-1"],
    ),
    (
        "committed without a branch",
        |it| {
            git(it, &["checkout", "-q", "--detach"]);
            write(&it.join("a.txt"), b"DETACHED-1\n");
            git(it, &["commit", "-q", "-am", "detached"]);
            git(it, &["checkout", "-q", "-"]);
        },
        true,
        &["DETACHED-1"],
    ),
    (
        "committed and reset",
        |it| {
            write(&it.join("a.txt"), b"RESET-1\n");
            git(it, &["commit", "-q", "-am", "lost"]);
            git(it, &["reset", "-q", "--hard", "HEAD~1"]);
        },
        true,
        &["RESET-1"],
    ),
    (
        "amended",
        |it| {
            write(&it.join("a.txt"), b"AMENDED-1\n");
            git(it, &["commit", "-q", "-am", "first try"]);
            write(&it.join("a.txt"), b"AMENDED-2\n");
            git(it, &["commit", "-q", "-a", "--amend", "-m", "second try"]);
        },
        true,
        &["AMENDED-1", "AMENDED-2"],
    ),
    (
        "stashed",
        |it| {
            write(&it.join("a.txt"), b"STASHED-1\n");
            git(it, &["stash", "-q"]);
        },
        false,
        &["STASHED-1"],
    ),
    (
        "hidden from git",
        |it| {
            git(it, &["update-index", "--assume-unchanged", "a.txt"]);
            write(&it.join("a.txt"), b"HIDDEN-1\n");
        },
        true,
        &["HIDDEN-1"],
    ),
    (
        "conflict",
        |it| {
            git(it, &["checkout", "-q", "-b", "side"]);
            write(&it.join("a.txt"), b"SIDE-1\n");
            git(it, &["commit", "-q", "-am", "side"]);
            git(it, &["checkout", "-q", "-"]);
            write(&it.join("a.txt"), b"OURS-1\n");
            git(it, &["commit", "-q", "-am", "ours"]);
            git(it, &["merge", "-q", "side"]);
            write(&it.join("a.txt"), b"HALF-MERGED-1\n");
        },
        true,
        &["SIDE-1", "OURS-1", "HALF-MERGED-1"],
    ),
];

/// All file contents reachable from the repository's refs.
fn reachable(repo: &Repo) -> Vec<Vec<u8>> {
    let listed = repo.git(&["rev-list", "--objects", "--all"]);
    let names = listed.lines().filter_map(|it| it.split(' ').next());
    let blobs = names.filter(|it| repo.git(&["cat-file", "-t", it]) == "blob");
    blobs
        .map(|it| {
            let output = std::process::Command::new("git")
                .args(["cat-file", "blob", it])
                .current_dir(repo.top())
                .output()
                .unwrap();
            output.stdout
        })
        .collect()
}

#[test]
fn removed_worktree_content_is_reachable_and_undoable() {
    for (what, work, is_touched, texts) in ROWS {
        let repo = Repo::new();
        let (keeper, workspace) = (repo.keeper(), repo.workspace());
        let mut record = repo.make(&keeper, "w").record;
        work(&record.path);
        let before = files(&record.path);
        let (status, head) =
            (git(&record.path, &["status", "--porcelain"]), git(&record.path, &["rev-parse", "HEAD"]));
        let found = keeper.inspect(&record).unwrap();
        assert_eq!(!found.is_untouched(), *is_touched, "{what}: {found:?}");
        let removed = keeper.remove(&mut record, RemovalBackup::Everything, &workspace, &origin()).unwrap();
        assert!(!record.path.exists(), "{what}");
        repo.git(&["gc", "-q", "--prune=now"]);
        let all = reachable(&repo);
        for text in *texts {
            let has = |it: &Vec<u8>| it.windows(text.len()).any(|part| part == text.as_bytes());
            assert!(all.iter().any(has), "{what}: {text} is gone; {removed:?}");
        }
        // The branch is kept only if it has own commits.
        let has_branch = repo.git(&["branch", "--list", "worktree-w"]).contains("worktree-w");
        assert_eq!(has_branch, found.commits != 0, "{what}");
        // Undo restores every file and git's state of them.
        let target = UndoTarget::Entry(EntryId::new(removed.undo.clone().unwrap().as_str()));
        let report = workspace.undo(&target, &origin()).unwrap();
        assert!(report.conflicts.is_empty(), "{what}: {:?}", report.conflicts);
        assert_eq!(files(&record.path), before, "{what}");
        assert_eq!(git(&record.path, &["status", "--porcelain"]), status, "{what}");
        assert_eq!(git(&record.path, &["rev-parse", "HEAD"]), head, "{what}");
    }
}

#[test]
fn worktree_with_unsavable_content_is_not_removed() {
    type Row = (&'static str, fn(&Repo, &Path), &'static str);
    let rows: [Row; 4] = [
        ("locked", |repo, it| drop(repo.git(&["worktree", "lock", &it.to_string_lossy()])), "locked"),
        (
            "another repository in it",
            |_, it| {
                std::fs::create_dir(it.join("inner")).unwrap();
                git(&it.join("inner"), &["init", "-q"]);
                write(&it.join("inner/precious.txt"), b"p");
            },
            "another repository",
        ),
        (
            "its link leads elsewhere",
            |repo, it| {
                git(&repo.root(), &["init", "-q", "evil"]);
                write(
                    &it.join(".git"),
                    format!("gitdir: {}\n", repo.root().join("evil/.git").display()).as_bytes(),
                );
            },
            "not linked to its repository any more",
        ),
        (
            "a socket",
            |_, it| {
                write(&it.join("a.txt"), b"x");
                std::fs::remove_file(it.join("a.txt")).unwrap();
                drop(std::os::unix::net::UnixListener::bind(it.join("a.txt")).unwrap());
            },
            "neither a file nor a link",
        ),
    ];
    for (what, work, why) in rows {
        let repo = Repo::new();
        let (keeper, workspace) = (repo.keeper(), repo.workspace());
        let mut record = repo.make(&keeper, "w").record;
        work(&repo, &record.path);
        let refused =
            keeper.remove(&mut record, RemovalBackup::Everything, &workspace, &origin()).unwrap_err();
        assert!(refused.contains(why), "{what}: {refused}");
        assert!(record.path.join("b/c.txt").exists(), "{what}");
    }
}

#[test]
fn foreign_worktree_is_never_removed() {
    let repo = Repo::new();
    let (keeper, workspace) = (repo.keeper(), repo.workspace());
    let place = repo.root().join("theirs");
    repo.git(&["worktree", "add", "-q", "-b", "theirs", &place.to_string_lossy()]);
    let holder = crate::rig::holder("s1", "main", &repo.top());
    let mut record = keeper.enter(&repo.top(), &place, holder.clone()).unwrap().record;
    let refused = keeper.remove(&mut record, RemovalBackup::Everything, &workspace, &origin()).unwrap_err();
    assert!(refused.contains("not made by Haft") && place.join("a.txt").exists(), "{refused}");
    // The main checkout and a plain directory are not worktrees.
    for path in [repo.top(), repo.root()] {
        assert!(keeper.enter(&repo.top(), &path, holder.clone()).is_err());
    }
    // A worktree of another running process.
    let mut other = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let mut record = repo.make(&keeper, "busy").record;
    record.owner.pid = other.id();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
    record.owner.start = stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().parse().unwrap();
    let refused = keeper.remove(&mut record, RemovalBackup::Everything, &workspace, &origin()).unwrap_err();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(refused.contains("another process") && record.path.exists(), "{refused}");
}
