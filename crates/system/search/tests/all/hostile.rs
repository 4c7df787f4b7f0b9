//! Hostile directory trees.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::symlink},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use haft_search::{
    GlobPlan, GlobRun, GrepOptions, GrepPage, GrepQuery, GrepResult, GrepRun, Mode, SearchRoot, SearchStop,
    SearchStopReason, TreeRun, WalkFilter, WalkLimits,
};
use rustix::fs::{Mode as FileMode, OFlags, mkdirat, openat};

fn grep(
    root: &SearchRoot,
    pattern: &str,
    mode: Mode,
    may_show: &(dyn Fn(&[u8]) -> bool + Sync),
    stop: &SearchStop,
) -> GrepResult {
    let query = GrepQuery::new(pattern, GrepOptions { mode, ..GrepOptions::default() }).unwrap();
    let run = GrepRun {
        query: &query,
        cwd: Path::new("/"),
        filter: &WalkFilter::default(),
        limits: WalkLimits::default(),
        page: GrepPage { offset: 0, limit: 1000 },
        may_show,
        stop,
    };
    run.run(root)
}

/// A chain of directories longer than the kernel's path limit.
fn deep(top: &Path, levels: usize) {
    let mut dir = OwnedFd::from(fs::File::open(top).unwrap());
    for _ in 0..levels {
        mkdirat(&dir, "directory", FileMode::RWXU).unwrap();
        dir = openat(&dir, "directory", OFlags::RDONLY | OFlags::DIRECTORY, FileMode::empty()).unwrap();
    }
    let file = openat(&dir, "bottom.txt", OFlags::CREATE | OFlags::WRONLY, FileMode::RWXU).unwrap();
    std::io::Write::write_all(&mut fs::File::from(file), b"needle\n").unwrap();
}

#[test]
fn search_reaches_files_beyond_the_path_limit() {
    let dir = tempfile::tempdir().unwrap();
    deep(dir.path(), 700);
    let root = SearchRoot::open(&dir.path().canonicalize().unwrap()).unwrap();
    let found = grep(&root, "needle", Mode::Files, &|_| true, &SearchStop::never());
    assert_eq!(found.totals.total_files, 1);
    assert!(4096 < found.totals.files[0].rel.len());
    let plan = GlobPlan::parse("**/bottom.txt", dir.path(), None).unwrap();
    let run = GlobRun {
        cwd: Path::new("/"),
        filter: &WalkFilter::default(),
        limits: WalkLimits::default(),
        keep: 10,
        may_show: &|_, _| true,
        stop: &SearchStop::never(),
    };
    assert_eq!(run.run(&plan, dir.path(), &root).total, 1);
}

#[test]
fn root_replaced_by_symlink_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    fs::create_dir_all(top.join("ws/sub")).unwrap();
    fs::create_dir(top.join("out")).unwrap();
    fs::write(top.join("ws/sub/a.txt"), "needle\n").unwrap();
    fs::write(top.join("out/secret.txt"), "needle\n").unwrap();
    let root = SearchRoot::open(&top.join("ws")).unwrap();
    fs::rename(top.join("ws"), top.join("old")).unwrap();
    symlink(top.join("out"), top.join("ws")).unwrap();
    // The search uses the directory that was opened.
    let found = grep(&root, "needle", Mode::Files, &|_| true, &SearchStop::never());
    assert_eq!(
        found.totals.files.iter().map(|file| file.rel.clone()).collect::<Vec<_>>(),
        [b"sub/a.txt".to_vec()]
    );
    for path in ["ws", "ws/sub", "ws/secret.txt"] {
        assert!(SearchRoot::open(&top.join(path)).is_err(), "{path}");
        assert!(haft_search::open_file(&top.join(path)).is_err(), "{path}");
    }
}

#[test]
fn cancelled_search_ends_at_the_next_file() {
    let dir = tempfile::tempdir().unwrap();
    for index in 0..1500 {
        fs::write(dir.path().join(format!("f{index}")), "needle\n").unwrap();
    }
    let root = SearchRoot::open(&dir.path().canonicalize().unwrap()).unwrap();
    let stop = SearchStop::never();
    let asked = AtomicUsize::new(0);
    let may_show = |_: &[u8]| {
        asked.fetch_add(1, Ordering::Relaxed);
        stop.cancel();
        true
    };
    let found = grep(&root, "needle", Mode::Content, &may_show, &stop);
    assert_eq!(found.stopped, Some(SearchStopReason::Cancelled));
    assert!(asked.load(Ordering::Relaxed) <= WalkLimits::default().threads.get());
    assert_eq!(found.totals.total_files as usize, asked.load(Ordering::Relaxed));
}

#[test]
fn panicking_visitor_does_not_hang_the_walk() {
    let dir = tempfile::tempdir().unwrap();
    for index in 0..50 {
        fs::create_dir(dir.path().join(format!("d{index}"))).unwrap();
        fs::write(dir.path().join(format!("d{index}/f")), "needle\n").unwrap();
    }
    let root = SearchRoot::open(&dir.path().canonicalize().unwrap()).unwrap();
    let may_show = |rel: &[u8]| if rel == b"d7/f" { panic!("broken") } else { true };
    let search = || grep(&root, "needle", Mode::Files, &may_show, &SearchStop::never());
    // The search ends, and its result is not taken for complete.
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(search)).is_err());
}

#[test]
fn walk_skips_kernel_file_systems() {
    assert!(SearchRoot::open(Path::new("/proc")).is_err());
    let root = SearchRoot::open(Path::new("/")).unwrap();
    let run = TreeRun {
        cwd: Path::new("/"),
        filter: &WalkFilter::default(),
        limits: WalkLimits { max_depth: 1, ..WalkLimits::default() },
        depth: 1,
        keep: 5,
        may_show: &|_| true,
        stop: &SearchStop::never(),
    };
    let tree = run.run(&root);
    assert!(!tree.dirs.contains_key(&b"proc"[..]) && tree.dirs.contains_key(&b"usr"[..]));
    assert!(0 < tree.tally.mounts);
}

#[test]
fn unlimited_page_is_bounded_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("needle {}\n", "x".repeat(400));
    for index in 0..30 {
        fs::write(dir.path().join(format!("f{index:02}")), line.repeat(1000)).unwrap();
    }
    let root = SearchRoot::open(&dir.path().canonicalize().unwrap()).unwrap();
    let query =
        GrepQuery::new("needle", GrepOptions { mode: Mode::Content, ..GrepOptions::default() }).unwrap();
    let run = GrepRun {
        query: &query,
        cwd: Path::new("/"),
        filter: &WalkFilter::default(),
        limits: WalkLimits::default(),
        page: GrepPage { offset: 0, limit: usize::MAX },
        may_show: &|_| true,
        stop: &SearchStop::never(),
    };
    let totals = run.run(&root).totals;
    let bytes: usize = totals.files.iter().flat_map(|file| &file.lines).map(|line| line.text.len()).sum();
    assert_eq!((totals.total_files, totals.total_entries), (30, 30_000));
    assert!(totals.too_large && bytes < (9 << 20), "{bytes}");
    // The first files by path are complete.
    let names: Vec<&[u8]> = totals.files.iter().map(|file| &*file.rel).collect();
    assert!(names.is_sorted() && names.starts_with(&[b"f00", b"f01", b"f02"]));
    assert!(totals.files.iter().all(|file| file.lines.len() == 1000));
}
