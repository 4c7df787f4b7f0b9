use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_process::{
    OnParentKilled, ProcessOwner, ProcessPurpose, ProcessTree, ProcessTreeOptions, SpawnIntent, TreeIsolation,
};
use tokio::process::{Child, Command};

pub fn tree(
    owner: &Arc<ProcessOwner>,
    name: &str,
    script: &str,
    after_kill: OnParentKilled,
) -> (ProcessTree, Child) {
    let about = SpawnIntent { purpose: ProcessPurpose::Server, call: name, command: script, task: "" };
    let plan = ProcessTreeOptions { about, isolation: TreeIsolation::OwnSession, after_kill };
    let mut command = Command::new("bash");
    command.args(["-c", script]);
    ProcessTree::spawn(owner, plan, command).unwrap()
}

/// A script that starts one process per known way to escape, each writing its pid to a file in `dir`.
pub fn escaping(dir: &Path, names: &[&str]) -> String {
    let dir = dir.display();
    let script = |name: &&str| {
        let tell = format!("echo $$ > {dir}/{name}.new; mv {dir}/{name}.new {dir}/{name}");
        match *name {
            "child" => format!("bash -c '{tell}; sleep 600; :' &"),
            "deaf" => format!("bash -c 'trap \"\" TERM HUP; {tell}; while :; do sleep 1; done' &"),
            "session" => format!("setsid bash -c '{tell}; sleep 600; :' &"),
            "bare" => format!("env -i setsid -f bash -c '{tell}; sleep 600; :'"),
            other => panic!("no way {other}"),
        }
    };
    let started: Vec<String> = names.iter().map(script).collect();
    format!("{}\nwait; sleep 600", started.join("\n"))
}

pub const WAYS: [&str; 4] = ["child", "deaf", "session", "bare"];

/// Waits for the pid files of [`escaping`] and returns the pids.
pub fn numbers(dir: &Path, names: &[&str]) -> Vec<i32> {
    let read = |name: &&str| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok();
    let mut found = Vec::new();
    eventually("all have started", || {
        found = names.iter().filter_map(read).collect();
        found.len() == names.len()
    });
    found
}

/// Whether the process is alive and not a zombie.
pub fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("").starts_with(['Z', 'X']))
}

/// Polls until the condition is true; fails the test after a deadline.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}
