//! No process runs unnoticed: `haft tasks`, the end of a session, and what remains after `kill -9`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Child,
};

use common::{Haft, eventually, text};
use serde_json::{Value, json};

/// A session that stays open and answers line by line.
struct Open {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Open {
    fn new(haft: &Haft) -> Self {
        Self::in_mode(haft, "bypassPermissions")
    }

    fn in_mode(haft: &Haft, mode: &str) -> Self {
        let mut child = haft.spawn(&["tool", "run", "--permission-mode", mode]);
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn bash(&mut self, id: &str, input: Value) -> Value {
        self.call(id, "Bash", input)
    }

    fn call(&mut self, id: &str, name: &str, input: Value) -> Value {
        let line = json!({"id": id, "name": name, "input": input});
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.out.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    fn close(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn lives(pid: i64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("").starts_with(['Z', 'X']))
}

fn tasks(haft: &Haft) -> Vec<Value> {
    let listed = haft.ok(&["tasks", "--json"], "");
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn pids(tasks: &[Value]) -> Vec<i64> {
    let of = |task: &Value| task["processes"].as_array().unwrap().clone();
    tasks.iter().flat_map(of).map(|it| it["pid"].as_i64().unwrap()).collect()
}

/// Ways in which a command tries to escape its session.
const ESCAPES: [&str; 5] = [
    "nohup sleep 600 > /dev/null 2>&1 & echo $!",
    "(while :; do sleep 0.2; done) > /dev/null 2>&1 &",
    "setsid -f sleep 601 > /dev/null 2>&1",
    "python3 -c \"\nimport os, signal, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n[os.close(n) for n in (0, 1, 2)]\ntime.sleep(602)\n\"",
    "env -i setsid -f bash -c 'trap \"\" TERM HUP INT; while :; do sleep 0.3; done' > /dev/null 2>&1",
];

#[test]
fn everything_is_listed_and_ends_with_the_session() {
    let haft = Haft::new();
    let mut open = Open::new(&haft);
    for (number, command) in ESCAPES.iter().enumerate() {
        let report = open.bash(&format!("escape_{number}"), json!({ "command": command }));
        assert_eq!(report["is_error"], false, "{report}");
    }
    let background =
        open.bash("bg", json!({"command": "echo hello; sleep 603 & sleep 604", "run_in_background": true}));
    assert!(text(&background).contains("background"), "{background}");
    let listed = tasks(&haft);
    for number in 0..ESCAPES.len() {
        let id = format!("escape_{number}");
        let task = listed.iter().find(|it| it["call"] == id.as_str());
        assert!(task.is_some_and(|it| it["standing"] == "running"), "{id}: {listed:?}");
    }
    // Loops start and end processes all the time; compare only those that stay.
    let all = pids(&listed);
    assert!(ESCAPES.len() < all.len(), "{listed:?}");
    eventually("the output is there", || haft.ok(&["tasks", "output", "bg"], "").contains("hello"));
    haft.ok(&["tasks", "stop", "escape_2"], "");
    assert!(!tasks(&haft).iter().any(|it| it["call"] == "escape_2"));
    open.close();
    for pid in all {
        assert!(!lives(pid), "{pid} outlived its session");
    }
    assert_eq!(tasks(&haft), Vec::<Value>::new());
}

#[test]
fn move_beside_a_running_command_that_uses_the_target_is_denied() {
    let haft = Haft::new();
    let ws = haft.ws();
    for dir in ["d", "plain"] {
        std::fs::create_dir_all(ws.join(dir)).unwrap();
        std::fs::write(ws.join(dir).join("f"), "x").unwrap();
    }
    std::os::unix::fs::symlink("/etc", ws.join("d/l")).unwrap();
    let mut open = Open::in_mode(&haft, "acceptEdits");
    let line = json!({"command": "sleep 600; cat e/l/hostname", "run_in_background": true});
    let started = open.bash("bg", line);
    assert_eq!(started["is_error"], false, "{started}");
    let denied = open.bash("mv", json!({"command": "mv d e"}));
    assert_eq!(denied["is_error"], true, "{denied}");
    assert!(text(&denied).contains("still running"), "{denied}");
    assert!(ws.join("d/l").is_symlink());
    let moved = open.bash("other", json!({"command": "mv plain moved"}));
    assert_eq!(moved["is_error"], false, "{moved}");
    haft.ok(&["tasks", "stop", "bg"], "");
    let mut tries = 0;
    // The session is notified after the processes have ended.
    eventually("the command is gone and the move is allowed", || {
        tries += 1;
        let moved = open.bash(&format!("again{tries}"), json!({"command": "mv d e"}));
        moved["is_error"] == false
    });
    open.close();
}

#[test]
fn what_a_killed_session_left_is_found_and_ended_by_the_next() {
    let haft = Haft::new();
    let mut open = Open::new(&haft);
    for (number, command) in ESCAPES.iter().enumerate() {
        open.bash(&format!("escape_{number}"), json!({ "command": command }));
    }
    let kept = open.bash("kept", json!({"command": "setsid -f sleep 605 > /dev/null 2>&1", "detach": true}));
    assert_eq!(kept["is_error"], false, "{kept}");
    let known = tasks(&haft);
    let before = pids(&known);
    open.kill();
    let mut foreign = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let left = tasks(&haft);
    // Compare tasks, because the processes in some of them change all the time.
    assert_eq!(left.len(), known.len(), "{left:?}");
    let standing = |it: &Value| it["standing"].as_str().unwrap().to_owned();
    assert!(left.iter().all(|it| standing(it).starts_with("left by") || it["call"] == "kept"), "{left:?}");
    let mut next = Open::new(&haft);
    next.bash("hello", json!({"command": "true"}));
    eventually("the next session ends it", || tasks(&haft).len() == 1);
    let detached = tasks(&haft);
    assert_eq!((&detached[0]["call"], standing(&detached[0]).as_str()), (&json!("kept"), "detached"));
    assert!(foreign.try_wait().unwrap().is_none(), "a foreign process was ended");
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    next.close();
    haft.ok(&["tasks", "stop", "kept"], "");
    for pid in before {
        assert!(!lives(pid), "{pid}");
    }
}

#[test]
fn a_polite_end_ends_everything() {
    let haft = Haft::new();
    let mut open = Open::new(&haft);
    open.bash("one", json!({"command": ESCAPES[4]}));
    let all = pids(&tasks(&haft));
    assert!(!all.is_empty());
    let pid = rustix::process::Pid::from_child(&open.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    open.child.wait().unwrap();
    for pid in all {
        assert!(!lives(pid), "{pid}");
    }
}

#[test]
fn a_hook_that_runs_is_listed_with_its_owner_and_can_be_stopped() {
    let haft = Haft::new();
    let command = "setsid sleep 607 & sleep 606";
    let hook = json!({"type": "command", "command": command, "timeout": 600});
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]});
    haft.write_home(".haft/settings.json", &json!({ "hooks": hooks }).to_string());
    let mut open = Open::new(&haft);
    let waiting = std::thread::spawn(move || {
        let report = open.bash("gated", json!({"command": "echo ran"}));
        (open, report)
    });
    eventually("the hook is listed", || pids(&tasks(&haft)).len() == 3);
    let listed = tasks(&haft);
    let [task] = &listed[..] else { panic!("{listed:?}") };
    let seen = (&task["owner"], &task["standing"], &task["command"]);
    assert_eq!(seen, (&json!("hook"), &json!("running"), &json!(command)));
    let id = task["id"].as_str().unwrap();
    let shown = haft.ok(&["tasks"], "");
    assert!(shown.starts_with(&format!("hook {id}  running  pid ")), "{shown}");
    haft.ok(&["tasks", "stop", id], "");
    for pid in pids(&listed) {
        eventually("it ends", || !lives(pid));
    }
    let (open, report) = waiting.join().unwrap();
    assert!(report["is_error"].is_boolean(), "the call has a report: {report}");
    assert_eq!(tasks(&haft), Vec::<Value>::new());
    open.close();
}

/// A hook's process of a killed session is ended by the next session.
#[test]
fn a_hook_of_a_killed_session_is_ended_by_the_next() {
    let haft = Haft::new();
    let hook =
        json!({"type": "command", "command": "env -i setsid -f sleep 608; sleep 609; :", "timeout": 600});
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]});
    haft.write_home(".haft/settings.json", &json!({ "hooks": hooks }).to_string());
    let mut open = Open::new(&haft);
    let line = json!({"id": "gated", "name": "Bash", "input": {"command": "true"}});
    writeln!(open.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    eventually("the hook is listed", || pids(&tasks(&haft)).len() == 3);
    let before = pids(&tasks(&haft));
    open.kill();
    assert!(tasks(&haft)[0]["standing"].as_str().unwrap().starts_with("left by"));
    haft.write_home(".haft/settings.json", "{}");
    let mut next = Open::new(&haft);
    next.bash("hello", json!({"command": "true"}));
    for pid in before {
        eventually("the next session ends it", || !lives(pid));
    }
    next.close();
}

#[test]
fn a_server_that_runs_is_listed_with_its_owner_and_can_be_stopped() {
    let haft = Haft::new();
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../engine/mcp-client/tests/all/support/fake_server.py");
    let entry = json!({"command": "python3", "args": ["-IS", script, ""]});
    haft.ok(&["mcp", "add-json", "-s", "user", "helper", &entry.to_string()], "");
    let mut open = Open::new(&haft);
    let report = open.call("first", "mcp__helper__echo", json!({"text": "hello"}));
    assert_eq!(report["id"], "first", "{report}");
    eventually("the server is listed", || tasks(&haft).len() == 1);
    let listed = tasks(&haft);
    let seen = (&listed[0]["owner"], &listed[0]["id"], &listed[0]["standing"]);
    assert_eq!(seen, (&json!("server"), &json!("helper"), &json!("running")));
    assert!(listed[0]["command"].as_str().unwrap().contains("fake_server.py"), "{listed:?}");
    let shown = haft.ok(&["tasks"], "");
    assert!(shown.starts_with("server helper  running  pid "), "{shown}");
    haft.ok(&["tasks", "stop", "helper"], "");
    for pid in pids(&listed) {
        eventually("it ends", || !lives(pid));
    }
    open.close();
    assert_eq!(tasks(&haft), Vec::<Value>::new());
}
