//! Kills the process or lets the disk be full at every single system call: each file has the old or the
//! new content, a batch is all or nothing, and no temporary file remains.
//!
//! `strace` injects the faults at the N-th call of a kind, for every N.
#![allow(
    clippy::type_complexity,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "test code"
)]

use crate::support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use haft_workspace::{CommitError, PlannedWrite, Workspace, text::Bytes};
use support::Scratch;

const OLD: &[u8] = b"old content, a few bytes\n";

fn new_content() -> Vec<u8> {
    b"new content, rather longer than the old one was\n".repeat(3000)
}

/// What the child process does, and with which files.
#[derive(Clone, Copy, Debug)]
enum Action {
    Replace,
    Create,
    HardLinks,
    Batch,
    Remove,
    /// A large file, which is written before its record and saved by a hard link.
    Large,
}

const ACTIONS: [Action; 6] =
    [Action::Replace, Action::Create, Action::HardLinks, Action::Batch, Action::Remove, Action::Large];

/// Repetitions of the content in a large file.
const LARGE: usize = 200_000;

impl Action {
    fn set_up(self, scratch: &Scratch) {
        let old = match self {
            Self::Create => return,
            Self::Replace | Self::Remove | Self::HardLinks | Self::Large => vec!["f"],
            Self::Batch => vec!["f", "g"],
        };
        for name in old {
            scratch.file(name, self.old_bytes());
        }
        if let Self::HardLinks = self {
            fs::hard_link(scratch.root.join("f"), scratch.root.join("linked")).unwrap();
        }
    }

    fn old_bytes(self) -> Vec<u8> {
        OLD.repeat(if matches!(self, Self::Large) { LARGE } else { 1 })
    }

    fn new_bytes(self) -> Vec<u8> {
        match self {
            Self::Large => [self.old_bytes().as_slice(), &new_content()].concat(),
            _ => new_content(),
        }
    }

    /// All files with their content before and after.
    fn files(self) -> Vec<(&'static str, Option<Vec<u8>>, Option<Vec<u8>>)> {
        let (old, new) = (Some(self.old_bytes()), Some(self.new_bytes()));
        match self {
            Self::Replace | Self::Large => vec![("f", old, new)],
            Self::Create => vec![("deep/er/f", None, new)],
            Self::HardLinks => vec![("f", old.clone(), new.clone()), ("linked", old, new)],
            Self::Batch => {
                vec![("f", old.clone(), new.clone()), ("fresh/h", None, new.clone()), ("g", old, new)]
            }
            Self::Remove => vec![("f", old, None)],
        }
    }

    fn run(self, workspace: &Workspace, root: &Path) -> Result<(), CommitError> {
        let failed = |error| CommitError { index: 0, error };
        let names: Vec<&str> =
            self.files().into_iter().map(|it| it.0).filter(|name| *name != "linked").collect();
        let paths: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
        let refs: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let locked = workspace.lock(&refs).map_err(failed)?;
        let mut bases = Vec::new();
        for path in &paths {
            bases.push(locked.read(path).map_err(failed)?.map(|it| it.0));
        }
        let content = self.new_bytes();
        let changes: Vec<PlannedWrite<'_>> = paths
            .iter()
            .zip(&bases)
            .map(|(path, base)| PlannedWrite {
                path: path.clone(),
                base: base.as_ref(),
                content: (!matches!(self, Self::Remove)).then(|| Bytes::whole(&content[..])),
                mode: None,
            })
            .collect();
        locked.commit(&changes, &support::origin("call")).map(drop)
    }
}

const DONE: i32 = 10;
const REFUSED: i32 = 11;

#[test]
#[ignore = "a child process of other tests"]
fn child() {
    let root = PathBuf::from(std::env::var_os("ROOT").expect("started by a test of this file"));
    let action = std::env::var("ACTION").unwrap();
    let action = ACTIONS.into_iter().find(|it| format!("{it:?}") == action).unwrap();
    let workspace = support::open(&root.parent().unwrap().join("state"), &root);
    let done = action.run(&workspace, &root).is_ok();
    std::process::exit(if done { DONE } else { REFUSED });
}

/// Runs the child with one fault. `None` if a signal killed it.
fn run_child(scratch: &Scratch, action: Action, fault: &str) -> Option<i32> {
    run_child_with(scratch, action, &[fault])
}

fn run_child_with(scratch: &Scratch, action: Action, faults: &[&str]) -> Option<i32> {
    let calls: Vec<&str> = faults.iter().map(|it| it.split(':').next().unwrap()).collect();
    let injected = faults.iter().flat_map(|it| [String::from("-e"), format!("inject={it}")]);
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={}", calls.join(","))])
        .args(injected)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "faults::child", "--test-threads=1"])
        .env("ROOT", &scratch.root)
        .env("ACTION", format!("{action:?}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    status.code()
}

fn have_strace() -> bool {
    let works = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", "inject=write:error=EIO:when=999", "true"])
        .stderr(Stdio::null())
        .status();
    let works = works.is_ok_and(|it| it.success());
    if !works {
        eprintln!("SKIPPED: strace is not installed or not permitted here");
    }
    works
}

fn state(scratch: &Scratch, action: Action) -> Vec<bool> {
    action
        .files()
        .into_iter()
        .map(|(name, old, new)| {
            let found = fs::read(scratch.root.join(name)).ok();
            assert!(found == old || found == new, "{action:?} {name}: half a file");
            found == new
        })
        .collect()
}

/// Checks the state that a later process finds.
fn check_after_recovery(scratch: &Scratch, action: Action, what: &str) -> bool {
    drop(scratch.workspace().lock(&[&scratch.root.join("f")]).unwrap());
    let state = state(scratch, action);
    let done = state[0];
    assert!(state.iter().all(|it| *it == done), "{what}: {state:?}: a part of the batch");
    let litter: Vec<String> = scratch.names().into_iter().filter(|it| it.contains(".haft-")).collect();
    assert!(litter.is_empty(), "{what}: {litter:?}");
    assert!(done || !scratch.root.join("fresh").exists(), "{what}: a directory stayed");
    let entries = scratch.workspace().journal().unwrap().entries().unwrap();
    assert_eq!(!entries.is_empty(), done, "{what}: the journal and the disk disagree");
    done
}

#[test]
fn change_killed_at_any_system_call_is_atomic() {
    if !have_strace() {
        return;
    }
    let calls = "write,pwrite64,fdatasync,fsync,linkat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,fchmod,flock";
    let mut outcomes = [0, 0];
    for (action, call) in
        ACTIONS.into_iter().flat_map(|action| calls.split(',').map(move |call| (action, call)))
    {
        for n in 1..=count_calls(call, action) {
            let scratch = Scratch::new();
            action.set_up(&scratch);
            let code = run_child(&scratch, action, &format!("{call}:signal=KILL:when={n}"));
            let what = format!("{action:?} killed at {call} number {n}");
            state(&scratch, action);
            let done = check_after_recovery(&scratch, action, &what);
            assert!(code.is_none() || (done && code == Some(DONE)), "{what}: {code:?}");
            outcomes[usize::from(done)] += usize::from(code.is_none());
        }
    }
    assert!(outcomes.iter().all(|it| 5 < *it), "faults on both sides of the change: {outcomes:?}");
}

#[test]
fn change_with_any_failing_system_call_is_atomic() {
    if !have_strace() {
        return;
    }
    let calls = "write,pwrite64,fdatasync,linkat,renameat2,rename,openat,openat2,mkdirat,fchmod,flock";
    let mut refused = 0;
    for (action, error) in [
        (Action::Replace, "ENOSPC"),
        (Action::Create, "ENOSPC"),
        (Action::Batch, "ENOSPC"),
        (Action::HardLinks, "EIO"),
        (Action::Remove, "EIO"),
        (Action::Large, "ENOSPC"),
    ] {
        // Most `openat` calls are from the loader; testing them with one action is enough.
        for call in calls.split(',').filter(|call| *call != "openat" || matches!(action, Action::Batch)) {
            for n in 1..=count_calls(call, action) {
                let scratch = Scratch::new();
                action.set_up(&scratch);
                let code = run_child(&scratch, action, &format!("{call}:error={error}:when={n}"));
                let what = format!("{action:?}: {call} number {n} says {error}");
                let state = state(&scratch, action);
                let litter = scratch.names().iter().any(|it| it.contains(".haft-"));
                match code {
                    Some(DONE) => assert!(state.iter().all(|it| *it), "{what}"),
                    Some(REFUSED) => {
                        refused += 1;
                        assert!(!state.iter().any(|it| *it), "{what}");
                        assert!(!litter, "{what}: litter");
                    }
                    // Without a directory for locks nothing is attempted.
                    _ => assert!(!state.iter().any(|it| *it), "{what}: {code:?}"),
                }
            }
        }
    }
    assert!(20 < refused, "{refused}");
}

/// File systems without rename flags, hard links or sync.
#[test]
fn changes_work_without_rename_flags_links_and_sync() {
    if !have_strace() {
        return;
    }
    for faults in [
        &["renameat2:error=EINVAL"][..],
        &["renameat2:error=ENOSYS"],
        &["renameat2:error=EPERM"],
        &["fdatasync:error=EINVAL"],
        &["linkat:error=EPERM"],
        &["linkat:error=ENOSYS"],
        &["getrandom:error=ENOSYS"],
        &["linkat:error=EOPNOTSUPP", "renameat2:error=EINVAL"],
        &["linkat:error=EPERM", "renameat2:error=ENOSYS", "fdatasync:error=EINVAL"],
    ] {
        for action in ACTIONS {
            // A new object for several names needs hard links.
            let needs_links =
                matches!(action, Action::HardLinks) && faults.iter().any(|it| it.starts_with("linkat"));
            let scratch = Scratch::new();
            action.set_up(&scratch);
            let code = run_child_with(&scratch, action, faults);
            let what = format!("{action:?} with {faults:?}");
            assert_eq!(code, Some(if needs_links { REFUSED } else { DONE }), "{what}");
            let state = state(&scratch, action);
            assert!(state.iter().all(|it| *it != needs_links), "{what}: {state:?}");
            let litter: Vec<String> =
                scratch.names().into_iter().filter(|it| it.contains(".haft-")).collect();
            assert!(litter.is_empty(), "{what}: {litter:?}");
            if needs_links {
                continue;
            }
            // And undo, on a file system that supports everything.
            let report = scratch
                .workspace()
                .undo(&haft_workspace::UndoTarget::Last, &support::origin("undo"))
                .unwrap();
            assert_eq!(report.conflicts, [], "{what}");
            for (name, old, _) in action.files() {
                assert!(fs::read(scratch.root.join(name)).ok() == old, "{what}: {name}");
            }
        }
    }
}

/// Number of calls of a kind in one thread: faults are counted per thread.
fn count_calls(call: &str, action: Action) -> usize {
    let scratch = Scratch::new();
    action.set_up(&scratch);
    let log = scratch.dir.path().join("calls");
    Command::new("strace")
        .args(["-f", "-qq", "-e", &format!("trace={call}"), "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "faults::child", "--test-threads=1"])
        .env("ROOT", &scratch.root)
        .env("ACTION", format!("{action:?}"))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let log = fs::read_to_string(log).unwrap_or_default();
    let calls = log.lines().filter(|line| line.contains(&format!("{call}(")));
    let threads: Vec<&str> = calls.filter_map(|line| line.split_whitespace().next()).collect();
    threads.iter().map(|thread| threads.iter().filter(|it| it == &thread).count()).max().unwrap_or(0)
}

/// A real full disk, for the user's tree and for the state directory.
#[test]
fn full_disk_keeps_files_and_reports_missing_undo() {
    let scratch = Scratch::new();
    let disk = scratch.dir.path().canonicalize().unwrap().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k,nr_inodes=40", "none"])
        .arg(&disk)
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|it| it.success()) {
        eprintln!("SKIPPED: cannot mount a small disk here");
        return;
    }
    let _unmount = Unmount(disk.clone());
    let root = disk.join("ws");
    fs::create_dir(&root).unwrap();
    let path = root.join("f");
    fs::write(&path, OLD).unwrap();
    // The tree is full, the state directory is not.
    let workspace = support::open(&scratch.state, &root);
    let big = vec![b'x'; 400 * 1024];
    for target in [&path, &root.join("new/file")] {
        let err = support::put(&workspace, target, &big).unwrap_err();
        assert!(err.error.is_no_space(), "{err}");
    }
    assert_eq!(fs::read(&path).unwrap(), OLD);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
    // The state directory is full, the tree is not: the change succeeds and reports that it cannot be
    // undone.
    let workspace = support::open(&disk.join("state"), &scratch.root);
    let large = scratch.file("large", vec![b'y'; 300 * 1024]);
    let done = support::put(&workspace, &large, b"small now").unwrap();
    assert_eq!(fs::read(&large).unwrap(), b"small now");
    assert!(done.entry.is_none());
    assert!(done.notes[0].contains("cannot be undone"), "{:?}", done.notes);
}

struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}
