//! Task lists: texts for the model, concurrent writers, and truncated logs.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use std::{collections::BTreeSet, sync::Arc};

use haft_builtin_tools::{
    brief::NoUser,
    task_list::{self, TaskEvent, TaskLists, TaskPatch, TaskServices, TaskStatus},
    team::{self, NoTeams, Teams},
    worktree::{self, NoWorktrees, Worktrees},
};
use haft_tool::DynTool;
use serde_json::{Value, json};

#[test]
fn task_team_and_worktree_tool_texts_match_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let teams: Arc<dyn Teams> = Arc::new(NoTeams);
    let worktrees: Arc<dyn Worktrees> = Arc::new(NoWorktrees);
    let mut tools: Vec<Arc<dyn DynTool>> = task_list::tools(&TaskServices::alone(dir.path()));
    tools.extend(team::tools(&teams));
    tools.extend(worktree::tools(&worktrees));
    let user = || Arc::new(NoUser);
    tools.push(haft_tool::erase(haft_builtin_tools::brief::Brief::new(user())));
    tools.push(haft_tool::erase(haft_builtin_tools::brief::SendUserMessage::new(user())));
    let told: Vec<Value> = tools
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            json!({"name": spec.name, "description": spec.description, "input": spec.input_schema})
        })
        .collect();
    insta::assert_json_snapshot!(told);
}

fn created(id: u64, subject: &str) -> TaskEvent {
    TaskEvent::Created { id, task: TaskPatch { subject: Some(subject.to_owned()), ..TaskPatch::default() } }
}

/// Reserves the next number and creates a task with it.
fn create(lists: &TaskLists, subject: &str) -> u64 {
    lists
        .change(|board| {
            let id = board.next_id();
            (vec![created(id, subject)], id)
        })
        .unwrap()
}

/// Each writer opens its own files, like separate processes.
#[test]
fn concurrent_writers_lose_no_update() {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    let dir = tempfile::tempdir().unwrap();
    let open = || TaskLists::at(dir.path().to_owned(), "shared");
    create(&open(), "counter");
    let threads: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let lists = open();
            std::thread::spawn(move || {
                for number in 0..EACH {
                    let own = create(&lists, &format!("{writer}/{number}"));
                    let done = TaskPatch { status: Some(TaskStatus::Completed), ..TaskPatch::default() };
                    lists.change(|_| (vec![TaskEvent::Updated { id: own, patch: done }], ())).unwrap();
                    // The decision is based on the newest state, not on an earlier read.
                    lists
                        .change(|board| {
                            let count = board.get(1).unwrap().metadata.get("count").and_then(Value::as_u64);
                            let metadata = json!({"count": count.unwrap_or(0) + 1});
                            let metadata = metadata.as_object().unwrap().clone();
                            let patch = TaskPatch { metadata, ..TaskPatch::default() };
                            (vec![TaskEvent::Updated { id: 1, patch }], ())
                        })
                        .unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    let board = open().board().unwrap();
    assert_eq!(board.get(1).unwrap().metadata["count"], json!(WRITERS * EACH));
    let subjects: BTreeSet<&str> = board.tasks().map(|it| it.1.subject.as_str()).collect();
    assert_eq!(subjects.len(), WRITERS * EACH + 1);
    assert_eq!(board.next_id() as usize, WRITERS * EACH + 2);
    assert!(board.tasks().skip(1).all(|it| it.1.status == TaskStatus::Completed));
}

/// A killed process leaves a prefix of what it wrote.
#[test]
fn log_truncated_at_any_byte_stays_usable() {
    let dir = tempfile::tempdir().unwrap();
    let whole = TaskLists::at(dir.path().join("whole"), "l");
    for subject in ["one", "two", "thr\u{e4}e\nlines"] {
        create(&whole, subject);
    }
    whole.change(|_| (vec![TaskEvent::Deleted { id: 2 }], ())).unwrap();
    let bytes = std::fs::read(whole.path("l")).unwrap();
    let ends: Vec<usize> = bytes.iter().enumerate().filter(|it| *it.1 == b'\n').map(|it| it.0 + 1).collect();
    for cut in 0..=bytes.len() {
        let lists = TaskLists::at(dir.path().join(format!("cut{cut}")), "l");
        let path = lists.path("l");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let said = ends.iter().filter(|it| **it <= cut).count();
        let want = match said {
            4 => 2,
            other => other,
        };
        assert_eq!(lists.board().unwrap().tasks().count(), want, "cut at {cut}");
        let id = create(&lists, "after");
        assert!(said.min(3) < id as usize, "cut at {cut}: {id}");
        let board = lists.board().unwrap();
        assert_eq!((board.tasks().count(), board.get(id).unwrap().subject.as_str()), (want + 1, "after"));
        // Another process reads the same state.
        assert_eq!(TaskLists::at(dir.path().join(format!("cut{cut}")), "l").board().unwrap(), board);
    }
}

#[test]
fn list_names_cannot_escape_their_directory() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["../up", "/etc", "..", "", "a/b", ".hidden", &"x".repeat(500)] {
        let lists = TaskLists::at(dir.path().to_owned(), name);
        let path = lists.path(&lists.current());
        assert!(path.starts_with(dir.path()) && !path.to_string_lossy().contains(".."), "{path:?}");
        assert_eq!(path.strip_prefix(dir.path()).unwrap().components().count(), 2, "{path:?}");
    }
}
