//! Scenarios with many machines, simulated by real workers on one.

use std::process::{Command, Stdio};

use haft_fleet::FleetClient;
use haft_fleet_store::{FleetAddress, FleetName, FleetStore, JobFilter, RunId};
use serde_json::{Value, json};

use crate::fleet::harness::{FleetRig, WorkerProcess, bash, is_gone, long_sleep, until_there};

fn push(rig: &FleetRig, turns: impl IntoIterator<Item = Value>) {
    turns.into_iter().for_each(|turn| rig.model.push(serde_json::from_value(turn).unwrap()));
}

async fn store_of(rig: &FleetRig) -> FleetStore {
    FleetStore::open(&FleetAddress::parse(&rig.store).unwrap()).await.unwrap()
}

/// Scenario 12: an urgent job gets the next slot, before thousands of earlier ones.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_urgent_is_next() {
    let rig = FleetRig::new(json!([])).await;
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    let wait = format!("touch {began}; {}; echo done-step-1", until_there(&go));
    push(
        &rig,
        [
            json!({"when": {"last_user": {"equals": "hold"}}, "reply": [bash(&wait)]}),
            json!({"times": "always", "reply": [{"text": "yes"}]}),
        ],
    );
    let worker = rig.worker("a", &["--slots", "1"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    rig.submit("hold", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    let rows: String = (0..5_000).map(|number| format!("r{number}\n")).collect();
    rig.haft.write("jobs.csv", &format!("repo\n{rows}"));
    rig.ok(&["map", "jobs.csv", "-p", "do {repo}", "--class", "bulk"]);
    let urgent = rig.submit("now", &["--class", "urgent"]);
    std::fs::write(rig.path("go"), "").unwrap();
    rig.until("it ends", || rig.state(&urgent) == "done").await;
    worker.kill();
    let jobs = rig.jobs();
    let begun = |it: &Value| it["started_at"].as_str().map(|it| it.parse::<jiff::Timestamp>().unwrap());
    let at = begun(&jobs[&urgent]).unwrap();
    let before =
        jobs.values().filter(|it| it["class"] == "bulk" && begun(it).is_some_and(|other| other < at));
    assert_eq!((before.count(), jobs.len()), (0, 5_002));
}

/// Scenario 12: all workers fail at once. All jobs continue, and no call runs twice.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_runs_survive_the_machine_that_had_them() {
    let rig = FleetRig::new(json!([])).await;
    let go = rig.path("go").display().to_string();
    let wait = until_there(&go);
    push(
        &rig,
        [
            json!({"when": {"tool_result": {"regex": "may be done in part|outcome unknown"}}, "times": "always",
               "reply": [{"text": "not sure"}]}),
            json!({"times": "always", "reply": [bash(&rig.effect(&wait))]}),
        ],
    );
    let worker = rig.mortal("a", &["--slots", "20"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let rows: String = (0..20).map(|number| format!("r{number}\n")).collect();
    rig.haft.write("jobs.csv", &format!("repo\n{rows}"));
    rig.ok(&["map", "jobs.csv", "-p", "do {repo}", "--permission-mode", "bypassPermissions"]);
    rig.until("all run", || rig.effects().len() == 20).await;
    worker.kill();
    let _next = rig.worker("b", &["--slots", "20"]);
    rig.until("all end", || rig.jobs().values().all(|it| it["state"] == "done")).await;
    let mut effects = rig.effects();
    effects.sort();
    effects.dedup();
    assert_eq!((effects.len(), rig.effects().len()), (20, 20));
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
    std::fs::write(rig.path("go"), "").unwrap();
}

/// Scenario 15: a worker too old for a log or a job reports that and leaves it to others.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_worker_leaves_newer_runs_alone() {
    let rig = FleetRig::new(json!([{"times": "always", "reply": [{"text": "yes"}]}])).await;
    let store = store_of(&rig).await;
    let head = |id: &str| {
        json!({"id": id, "tenant": "default", "pool": "default", "class": "normal", "batch": null, "dedup": null,
               "concurrency_key": null, "labels": {}})
    };
    let owner = json!({"type": "fleet", "fleet": {"kind": "owner", "format": 99, "haft": "99.1.0", "worker": "w",
        "epoch": 1, "cwd": "/w"}});
    let run = RunId::parse("newer-log").unwrap();
    store.log.import(run, vec![owner.to_string()]).await.unwrap();
    for (id, version) in [("newer-log", 1), ("newer-job", 99)] {
        let head = serde_json::from_value(head(id)).unwrap();
        let body = json!({"v": version, "haft": "99.2.0", "job": {"prompt": "hello"}});
        store.queue.submit(vec![haft_fleet_store::NewJob { head, not_before: None, body }]).await.unwrap();
    }
    let _worker = rig.worker("a", &[]);
    let said = || rig.worker_said("a");
    rig.until("both are left", || said().matches("given back").count() == 2).await;
    let said = said();
    for part in
        ["format 99, written by haft 99.1.0", "version 99, submitted by haft 99.2.0", "Update the worker"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    for id in ["newer-log", "newer-job"] {
        assert_eq!(rig.state(id), "queued");
    }
    assert_eq!(rig.model.count(), 0);
}

/// Scenario 18: `haft fleet map` is killed while it submits a large file; running it again queues every
/// row once.
#[tokio::test(flavor = "multi_thread")]
async fn a_map_that_was_killed_goes_on_where_it_was() {
    let rig = FleetRig::new(json!([{"times": "always", "reply": [{"stall": "forever"}]}])).await;
    let _worker = rig.worker("a", &["--slots", "1"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let rows: String = (0..5_000).map(|number| format!("r{number}\n")).collect();
    rig.haft.write("jobs.csv", &format!("repo\n{rows}"));
    let args = ["map", "jobs.csv", "-p", "do {repo}", "--json"];
    let killed = rig.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let store = store_of(&rig).await;
    let mut number = 0;
    while number == 0 {
        number = store.queue.counts(JobFilter::default()).await.unwrap().all();
    }
    WorkerProcess(killed).kill();
    let left = store.queue.counts(JobFilter::default()).await.unwrap().all();
    let again = rig.ok(&args);
    let report: Value = serde_json::from_str(again.lines().next().unwrap()).unwrap();
    assert_eq!((&report["known"], &report["queued"]), (&json!(left), &json!(5_000 - left)));
    let jobs = rig.jobs();
    let mut repos: Vec<&str> = jobs.values().map(|it| it["labels"]["repo"].as_str().unwrap()).collect();
    repos.sort_unstable();
    repos.dedup();
    assert_eq!((jobs.len(), repos.len()), (5_000, 5_000));
}

/// Scenario 19: every follower reads the same bytes, whenever it starts and however slowly it reads.
#[tokio::test(flavor = "multi_thread")]
async fn followers_see_the_same_bytes() {
    let rig = FleetRig::new(json!([])).await;
    let wait = |name: &str, step: &str| {
        let (began, go) = (rig.path(&format!("began-{name}")), rig.path(&format!("go-{name}")));
        let (began, go) = (began.display(), go.display());
        bash(&format!("touch {began}; {}; seq 1 5000; echo {step}", until_there(&go.to_string())))
    };
    push(
        &rig,
        [
            json!({"when": {"last_user": {"equals": "hold"}}, "reply": [wait("hold", "held")]}),
            json!({"when": {"tool_result": "held"}, "reply": [{"text": "over"}]}),
            json!({"when": {"last_user": {"equals": "go"}}, "reply": [wait("run", "done-step-1")]}),
            json!({"when": {"tool_result": "done-step-1"}, "reply": [{"text": "finished"}]}),
        ],
    );
    let _worker = rig.worker("a", &["--slots", "1"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    rig.submit("hold", &[]);
    let id = rig.submit("go", &[]);
    let follow = |from: &str| {
        let mut command = rig.command(&["logs", &id, "-f", "--from", from]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    // The second one is read only at the end.
    let (before, slow) = (follow("0"), follow("0"));
    rig.until("the first runs", || rig.path("began-hold").exists()).await;
    std::fs::write(rig.path("go-hold"), "").unwrap();
    rig.until("the run began", || rig.path("began-run").exists()).await;
    let (within, late) = (follow("0"), follow("3"));
    std::fs::write(rig.path("go-run"), "").unwrap();
    rig.until("it ends", || rig.state(&id) == "done").await;
    let whole = rig.ok(&["logs", &id]);
    assert!(whole.contains("finished"), "{whole}");
    for follower in [before, slow, within] {
        let output = tokio::task::block_in_place(|| follower.wait_with_output().unwrap());
        assert!(output.status.success() && output.stdout == whole.as_bytes());
    }
    let rest = tokio::task::block_in_place(|| late.wait_with_output().unwrap());
    let want: String = whole.lines().skip(3).map(|it| format!("{it}\n")).collect();
    assert_eq!(String::from_utf8(rest.stdout).unwrap(), want);
}

/// Scenario 20: a job cancelled in any state ends once, leaves no process, and can be retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_finds_a_job_in_any_state() {
    let rig = FleetRig::new(json!([])).await;
    push(
        &rig,
        [
            json!({"when": {"last_user": "stream"}, "reply": [{"text": "this begins"}, {"stall": "forever"}]}),
            json!({"times": "always", "reply": [{"text": "fine after all"}]}),
        ],
    );
    // Leases are renewed rarely here, so the cancellation must not depend on a renewal.
    let _worker = rig.worker("a", &["--lease", "3600s"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let made = rig.path("setup-began").display().to_string();
    let sleep = long_sleep();
    let starting = rig.submit("never", &["--setup", &format!("touch {made}; {sleep}")]);
    let streaming = rig.submit("stream", &[]);
    let done = rig.submit("quick", &[]);
    rig.until("all are where they should be", || {
        rig.path("setup-began").exists() && rig.state(&done) == "done" && 2 <= rig.model.count()
    })
    .await;
    assert_eq!(rig.state(&starting), "starting");
    for id in [&starting, &streaming] {
        rig.ok(&["cancel", id]);
    }
    assert!(rig.ok(&["cancel", &done]).contains("was done already"));
    rig.until("they are cancelled", || [&starting, &streaming].iter().all(|id| rig.state(id) == "cancelled"))
        .await;
    assert_eq!(rig.state(&done), "done");
    rig.until("its processes are gone", || is_gone(&sleep)).await;
    // The earlier cancellation does not end the retry.
    rig.ok(&["retry", &streaming]);
    rig.until("it goes on", || rig.state(&streaming) == "done").await;
    let result: Value = serde_json::from_str(rig.ok(&["results", &streaming, "--json"]).trim()).unwrap();
    assert_eq!(result["result"]["result"], "fine after all");
}

/// Scenario 21: changes made before a takeover can be undone after it.
#[tokio::test(flavor = "multi_thread")]
async fn earlier_changes_are_undone_where_the_run_went() {
    let rig = FleetRig::new(json!([])).await;
    let tar = rig.path("tree.tar").display().to_string();
    std::fs::create_dir_all(rig.path("tree")).unwrap();
    std::fs::write(rig.path("tree/a.txt"), "one\n").unwrap();
    let packed = Command::new("tar")
        .args(["-C", rig.path("tree").to_str().unwrap(), "-cf", &tar, "."])
        .status()
        .unwrap();
    assert!(packed.success());
    push(
        &rig,
        [
            json!({"when": {"last_user": {"equals": "go"}}, "reply": [bash("printf 'two\\n' > a.txt; echo done-step-1")]}),
            json!({"when": {"tool_result": "done-step-1"}, "reply": [{"stall": "forever"}]}),
            json!({"when": {"tool_result": "done-step-1"}, "reply": [bash("cat a.txt; echo done-step-2")]}),
            json!({"when": {"tool_result": "two\ndone-step-2"}, "reply": [{"text": "finished"}]}),
        ],
    );
    let worker = rig.mortal("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &["--tar", &tar]);
    rig.model.wait_until(|requests| requests.len() == 2).await;
    rig.until("the files are kept", || rig.ok(&["logs", &id]).contains("\"checkpoint\"")).await;
    worker.kill();
    let _next = rig.worker("b", &["--keep-workspaces"]);
    rig.until("it ends elsewhere", || rig.state(&id) == "done").await;
    let run = std::fs::read_dir(rig.path("root-b/runs")).unwrap().flatten().next().unwrap().path();
    let file = run.join("work/a.txt");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
    let mut undo = rig.haft.command();
    undo.arg("undo")
        .current_dir(run.join("work"))
        .env("HAFT_CONFIG_DIR", run.join("state"))
        .stdin(Stdio::null());
    let undone = undo.output().unwrap();
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n", "{undone:?}");
}

/// Scenario 27: messages from many senders are delivered once and in order, also to a job that lost its
/// worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_senders_are_heard_by_four_runs_in_order() {
    const EACH: usize = 25;
    let rig = FleetRig::new(json!([])).await;
    let go = rig.path("go").display().to_string();
    let began = rig.path("began").display().to_string();
    let wait = format!("echo $HAFT_CALL_ID >> {began}; {}; echo done-step-1", until_there(&go));
    push(
        &rig,
        [
            json!({"when": {"last_user": "message"}, "times": "always", "reply": [{"text": "heard"}]}),
            json!({"when": {"tool_result": {"regex": "done-step-1|may be done in part|outcome unknown"}}, "times": "always",
               "reply": [{"text": "and on"}]}),
            json!({"times": "always", "reply": [bash(&wait)]}),
        ],
    );
    let names = ["a", "b", "c", "d"];
    let mut workers: Vec<WorkerProcess> =
        names.iter().map(|name| rig.mortal(name, &["--slots", "1"])).collect();
    rig.until("workers are there", || names.iter().all(|it| rig.worker_said(it).contains("waits"))).await;
    let ids: Vec<String> = (0..4).map(|number| rig.submit(&format!("run {number}"), &[])).collect();
    let lines = || std::fs::read_to_string(rig.path("began")).unwrap_or_default().lines().count();
    rig.until("all run", || lines() == 4).await;
    let tenant = FleetName::parse("default").unwrap();
    let desk = FleetClient::new(store_of(&rig).await.for_tenant(tenant.clone()), tenant);
    let send = async |from: usize, numbers: std::ops::Range<usize>| {
        for number in numbers {
            for id in &ids {
                desk.say(&RunId::parse(id).unwrap(), &format!("message {number} of sender {from}"))
                    .await
                    .unwrap();
            }
        }
    };
    futures_util::join!(send(0, 0..12), send(1, 0..12), send(2, 0..12), send(3, 0..12));
    workers.remove(0).kill();
    let _next = rig.worker("e", &["--slots", "1"]);
    futures_util::join!(send(0, 12..EACH), send(1, 12..EACH), send(2, 12..EACH), send(3, 12..EACH));
    std::fs::write(rig.path("go"), "").unwrap();
    rig.until("all end", || ids.iter().all(|id| rig.state(id) == "done")).await;
    for id in &ids {
        let log = rig.ok(&["logs", id]);
        let said: Vec<&str> = log
            .lines()
            .filter(|it| it.starts_with("{\"type\":\"user\"") && it.contains("message "))
            .collect();
        for from in 0..4 {
            let words = format!(" of sender {from}");
            let heard: Vec<usize> = said
                .iter()
                .flat_map(|line| line.split("message ").skip(1))
                .filter_map(|it| it.split_once(&words).filter(|it| it.0.len() <= 2)?.0.parse().ok())
                .collect();
            assert_eq!(heard, (0..EACH).collect::<Vec<_>>(), "sender {from} to {id}: {log}");
        }
    }
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
}
