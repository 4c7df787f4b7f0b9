//! Counts system calls with `strace`.

use std::collections::{HashMap, HashSet};

use super::{CallOfTurn, Count, counts_here, echo, edit, read, run_below, search};

const ABOUT_FILES: &[&str] = &[
    "close",
    "fcntl",
    "fdatasync",
    "flock",
    "fstat",
    "fsync",
    "ftruncate",
    "getdents64",
    "linkat",
    "lseek",
    "mkdir",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pread64",
    "preadv2",
    "readlink",
    "readlinkat",
    "rename",
    "renameat2",
    "stat",
    "statx",
    "unlink",
    "unlinkat",
    "utimensat",
];
const ABOUT_PROCESSES: &[&str] = &["clone", "clone3", "execve", "fork", "vfork"];
const OF_THE_MACHINE: &[&str] = &["\"/proc", "</proc", "\"/sys", "</sys"];
/// Paths of settings files. They are checked again from time to time, so the number of checks depends on
/// the machine's speed; only the first check of each path counts.
const SETTINGS: &[&str] = &[
    "/.claude.json\"",
    "/.mcp.json\"",
    "/mcp.json\"",
    "/trust.json\"",
    "settings",
    "/agents",
    "/commands",
    "/output-styles",
    "/skills",
];
const READING: &[&str] = &["copy_file_range", "pread64", "preadv", "preadv2", "read", "readv"];
const WRITING: &[&str] = &["copy_file_range", "pwrite64", "pwritev", "pwritev2", "write", "writev"];
const SENDING: &[&str] = &["sendmsg", "sendto", "write", "writev"];

/// System calls of a run, or of a turn.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// System calls on files.
    files: f64,
    /// Processes created, and programs executed.
    processes: f64,
    /// Bytes read from files.
    read: f64,
    /// Bytes written to files.
    written: f64,
    /// Bytes sent over sockets.
    sent: f64,
}

impl Asked {
    fn of(trace: &str) -> Self {
        let mut asked = Self::default();
        // strace splits an interrupted call into two lines: the first has the descriptor, the second the
        // result.
        let mut begun: HashMap<(&str, &str), bool> = HashMap::new();
        let mut settings_seen: HashSet<(&str, &str)> = HashSet::new();
        for line in trace.lines() {
            // `12345 read(3</etc/hosts>, "…", 64) = 20`
            let Some((process, said)) =
                line.split_once(' ').map(|(process, said)| (process, said.trim_start()))
            else {
                continue;
            };
            let resumed = said.strip_prefix("<... ").and_then(|it| it.split_once(" resumed>"));
            let (name, is_file) = match (resumed, said.split_once('(')) {
                (Some((name, _)), _) => (name, begun.remove(&(process, name)).unwrap_or_default()),
                // The number of processes and devices visible here depends on the machine.
                (None, Some((_, rest))) if OF_THE_MACHINE.iter().any(|it| rest.contains(it)) => continue,
                (None, Some((name, rest))) => {
                    let place = rest.split('"').nth(1).unwrap_or_default();
                    let is_setting = SETTINGS.iter().any(|it| rest.contains(it));
                    if is_setting && !settings_seen.insert((name, place)) {
                        continue;
                    }
                    let is_file = rest.split_once('<').is_some_and(|(_, path)| path.starts_with('/'));
                    // The number of threads depends on timing.
                    if !rest.contains("CLONE_THREAD") {
                        asked.begin(name);
                    }
                    (name, is_file)
                }
                (None, None) => continue,
            };
            if said.ends_with("<unfinished ...>") {
                begun.insert((process, name), is_file);
            } else if let Some(bytes) = said.rsplit_once(" = ").and_then(|(_, it)| it.parse().ok()) {
                asked.end(name, is_file, bytes);
            }
        }
        asked
    }

    fn begin(&mut self, name: &str) {
        self.files += f64::from(u8::from(ABOUT_FILES.contains(&name)));
        self.processes += f64::from(u8::from(ABOUT_PROCESSES.contains(&name)));
    }

    fn end(&mut self, name: &str, is_file: bool, bytes: f64) {
        let all = |names: &[&str], wanted: bool| if wanted && names.contains(&name) { bytes } else { 0.0 };
        self.read += all(READING, is_file);
        self.written += all(WRITING, is_file);
        self.sent += all(SENDING, !is_file);
    }

    fn per_turn(few: Self, many: Self, turns: f64) -> Self {
        let per = |few: f64, many: f64| (many - few) / turns;
        Self {
            files: per(few.files, many.files),
            processes: per(few.processes, many.processes),
            read: per(few.read, many.read),
            written: per(few.written, many.written),
            sent: per(few.sent, many.sent),
        }
    }

    fn check(self, what: &str, was: Self) {
        Count::new("processes", self.processes, was.processes).check(what);
        Count::new("calls about files", self.files, was.files).check(what);
        Count::new("bytes read", self.read, was.read).check(what);
        Count::new("bytes written", self.written, was.written).check(what);
        Count::new("bytes sent", self.sent, was.sent).check(what);
    }
}

async fn asked(turns: usize, call: CallOfTurn) -> Asked {
    let trace = run_below(&["strace", "-f", "-qq", "-y", "-s", "0", "-o"], turns, call, |counted| {
        counted.display().to_string()
    });
    Asked::of(&String::from_utf8_lossy(&trace.await))
}

async fn check(what: &str, call: CallOfTurn, was: Asked) {
    if counts_here("strace", &["-f", "-o", "/dev/null"]) {
        let (few, many) = (asked(10, call).await, asked(30, call).await);
        let found = Asked::per_turn(few, many, 20.0);
        found.check(what, was);
    }
}

#[tokio::test]
async fn a_start() {
    if counts_here("strace", &["-f", "-o", "/dev/null"]) {
        let found = asked(0, read).await;
        found.check(
            "start and one Read",
            Asked { files: 593.0, processes: 1.0, read: 5_664.0, written: 6_835.0, sent: 58_600.0 },
        );
    }
}

#[tokio::test]
async fn a_turn_that_reads() {
    check("Read", read, Asked { files: 21.0, processes: 0.0, read: 790.0, written: 4_267.0, sent: 61_240.0 })
        .await;
}

#[tokio::test]
async fn a_turn_that_edits() {
    check(
        "Edit",
        edit,
        Asked { files: 109.0, processes: 0.0, read: 3_043.0, written: 6_213.0, sent: 39_800.0 },
    )
    .await;
}

#[tokio::test]
async fn a_turn_that_searches_eighty_files() {
    check(
        "Grep",
        search,
        Asked { files: 240.0, processes: 0.0, read: 31_641.0, written: 2_764.0, sent: 48_100.0 },
    )
    .await;
}

#[tokio::test]
async fn a_turn_that_runs_a_command() {
    check(
        "Bash",
        echo,
        Asked { files: 127.0, processes: 2.0, read: 5_109.0, written: 2_371.0, sent: 35_566.0 },
    )
    .await;
}

#[test]
fn a_trace_is_read() {
    let trace = "\
1 openat(AT_FDCWD</tmp>, \"a\", O_RDONLY) = 3</tmp/a>
1 read(3</tmp/a>, \"\"..., 64) = 20
2 read(4<socket:[1]>, \"\"..., 64) = 7
1 pread64(3</tmp/a>,  <unfinished ...>
2 write(5</tmp/b>, \"\"..., 9) = 9
1 <... pread64 resumed>\"\"..., 64, 0) = 30
2 sendto(4<socket:[1]>, \"\"..., 11, MSG_NOSIGNAL, NULL, 0) = 11
2 write(5</tmp/b>, \"\"..., 9) = -1 ENOSPC (No space left on device)
1 clone3({flags=CLONE_VM}, 88) = 3
1 clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = 4
1 openat(AT_FDCWD</tmp>, \"/proc/self/stat\", O_RDONLY) = 6</proc/1/stat>
1 read(6</proc/1/stat>, \"\"..., 64) = 40
1 +++ exited with 0 +++
";
    let Asked { files, processes, read, written, sent } = Asked::of(trace);
    assert_eq!([files, processes, read, written, sent], [2.0, 1.0, 50.0, 9.0, 11.0]);
}
