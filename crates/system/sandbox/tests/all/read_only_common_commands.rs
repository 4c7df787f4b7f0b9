//! Common commands print the same in the read-only sandbox as without it.

use std::{
    ffi::CString,
    fs,
    io::Read as _,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_process::OwnedSpawnRequest;
use haft_sandbox::{ReadOnlyNetwork, ReadOnlyPolicy, ReadOnlySandbox, installed_programs};
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// Commands with varying output, or that contact a server.
const OTHERWISE: &[&str] = &[
    "apt",
    "date",
    "docker",
    "free",
    "gh",
    "go",
    "ip",
    "journalctl",
    "kubectl",
    "lsof",
    "man",
    "netstat",
    "npm",
    "pgrep",
    "pidof",
    "pip",
    "printenv",
    "ps",
    "pstree",
    "rustup",
    "shuf",
    "sleep",
    "ss",
    "systemctl",
    "tail",
    "top",
    "tty",
    "uptime",
    "vmstat",
    "env",
    "w",
    "who",
    "times",
    "whoami",
    "df",
    "dpkg",
    "cargo",
    "$RANDOM",
    "java",
    "jobs",
    "$$",
    "rustc",
    "time",
    "-P4",
    "-P2",
    "apropos",
    "whatis",
    "hostnamectl",
    "timedatectl",
    "localectl",
];

const EVERY_DAY: &str = include_str!("reading_usual.txt");
const TABLES: [&str; 2] = [
    include_str!("../../../bash-analysis/tests/all/tables/harmless.txt"),
    include_str!("../../../bash-analysis/tests/all/tables/harmless_more.txt"),
];

fn furnish(work: &Path, home: &Path) {
    for (name, text) in [
        ("README.md", "# Read me\nstart\nTODO one\nend\n"),
        ("notes.txt", "foo one\n# two\nerror three\n"),
        ("data.txt", "a:1:7\nb:2:9\n"),
        ("data.csv", "a,b\n1,2\n3,4\n"),
        ("a.txt", "a\nb\n"),
        ("b.txt", "b\nc\n"),
        ("log.txt", "line\n"),
        ("list.txt", "a.txt\nb.txt\n"),
        ("f.json", "[{\"a\": \"x\"}]"),
        ("package.json", "{\"name\": \"p\", \"scripts\": {}, \"dependencies\": {\"d\": \"1\"}}"),
        ("config.yml", "a:\n  b: [1]\nname: n\n"),
        ("src/main.py", "import os\n# TODO two\n"),
        ("src/x.rs", "fn main() {}\n"),
        ("src/lib/deep.rs", "pub fn deep() {}\n"),
        ("tests/t.py", "import sys\n"),
    ] {
        fs::create_dir_all(work.join(name).parent().unwrap()).unwrap();
        fs::write(work.join(name), text).unwrap();
    }
    let set_up = "git init -q -b main && git add -A && git -c user.name=a -c user.email=b commit -qm one && git tag v1 && echo more >> a.txt && echo new > new.txt && tar cf t.tar src && gzip -k b.txt && git stash list";
    std::process::Command::new("bash")
        .args(["-c", set_up])
        .current_dir(work)
        .env("HOME", home)
        .output()
        .unwrap();
}

struct Runner {
    work: PathBuf,
    home: PathBuf,
    scratch: PathBuf,
}

impl Runner {
    fn run(&self, line: &str, walls: Option<&Arc<ReadOnlySandbox>>) -> (String, Option<i32>) {
        let (ours, theirs) = rustix::pipe::pipe().unwrap();
        let text = |text: &[u8]| CString::new(text).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let variables = [
            format!("PATH={path}"),
            String::from("LC_ALL=C.UTF-8"),
            format!("HOME={}", self.home.display()),
            format!("TMPDIR={}", self.scratch.display()),
        ];
        // Limits the CPU time of slow commands.
        let limited = format!("ulimit -t 5\n{line}");
        let launch = OwnedSpawnRequest {
            program: text(b"/bin/bash"),
            argv: [b"bash".as_slice(), b"--norc", b"-c", limited.as_bytes()].map(text).to_vec(),
            environment: variables.iter().map(|it| text(it.as_bytes())).collect(),
            directory: text(self.work.as_os_str().as_bytes()),
            descriptors: vec![
                (OwnedFd::from(fs::File::open("/dev/null").unwrap()), 0),
                (theirs.try_clone().unwrap(), 1),
                (theirs, 2),
            ],
            terminal: None,
        };
        let pid = match walls {
            Some(walls) => walls.start(launch).unwrap(),
            None => {
                let pid = launch.start().unwrap();
                drop(launch);
                pid
            }
        };
        let mut printed = Vec::new();
        fs::File::from(ours).read_to_end(&mut printed).unwrap();
        let ended = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).unwrap().unwrap();
        (String::from_utf8_lossy(&printed).into_owned(), ended.exit_status())
    }
}

#[test]
fn common_commands_print_the_same_in_read_only_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let runner = Runner { work: root.join("work"), home: root.join("home"), scratch: root.join("scratch") };
    for dir in [&runner.work, &runner.home, &runner.scratch, &runner.home.join(".ssh")] {
        fs::create_dir_all(dir).unwrap();
    }
    furnish(&runner.work, &runner.home);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let policy = ReadOnlyPolicy {
        scratch: Some(runner.scratch.clone()),
        hide: vec![runner.home.join(".ssh")],
        programs: installed_programs(std::slice::from_ref(&runner.work), home.as_deref()),
        network: ReadOnlyNetwork::Off,
    };
    let walls = ReadOnlySandbox::build(policy).unwrap();
    let mut tried = 0;
    let mut wrong = Vec::new();
    let lines = EVERY_DAY.lines().chain(TABLES.iter().flat_map(|table| table.lines()));
    for line in lines.filter(|line| !line.starts_with("# ") && !line.is_empty()) {
        let line = line.replace('⏎', "\n").replace('␉', "\t").replace('␇', "\u{7}");
        let mut words = line.split([' ', '|', ';', '&', '(', '`', '/', '\n']);
        if words.any(|word| OTHERWISE.contains(&word)) {
            continue;
        }
        tried += 1;
        let (free, held) = (runner.run(&line, None), runner.run(&line, Some(&walls)));
        // Multi-threaded searches print in any order.
        let in_order = |(text, code): &(String, Option<i32>)| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            (lines, *code)
        };
        if in_order(&free) != in_order(&held) {
            wrong.push(format!("{line:?}\n  without: {free:?}\n  behind:  {held:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {tried} lines:\n{}", wrong.len(), wrong.join("\n"));
    assert!(500 < tried, "only {tried} were tried");
}
