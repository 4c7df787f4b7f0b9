use haft_worktree::{OwnerProcess, WorktreeRecord, WorktreeState};

use crate::rig::{Repo, git, origin, write};

#[test]
fn sweep_removes_only_abandoned_worktrees_without_work() {
    let repo = Repo::new();
    let (keeper, workspace) = (repo.keeper(), repo.workspace());
    let dead = OwnerProcess { pid: 1, start: 1 };
    let make = |name: &str, change: &dyn Fn(&mut WorktreeRecord)| {
        let mut record = repo.make(&keeper, name).record;
        record.owner = dead;
        record.session = String::from("gone");
        change(&mut record);
        rewrite(&repo, &record);
        record
    };
    let empty = make("empty", &|_| ());
    let kept = make("kept", &|it| it.is_kept = true);
    let own = make("own", &|it| it.session = String::from("s-now"));
    let living = make("living", &|it| it.owner = OwnerProcess::current());
    let ignored = make("ignored", &|it| write(&it.path.join("x.log"), b"log"));
    let committed = make("committed", &|it| {
        write(&it.path.join("a.txt"), b"c\n");
        git(&it.path, &["commit", "-q", "-am", "c"]);
    });
    let tampered = make("tampered", &|it| write(&it.path.join(".git"), b"gitdir: /nowhere\n"));
    let mut never_made = empty.clone();
    never_made.path = repo.top().join(".claude/worktrees/never");
    never_made.state = WorktreeState::Making;
    rewrite(&repo, &never_made);

    let swept = keeper.sweep(&repo.top(), "s-now", &workspace, &origin());
    let names = |all: Vec<String>| all.join(" ");
    assert_eq!(names(swept.removed.iter().map(|it| it.name.clone()).collect()), "empty");
    let mut left: Vec<String> = swept.left.iter().map(|it| it.0.name.clone()).collect();
    left.sort();
    assert_eq!(names(left), "committed ignored tampered");
    assert!(!empty.path.exists());
    for it in [kept, own, living, ignored, committed, tampered] {
        assert!(it.path.join("b/c.txt").exists(), "{}", it.name);
    }
    assert!(keeper.records().iter().all(|it| it.path != never_made.path));
    // The second sweep finds nothing.
    assert!(keeper.sweep(&repo.top(), "s-now", &workspace, &origin()).removed.is_empty());
}

/// Writes a record as another process would.
pub fn rewrite(repo: &Repo, record: &WorktreeRecord) {
    let dir = repo.state().join("worktrees");
    let is_record = |it: &std::fs::DirEntry| it.path().extension().is_some_and(|it| it == "json");
    for entry in std::fs::read_dir(&dir).unwrap().flatten().filter(is_record) {
        let known: WorktreeRecord = serde_json::from_slice(&std::fs::read(entry.path()).unwrap()).unwrap();
        if known.path == record.path {
            return std::fs::write(entry.path(), serde_json::to_vec(record).unwrap()).unwrap();
        }
    }
    let key = haft_workspace::ContentHash::hash(record.path.as_os_str().as_encoded_bytes()).to_string();
    let name = record.path.file_name().unwrap().to_string_lossy().into_owned();
    let file = dir.join(format!("{name}-{}.json", &key[..16]));
    std::fs::write(file, serde_json::to_vec(record).unwrap()).unwrap();
}
