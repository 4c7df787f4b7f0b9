//! Jobs with their files on a tool host; machines that reboot.

use std::{os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command};

use haft_testkit::haft_binary;
use serde_json::{Value, json};

use crate::{
    common::Haft,
    fleet::{
        harness::{FleetRig, WorkerProcess, bash},
        support::skip,
    },
};

fn push(rig: &FleetRig, turns: impl IntoIterator<Item = Value>) {
    turns.into_iter().for_each(|turn| rig.model.push(serde_json::from_value(turn).unwrap()));
}

/// A remote machine, reached through a fake `ssh`.
fn far_machine(rig: &mut FleetRig) -> Haft {
    let far = Haft::new();
    far.write_home(".haft/settings.json", &json!({"permissions": {"allow": ["Bash"]}}).to_string());
    let bin = PathBuf::from(haft_binary()).parent().unwrap().to_owned();
    let script = format!(
        "#!/bin/sh\necho connected >> {log}\nwhile [ \"$1\" != -- ]; do shift; done\nshift; shift\ncd {home}\n\
         exec env -i HOME={home} PATH={bin}:$PATH HAFT_TOOL_HOST_IDLE=60 sh -c \"exec $1\"\n",
        log = rig.path("connections").display(),
        home = far.home().display(),
        bin = bin.display(),
    );
    let ssh = rig.path("ssh");
    std::fs::write(&ssh, script).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    rig.variables.push((String::from("HAFT_SSH"), ssh.display().to_string()));
    far
}

/// Scenario 2: a worker is killed during a command on a tool host. The next worker waits for the same
/// process and gets its result.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_a_host_outlives_the_worker_that_asked_for_it() {
    let mut rig = FleetRig::new(json!([])).await;
    let far = far_machine(&mut rig);
    let line = "echo begin >> log; while [ ! -e go ]; do sleep 0.05; done; echo end >> log; echo result-4711";
    push(
        &rig,
        [
            json!({"when": {"tool_result": "result-4711"}, "times": "always", "reply": [{"text": "finished"}]}),
            json!({"when": {"tool_result": {"regex": "may be done in part|outcome unknown"}}, "times": "always",
               "reply": [{"text": "not sure"}]}),
            json!({"times": "always", "reply": [{"tool": {"name": "Bash", "input": {"command": line, "timeout": 600_000}}}]}),
        ],
    );
    let host = format!("b1=ssh://box{}", far.ws().display());
    let file = json!({"batch": "far", "defaults": {"workspace": {"host": host},
        "flags": {"permission-mode": "bypassPermissions"}}, "jobs": [{"prompt": "go"}]});
    rig.haft.write("jobs.json", &file.to_string());
    let worker = rig.mortal("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    rig.ok(&["map", "jobs.json"]);
    let log = || std::fs::read_to_string(far.ws().join("log")).unwrap_or_default();
    rig.until("the command runs", || log() == "begin\n").await;
    worker.kill();
    let connections = || std::fs::read_to_string(rig.path("connections")).unwrap_or_default().lines().count();
    let before = connections();
    let _next = rig.worker("b", &[]);
    rig.until("the next worker is connected", || before < connections()).await;
    far.write("go", "");
    rig.until("it ends", || rig.jobs().values().all(|it| it["state"] == "done")).await;
    assert_eq!(log(), "begin\nend\n");
    let result: Value = serde_json::from_str(rig.ok(&["results", "far", "--json"]).trim()).unwrap();
    assert_eq!(
        result["result"]["result"],
        "finished",
        "{}",
        rig.ok(&["logs", result["id"].as_str().unwrap()])
    );
    assert_eq!(result["owners"].as_array().unwrap().len(), 2);
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
    // Options about the worker's files make no sense with a tool host and are rejected.
    let wrong =
        json!({"batch": "far2", "jobs": [{"prompt": "go", "workspace": {"host": host}, "check": "true"}]});
    rig.haft.write("wrong.json", &wrong.to_string());
    let refused = rig.run(&["map", "wrong.json"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("on the tool host"), "{refused:?}");
    far.run(&["tool-host", "--stop"], "");
}

/// A worker in a mount namespace with another boot id, as after a reboot.
fn worker_of_another_boot(rig: &FleetRig, name: &str) -> Option<WorkerProcess> {
    let boot = rig.path("boot_id");
    std::fs::write(&boot, "5d4c3b2a-0000-4000-8000-00000000beef\n").unwrap();
    let mount = format!("mount --bind {} /proc/sys/kernel/random/boot_id", boot.display());
    let can = Command::new("unshare").args(["-m", "sh", "-c", &mount]).output();
    if !can.is_ok_and(|it| it.status.success()) {
        skip("no mount namespaces here: a new boot is not tried");
        return None;
    }
    let root = rig.path(&format!("root-{name}")).display().to_string();
    let usual = rig.command(&["worker", "--lease", "600s", "--slots", "20", "--root", &root]);
    let mut line = Command::new("unshare");
    line.args(["-m", "sh", "-c", &format!("{mount} && exec \"$0\" \"$@\"")]);
    line.arg(usual.get_program()).args(usual.get_args());
    line.env_clear().envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = usual.get_current_dir() {
        line.current_dir(dir);
    }
    let log = std::fs::File::create(rig.path(&format!("{name}.log"))).unwrap();
    Some(WorkerProcess(
        line.stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap(),
    ))
}

/// Scenario 12: the machine reboots with twenty jobs. Leases of workers from before the reboot are not
/// waited for, and no call runs twice.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_runs_go_on_after_a_reboot() {
    let rig = FleetRig::new(json!([])).await;
    let go = rig.path("go").display().to_string();
    let wait = crate::fleet::harness::until_there(&go);
    push(
        &rig,
        [
            json!({"when": {"tool_result": {"regex": "may be done in part|outcome unknown"}}, "times": "always",
               "reply": [{"text": "not sure"}]}),
            json!({"times": "always", "reply": [bash(&rig.effect(&wait))]}),
        ],
    );
    // Ten minutes: longer than the test would wait.
    let worker = rig.worker("a", &["--slots", "20", "--lease", "600s"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let rows: String = (0..20).map(|number| format!("r{number}\n")).collect();
    rig.haft.write("jobs.csv", &format!("repo\n{rows}"));
    rig.ok(&["map", "jobs.csv", "-p", "do {repo}", "--permission-mode", "bypassPermissions"]);
    rig.until("all run", || rig.effects().len() == 20).await;
    worker.kill();
    let Some(_next) = worker_of_another_boot(&rig, "b") else { return };
    rig.until("all end", || rig.jobs().values().all(|it| it["state"] == "done")).await;
    let mut effects = rig.effects();
    effects.sort();
    effects.dedup();
    assert_eq!((effects.len(), rig.effects().len()), (20, 20));
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
    std::fs::write(rig.path("go"), "").unwrap();
}
