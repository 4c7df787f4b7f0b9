use std::os::unix::fs::symlink;

use haft_worktree::{CreateWorktree, WorktreeBase, WorktreeContents, WorktreeState};

use crate::rig::{Repo, files, git, holder, write};

#[test]
fn new_worktree_starts_at_head_and_notes_uncommitted_changes() {
    let repo = Repo::new();
    let upstream = repo.root().join("up.git");
    git(&repo.root(), &["clone", "-q", "--bare", "repo", "up.git"]);
    repo.git(&["remote", "add", "origin", &upstream.to_string_lossy()]);
    repo.git(&["fetch", "-q", "origin"]);
    repo.git(&["remote", "set-head", "origin", "main"]);
    repo.git(&["branch", "-q", "--set-upstream-to=origin/main"]);
    repo.write("a.txt", "ahead\n");
    repo.git(&["commit", "-q", "-am", "ahead"]);
    repo.write("a.txt", "not committed\n");
    repo.write("new.txt", "not added\n");
    let keeper = repo.keeper();
    let made = repo.make(&keeper, "one/two");
    assert_eq!(made.record.path, repo.top().join(".claude/worktrees/one+two"));
    assert_eq!(made.branch.as_deref(), Some("worktree-one+two"));
    assert_eq!(git(&made.record.path, &["rev-parse", "HEAD"]), repo.git(&["rev-parse", "HEAD"]));
    assert_eq!(std::fs::read_to_string(made.record.path.join("a.txt")).unwrap(), "ahead\n");
    let notes = made.notes.join("\n");
    assert!(notes.contains("1 commit(s) ahead of the branch it follows and 0 behind"), "{notes}");
    assert!(notes.contains("2 file(s)") && notes.contains("a.txt") && notes.contains("new.txt"), "{notes}");
    assert_eq!(made.record.state, WorktreeState::Ready);
    // Git in the main checkout does not list it.
    assert!(!repo.git(&["status", "--porcelain"]).contains("worktrees"));
    // A `Fresh` worktree starts at origin's main branch.
    let fresh = repo.try_make(&keeper, "fresh", WorktreeBase::Fresh).unwrap();
    assert_eq!(git(&fresh.record.path, &["rev-parse", "HEAD"]), repo.git(&["rev-parse", "origin/main"]));
    assert!(
        fresh.notes[0].contains("0 commit(s) ahead of the commit you are on and 1 behind"),
        "{:?}",
        fresh.notes
    );
}

#[test]
fn worktreeinclude_copies_only_matching_ignored_files() {
    let repo = Repo::new();
    repo.write(".worktreeinclude", ".env\nbuild/keep.txt\nlink.log\na.txt\ndenied.log\n");
    for (path, text) in
        [(".env", "KEY=1\n"), ("build/keep.txt", "k"), ("build/other.txt", "o"), ("denied.log", "d")]
    {
        repo.write(path, text);
    }
    symlink("/etc/hostname", repo.top().join("link.log")).unwrap();
    let keeper = repo.keeper();
    let order = haft_worktree::CreateWorktree {
        from: &repo.top(),
        name: "inc",
        holder: holder("s1", "main", &repo.top()),
        base: WorktreeBase::Head,
        shape: WorktreeContents::default(),
    };
    let made = keeper.make(&order, &|path| !path.ends_with("denied.log")).unwrap();
    let there = files(&made.record.path);
    let has = |path: &str| there.contains_key(std::path::Path::new(path));
    assert!(has(".env") && has("build/keep.txt"));
    assert!(!has("build/other.txt") && !has("denied.log") && !has("link.log"), "{there:?}");
    let notes = made.notes.join("\n");
    assert!(notes.contains("2 ignored file(s)") && notes.contains("denied.log"), "{notes}");
    // Copied files that are unchanged are not work; changed ones are.
    assert!(keeper.inspect(&made.record).unwrap().is_untouched());
    write(&made.record.path.join(".env"), b"KEY=2\n");
    assert_eq!(keeper.inspect(&made.record).unwrap().ignored.len(), 1);
}

#[test]
fn taken_worktree_name_is_refused_and_own_one_is_reused() {
    let repo = Repo::new();
    let keeper = repo.keeper();
    let first = repo.make(&keeper, "x");
    write(&first.record.path.join("work.txt"), b"w");
    // The same session can reuse it; another one cannot while this process runs.
    assert!(repo.make(&keeper, "x").notes[0].contains("there already"));
    let order = |session: &'static str| haft_worktree::CreateWorktree {
        from: Box::leak(repo.top().into_boxed_path()),
        name: "x",
        holder: holder(session, "main", &repo.top()),
        base: WorktreeBase::Head,
        shape: WorktreeContents::default(),
    };
    let refused = keeper.make(&order("s2"), &|_| true).unwrap_err();
    assert!(refused.contains("in use"), "{refused}");
    let mut left = first.record.clone();
    keeper.release(&mut left).unwrap();
    let taken = keeper.make(&order("s2"), &|_| true).unwrap();
    assert_eq!(std::fs::read(taken.record.path.join("work.txt")).unwrap(), b"w");
    // An existing branch or file of that name is not taken over.
    repo.git(&["branch", "worktree-y"]);
    assert!(repo.try_make(&keeper, "y", WorktreeBase::Head).unwrap_err().contains("branch worktree-y"));
    std::fs::create_dir(repo.top().join(".claude/worktrees/z")).unwrap();
    assert!(repo.try_make(&keeper, "z", WorktreeBase::Head).unwrap_err().contains("not made by Haft"));
}

#[test]
fn worktree_without_repository_or_commit_reports_reason() {
    let repo = Repo::new();
    let keeper = repo.keeper();
    let outside = repo.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let order = |from: &'static std::path::Path| haft_worktree::CreateWorktree {
        from,
        name: "x",
        holder: holder("s", "main", from),
        base: WorktreeBase::Head,
        shape: WorktreeContents::default(),
    };
    let leaked: &'static std::path::Path = Box::leak(outside.clone().into_boxed_path());
    assert!(keeper.make(&order(leaked), &|_| true).unwrap_err().contains("no git repository"));
    git(&outside, &["init", "-q"]);
    assert!(keeper.make(&order(leaked), &|_| true).unwrap_err().contains("no commit yet"));
    assert!(keeper.records().is_empty());
}

/// Ignored directories can be symlinked instead of copied. Symlinks are not work, and their targets
/// survive the removal. Other directories are rejected.
#[test]
fn linked_directories_are_removed_as_symlinks() {
    let repo = Repo::new();
    repo.write("build/out.o", "o");
    repo.write(".gitignore", "*.log\nbuild/\nvendor\n");
    repo.write("vendor/v.txt", "v");
    repo.git(&["commit", "-q", "-am", "ignores"]);
    let keeper = repo.keeper();
    let linked = ["build", "vendor", "b", "missing", "../x", "-x"].map(str::to_owned).to_vec();
    let order = CreateWorktree {
        from: &repo.top(),
        name: "linked",
        holder: holder("s1", "main", &repo.top()),
        base: WorktreeBase::Head,
        shape: WorktreeContents { linked, sparse: Vec::new() },
    };
    let mut made = keeper.make(&order, &|_| true).unwrap();
    let notes = made.notes.join("\n");
    for name in ["build", "vendor"] {
        let link = made.record.path.join(name);
        assert_eq!(std::fs::read_link(&link).unwrap(), repo.top().join(name));
        assert!(notes.contains(&format!("{name} in it is a link")), "{notes}");
    }
    assert!(!made.record.path.join("missing").exists() && made.record.path.join("b/c.txt").is_file());
    assert!(notes.contains("../x is not linked") && notes.contains("-x is not linked"), "{notes}");
    let found = keeper.inspect(&made.record).unwrap();
    assert!(found.is_untouched(), "{found:?}");
    write(&made.record.path.join("work.txt"), b"w");
    let found = keeper.inspect(&made.record).unwrap();
    assert_eq!(found.changed.len(), 1, "{found:?}");
    let removed = keeper.remove(
        &mut made.record,
        haft_worktree::RemovalBackup::Everything,
        &repo.workspace(),
        &crate::rig::origin(),
    );
    removed.unwrap();
    assert!(!made.record.is_there());
    assert_eq!(std::fs::read_to_string(repo.top().join("build/out.o")).unwrap(), "o");
    assert_eq!(std::fs::read_to_string(repo.top().join("vendor/v.txt")).unwrap(), "v");
}

/// Sparse checkout: missing directories are not changes.
#[test]
fn sparse_worktree_contains_only_listed_directories() {
    for (sparse, has_b) in [(vec!["b"], true), (vec!["other"], false), (vec!["../b"], true)] {
        let repo = Repo::new();
        repo.write("other/d.txt", "d\n");
        repo.git(&["add", "."]);
        repo.git(&["commit", "-q", "-m", "more"]);
        let keeper = repo.keeper();
        let order = CreateWorktree {
            from: &repo.top(),
            name: "sparse",
            holder: holder("s1", "main", &repo.top()),
            base: WorktreeBase::Head,
            shape: WorktreeContents {
                linked: Vec::new(),
                sparse: sparse.iter().map(|it| (*it).to_owned()).collect(),
            },
        };
        let made = keeper.make(&order, &|_| true).unwrap();
        let is_whole = sparse[0].starts_with("..");
        assert_eq!(made.record.path.join("b/c.txt").exists(), has_b, "{sparse:?}: {:?}", made.notes);
        assert_eq!(made.record.path.join("other/d.txt").exists(), !has_b || is_whole, "{sparse:?}");
        assert!(made.record.path.join("a.txt").exists(), "{sparse:?}");
        assert!(keeper.inspect(&made.record).unwrap().is_untouched(), "{sparse:?}");
        // The main checkout still has all files.
        assert!(repo.top().join("b/c.txt").exists() && repo.top().join("other/d.txt").exists());
        assert_eq!(repo.git(&["status", "--porcelain"]).trim(), "");
    }
}
