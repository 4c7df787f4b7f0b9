//! A small tree, and a runner for lines in it.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::trace::Tracer;

/// Content of files that must not be shown.
const SECRET: &str = "OUTSIDE-SECRET";

pub struct Scratch {
    /// The program run as `awk`.
    pub awk: Cell<&'static str>,
    _dir: tempfile::TempDir,
    root: PathBuf,
    work: PathBuf,
    home: PathBuf,
}

const FILES: &[(&str, &str)] = &[
    ("work/a", "alpha one\nbeta two\n"),
    ("work/b", "b\na\n"),
    ("work/x", "x 1\ny 2\n"),
    ("work/d.json", "{\"a\": [1, 2]}\n"),
    ("work/sub/c", "gamma\n"),
    ("work/sub/e", "delta\n"),
    ("work/list", "../outside/secret\na\n"),
    ("work/z0", "../outside/secret\0"),
    ("work/P.awk", "BEGIN{system(\"touch P\")}\n"),
    ("work/P.sed", "w P\n"),
    ("outside/secret", "OUTSIDE-SECRET\n"),
    ("outside/plain", "nothing that tells\n"),
];

/// Metadata of everything that must not change, by path.
type Picture = BTreeMap<PathBuf, (u32, u64, i64, i64, u64)>;

impl Scratch {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let made = Self {
            awk: Cell::new("command awk"),
            work: root.join("work"),
            home: root.join("home"),
            root,
            _dir: dir,
        };
        made.restore();
        made
    }

    pub fn work(&self) -> &Path {
        &self.work
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Restores the initial state.
    pub fn restore(&self) {
        for name in ["work", "outside", "home"] {
            fs::remove_dir_all(self.root.join(name)).ok();
            fs::create_dir_all(self.root.join(name)).unwrap();
        }
        for (name, text) in FILES {
            fs::create_dir_all(self.root.join(name).parent().unwrap()).unwrap();
            fs::write(self.root.join(name), text).unwrap();
        }
        let evil = self.work.join("evil");
        fs::write(&evil, format!("#!/bin/sh\n: > {}\n", self.work.join("P").display())).unwrap();
        fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
        symlink("../outside/secret", self.work.join("link")).unwrap();
        symlink("../../outside", self.work.join("sub/out")).unwrap();
        self.shell("gzip -k b; xz -k b; bzip2 -k b; tar cf t.tar b sub; git init -q . && git add a b sub/c && git -c user.name=a -c user.email=b commit -qm one && git tag v1 && echo more >> b && touch -d 2020-01-01 *");
    }

    fn shell(&self, script: &str) {
        Command::new("bash")
            .args(["-c", script])
            .current_dir(&self.work)
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .output()
            .unwrap();
    }

    fn picture(&self) -> Picture {
        let mut out = BTreeMap::new();
        let mut open = vec![self.root.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let Ok(meta) = entry.path().symlink_metadata() else { continue };
                let path = entry.path();
                // Git refreshes its cached timestamps when reading.
                if path.ends_with(".git/index") || path.ends_with(".git") {
                    if meta.is_dir() {
                        open.push(path);
                    }
                    continue;
                }
                if meta.is_dir() {
                    open.push(path.clone());
                }
                let time = (meta.mtime(), meta.mtime_nsec());
                out.insert(path, (meta.mode(), meta.len(), time.0, time.1, meta.ino()));
            }
        }
        out
    }

    /// Runs lines one after the other and returns their effects besides reading.
    pub fn run(&self, lines: &[String]) -> Vec<String> {
        self.run_by(Command::new("bash"), lines)
    }

    /// Like [`Self::run`], under a tracer, which also sees effects without a visible trace.
    pub fn run_traced(&self, tracer: &Tracer, lines: &[String]) -> Vec<String> {
        let mut violations = self.run_by(tracer.command(), lines);
        violations.extend(tracer.violations(&self.root, &self.work));
        violations
    }

    fn run_by(&self, mut bash: Command, lines: &[String]) -> Vec<String> {
        let before = self.picture();
        let mut driver = bash
            .args(["--norc", "--noprofile", "-c", DRIVER])
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("LC_ALL", "C.UTF-8")
            .env("AWK_HERE", self.awk.get())
            .env("GIT_OPTIONAL_LOCKS", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = driver.stdin.take().unwrap();
        let text: Vec<u8> = lines.iter().flat_map(|line| line.bytes().chain([0])).collect();
        let writer = std::thread::spawn(move || drop(input.write_all(&text)));
        let printed = driver.wait_with_output().unwrap().stdout;
        writer.join().unwrap();
        let after = self.picture();
        let names: std::collections::BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
        let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
        let mut violations: Vec<String> = changed
            .map(|name| format!("changed {}", name.strip_prefix(&self.root).unwrap_or(name).display()))
            .collect();
        if printed.windows(SECRET.len()).any(|it| it == SECRET.as_bytes()) {
            violations.push(String::from("showed what is outside"));
        }
        violations
    }
}

/// Each line in its own resource-limited subshell, which behaves like a new shell.
const DRIVER: &str = r#"
ulimit -t 2; ulimit -v 2000000; ulimit -f 2000; exec 2>&1
awk() { $AWK_HERE "$@"; }
while IFS= read -r -d '' __line; do
  ( eval "unset __line; $__line" ) < /dev/null
done
"#;
