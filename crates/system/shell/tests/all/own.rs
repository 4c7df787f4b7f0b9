#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{Rig, eventually, lives, read_pid};
use haft_shell::{
    own::{end_leftovers, leftovers},
    run::{JobSpec, Shell, ShellConfig},
};

const ROLE: &str = "HAFT_TEST_STATE";

/// The session that gets killed.
#[tokio::test]
#[ignore = "a child process of other tests"]
async fn role_session() {
    let state = std::env::var_os(ROLE).expect("started by a test of this file");
    let state = Path::new(&state);
    let mut config = ShellConfig::new("victim", state);
    config.capture = None;
    let shell = Shell::open(config).unwrap();
    let start = |number: usize, command: &str| {
        let spec = JobSpec {
            call: format!("call_{number}").into(),
            agent: "main".into(),
            command: command.replace("PID", &state.join(number.to_string()).display().to_string()),
            cwd: state.to_owned(),
            limit: Duration::from_secs(600),
            variables: Vec::new(),
            lifetime: haft_shell::own::Lifetime::Session,
            confinement: None,
            reading: None,
            precious: Vec::new(),
            channel: None,
            terminal: haft_shell::run::TerminalMode::None,
        };
        shell.start(spec).unwrap()
    };
    let mut jobs = Vec::new();
    for (number, command) in COMMANDS.iter().enumerate() {
        let job = start(number, command);
        if number == DETACHED {
            eventually("it is announced", || job.detach().unwrap());
        }
        jobs.push(job);
    }
    for number in 0..COMMANDS.len() {
        eventually("it runs", || read_pid(&state.join(number.to_string())).is_some());
    }
    std::fs::write(state.join("ready"), "").unwrap();
    std::future::pending::<()>().await;
}

const DETACHED: usize = 4;
const COMMANDS: [&str; 5] = [
    "nohup sleep 600 >/dev/null 2>&1 & echo $! > PID",
    "(while :; do sleep 0.1; done) & echo $! > PID",
    "setsid sh -c 'sh -c \"echo \\$\\$ > PID; trap : TERM; while :; do sleep 1; done\" & exit' & wait",
    "env -i setsid sh -c 'echo $$ > PID; exec sleep 600' & sleep 600",
    "sleep 600 & echo $! > PID",
];

fn victim(state: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "own::role_session", "--nocapture"]).env(ROLE, state);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn killed_session_leftovers_are_found_and_ended() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let mut foreign = Command::new("sleep").arg("600").spawn().unwrap();
    let mut killed = victim(state);
    eventually("the session runs", || state.join("ready").exists());
    let registries = Shell::registries(state);
    assert!(leftovers(&registries).is_empty(), "a living session is left alone");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let pids: Vec<i32> =
        (0..COMMANDS.len()).map(|it| read_pid(&state.join(it.to_string())).unwrap()).collect();
    let found = leftovers(&registries);
    for (number, pid) in pids.iter().enumerate() {
        let of_call = found.iter().find(|it| it.call == format!("call_{number}"));
        let of_call = of_call.unwrap_or_else(|| panic!("call {number} is not found"));
        assert!(of_call.processes.iter().any(|it| it.id.pid == *pid), "{of_call:?}");
        assert_eq!((of_call.detached, of_call.session.as_str()), (number == DETACHED, "victim"));
    }
    for leftover in found.iter().filter(|it| !it.detached) {
        assert!(leftover.end(Duration::from_secs(60)), "{leftover:?}");
    }
    for (number, pid) in pids.iter().enumerate() {
        assert_eq!(lives(*pid), number == DETACHED, "{number}");
    }
    assert!(foreign.try_wait().unwrap().is_none(), "others are left alone");
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    let found = leftovers(&registries);
    assert_eq!(found.iter().map(|it| it.call.as_str()).collect::<Vec<_>>(), ["call_4"]);
    assert!(found[0].end(Duration::from_secs(60)) && leftovers(&registries).is_empty());
    assert_eq!(std::fs::read_dir(&registries).unwrap().count(), 0, "nothing left to remember");
}

#[test]
fn truncated_registry_lists_complete_entries() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = victim(dir.path());
    eventually("the session runs", || dir.path().join("ready").exists());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let registries = Shell::registries(dir.path());
    let file = std::fs::read_dir(&registries).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&file).unwrap();
    let complete = |bytes: &[u8]| leftovers_of(bytes).len();
    let most = complete(&whole);
    assert_eq!(most, COMMANDS.len());
    for cut in (0..whole.len()).step_by(97) {
        let lines = whole[..cut].iter().filter(|it| **it == b'\n').count();
        assert!(complete(&whole[..cut]) <= lines.min(most), "{cut}");
    }
    let garbage = [&b"\0\0\0garbage\n"[..], &whole, b"{\"type\":\"call\",\"cal"].concat();
    assert_eq!(complete(&garbage), most);
    let ended = end_leftovers(&registries, Duration::from_secs(60));
    assert_eq!(ended.len(), COMMANDS.len() - 1);
    let kept = leftovers(&registries);
    assert!(kept.len() == 1 && kept[0].detached && kept[0].end(Duration::from_secs(60)));
}

fn leftovers_of(bytes: &[u8]) -> Vec<haft_shell::own::LiveProcesses> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.jsonl"), bytes).unwrap();
    leftovers(dir.path())
}

#[test]
fn registry_of_another_boot_is_ignored() {
    let cookie = format!("x:y:{:016x}", 7);
    let mut child = Command::new("sleep").arg("600").env("HAFT_CALL", &cookie).spawn().unwrap();
    let call =
        format!(r#"{{"type":"call","call":"y","cookie":"{cookie}","tag":null,"since":0,"command":"c"}}"#);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let head =
        |boot: &str| format!("{{\"type\":\"session\",\"id\":\"x\",\"boot\":\"{}\"}}\n{call}\n", boot.trim());
    assert_eq!(leftovers_of(head("another").as_bytes()).len(), 0);
    eventually("the child runs under its own name", || leftovers_of(head(&boot).as_bytes()).len() == 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn session_end_kills_all_but_detached_processes() {
    haft_shell::own::adopt_orphans().unwrap();
    let rig = Rig::new();
    let (kept, end) = rig.run("sleep 600 & sleep 0").await;
    let mut spec = rig.spec("(setsid sh -c 'trap \"\" TERM; sleep 600; sleep 600' &) ; sleep 600 & sleep 0");
    spec.call = "call_2".into();
    let other = rig.shell.start(spec).unwrap();
    let ended = other.ended().await;
    assert!(2 <= ended.left.len(), "{ended:?}");
    assert!(kept.detach().unwrap());
    let (shell, patience) = (rig.shell.clone(), Duration::from_secs(60));
    assert!(tokio::task::spawn_blocking(move || shell.owner().end(patience)).await.unwrap());
    assert!(lives(end.left[0].id.pid) && !ended.left.iter().any(|it| lives(it.id.pid)));
    assert!(rig.shell.owner().list().iter().all(|it| it.detached));
    kept.stop(haft_shell::run::Stop::Asked);
    kept.gone().await;
}
