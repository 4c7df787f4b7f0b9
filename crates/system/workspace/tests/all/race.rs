//! Many concurrent writers in several processes: no change that reported success is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use haft_workspace::{FileError, PlannedWrite, Workspace, text::Bytes};
use support::Scratch;

const LINES: usize = 4;

fn line(content: &[u8], index: usize) -> usize {
    let text = std::str::from_utf8(content).unwrap();
    text.lines().nth(index).unwrap().parse().unwrap()
}

/// Increments a number on a line of the file: read, change, commit.
fn increment(workspace: &Workspace, path: &Path, index: usize) -> Result<(), FileError> {
    let locked = workspace.lock(&[path])?;
    let (base, bytes) = locked.read(path)?.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<String> = text
        .lines()
        .enumerate()
        .map(
            |(at, line)| {
                if at == index { (line.parse::<usize>().unwrap() + 1).to_string() } else { line.to_owned() }
            },
        )
        .collect();
    let content = lines.join("\n") + "\n";
    let change = PlannedWrite {
        path: path.to_owned(),
        base: Some(&base),
        content: Some(Bytes::whole(content.as_bytes())),
        mode: None,
    };
    locked.commit(&[change], &support::origin("c")).map(drop).map_err(|err| err.error)
}

#[test]
#[ignore = "a child process of other tests"]
fn child() {
    let root = PathBuf::from(std::env::var_os("ROOT").expect("started by a test of this file"));
    let index: usize = std::env::var("INDEX").unwrap().parse().unwrap();
    let workspace = support::open(&root.parent().unwrap().join("state"), &root);
    let path = root.join("f");
    println!("ready");
    for request in std::io::stdin().lines() {
        request.unwrap();
        let answer = match increment(&workspace, &path, index) {
            Ok(()) => "ok",
            Err(err) if err.is_race() => "race",
            Err(err) => panic!("{err}"),
        };
        println!("answer {answer}");
        std::io::stdout().flush().unwrap();
    }
}

struct Writer {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
    done: usize,
}

impl Writer {
    fn start(scratch: &Scratch, index: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "race::child", "--nocapture"])
            .env("ROOT", &scratch.root)
            .env("INDEX", index.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut writer = Self { child, answers, done: 0 };
        assert!(writer.wait_for("ready").contains("ready"));
        writer
    }

    fn wait_for(&mut self, what: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "the writer died");
            if line.contains(what) {
                return line;
            }
        }
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    fn collect(&mut self) {
        let answer = self.wait_for("answer");
        self.done += usize::from(answer.contains("ok"));
    }
}

#[test]
fn racing_writers_lose_no_update() {
    let scratch = Scratch::new();
    let path = scratch.file("f", "0\n0\n0\n0\n");
    let mut processes = [Writer::start(&scratch, 0), Writer::start(&scratch, 1)];
    let workspace = scratch.workspace();
    let mut done = [0; 2];
    for _ in 0..1000 {
        processes.iter_mut().for_each(Writer::go);
        // Two more writers as threads of this process.
        let results = thread::scope(|scope| {
            let threads = [2, 3].map(|index| {
                scope.spawn({
                    let (workspace, path) = (&workspace, &path);
                    move || increment(workspace, path, index)
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        for (done, result) in done.iter_mut().zip(results) {
            match result {
                Ok(()) => *done += 1,
                Err(err) => assert!(err.is_race(), "{err}"),
            }
        }
        processes.iter_mut().for_each(Writer::collect);
    }
    let content = fs::read(&path).unwrap();
    let found: Vec<usize> = (0..LINES).map(|index| line(&content, index)).collect();
    assert_eq!(found, [processes[0].done, processes[1].done, done[0], done[1]]);
    assert!(found.iter().all(|it| 900 < *it), "locks serialise our own writers: {found:?}");
    for writer in &mut processes {
        drop(writer.child.stdin.take());
        writer.child.wait().unwrap();
    }
    assert_eq!(scratch.names(), ["f"]);
}

/// A writer without our locks that saves continuously: we notice, and no reader sees a partial file.
#[test]
fn concurrent_writer_without_locks_is_noticed() {
    let scratch = Scratch::new();
    let path = scratch.file("f", "0\n0\n0\n0\n");
    let stop = AtomicBool::new(false);
    let (mut ours, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let content = fs::read(&path).unwrap();
                assert_eq!(String::from_utf8(content.clone()).unwrap().lines().count(), LINES);
                let temp = scratch.root.join("foreign-temp");
                fs::write(&temp, format!("{}\n{}\n0\n0\n", line(&content, 0) + 1, line(&content, 1)))
                    .unwrap();
                fs::rename(&temp, &path).unwrap();
            }
        });
        let workspace = scratch.workspace();
        while ours < 3 || refused < 3 {
            match increment(&workspace, &path, 1) {
                Ok(()) => ours += 1,
                Err(err) if err.is_race() => refused += 1,
                Err(err) => panic!("{err}"),
            }
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(scratch.names(), ["f"]);
}

/// A lock ends with its owner.
#[test]
fn lock_ends_with_its_owner() {
    let scratch = Scratch::new();
    let path = scratch.file("f", "0\n0\n0\n0\n");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "race::lock_holder", "--nocapture"])
        .env("ROOT", &scratch.root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("locked") {
        text.clear();
        assert_ne!(answers.read_line(&mut text).unwrap(), 0);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let started = std::time::Instant::now();
    increment(&scratch.workspace(), &path, 0).unwrap();
    assert!(started.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
#[ignore = "a child process of other tests"]
fn lock_holder() {
    let root = PathBuf::from(std::env::var_os("ROOT").expect("started by a test of this file"));
    let workspace = support::open(&root.parent().unwrap().join("state"), &root);
    let _locked = workspace.lock(&[&root.join("f")]).unwrap();
    println!("locked");
    loop {
        thread::park();
    }
}

/// A symlink replaces a directory while it is being created: nothing is written behind it.
#[test]
fn symlink_replacing_a_parent_is_never_followed() {
    let scratch = Scratch::new();
    let outside = scratch.dir.path().canonicalize().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    let workspace = scratch.workspace();
    let (parent, file) = (scratch.root.join("p"), scratch.root.join("p/q/r.txt"));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::os::unix::fs::symlink(&outside, &parent).ok();
                fs::remove_file(&parent).ok();
            }
        });
        let mut refused = 0;
        for _ in 0..300 {
            refused += usize::from(support::put(&workspace, &file, b"x").is_err());
            fs::remove_dir_all(&parent).ok();
        }
        stop.store(true, Ordering::Relaxed);
        refused
    });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}
