//! Thousands of calls in one session: descriptors, threads, processes and memory must not grow.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::bench::release_binary;

/// Calls of each kind before the first measurement.
const WARM_UP: usize = 20;

/// Permitted memory growth per thousand calls in kB, for undo and the list of reads.
const GROWTH: u64 = 6_000;

/// Resources held by an idle process.
#[derive(Clone, Copy, Debug)]
struct ResourceUse {
    descriptors: usize,
    threads: u64,
    memory: u64,
    children: usize,
}

/// A session without a model that runs given calls.
struct Session {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let calls = args.first().map_or(Ok(3_000), |it| it.parse::<usize>());
    let calls = calls.map_err(|_| String::from("cargo xtask calls-soak [CALLS]"))?;
    let haft = release_binary()?;
    let place = std::env::temp_dir().join(format!("haft-calls-soak-{}", std::process::id()));
    let result = soak(&haft, &place, calls);
    fs::remove_dir_all(&place).ok();
    result
}

fn soak(haft: &Path, place: &Path, calls: usize) -> Result<(), String> {
    let said = |err: std::io::Error| err.to_string();
    let ws = place.join("ws");
    fs::create_dir_all(ws.join("src")).map_err(said)?;
    fs::write(ws.join("a.txt"), "one\n").map_err(said)?;
    for number in 0..30 {
        fs::write(ws.join(format!("src/f{number}.rs")), "fn main() {}\n".repeat(20)).map_err(said)?;
    }
    let mut session = Session::start(haft, place)?;
    let kinds = round(0, "").len();
    let mut before: Option<ResourceUse> = None;
    let mut task = String::new();
    let mut made = 0;
    for number in 0..calls.div_ceil(kinds) {
        if number == WARM_UP || number % 50 == 0 && before.is_some() {
            let now = session.holding()?;
            println!("{made} calls: {now:?}");
            before = before.or(Some(now));
        }
        for at in 0..kinds {
            // The id of this round's task is known only after it was started.
            let (call, fails) = round(number, &task).swap_remove(at);
            let report = session.call(&call)?;
            made += 1;
            if report["is_error"] != json!(fails) {
                return Err(format!("call {made}, {call}: {report}"));
            }
            if let Some(id) = report["data"]["backgroundTaskId"].as_str() {
                id.clone_into(&mut task);
            }
        }
    }
    let (before, now) = (before.ok_or("too few calls to compare")?, session.holding()?);
    println!("{made} calls: {now:?}");
    let grown = now.memory.saturating_sub(before.memory);
    let most = GROWTH * u64::try_from(made).unwrap_or(u64::MAX) / 1000;
    let flat = now.descriptors <= before.descriptors
        && now.threads <= before.threads + 4
        && now.children <= before.children
        && grown <= most;
    if flat { Ok(()) } else { Err(format!("not flat: {before:?} became {now:?} after {made} calls")) }
}

/// Returns calls of every kind, with whether each fails. The last one stops the task started by the one
/// before.
fn round(number: usize, task: &str) -> Vec<(Value, bool)> {
    let (old, new) = if number.is_multiple_of(2) { ("one", "two") } else { ("two", "one") };
    let call = |name: &str, input: Value| json!({"name": name, "input": input});
    let bash = |command: &str| call("Bash", json!({"command": command}));
    vec![
        (call("Read", json!({"file_path": "a.txt"})), false),
        (call("Edit", json!({"file_path": "a.txt", "old_string": old, "new_string": new})), false),
        (bash(&format!("echo {number}")), false),
        (bash("echo x >> log; exit 3"), true),
        (call("Grep", json!({"pattern": "main", "path": "src"})), false),
        (call("Glob", json!({"pattern": "**/*.rs"})), false),
        (call("Write", json!({"file_path": "n.txt", "content": format!("{number}\n")})), false),
        (bash("seq 1 20000"), false),
        (call("Nonsense", json!({})), true),
        (bash("awk 1 a.txt | head -1; ls > /dev/null"), false),
        (call("Bash", json!({"command": "sleep 600", "run_in_background": true})), false),
        (call("TaskStop", json!({"task_id": task})), false),
    ]
}

impl Session {
    fn start(haft: &Path, place: &Path) -> Result<Self, String> {
        let home: PathBuf = place.join("home");
        fs::create_dir_all(&home).map_err(|err| err.to_string())?;
        let mut process = Command::new(haft)
            .args(["tool", "run", "--permission-mode", "bypassPermissions"])
            .current_dir(place.join("ws"))
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|err| format!("{}: {err}", haft.display()))?;
        let input = process.stdin.take().ok_or("no input")?;
        let output = BufReader::new(process.stdout.take().ok_or("no output")?);
        Ok(Self { process, input, output })
    }

    fn call(&mut self, call: &Value) -> Result<Value, String> {
        writeln!(self.input, "{call}").map_err(|err| err.to_string())?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|err| err.to_string())?;
        serde_json::from_str(&line).map_err(|err| format!("{err}: {line}"))
    }

    fn holding(&self) -> Result<ResourceUse, String> {
        let proc = Path::new("/proc").join(self.process.id().to_string());
        let list = |path: PathBuf| fs::read_dir(path).map_err(|err| err.to_string());
        let status = fs::read_to_string(proc.join("status")).map_err(|err| err.to_string())?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        };
        let mut children = 0;
        for task in list(proc.join("task"))?.flatten() {
            let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            children += text.split_whitespace().count();
        }
        Ok(ResourceUse {
            descriptors: list(proc.join("fd"))?.count(),
            threads: number("Threads:").ok_or("no number of threads")?,
            memory: number("VmRSS:").ok_or("no size")?,
            children,
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
