//! Crashing writers and full disks: a reader sees the complete old or new content.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use haft_paths::{Durability, ModeOnReplace, PendingFile, replace_file, sweep_unfinished};

const ROLE: &str = "HAFT_TEST_REPLACE";
const LONG: usize = 300_000;

fn content(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes().repeat(LONG / 8)
}

/// The writer that gets killed.
#[test]
#[ignore = "a child process of other tests"]
fn role_writer() {
    let target = std::env::var_os(ROLE).expect("started by a test of this file");
    let target = Path::new(&target);
    for number in 0.. {
        let bytes = content(number);
        match number % 2 {
            0 => replace_file(target, &bytes, ModeOnReplace::Private, Durability::Whenever).unwrap(),
            _ => {
                let name = target.with_file_name(format!(".f.{number:032x}.haft-tmp"));
                let mut file = PendingFile::named(name).unwrap();
                std::io::Write::write_all(file.file(), &bytes).unwrap();
                file.take_place_of(target, Durability::Whenever).unwrap();
            }
        }
    }
}

fn role(name: &str, target: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", name, "--nocapture"])
        .env(ROLE, target)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Checks that `bytes` is one complete content and returns its number.
fn whole(bytes: &[u8]) -> u64 {
    let number = std::str::from_utf8(&bytes[..8]).unwrap().parse().unwrap();
    assert!(bytes == content(number), "a torn file");
    number
}

#[test]
fn killed_writer_leaves_complete_file_and_its_temporary_file_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("f");
    for round in 0..12 {
        let mut writer = role("replaced::role_writer", &target);
        let deadline = Instant::now() + Duration::from_secs(120);
        // Each round kills the writer after a different number of writes.
        while !fs::read(&target).is_ok_and(|bytes| round <= whole(&bytes)) {
            assert!(Instant::now() < deadline, "the writer does not write");
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        whole(&fs::read(&target).unwrap());
        sweep_unfinished(dir.path());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the file is left");
        fs::remove_file(&target).unwrap();
    }
}

/// A writer whose files may not grow, as on a full disk.
#[test]
#[ignore = "a child process of other tests"]
fn role_limited() {
    let target = std::env::var_os(ROLE).expect("started by a test of this file");
    let limit = rustix::process::Rlimit { current: Some(4096), maximum: Some(4096) };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    for durability in [Durability::Whenever, Durability::Content, Durability::ContentAndName] {
        let refused = replace_file(Path::new(&target), &content(7), ModeOnReplace::KeptOr(0o600), durability);
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::FileTooLarge);
    }
}

#[test]
fn write_beyond_size_limit_keeps_old_content() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("f");
    fs::write(&target, content(1)).unwrap();
    // The limit raises SIGXFSZ; ignoring it is inherited by the child.
    let exe = std::env::current_exe().unwrap();
    let script = "trap '' XFSZ; exec \"$0\" --ignored --exact replaced::role_limited --nocapture";
    let status = Command::new("sh")
        .args(["-c", script])
        .arg(exe)
        .env(ROLE, &target)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(whole(&fs::read(&target).unwrap()), 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
