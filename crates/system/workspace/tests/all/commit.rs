//! What a careful editor preserves.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::support;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    time::{Duration, Instant},
};

use haft_workspace::{FileError, FileKind, OpenFile, PlannedWrite, text::Bytes};
use support::{Scratch, is_root, put};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn commit_preserves_mode_and_attributes() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    for wanted in [0o644, 0o600, 0o755, 0o4755, 0o640] {
        let path = scratch.file("f", "old");
        fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
        let with_xattr =
            rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
        put(&workspace, &path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(mode(&path), wanted, "{wanted:o}");
        if with_xattr {
            let mut value = [0; 16];
            let len = rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap();
            assert_eq!(&value[..len], b"kept");
        } else {
            eprintln!("SKIPPED: no user attributes on this file system");
        }
    }
    assert_eq!(scratch.names(), ["f"]);
}

#[test]
fn new_file_gets_default_permissions_and_parent_directories() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let setgid = scratch.root.join("shared");
    fs::create_dir(&setgid).unwrap();
    fs::set_permissions(&setgid, fs::Permissions::from_mode(0o2775)).unwrap();
    let path = setgid.join("a/b/c.txt");
    put(&workspace, &path, b"x").unwrap();
    let plain = scratch.root.join("plain");
    fs::write(&plain, "").unwrap();
    assert_eq!(mode(&path), mode(&plain));
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o2000, 0o2000);
}

#[test]
fn commit_preserves_owner() {
    if !is_root() {
        eprintln!("SKIPPED: needs root");
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.file("f", "old");
    std::os::unix::fs::chown(&path, Some(1234), Some(2345)).unwrap();
    put(&scratch.workspace(), &path, b"new").unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid()), (1234, 2345));
}

#[test]
fn hard_links_inside_workspace_are_preserved() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "old");
    fs::create_dir(scratch.root.join("sub")).unwrap();
    for other in ["b", "sub/c"] {
        fs::hard_link(&path, scratch.root.join(other)).unwrap();
    }
    let done = put(&scratch.workspace(), &path, b"new").unwrap();
    assert_eq!(done.notes, Vec::<String>::new());
    let inode = fs::metadata(&path).unwrap().ino();
    for name in ["a", "b", "sub/c"] {
        let path = scratch.root.join(name);
        assert_eq!(fs::read(&path).unwrap(), b"new", "{name}");
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode, "{name}");
    }
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 3);
    assert_eq!(scratch.names(), ["a", "b", "sub", "sub/c"]);
}

#[test]
fn hard_link_outside_workspace_keeps_old_content() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "old");
    let outside = scratch.dir.path().join("outside");
    fs::hard_link(&path, &outside).unwrap();
    let done = put(&scratch.workspace(), &path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read(&outside).unwrap(), b"old");
    assert!(done.notes[0].contains("outside of the workspace"), "{:?}", done.notes);
}

#[test]
fn read_only_file_is_refused_also_for_root() {
    let scratch = Scratch::new();
    let path = scratch.file("f", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let err = put(&scratch.workspace(), &path, b"new").unwrap_err();
    assert!(matches!(err.error, FileError::ReadOnly { .. }), "{err}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(scratch.names(), ["f"]);
}

#[test]
fn special_files_are_refused_without_blocking() {
    let scratch = Scratch::new();
    let fifo = scratch.root.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let socket = scratch.root.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let proc = fs::canonicalize("/proc/self").unwrap();
    let workspace = scratch.workspace();
    let started = Instant::now();
    for (path, want) in [
        (fifo.as_path(), FileKind::Fifo),
        (&socket, FileKind::Socket),
        (Path::new("/dev/zero"), FileKind::Device),
        (Path::new("/dev/null"), FileKind::Device),
        (&scratch.root, FileKind::Directory),
        (&proc.join("mem"), FileKind::Kernel),
        (&proc.join("status"), FileKind::Kernel),
    ] {
        for error in [OpenFile::open(path).unwrap_err(), put(&workspace, path, b"x").unwrap_err().error] {
            match error {
                FileError::NotRegular { kind, .. } => assert_eq!(kind, want, "{path:?}"),
                other => panic!("{path:?}: {other}"),
            }
        }
    }
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn commit_never_follows_symlinks() {
    let scratch = Scratch::new();
    let outside = scratch.dir.path().canonicalize().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "s").unwrap();
    symlink(&outside, scratch.root.join("dir")).unwrap();
    symlink(outside.join("secret"), scratch.root.join("link")).unwrap();
    symlink("gone", scratch.root.join("dangling")).unwrap();
    let workspace = scratch.workspace();
    for name in ["dir/secret", "link", "dir/new", "dangling", "dir/a/b/new"] {
        let path = scratch.root.join(name);
        let err = put(&workspace, &path, b"x").unwrap_err();
        assert!(matches!(err.error, FileError::Moved { .. }), "{name}: {err}");
    }
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"s");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn change_based_on_other_content_is_refused() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    type Meddle = fn(&Path);
    let replace: Meddle = |path| {
        fs::write(path.with_extension("other"), "xxx").unwrap();
        fs::rename(path.with_extension("other"), path).unwrap();
    };
    let same_size_and_times: Meddle = |path| {
        let times = fs::metadata(path).unwrap();
        fs::write(path, "xxx").unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(times.modified().unwrap()).unwrap();
    };
    let rows: [(&str, Meddle); 4] = [
        ("rewritten", |path| fs::write(path, "xxx").unwrap()),
        ("replaced", replace),
        ("same times", same_size_and_times),
        ("removed", |path| fs::remove_file(path).unwrap()),
    ];
    for (name, meddle) in rows {
        let path = scratch.file("f", "old");
        let locked = workspace.lock(&[&path]).unwrap();
        let (base, _) = locked.read(&path).unwrap().unwrap();
        meddle(&path);
        let found = fs::read(&path).ok();
        let change = PlannedWrite {
            path: path.clone(),
            base: Some(&base),
            content: Some(Bytes::whole(&b"new"[..])),
            mode: None,
        };
        let err = locked.commit(&[change], &support::origin("c")).unwrap_err();
        assert!(matches!(err.error, FileError::Changed { .. }), "{name}: {err}");
        assert_eq!(fs::read(&path).ok(), found, "{name}");
        fs::remove_file(&path).ok();
    }
    // Writing the same bytes is not a change.
    let path = scratch.file("f", "old");
    let locked = workspace.lock(&[&path]).unwrap();
    let (base, _) = locked.read(&path).unwrap().unwrap();
    replace(&path);
    fs::write(&path, "old").unwrap();
    let change = PlannedWrite {
        path: path.clone(),
        base: Some(&base),
        content: Some(Bytes::whole(&b"new"[..])),
        mode: None,
    };
    locked.commit(&[change], &support::origin("c")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(scratch.names(), ["f"]);
}

#[test]
fn creating_an_existing_file_is_refused() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let path = scratch.root.join("f");
    let locked = workspace.lock(&[&path]).unwrap();
    assert!(locked.read(&path).unwrap().is_none());
    fs::write(&path, "theirs").unwrap();
    let change =
        PlannedWrite { path: path.clone(), base: None, content: Some(Bytes::whole(&b"new"[..])), mode: None };
    assert!(matches!(
        locked.commit(&[change], &support::origin("c")).unwrap_err().error,
        FileError::Changed { expected: None, .. }
    ));
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
}

#[test]
fn a_batch_is_all_or_nothing() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    let good = scratch.file("good", "1");
    let read_only = scratch.file("read_only", "2");
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o400)).unwrap();
    let new = scratch.root.join("fresh/dir/new");
    let locked = workspace.lock(&[&good, &read_only, &new]).unwrap();
    let bases = [
        Some(locked.read(&good).unwrap().unwrap().0),
        None,
        Some(locked.read(&read_only).unwrap().unwrap().0),
    ];
    let changes: Vec<PlannedWrite<'_>> = [&good, &new, &read_only]
        .into_iter()
        .zip(&bases)
        .map(|(path, base)| PlannedWrite {
            path: path.clone(),
            base: base.as_ref(),
            content: Some(Bytes::whole(&b"changed"[..])),
            mode: None,
        })
        .collect();
    let err = locked.commit(&changes, &support::origin("c")).unwrap_err();
    assert_eq!(err.index, 2);
    assert_eq!(fs::read(&good).unwrap(), b"1");
    assert_eq!(fs::read(&read_only).unwrap(), b"2");
    assert_eq!(scratch.names(), ["good", "read_only"]);
}

/// A bind mount on a file cannot be replaced, so it is overwritten in place.
#[test]
fn mount_point_is_overwritten_in_place() {
    let scratch = Scratch::new();
    let target = scratch.file("target", "old content\n");
    let source = scratch.dir.path().join("source");
    fs::write(&source, "old content\n").unwrap();
    let mounted = std::process::Command::new("mount").arg("--bind").arg(&source).arg(&target).status();
    if !mounted.is_ok_and(|it| it.success()) {
        eprintln!("SKIPPED: cannot mount");
        return;
    }
    let done = put(&scratch.workspace(), &target, b"new and longer content\n");
    std::process::Command::new("umount").arg(&target).status().unwrap();
    done.unwrap();
    assert_eq!(fs::read(&source).unwrap(), b"new and longer content\n");
    assert_eq!(fs::read(&target).unwrap(), b"old content\n");
}

/// A writable file of another user keeps its owner, as does a file in a read-only directory.
#[test]
fn file_of_another_user_is_overwritten_in_place() {
    if !is_root() {
        eprintln!("SKIPPED: needs root");
        return;
    }
    let scratch = Scratch::new();
    let foreign = scratch.file("foreign", "old");
    let shut = scratch.file("shut/file", "old");
    let hidden = scratch.file("hidden", "old");
    for path in [&scratch.root, scratch.dir.path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o644)).unwrap();
    let inode = fs::metadata(&foreign).unwrap().ino();
    let status = support_child("commit::foreign_writer", &[("ROOT", scratch.root.as_os_str())], Some(65534));
    assert!(status.success());
    assert_eq!(fs::read(&foreign).unwrap(), b"new");
    assert_eq!(fs::read(&shut).unwrap(), b"new");
    assert_eq!(fs::read(&hidden).unwrap(), b"old");
    let found = fs::metadata(&foreign).unwrap();
    assert_eq!((found.uid(), found.ino()), (0, inode));
}

#[test]
#[ignore = "a child process of other tests"]
fn foreign_writer() {
    let root = std::path::PathBuf::from(std::env::var_os("ROOT").expect("started by a test of this file"));
    let workspace = support::open(&root.parent().unwrap().join("state"), &root);
    put(&workspace, &root.join("foreign"), b"new").unwrap();
    put(&workspace, &root.join("shut/file"), b"new").unwrap();
    let err = put(&workspace, &root.join("hidden"), b"new").unwrap_err();
    assert!(matches!(err.error, FileError::Denied { .. }), "{err}");
}

fn support_child(test: &str, env: &[(&str, &std::ffi::OsStr)], uid: Option<u32>) -> std::process::ExitStatus {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture"]).envs(env.iter().copied());
    // The binary may lie where that user cannot go; an open file can be run
    // from anywhere.
    if let Some(uid) = uid {
        command = std::process::Command::new("setpriv");
        command.args([format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".into()]);
        let copy = std::env::temp_dir().join(format!("haft-test-{}", std::process::id()));
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        command.arg(&copy).args(["--ignored", "--exact", test]).envs(env.iter().copied());
        command.current_dir("/").process_group(0);
        let status = command.status().unwrap();
        fs::remove_file(copy).unwrap();
        return status;
    }
    command.status().unwrap()
}
