//! User commands: pause, retry, attach, move, schedule, hooks, results.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use haft_fleet_store::{FleetAddress, FleetStore, RunId};
use serde_json::{Value, json};

use crate::fleet::{
    harness::{FleetRig, WorkerProcess, bash, until_there},
    support::{
        cluster::{copies, open_cluster},
        servers::{keep_port, nats_program},
    },
};

fn git(dir: &Path, args: &[&str]) {
    let mut line = Command::new("git");
    line.args(["-c", "user.name=x", "-c", "user.email=x@y"]).args(args).current_dir(dir);
    assert!(line.status().unwrap().success(), "git {args:?}");
}

/// A repository with a commit and uncommitted changes.
fn unclean_repository(rig: &FleetRig) -> std::path::PathBuf {
    let repo = rig.path("repo");
    std::fs::create_dir_all(&repo).unwrap();
    std::fs::write(repo.join("a.txt"), "one\n").unwrap();
    git(&repo, &["init", "-q", "-b", "main"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "first"]);
    std::fs::write(repo.join("a.txt"), "one\ntwo\n").unwrap();
    std::fs::write(repo.join("new.txt"), "new\n").unwrap();
    repo
}

/// An empty store prints a message, and a misspelled path is not created.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_store_says_so() {
    let rig = FleetRig::new(json!([])).await;
    assert_eq!(rig.ok(&["cost"]).trim(), "$0.0000  in all");
    assert!(rig.ok(&["schedule"]).starts_with("no schedules"));
    let slip = rig.path("slip");
    let mut command = rig.command(&["status"]);
    let output = command.env("HAFT_FLEET", format!("sqlite:{}/fleet.db", slip.display())).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && stderr.contains("there is no directory"), "{stderr}");
    assert!(!slip.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_jobs_start_when_they_are_resumed() {
    let rig = FleetRig::new(json!([])).await;
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    let wait = format!("touch {began}; {}; echo done-step-1", until_there(&go));
    for turn in [
        json!({"when": {"last_user": {"equals": "hold"}}, "reply": [bash(&wait)]}),
        json!({"times": "always", "reply": [{"text": "yes"}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let _worker = rig.worker("a", &["--slots", "1"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let hold = rig.submit("hold", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    rig.haft.write("jobs.yaml", "batch: held\njobs:\n  - {n: 1}\n  - {n: 2}\n  - {n: 3}\n");
    rig.ok(&["map", "jobs.yaml", "-p", "do {n}"]);
    assert_eq!(rig.ok(&["pause", "held"]).trim(), "held: 3 queued jobs, paused");
    assert!(!rig.run(&["pause", "nothing-like-it"]).status.success());
    std::fs::write(rig.path("go"), "").unwrap();
    rig.until("the first ends", || rig.state(&hold) == "done").await;
    // A single job of a paused batch cannot be resumed; the error says why.
    let of = |number: &str| {
        let jobs = rig.jobs();
        let found = jobs.iter().find(|(_, it)| it["labels"]["n"] == number).unwrap();
        (found.0.clone(), found.1["state"].as_str().unwrap().to_owned())
    };
    let alone = rig.run(&["resume", &of("1").0]);
    assert!(
        !alone.status.success() && String::from_utf8_lossy(&alone.stderr).contains("its batch is paused")
    );
    assert_eq!(rig.ok(&["pause", "--where", "n=2"]).trim(), format!("{}: paused", of("2").0));
    assert_eq!(rig.ok(&["resume", "held"]).trim(), "held: 3 queued jobs, may start");
    rig.until("the others end", || of("1").1 == "done" && of("3").1 == "done").await;
    assert_eq!(of("2").1, "queued");
    rig.ok(&["resume", "--where", "n=2 batch=held"]);
    rig.until("the last ends", || of("2").1 == "done").await;
    // `retry` continues an ended job, or restarts it with `--fresh`.
    let before = rig.ok(&["logs", &of("1").0]).lines().count();
    rig.ok(&["retry", "--where", "n=1"]);
    let tries = || rig.jobs()[&of("1").0]["deliveries"].as_u64().unwrap();
    rig.until("it was tried again", || of("1").1 == "done" && tries() == 2).await;
    assert!(before < rig.ok(&["logs", &of("1").0]).lines().count());
    rig.ok(&["retry", "--where", "n=1", "--fresh"]);
    rig.until("it began again", || of("1").1 == "done" && tries() == 3).await;
    let asked = rig.model.requests().last().unwrap().json()["messages"].to_string();
    assert!(!asked.contains("moved to another worker"), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_attaches_sees_the_run_and_is_heard() {
    let rig = FleetRig::new(json!([])).await;
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    let wait = format!("touch {began}; {}; echo done-step-1", until_there(&go));
    for turn in [
        json!({"when": {"last_user": {"equals": "go"}}, "reply": [bash(&wait)]}),
        json!({"when": {"last_user": "and be quick"}, "times": "always", "reply": [{"text": "quickly done, as you said"}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let _worker = rig.worker("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    let mut attached =
        rig.command(&["attach", &id]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    attached.stdin.as_mut().unwrap().write_all(b"and be quick\n").unwrap();
    let store = FleetStore::open(&FleetAddress::parse(&rig.store).unwrap()).await.unwrap();
    let run = RunId::parse(&id).unwrap();
    while store.log.controls(run.clone(), 0).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    std::fs::write(rig.path("go"), "").unwrap();
    let output = tokio::task::block_in_place(|| attached.wait_with_output().unwrap());
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    for (text, times) in
        [("> go", 1), ("> and be quick", 1), ("quickly done, as you said", 1), ("-- worker", 1)]
    {
        assert_eq!(shown.matches(text).count(), times, "{text}: {shown}");
    }
}

/// A job that started in one store continues in another, once.
#[tokio::test(flavor = "multi_thread")]
async fn queued_jobs_go_on_in_another_store() {
    let rig = FleetRig::new(json!([])).await;
    let began = rig.path("began").display().to_string();
    let go = until_there(&rig.path("go").display().to_string());
    let step = rig.effect(&format!("touch {began}; echo kept > kept.txt; {go}; echo done-step-1"));
    for turn in [
        json!({"when": {"last_user": {"equals": "go"}}, "reply": [bash(&step)]}),
        // Meanwhile the worker returns the job, whether or not its request was sent.
        json!({"when": {"tool_result": "done-step-1"}, "times": "always", "delay_ms": 3000,
               "reply": [bash("cat kept.txt; echo done-step-2")]}),
        json!({"when": {"tool_result": "kept\ndone-step-2"}, "times": "always", "reply": [{"text": "finished"}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let mut old = rig.worker("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    old.signal("TERM");
    std::fs::write(rig.path("go"), "").unwrap();
    assert!(old.0.wait().unwrap().success());
    assert_eq!(rig.state(&id), "queued");
    let other = format!("sqlite:{}", rig.path("other.db").display());
    assert_eq!(rig.ok(&["move", "--to", &other]).trim(), "1 jobs were moved");
    assert_eq!(rig.ok(&["move", "--to", &other]).trim(), "0 jobs were moved");
    let here = rig.jobs()[&id].clone();
    assert_eq!((&here["state"], &here["reason"]), (&json!("cancelled"), &json!("moved to another store")));
    let there = |args: &[&str]| {
        let mut command = rig.command(args);
        command.env("HAFT_FLEET", &other);
        command
    };
    let root = rig.path("root-b").display().to_string();
    let worker = there(&["worker", "--lease", "4s", "--root", &root]);
    let _worker = WorkerProcess({ worker }.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let result = || {
        let output = there(&["results", &id, "--json"]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    rig.until("it ends there", || result()["state"] == "done").await;
    assert_eq!(result()["result"]["result"], "finished");
    assert_eq!(rig.effects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_fire_each_time_once_however_many_workers_tick() {
    let rig = FleetRig::new(json!([{"times": "always", "reply": [{"text": "yes"}]}])).await;
    let _workers = [rig.worker("a", &[]), rig.worker("b", &[])];
    rig.until("workers are there", || ["a", "b"].iter().all(|it| rig.worker_said(it).contains("waits")))
        .await;
    rig.ok(&["schedule", "often", "--every", "1s", "-p", "tick", "--missed", "all"]);
    rig.ok(&["schedule", "nightly", "--cron", "0 6 * * *", "--zone", "Europe/Berlin", "-p", "look"]);
    for wrong in [
        &["schedule", "bad", "--cron", "6 o'clock", "-p", "x"][..],
        &["schedule", "bad", "--cron", "0 6 * * *", "--zone", "Nowhere/There", "-p", "x"],
        &["schedule", "bad", "-p", "x"],
    ] {
        assert!(!rig.run(wrong).status.success(), "{wrong:?}");
    }
    let job = json!({
        "id": "0a1b2c3d", "cron": "15 4 * * 1", "zone": "UTC", "prompt": "Tidy up", "dir": rig.haft.ws(),
        "recurring": true, "created": "2026-01-01T00:00:00Z", "createdBy": "s1", "maxTurns": 3, "maxMinutes": 2,
        "mode": "acceptEdits",
    });
    rig.haft.write_home(".haft/cron/jobs/0a1b2c3d.json", &job.to_string());
    assert_eq!(rig.ok(&["schedule", "--from-cron"]).trim(), "cron-0a1b2c3d  15 4 * * 1");
    // The local timer no longer runs it.
    let stored = std::fs::read_to_string(rig.haft.home().join(".haft/cron/jobs/0a1b2c3d.json")).unwrap();
    assert!(stored.contains("\"fleet\": \"sqlite:"), "{stored}");
    let listed = rig.ok(&["schedule", "--json"]);
    let listed: Vec<Value> = listed.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let names: Vec<&str> = listed.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cron-0a1b2c3d", "nightly", "often"]);
    let store = FleetStore::open(&FleetAddress::parse(&rig.store).unwrap()).await.unwrap();
    let all = store.clockwork.schedules().await.unwrap();
    let body =
        &all.iter().find(|it| it.schedule.name.as_str() == "cron-0a1b2c3d").unwrap().schedule.body["job"];
    assert_eq!(body["flags"], json!({"permission-mode": "acceptEdits", "max-turns": 3}));
    let fired = || -> Vec<Value> {
        rig.jobs().into_values().filter(|it| it["labels"]["schedule"] == "often").collect()
    };
    rig.until("it fires", || 4 <= fired().iter().filter(|it| it["state"] == "done").count()).await;
    rig.ok(&["schedule", "often", "--remove"]);
    assert!(!rig.run(&["schedule", "often", "--remove"]).status.success());
    let record = all.iter().find(|it| it.schedule.name.as_str() == "often").unwrap();
    let from = match &record.schedule.when {
        haft_fleet_store::FiringTime::Every { from, .. } => *from,
        other => panic!("{other:?}"),
    };
    let since = u64::try_from(jiff::Timestamp::now().as_second() - from.as_second()).unwrap();
    let number = fired().len() as u64;
    assert!(number <= since + 2, "{number} in {since} s");
}

/// A prompt stored while a worker runs is scheduled by the store's clock, runs once, and is removed from
/// the store when it is removed here.
#[tokio::test(flavor = "multi_thread")]
async fn stored_prompts_go_by_the_clock_of_the_fleet() {
    let rig = FleetRig::new(json!([{"times": "always", "reply": [{"text": "yes"}]}])).await;
    let _workers = [rig.worker("a", &["--cron"]), rig.worker("b", &["--cron"])];
    rig.until("workers are there", || ["a", "b"].iter().all(|it| rig.worker_said(it).contains("waits")))
        .await;
    let stored = |id: &str, cron: &str, recurring: bool, created: &str| {
        let job = json!({"id": id, "cron": cron, "zone": "UTC", "prompt": format!("prompt {id}"), "dir": rig.haft.ws(),
            "recurring": recurring, "created": created, "createdBy": "s1", "maxTurns": 3, "maxMinutes": 2});
        rig.haft.write_home(&format!(".haft/cron/jobs/{id}.json"), &job.to_string());
    };
    // Not due yet.
    stored("aaaa1111", "0 0 1 1 *", true, &jiff::Timestamp::now().to_string());
    // Already due.
    stored("bbbb2222", "0 0 1 1 *", false, "2025-06-01T00:00:00Z");
    let names = || -> Vec<String> {
        let listed = rig.ok(&["schedule", "--json"]);
        let lines = listed.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        lines.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    rig.until("the fleet has it", || names().contains(&String::from("cron-aaaa1111"))).await;
    let fired = || -> Vec<Value> {
        rig.jobs().into_values().filter(|it| it["labels"]["schedule"] == "cron-bbbb2222").collect()
    };
    rig.until("the other one ran", || fired().first().is_some_and(|it| it["state"] == "done")).await;
    // It has run, and is removed in both places.
    rig.until("it is gone", || !rig.haft.home().join(".haft/cron/jobs/bbbb2222.json").exists()).await;
    std::fs::remove_file(rig.haft.home().join(".haft/cron/jobs/aaaa1111.json")).unwrap();
    rig.until("both are gone there", || names().is_empty()).await;
    assert_eq!(fired().len(), 1);
    // A prompt that was handed over to a fleet is not run by the local timer.
    let due = rig.haft.command().args(["cron", "run-due"]).output().unwrap();
    assert!(due.status.success() && rig.jobs().len() == 1);
}

/// Computed by an independent implementation for the body and the key below.
const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_delivered_three_times_is_one_job() {
    use tokio::io::AsyncBufReadExt as _;
    let rig = FleetRig::new(json!([{"times": "always", "reply": [{"text": "hello back"}]}])).await;
    let triggers = json!({"hello": {"prompt": "Say hello to {{body}}", "dir": rig.haft.ws(), "scheme": "github",
        "secret": {"env": "HOOK_KEY"}, "events": ["push"], "maxTurns": 2, "maxMinutes": 2}});
    let settings = json!({"triggers": triggers, "features": {"remoteTrigger": true}});
    rig.haft.write_home(".haft/settings.json", &settings.to_string());
    let mut command: tokio::process::Command = rig.command(&["serve", "--http", "127.0.0.1:0"]).into();
    command.env("HOOK_KEY", "It's a Secret to Everybody");
    let mut server = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(server.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let url = line.rsplit(' ').next().unwrap().to_owned();
    let client = reqwest::Client::new();
    let post = async |name: &str, signature: &str, event: &str| {
        let sent = client
            .post(format!("{url}/hooks/{name}"))
            .header("X-Hub-Signature-256", signature)
            .header("X-GitHub-Event", event)
            .header("X-GitHub-Delivery", "1")
            .body("Hello, World!");
        let answer = sent.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let forged = SIGNATURE.replace("757", "758");
    assert_eq!(post("hello", &forged, "push").await.0, 401);
    assert_eq!(post("nobody", SIGNATURE, "push").await.0, 404);
    assert_eq!(post("hello", SIGNATURE, "star").await.0, 200);
    assert_eq!(rig.jobs().len(), 0);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let (status, body) = post("hello", SIGNATURE, "push").await;
        assert_eq!(status, 202, "{body}");
        ids.push(serde_json::from_str::<Value>(&body).unwrap()["id"].as_str().unwrap().to_owned());
    }
    ids.dedup();
    assert_eq!((ids.len(), rig.jobs().len()), (1, 1));
    let _worker = rig.worker("a", &[]);
    rig.until("it ends", || rig.state(&ids[0]) == "done").await;
    let asked = rig.model.requests()[0].json()["messages"].to_string();
    assert!(asked.contains("Say hello to") && asked.contains("Hello, World!"), "{asked}");
}

/// Uncommitted changes are part of the job's workspace, and the resulting patch applies to the original.
#[tokio::test(flavor = "multi_thread")]
async fn packed_workspaces_and_their_patches() {
    let rig = FleetRig::new(json!([])).await;
    let step = "cat a.txt new.txt; printf 'three\\n' >> a.txt; echo done-step-1";
    for turn in [
        json!({"when": {"tool_result": "one\ntwo\nnew\ndone-step-1"}, "times": "always", "reply": [{"text": "finished"}]}),
        json!({"when": {"last_user": {"equals": "go"}}, "times": "always", "reply": [bash(step)]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let repo = unclean_repository(&rig);
    let tar = rig.path("tree.tar").display().to_string();
    let packed =
        Command::new("tar").args(["-C", repo.to_str().unwrap(), "--exclude=.git", "-cf", &tar, "."]).status();
    assert!(packed.unwrap().success());
    let _worker = rig.worker("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let bundled = rig.submit("go", &["--bundle", repo.to_str().unwrap()]);
    let archived = rig.submit("go", &["--tar", &tar]);
    rig.until("both end", || rig.state(&bundled) == "done" && rig.state(&archived) == "done").await;
    let patches = rig.path("patches");
    rig.ok(&["results", &archived, "--patches", patches.to_str().unwrap()]);
    let patch = std::fs::read_to_string(patches.join(format!("{archived}.patch"))).unwrap();
    assert!(patch.contains("+three") && !patch.contains("+two"), "{patch}");
    // To the original directory, with its uncommitted changes.
    let apply = |dir: &Path| {
        rig.command(&["results", &bundled, "--apply", &bundled]).current_dir(dir).output().unwrap()
    };
    let applied = apply(&repo);
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    assert_eq!(std::fs::read_to_string(repo.join("a.txt")).unwrap(), "one\ntwo\nthree\n");
    assert_eq!(std::fs::read_to_string(repo.join("new.txt")).unwrap(), "new\n");
    // If the patch does not apply, the error says what to do.
    let clone = rig.path("clone");
    git(&rig.path(""), &["clone", "-q", "repo", "clone"]);
    let refused = apply(&clone);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("conflicts are marked"), "{said}");
}

/// A setup command runs once per set of input files; its output is reused.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_setup_made_is_used_again() {
    let rig = FleetRig::new(json!([])).await;
    for turn in [
        json!({"when": {"tool_result": "made it\ndone-step-1"}, "times": "always", "reply": [{"text": "finished"}]}),
        json!({"times": "always", "reply": [bash("cat made/dep.txt; echo done-step-1")]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let repo = unclean_repository(&rig);
    let ran = rig.path("setup-ran").display().to_string();
    let file = |lock: &str| {
        std::fs::write(repo.join("lock"), lock).unwrap();
        let setup = format!("echo ran >> {ran}; mkdir -p made; echo made it > made/dep.txt");
        let file = json!({"batch": format!("cached-{lock}"), "defaults": {
            "workspace": {"bundle": repo, "setup": setup, "cache": ["lock"]},
            "flags": {"permission-mode": "bypassPermissions"}},
            "jobs": [{"prompt": "one", "n": "1"}, {"prompt": "two", "n": "2"}]});
        rig.haft.write("jobs.json", &file.to_string());
    };
    let times = || std::fs::read_to_string(rig.path("setup-ran")).unwrap_or_default().lines().count();
    let _worker = rig.worker("a", &["--slots", "1"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    file("a");
    rig.ok(&["map", "jobs.json", "--wait"]);
    assert_eq!(times(), 1);
    file("b");
    rig.ok(&["map", "jobs.json", "--wait"]);
    assert_eq!(times(), 2);
    assert!(rig.jobs().values().all(|it| it["state"] == "done"));
}

/// First port of the range that `up` uses for three servers with three ports each.
fn three_free_ports() -> u16 {
    loop {
        let port = fastrand::u16(20_000..26_000);
        let all = [0, 2_000, 4_000].into_iter().flat_map(|it| (0..3).map(move |number| port + it + number));
        if all.into_iter().all(keep_port) {
            return port;
        }
    }
}

/// `haft fleet up` starts a cluster on which jobs run.
#[tokio::test(flavor = "multi_thread")]
async fn up_starts_servers_that_sync_and_work() {
    use tokio::io::AsyncBufReadExt as _;
    let rig = FleetRig::new(json!([{"times": "always", "reply": [{"text": "hello there"}]}])).await;
    assert!(!rig.run(&["up", "--nodes", "2"]).status.success());
    let dir = rig.path("nodes").display().to_string();
    let printed = rig.ok(&["up", "--nodes", "3", "--dir", &dir, "--print"]);
    assert_eq!(printed.lines().count(), 3, "{printed}");
    let Some(program) = nats_program() else { return };
    let port = three_free_ports();
    let dir = rig.path("three").display().to_string();
    let mut command: tokio::process::Command =
        rig.command(&["up", "--nodes", "3", "--dir", &dir, "--port", &port.to_string()]).into();
    command.env("HAFT_NATS_SERVER", program);
    let mut up = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(up.stdout.take().unwrap()).lines();
    let address = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some(address) = line.strip_prefix("export HAFT_FLEET=") {
            break address.to_owned();
        }
    };
    let there = |args: &[&str]| rig.command(args).env("HAFT_FLEET", &address).output().unwrap();
    let looked = there(&["doctor"]);
    let said = String::from_utf8_lossy(&looked.stdout).into_owned();
    assert!(looked.status.success() && said.contains("ok   sync"), "{looked:?}");
    let answer = there(&["submit", "-p", "say hello", "--wait"]);
    assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "hello there", "{answer:?}");
    let store = open_cluster(&address).await;
    // A killed server is restarted while the others keep running.
    let server_of = |node: u32| {
        let config = rig.path(&format!("three/node-{node}/nats.conf")).display().to_string();
        let found = Command::new("pgrep").args(["-f", &config]).output().unwrap();
        String::from_utf8_lossy(&found.stdout).lines().next().map(str::to_owned)
    };
    for node in [1, 2] {
        rig.until("it runs", || server_of(node).is_some()).await;
        let old = server_of(node).unwrap();
        assert!(Command::new("kill").args(["-9", &old]).status().unwrap().success());
        let answer = there(&["submit", "-p", "say hello", "--wait"]);
        assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "hello there", "{answer:?}");
        rig.until("it is started again", || server_of(node).is_some_and(|it| it != old)).await;
        // Two of three servers are needed, so wait until this one has caught up before killing the next.
        while !copies(&store).await.is_good {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    let pid = up.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(up.wait().await.unwrap().success());
}
