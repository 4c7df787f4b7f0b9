//! SIGKILL of this process: the guardian ends guarded trees of every session and leaves the others to
//! the reader of the registry.

use std::{path::Path, process::Stdio, time::Duration};

use haft_process::{OnParentKilled, ProcessOwner, end_leftovers, everything};

use crate::support::{WAYS, escaping, eventually, lives, numbers, tree};

const ROLE: &str = "HAFT_TEST_STATE";
const SESSIONS: [(&str, OnParentKilled); 3] = [
    ("one", OnParentKilled::Guardian),
    ("two", OnParentKilled::Guardian),
    ("three", OnParentKilled::NextSession),
];

/// The program that gets killed.
#[tokio::test]
#[ignore = "a child process of other tests"]
async fn role_program() {
    let state = std::env::var_os(ROLE).expect("started by a test of this file");
    let state = Path::new(&state);
    let mut held = Vec::new();
    for (name, after_kill) in SESSIONS {
        let owner = ProcessOwner::open(&state.join("processes"), name).unwrap();
        let files = state.join(name);
        std::fs::create_dir(&files).unwrap();
        held.push(tree(&owner, "server", &escaping(&files, &WAYS), after_kill));
    }
    std::future::pending::<()>().await;
}

#[test]
fn killed_program_guarded_trees_end_and_others_stay_in_registry() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    program.args(["--ignored", "--exact", "killed::role_program", "--nocapture"]).env(ROLE, state);
    let mut program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pids = SESSIONS.map(|(name, _)| numbers(&state.join(name), &WAYS));
    program.kill().unwrap();
    program.wait().unwrap();
    for (number, (name, after_kill)) in SESSIONS.iter().enumerate() {
        match after_kill {
            OnParentKilled::Guardian => {
                eventually("the guardian ends it", || !pids[number].iter().any(|pid| lives(*pid)));
            }
            OnParentKilled::NextSession => assert!(pids[number].iter().all(|pid| lives(*pid)), "{name}"),
        }
    }
    let registries = state.join("processes");
    eventually("nothing else is left", || everything(&registries).len() == 1);
    let ended = end_leftovers(&registries, Duration::from_secs(60));
    assert_eq!(ended.iter().map(|it| it.session.as_str()).collect::<Vec<_>>(), ["three"]);
    assert!(!pids[2].iter().any(|pid| lives(*pid)));
    assert!(everything(&registries).is_empty());
}
