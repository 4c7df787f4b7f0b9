//! Runs every line that would be allowed without asking in a scratch directory, and checks that neither
//! it nor the home directory changed.
#![allow(clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;
use crate::judging;

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use common::{Rig, text};
use judging::{Decision, Judge, Rules};

/// Programs that contact a server, or take seconds to start.
const ELSEWHERE: &[&str] = &[
    "apt",
    "cargo",
    "docker",
    "dpkg",
    "gh",
    "go",
    "java",
    "journalctl",
    "kubectl",
    "man",
    "npm",
    "pip",
    "rustup",
    "systemctl",
];

fn lines(table: &str) -> impl Iterator<Item = String> {
    table
        .lines()
        .filter(|line| !line.starts_with("# ") && !line.is_empty())
        .map(|line| line.replace('⏎', "\n").replace('␉', "\t").replace('␇', "\u{7}"))
}

fn furnish(work: &Path) {
    for (name, content) in [
        ("README.md", "# Read me\nstart\nTODO\nend\n"),
        ("notes.txt", "foo one\n# two\nerror three\n"),
        ("data.txt", "a:1:7\nb:2:9\n"),
        ("data.csv", "a,b\n1,2\n"),
        ("a.txt", "a\nb\n"),
        ("b.txt", "b\nc\n"),
        ("log.txt", "line\n"),
        ("list.txt", "a.txt\nb.txt\n"),
        ("f.json", "[{\"a\": \"x\"}]"),
        ("package.json", "{\"name\": \"p\", \"scripts\": {}, \"dependencies\": {\"d\": \"1\"}}"),
        ("config.yml", "a:\n  b: [1]\nname: n\nitems: []\n"),
        ("src/main.py", "import os\n"),
        ("src/x.rs", "fn main() {}\n"),
        ("tests/all/t.py", "import sys\n"),
    ] {
        std::fs::create_dir_all(work.join(name).parent().unwrap()).unwrap();
        std::fs::write(work.join(name), content).unwrap();
    }
}

type Picture = BTreeMap<PathBuf, (u32, (i64, i64), Vec<u8>)>;

/// Snapshot of a directory, except for the git index, which reading commands may refresh.
fn picture(dir: &Path) -> Picture {
    let mut out = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).unwrap().flatten() {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata().unwrap());
            if path.ends_with(".git/index") || path.ends_with(".git") && meta.is_file() {
                continue;
            }
            let time = if path.ends_with(".git") { (0, 0) } else { (meta.mtime(), meta.mtime_nsec()) };
            let content = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if meta.is_dir() {
                open.push(path.clone());
            }
            out.insert(path, (meta.mode(), time, content));
        }
    }
    out
}

/// Paths that changed.
fn changes(before: &Picture, after: &Picture) -> impl Iterator<Item = PathBuf> {
    let all: std::collections::BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let changed: Vec<PathBuf> =
        all.into_iter().filter(|it| before.get(*it) != after.get(*it)).cloned().collect();
    changed.into_iter()
}

#[tokio::test]
async fn allowed_corpus_lines_change_no_files() {
    let rig = Rig::new();
    let (work, home) = (rig.work(), rig.dir.path().join("home"));
    std::fs::create_dir(&home).unwrap();
    furnish(&work);
    rig.run("git init -q && git add -A && git -c user.name=a -c user.email=b commit -qm one && git tag v1")
        .await;
    let before = (picture(&work), picture(&home));
    let rules = Rules::default();
    let judge = Judge { rules: &rules, mode: "default", cwd: &work, home: &home };
    let all = lines(include_str!("tables/harmless.txt"))
        .chain(lines(include_str!("tables/harmless_more.txt")))
        .chain(lines(include_str!("tables/dangerous.txt")))
        .chain(lines(include_str!("tables/dangerous_more.txt")));
    let names =
        |line: &str| ELSEWHERE.iter().any(|name| line.split(['|', ' ', ';', '&']).any(|word| word == *name));
    let mut ran = 0;
    for line in all.filter(|line| !names(line) && judge.decide(line) == Decision::Allow) {
        let mut spec = rig.spec(&line);
        spec.limit = Duration::from_millis(1_500);
        spec.variables.push((String::from("HOME"), home.display().to_string()));
        let job = rig.shell.start(spec).unwrap();
        job.ended().await;
        // Stop background processes before comparing.
        job.stop(haft_shell::run::Stop::Asked);
        job.gone().await;
        ran += 1;
        let changed: Vec<PathBuf> =
            changes(&before.0, &picture(&work)).chain(changes(&before.1, &picture(&home))).collect();
        assert!(changed.is_empty(), "{line:?} changed {changed:?}: {}", text(&job));
    }
    assert!(300 < ran, "only {ran} were tried");
}
