//! Git is killed while it creates a worktree: no work is lost, the remains are reported and can be
//! removed, and the name can be used again.

use std::{os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command};

use haft_workspace::UndoTarget;
use haft_worktree::{
    OwnerProcess, RemovalBackup, WorktreeBase, WorktreeManager, WorktreeRecord, WorktreeState,
};

use crate::{
    rig::{Repo, files, git, origin, write},
    sweeping::rewrite,
};

fn has_strace() -> bool {
    Command::new("strace").arg("-V").output().is_ok_and(|it| it.status.success())
}

/// A wrapper around git that is killed once, at a chosen step of `git worktree add`.
struct KillingGit {
    dir: PathBuf,
}

impl KillingGit {
    fn new(repo: &Repo) -> Self {
        let dir = repo.root().join("bin");
        let real = Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout;
        let (real, plan) = (String::from_utf8(real).unwrap(), dir.join("plan"));
        let (real, plan) = (real.trim(), plan.display());
        let (die, dead) = (dir.join("die"), dir.join("dead"));
        let (die, dead) = (die.display(), dead.display());
        let script = format!(
            "#!/bin/sh\n[ -e '{dead}' ] && exit 137\ncase \" $* \" in *\" worktree add \"*)\n  \
             if [ -e '{plan}' ]; then\n    injected=$(cat '{plan}'); rm '{plan}'\n    \
             strace -f -qq -o /dev/null $injected '{real}' \"$@\"\n    code=$?\n    \
             [ -e '{die}' ] && mv '{die}' '{dead}'\n    exit $code\n  fi;;\nesac\nexec '{real}' \"$@\"\n"
        );
        write(&dir.join("git"), script.as_bytes());
        std::fs::set_permissions(dir.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn keeper(&self, repo: &Repo) -> WorktreeManager {
        let path = std::env::var("PATH").unwrap();
        repo.keeper_with(format!("{}:{path}", self.dir.display()).into())
    }

    fn kill_at(&self, moment: &str) {
        let steps: Vec<(&str, &str)> = moment.split(' ').filter_map(|it| it.split_once('#')).collect();
        let calls: Vec<&str> = steps.iter().map(|it| it.0).collect();
        let injected: Vec<String> =
            steps.iter().map(|(call, at)| format!("-e inject={call}:signal=KILL:when={at}")).collect();
        let plan = format!("-e trace={} {}", calls.join(","), injected.join(" "));
        write(&self.dir.join("plan"), plan.as_bytes());
    }
}

/// Steps at which git is killed: system call and its count, for branch, administrative directory, link,
/// files, index and end.
const MOMENTS: [&str; 14] = [
    "rename#1",
    "wait4#1",
    "mkdir#1",
    "mkdir#2",
    "mkdir#3",
    "mkdir#4",
    "mkdir#5",
    "rename#2",
    "wait4#2",
    "wait4#2 unlink#1",
    "wait4#2 unlink#3",
    "wait4#2 unlink#4",
    "wait4#2 mkdir#1",
    "unlink#1",
];

fn record_of(keeper: &WorktreeManager, name: &str) -> Option<WorktreeRecord> {
    keeper.records().into_iter().find(|it| it.name == name && it.state != WorktreeState::Removed)
}

/// State after a session was killed together with its git: the record written before git started.
fn cut(repo: &Repo, killing: &KillingGit, moment: &str) -> Option<WorktreeRecord> {
    let keeper = killing.keeper(repo);
    killing.kill_at(moment);
    // From then on no git runs, so nothing cleans up.
    write(&killing.dir.join("die"), b"");
    let made = repo.try_make(&keeper, "x", WorktreeBase::Head);
    assert!(made.is_err(), "{moment}: {:?}", made.map(|it| it.notes));
    std::fs::remove_file(killing.dir.join("dead")).unwrap();
    let mut record = record_of(&keeper, "x")?;
    record.owner = OwnerProcess { pid: 1, start: 1 };
    rewrite(repo, &record);
    Some(record)
}

/// Checks that nothing of the interrupted worktree is left.
fn check_whole(repo: &Repo, keeper: &WorktreeManager, what: &str) {
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1, "{what}");
    assert_eq!(repo.git(&["branch", "--format=%(refname:short)"]), "main", "{what}");
    assert!(!repo.top().join(".claude/worktrees/x").exists(), "{what}");
    assert!(record_of(keeper, "x").is_none(), "{what}");
}

#[test]
fn killed_git_leaves_no_worktree_and_name_is_reusable() {
    if !has_strace() {
        return;
    }
    for moment in MOMENTS {
        let repo = Repo::new();
        let killing = KillingGit::new(&repo);
        let keeper = killing.keeper(&repo);
        killing.kill_at(moment);
        let made = repo.try_make(&keeper, "x", WorktreeBase::Head);
        assert!(made.is_err(), "{moment}: {:?}", made.map(|it| it.notes));
        // A lock of the whole repository is not ours to break; then the branch stays.
        std::fs::remove_file(repo.top().join(".git/packed-refs.lock")).ok();
        let again = repo.make(&keeper, "x");
        assert_eq!(files(&again.record.path), files_of_commit(&repo), "{moment}");
        assert_eq!(again.branch.as_deref(), Some("worktree-x"), "{moment}");
        assert!(keeper.inspect(&again.record).unwrap().is_untouched(), "{moment}");
    }
}

fn files_of_commit(repo: &Repo) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut all = files(&repo.top());
    all.retain(|path, _| !path.starts_with(".claude") && !path.starts_with(".git/"));
    all
}

/// The session died together with its git: the remains are reported, and a new session, the same name,
/// or the user removes them.
#[test]
fn interrupted_worktree_of_killed_session_is_reported_and_removed() {
    if !has_strace() {
        return;
    }
    let mut seen = 0;
    const WAYS: [&str; 3] = ["sweep", "remove", "make"];
    for (at, moment) in MOMENTS.into_iter().enumerate() {
        let ways = if at % 3 == 0 { &WAYS[..] } else { &WAYS[at % 3..=at % 3] };
        for way in ways.iter().copied() {
            let repo = Repo::new();
            let killing = KillingGit::new(&repo);
            let Some(mut record) = cut(&repo, &killing, moment) else { continue };
            seen += 1;
            std::fs::remove_file(repo.top().join(".git/packed-refs.lock")).ok();
            let (keeper, workspace) = (repo.keeper(), repo.workspace());
            let what = format!("{moment} {way}");
            assert!(record.is_cut_off(), "{what}");
            let words = keeper.inspect(&record).unwrap_err();
            assert!(
                words.contains("cut off") && words.contains("haft worktrees remove x"),
                "{what}: {words}"
            );
            match way {
                "sweep" => {
                    let swept = keeper.sweep(&repo.top(), "s-now", &workspace, &origin());
                    assert!(swept.left.is_empty(), "{what}: {:?}", swept.left);
                    check_whole(&repo, &keeper, &what);
                }
                "remove" => {
                    let removed =
                        keeper.remove(&mut record, RemovalBackup::Everything, &workspace, &origin()).unwrap();
                    assert_eq!((removed.undo, removed.rescued.len()), (None, 0), "{what}");
                    check_whole(&repo, &keeper, &what);
                }
                _ => (),
            }
            let again = repo.make(&keeper, "x");
            assert_eq!(files(&again.record.path), files_of_commit(&repo), "{what}");
            assert!(keeper.inspect(&again.record).unwrap().is_untouched(), "{what}");
        }
    }
    assert!(MOMENTS.len() < seen, "{seen}");
}

/// Work in the remains: kept until the user removes the worktree, and then restorable byte for byte.
#[test]
fn work_in_interrupted_worktree_is_saved() {
    if !has_strace() {
        return;
    }
    let repo = Repo::new();
    let killing = KillingGit::new(&repo);
    let mut record = cut(&repo, &killing, "wait4#2").unwrap();
    let (keeper, workspace) = (repo.keeper(), repo.workspace());
    write(&record.path.join("a.txt"), b"changed\n");
    write(&record.path.join("new/deep.txt"), b"new\n");
    write(&record.path.join("build/out.log"), b"ignored\n");
    let before = files(&record.path);
    git(&record.path, &["checkout", "-q", "--detach"]);
    git(&record.path, &["commit", "-q", "--allow-empty", "-m", "loose"]);
    let loose = git(&record.path, &["rev-parse", "HEAD"]);
    // Neither a new session nor a new worktree of that name removes it.
    assert_eq!(keeper.sweep(&repo.top(), "s-now", &workspace, &origin()).left.len(), 1);
    let refused = repo.try_make(&keeper, "x", WorktreeBase::Head).unwrap_err();
    assert!(refused.contains("3 file(s)") && refused.contains("1 commit(s)"), "{refused}");
    assert_eq!(files(&record.path), before);
    let removed = keeper.remove(&mut record, RemovalBackup::Everything, &workspace, &origin()).unwrap();
    check_whole(&repo, &keeper, "removed");
    assert_eq!(removed.rescued.len(), 1);
    assert_eq!(repo.git(&["rev-parse", &removed.rescued[0]]), loose);
    let report =
        workspace.undo(&UndoTarget::Entry(haft_workspace::EntryId::new(removed.undo.unwrap())), &origin());
    assert_eq!(report.unwrap().conflicts, []);
    let back = files(&record.path);
    for name in ["a.txt", "new/deep.txt", "build/out.log"] {
        assert_eq!(back[&PathBuf::from(name)], before[&PathBuf::from(name)], "{name}");
    }
}
