//! The shared table of file paths, run with the real tools: forbidden paths are not reached, and no call
//! hangs.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "test code")]

use crate::common;
use haft_testkit::haft_binary;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::corpus;
use serde_json::{Value, json};

/// A row of the table in its own directory.
struct Row {
    row: Value,
    dir: tempfile::TempDir,
    top: PathBuf,
}

impl Row {
    fn new(base: &str, row: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let fill = |text: &str| {
            let names =
                [("$WSLINK", "wslink"), ("$WS", "ws"), ("$HOME", "home"), ("$OUT", "out"), ("$ADD", "add")];
            let place =
                |text: String, (name, sub): (&str, &str)| text.replace(name, top.join(sub).to_str().unwrap());
            names.into_iter().fold(text.to_owned(), place)
        };
        let setup: Vec<Value> = serde_json::from_str(&fill(base)).unwrap();
        let row: Value = serde_json::from_str(&fill(row)).unwrap();
        fs::create_dir_all(top.join("ws")).unwrap();
        fs::create_dir_all(top.join("home")).unwrap();
        setup.iter().chain(row["setup"].as_array().unwrap()).for_each(prepare);
        Self { row, dir, top }
    }

    fn input(&self) -> Value {
        let mut input = self.row["input"].clone();
        match self.row["tool"].as_str().unwrap() {
            "Write" => input["content"] = json!("written\n"),
            "Edit" => {
                let path = self.top.join("ws").join(input["file_path"].as_str().unwrap());
                // Opening a FIFO would block; only regular files have a first line.
                let text = if path.is_file() {
                    fs::read_to_string(&path).unwrap_or_default()
                } else {
                    String::new()
                };
                input["old_string"] = json!(text.lines().next().unwrap_or("nothing"));
                input["new_string"] = json!("edited");
            }
            _ => (),
        }
        input
    }

    fn start(&self) -> Session {
        let list = |name: &str| self.row["rules"][name].clone();
        let settings =
            json!({ "permissions": { "allow": list("allow"), "ask": list("ask"), "deny": list("deny") } });
        let mut command = Command::new(haft_binary());
        command.args(["tool", "run", "--permission-mode", self.row["mode"].as_str().unwrap()]);
        command.args(["--settings", &settings.to_string()]);
        for dir in self.row["additional_dirs"].as_array().unwrap() {
            command.args(["--add-dir", dir.as_str().unwrap()]);
        }
        let child = command
            .current_dir(self.row["cwd"].as_str().unwrap())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.top.join("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Session { child }
    }

    /// All files outside the workspace, to detect changes.
    fn outside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut todo = vec![self.top.join("out"), self.top.join("home"), self.top.join("add")];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() && !entry.file_name().to_string_lossy().starts_with(".haft") {
                    todo.push(entry.path());
                } else if kind.is_file() {
                    found.push((entry.path(), fs::read(entry.path()).unwrap()));
                }
            }
        }
        found.sort();
        found
    }

    /// The change made between Read and Edit.
    fn race(&self) {
        let Some(kind) = self.row["race"]["kind"].as_str() else { return };
        let path = self.top.join("ws").join(self.row["input"]["file_path"].as_str().unwrap());
        let other: Vec<u8> = fs::read(&path).unwrap_or_default().iter().map(|it| it ^ 1).collect();
        match kind {
            "modify_after_read" => {
                let times = fs::metadata(&path).unwrap().modified().unwrap();
                fs::write(&path, other).unwrap();
                if self.row["race"]["restore_mtime"] == true {
                    fs::File::options().write(true).open(&path).unwrap().set_modified(times).unwrap();
                }
            }
            "replace_inode_after_read" => {
                let new = path.with_extension("new");
                fs::write(&new, other).unwrap();
                fs::rename(new, path).unwrap();
            }
            _ => (),
        }
    }
}

/// A running `haft tool run` process.
struct Session {
    child: Child,
}

impl Session {
    fn call(&mut self, name: &str, input: &Value) -> Value {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{}", json!({ "name": name, "input": input })).unwrap();
        let mut line = String::new();
        // Standard output has one report per call and nothing else.
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line}"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

fn prepare(op: &Value) {
    let text = |key: &str| op[key].as_str().unwrap_or_default();
    let path = Path::new(text("path"));
    if let Some(parent) = path.parent().filter(|_| op["path"].is_string()) {
        fs::create_dir_all(parent).unwrap();
    }
    match text("op") {
        "dir" => fs::create_dir_all(path).unwrap(),
        "file" => fs::write(path, text("content")).unwrap(),
        "symlink" => symlink(text("target"), path).unwrap(),
        "hardlink" => fs::hard_link(text("target"), path).unwrap(),
        "fifo" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "socket" => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        "sparse" => fs::File::create(path).unwrap().set_len(1 << 30).unwrap(),
        "rawfile" => (),
        other => panic!("unknown op {other}"),
    }
}

/// Runs a row; returns what differs from the expectation.
fn problem(row: &Row) -> Option<String> {
    let before = row.outside();
    let tool = row.row["tool"].as_str().unwrap();
    let expect = row.row["expect"].as_str().unwrap();
    let input = row.input();
    let mut session = row.start();
    let is_change = matches!(tool, "Edit" | "Write");
    // A file that may be changed has to be read first; a denied change needs no read.
    if is_change && !matches!(expect, "ask" | "deny" | "not_allow") {
        session.call("Read", &row.row["input"]);
    }
    row.race();
    let started = Instant::now();
    let report = session.call(tool, &input);
    let elapsed = started.elapsed();
    // Ten times the row's limit: the machine may be busy, while a FIFO would block forever.
    let limit = Duration::from_millis(10 * row.row["max_ms"].as_u64().unwrap_or(6_000));
    let (failed, denied) = (report["is_error"] == true, report["error_kind"] == "denied");
    let fits = match expect {
        "ask" | "deny" | "not_allow" => denied || (expect == "not_allow" && failed),
        "error" => failed,
        "allow" => !denied,
        _ => true,
    };
    let writes_outside = is_change && expect != "allow" && before != row.outside();
    match () {
        () if !fits => Some(format!("want {expect}, got {report}")),
        () if limit < elapsed => Some(format!("took {elapsed:?}")),
        () if writes_outside => Some(String::from("something outside was changed")),
        () => None,
    }
}

#[test]
fn rows_about_reading_and_changing() {
    let (rows, base) = (corpus("file_paths.jsonl"), corpus("file_paths_base.json"));
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in rows.lines() {
        let row = Row::new(&base, line);
        if !matches!(row.row["tool"].as_str(), Some("Read" | "Edit" | "Write")) {
            continue;
        }
        count += 1;
        if let Some(problem) = problem(&row) {
            wrong.push(format!("{}: {problem}", row.row["id"]));
        }
        drop(row.dir);
    }
    assert!(0 < count);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
