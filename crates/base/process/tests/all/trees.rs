use std::time::Duration;

use haft_process::{Lifetime, OnParentKilled, ProcessOwner, ProcessPurpose, everything, leftovers};

use crate::support::{WAYS, escaping, eventually, lives, numbers, tree};

#[tokio::test]
async fn dropped_tree_kills_escaped_processes() {
    let dir = tempfile::tempdir().unwrap();
    let owner = ProcessOwner::unrecorded("s");
    let (tree, _child) = tree(&owner, "x", &escaping(dir.path(), &WAYS), OnParentKilled::NextSession);
    let pids = numbers(dir.path(), &WAYS);
    assert_eq!(owner.list().len(), 1);
    drop(tree);
    eventually("everything is gone", || !pids.iter().any(|pid| lives(*pid)));
    assert_eq!(owner.list(), []);
}

#[tokio::test]
async fn kill_in_group_spares_escaped_processes_and_release_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let owner = ProcessOwner::unrecorded("s");
    let script = escaping(dir.path(), &["child", "session"]).replace("wait; sleep 600", "exit 3");
    let (tree, mut child) = tree(&owner, "x", &script, OnParentKilled::NextSession);
    let pids = numbers(dir.path(), &["child", "session"]);
    let status = tree.reap(&mut child).await.unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(tree.lives_in_group());
    tree.kill_in_group();
    eventually("the child is gone", || !lives(pids[0]));
    eventually("the group is empty", || !tree.lives_in_group());
    assert!(lives(pids[1]));
    tree.release();
    assert!(lives(pids[1]) && owner.list().is_empty());
    let pid = rustix::process::Pid::from_raw(pids[1]).unwrap();
    rustix::process::kill_process_group(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn failed_spawn_leaves_no_registry_entry() {
    let dir = tempfile::tempdir().unwrap();
    let owner = ProcessOwner::open(dir.path(), "s").unwrap();
    let about = haft_process::SpawnIntent {
        purpose: ProcessPurpose::Hook,
        call: "x",
        command: "/no/such/program",
        task: "",
    };
    let plan = haft_process::ProcessTreeOptions {
        about,
        isolation: haft_process::TreeIsolation::NoTerminal,
        after_kill: OnParentKilled::NextSession,
    };
    let started =
        haft_process::ProcessTree::spawn(&owner, plan, tokio::process::Command::new("/no/such/program"));
    assert_eq!(started.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert_eq!(owner.list(), []);
    assert!(everything(dir.path()).is_empty());
}

/// Several sessions share one process: ending, listing and forgetting affect only their own session.
#[tokio::test]
async fn ending_one_session_touches_no_process_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let registries = dir.path().join("processes");
    let mut sessions = Vec::new();
    for name in ["one", "two", "three"] {
        let files = dir.path().join(name);
        std::fs::create_dir(&files).unwrap();
        let owner = ProcessOwner::open(&registries, name).unwrap();
        let (tree, child) = tree(&owner, "server", &escaping(&files, &WAYS), OnParentKilled::Guardian);
        sessions.push((owner, tree, child, numbers(&files, &WAYS)));
    }
    let listed = everything(&registries);
    assert_eq!(listed.len(), 3, "{listed:?}");
    assert!(listed.iter().all(|it| it.session_lives && it.purpose == ProcessPurpose::Server));
    assert!(leftovers(&registries).is_empty(), "living sessions are left alone");

    let ending = std::sync::Arc::clone(&sessions[1].0);
    let ended = tokio::task::spawn_blocking(move || ending.end(Duration::from_secs(60))).await;
    assert!(ended.unwrap());
    let alive = |at: usize| sessions[at].3.iter().filter(|pid| lives(**pid)).count();
    assert_eq!([alive(0), alive(1), alive(2)], [WAYS.len(), 0, WAYS.len()]);
    let owners: Vec<usize> = sessions.iter().map(|it| it.0.list().len()).collect();
    assert_eq!(owners, [1, 0, 1]);

    let left = everything(&registries).into_iter().find(|it| it.session == "three").unwrap();
    assert!(left.end(Duration::from_secs(60)), "one can be ended from outside");
    assert_eq!([alive(0), alive(2)], [WAYS.len(), 0]);
}

#[test]
fn registry_line_without_purpose_reads_as_command() {
    let dir = tempfile::tempdir().unwrap();
    let owner = ProcessOwner::open(dir.path(), "s").unwrap();
    let about =
        haft_process::SpawnIntent { purpose: ProcessPurpose::Hook, call: "c", command: "d", task: "" };
    let mark = owner.announce(about, Lifetime::Session).unwrap();
    let mut child = std::process::Command::new("sleep")
        .arg("600")
        .env(haft_process::MARK_VARIABLE, mark.cookie())
        .spawn()
        .unwrap();
    eventually("it is listed", || everything(dir.path()).len() == 1);
    let purposes = || everything(dir.path()).iter().map(|it| it.purpose).collect::<Vec<_>>();
    assert_eq!(purposes(), [ProcessPurpose::Hook]);
    let file = dir.path().join("s.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(",\"purpose\":\"hook\"", "")).unwrap();
    assert_eq!(purposes(), [ProcessPurpose::Command]);
    child.kill().unwrap();
    child.wait().unwrap();
}
