//! Large results and full disks.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{path::Path, process::Command, time::Duration};

use haft_tool_runtime::{ResultStore, StoreLimits};
use haft_types::{Block, Content};

fn text(lines: usize) -> String {
    (0..lines).map(|n| format!("line {n}\n")).collect()
}

async fn fit(store: &ResultStore, id: &str, text: &str) -> String {
    store.fit(id, Content::text(text), Some(1_000)).await.to_text()
}

#[tokio::test]
async fn result_within_the_limit_is_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let store = ResultStore::new(dir.path().join("r"), StoreLimits::default());
    for content in [
        Content::text("é".repeat(1_000)),
        Content::default(),
        Content(vec![Block::image("image/png", "A".repeat(5_000))]),
    ] {
        assert_eq!(store.fit("id", content.clone(), Some(1_000)).await, content);
    }
    let unlimited = Content::text("x".repeat(5_000));
    assert_eq!(store.fit("id", unlimited.clone(), None).await, unlimited);
    assert!(!dir.path().join("r").exists(), "nothing to store, nothing touched");
}

#[tokio::test]
async fn images_stay_next_to_a_stored_text() {
    let dir = tempfile::tempdir().unwrap();
    let store = ResultStore::new(dir.path(), StoreLimits::default());
    let picture = Block::image("image/png", "AAAA");
    let content = Content(vec![Block::text("x".repeat(2_000)), picture.clone()]);
    let fitted = store.fit("id", content, Some(1_000)).await;
    assert_eq!(fitted.0[1..], [picture]);
}

#[tokio::test]
async fn call_ids_cannot_leave_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let store = ResultStore::new(dir.path().join("r"), StoreLimits::default());
    for id in ["../../evil", "/etc/x", "a/b", "", "..", &"x".repeat(300)] {
        fit(&store, id, &text(1_000)).await;
    }
    let outside: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(outside, ["r"]);
    assert_eq!(std::fs::read_dir(dir.path().join("r")).unwrap().count(), 6);
}

#[tokio::test]
async fn oldest_results_are_deleted_beyond_the_quota() {
    let dir = tempfile::tempdir().unwrap();
    let limits = StoreLimits { total_bytes: 25_000, ..StoreLimits::default() };
    let store = ResultStore::new(dir.path(), limits);
    for n in 0..6 {
        fit(&store, &format!("id{n}"), &text(900)).await;
        let total: u64 =
            std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).sum();
        assert!(total <= 25_000, "{total}");
    }
    assert!(dir.path().join("id5.txt").exists() && !dir.path().join("id0.txt").exists());
    let huge = fit(&store, "huge", &text(10_000)).await;
    assert!(
        huge.contains("could not be stored (over the quota of 25000 bytes)") && huge.len() < 3_000,
        "{huge}"
    );
}

#[tokio::test]
async fn old_results_are_swept() {
    let dir = tempfile::tempdir().unwrap();
    let store = ResultStore::new(dir.path(), StoreLimits::default());
    fit(&store, "old", &text(900)).await;
    fit(&store, "new", &text(900)).await;
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(31 * 24 * 60 * 60);
    std::fs::File::open(dir.path().join("old.txt")).unwrap().set_modified(long_ago).unwrap();
    store.sweep();
    assert!(!dir.path().join("old.txt").exists() && dir.path().join("new.txt").exists());
}

#[tokio::test]
async fn unwritable_store_truncates_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let store = ResultStore::new(dir.path().join("file/below"), StoreLimits::default());
    let got = fit(&store, "id", &text(10_000)).await;
    assert!(got.contains("could not be stored") && got.len() < 3_000, "{got}");
}

/// On a small file system the result is truncated with a note, and no partial file remains.
#[tokio::test]
async fn full_disk_truncates_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = Tmpfs::mount(dir.path(), "256k") else {
        eprintln!("SKIPPED: a tmpfs cannot be mounted here (needs root)");
        return;
    };
    let store = ResultStore::new(dir.path().join("r"), StoreLimits::default());
    let got = fit(&store, "big", &text(100_000)).await;
    assert!(got.contains("could not be stored") && got.len() < 3_000, "{got}");
    assert_eq!(std::fs::read_dir(dir.path().join("r")).unwrap().count(), 0);
    let small = fit(&store, "small", &text(1_000)).await;
    assert!(small.contains("All of it is in"), "{small}");
}

/// Removes old results in the directories of all sessions, and directories that become empty; keeps
/// recent results and unrelated files.
#[tokio::test]
async fn sweep_all_removes_old_results_of_every_session() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path();
    let month = Duration::from_secs(40 * 24 * 60 * 60);
    for (path, is_old) in [
        ("gone/tool-results/a", true),
        ("gone/tool-results/b", true),
        ("mixed/tool-results/old", true),
        ("mixed/tool-results/young", false),
        ("kept/tool-results/c", true),
        ("kept/notes", true),
        ("other/x", true),
    ] {
        let path = sessions.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "x").unwrap();
        let time = std::time::SystemTime::now() - if is_old { month } else { Duration::ZERO };
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
    ResultStore::sweep_all(sessions, "tool-results", StoreLimits::default());
    for (path, there) in [
        ("gone", false),
        ("mixed/tool-results/old", false),
        ("mixed/tool-results/young", true),
        ("kept/tool-results", false),
        ("kept/notes", true),
        ("other/x", true),
    ] {
        assert_eq!(sessions.join(path).exists(), there, "{path}");
    }
    ResultStore::sweep_all(&sessions.join("nowhere"), "tool-results", StoreLimits::default());
}

struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(at: &'a Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        mount.output().ok()?.status.success().then_some(Self(at))
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0).output().ok();
    }
}
