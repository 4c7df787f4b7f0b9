//! Workers that are killed, paused or stopped: others take over, and no call runs twice.

use std::process::Command;

use haft_fleet_store::{FleetAddress, FleetStore, JobFilter, JobState};
use serde_json::{Value, json};

use crate::fleet::{
    harness::{FleetRig, bash, until_there},
    support::servers::Kind,
};

/// A command that kills every `haft` process among its ancestors.
const KILLS_WORKER: &str = "p=$$; while [ $p -gt 1 ]; do if [ \"$(cat /proc/$p/comm)\" = haft ]; then kill -9 $p; fi; \
                            p=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$p/status); done";

async fn check_kills(kind: Kind) {
    let points =
        ["before it began", "while it ran", "after its effect", "after its result", "while it was checked"];
    let checks = points.map(|point| tokio::spawn(check_kill(kind, point)));
    for check in checks {
        check.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_is_run_once_wherever_its_worker_is_killed() {
    check_kills(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_is_run_once_on_nats() {
    check_kills(Kind::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_is_run_once_on_postgres() {
    check_kills(Kind::Postgres).await;
}

async fn check_kill(kind: Kind, point: &str) {
    let Some(rig) = FleetRig::on(kind, json!([])).await else { return };
    let hook = rig.path("hook").display().to_string();
    let began = rig.path("began").display().to_string();
    if point == "before it began" {
        let wait = format!("if [ ! -e {hook} ]; then touch {hook}; sleep 600; fi");
        let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
                {"type": "command", "command": wait, "timeout": 900}]}]}});
        rig.haft.write_home(".haft/settings.json", &hooks.to_string());
    }
    let then = match point {
        "while it ran" => format!("touch {began} && sleep 600"),
        // The worker dies before it learns that the command ended.
        "after its effect" => KILLS_WORKER.to_owned(),
        _ => String::from("echo done-step-1"),
    };
    if point == "after its result" {
        let stall = json!({"when": {"tool_result": "done-step-1"}, "reply": [{"stall": "forever"}]});
        rig.model.push(serde_json::from_value(stall).unwrap());
    }
    for turn in [
        json!({"when": {"tool_result": "done-step-1"}, "times": "always", "reply": [{"text": "finished"}]}),
        json!({"when": {"tool_result": {"regex": "may be done in part|outcome unknown"}}, "times": "always",
               "reply": [{"text": "not sure"}]}),
        // The answer that was lost with the worker is requested again.
        json!({"when": {"last_user": {"regex": "^go"}}, "times": "always", "reply": [bash(&rig.effect(&then))]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let worker = rig.mortal("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let go = rig.path("go").display().to_string();
    let check = format!("touch {began}; {}", until_there(&go));
    let id = match point {
        "while it was checked" => rig.submit("go", &["--check", &check]),
        _ => rig.submit("go", &[]),
    };
    match point {
        "while it was checked" => rig.until("the check runs", || rig.path("began").exists()).await,
        "after its effect" => rig.until("the effect is there", || rig.effects().len() == 1).await,
        "before it began" => {
            rig.until("the hook runs", || rig.path("hook").exists()).await;
            rig.until("the answer is kept", || rig.ok(&["logs", &id]).contains("tool_use")).await;
        }
        "while it ran" => rig.until("the command runs", || rig.path("began").exists()).await,
        _ => {
            rig.model.wait_until(|requests| requests.len() == 2).await;
            rig.until("the result is kept", || rig.ok(&["logs", &id]).contains("\"tool_result\"")).await;
        }
    }
    drop(worker);
    std::fs::write(rig.path("go"), "").unwrap();
    let _next = rig.worker("b", &[]);
    let is_over = |it: String| !["queued", "starting", "running", "waiting"].contains(&it.as_str());
    rig.until("it ends elsewhere", || is_over(rig.state(&id))).await;
    assert_eq!(rig.state(&id), "done", "{point}: {}", rig.jobs()[&id]);
    let result: Value = serde_json::from_str(rig.ok(&["results", &id, "--json"]).trim()).unwrap();
    let is_unknown = ["while it ran", "after its effect"].contains(&point);
    let want = if is_unknown { "not sure" } else { "finished" };
    assert_eq!(result["result"]["result"], want, "{point}: {}", rig.ok(&["logs", &id]));
    assert_eq!(rig.effects().len(), 1, "{point}: {:?}", rig.effects());
    assert_eq!(rig.model.refusals(), Vec::<String>::new(), "{point}");
    let told = rig.model.requests().last().unwrap().json()["messages"].to_string();
    match point {
        // The answer was complete: no further request.
        "while it was checked" => assert_eq!(rig.model.count(), 2, "{told}"),
        _ => assert!(told.contains("This session was moved to another worker"), "{point}: {told}"),
    }
    assert_eq!(result["owners"].as_array().unwrap().len(), 2, "{point}: {result}");
    // Requests of the killed worker count; the interrupted answer is requested again.
    let cut = usize::from(point == "after its result");
    assert_eq!(result["requests"], json!(rig.model.count() - cut), "{point}: {result}");
    assert!(
        (result["usd"].as_f64().unwrap() - result["result"]["total_cost_usd"].as_f64().unwrap()).abs() < 1e-6
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_slept_through_its_lease_stops() {
    let rig = FleetRig::new(json!([])).await;
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    let wait = format!("touch {began}; {}; echo done-step-1", until_there(&go));
    for turn in [
        json!({"when": {"last_user": {"equals": "go"}}, "reply": [bash(&rig.effect(&wait))]}),
        json!({"when": {"tool_result": "done-step-1"}, "reply": [{"text": "from the dead"}]}),
        json!({"when": {"tool_result": {"regex": "may be done in part|outcome unknown"}}, "reply": [{"text": "not sure"}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let sleeper = rig.mortal("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    let store = FleetStore::open(&FleetAddress::parse(&rig.store).unwrap()).await.unwrap();
    loop {
        sleeper.signal("STOP");
        // A worker stopped during a write holds the lock of the store file and would block the others.
        let writes = store.clockwork.count(String::from("probe"), 1, None);
        if tokio::time::timeout(std::time::Duration::from_secs(5), writes).await.is_ok_and(|it| it.is_ok()) {
            break;
        }
        sleeper.signal("CONT");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let _next = rig.worker("b", &[]);
    rig.until("it ends elsewhere", || rig.state(&id) == "done").await;
    let log = rig.ok(&["logs", &id]);
    std::fs::write(rig.path("go"), "").unwrap();
    sleeper.signal("CONT");
    rig.until("the sleeper says that it lost the run", || rig.worker_said("a").contains("lost")).await;
    assert_eq!(rig.ok(&["logs", &id]), log);
    assert_eq!((rig.state(&id).as_str(), rig.effects().len()), ("done", 1));
    assert!(log.contains("not sure") && !log.contains("from the dead"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_runs_twice_however_often_workers_are_killed() {
    const STEPS: usize = 4;
    let kills: usize = std::env::var("HAFT_FLEET_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(6);
    // About two calls happen between two kills.
    let jobs = kills.max(6);
    let rig = FleetRig::new(json!([])).await;
    let mut turns = vec![
        json!({"when": {"tool_result": {"regex": "may be done in part|outcome unknown"}}, "times": "always",
               "reply": [{"text": "not sure"}]}),
        json!({"when": {"tool_result": format!("done-step-{STEPS}")}, "times": "always", "reply": [{"text": "finished"}]}),
    ];
    for step in (1..STEPS).rev() {
        let next = rig.effect(&format!("echo done-step-{}", step + 1));
        turns.push(
            json!({"when": {"tool_result": format!("done-step-{step}")}, "times": "always", "delay_ms": 50,
                          "reply": [bash(&next)]}),
        );
    }
    turns.push(json!({"times": "always", "reply": [bash(&rig.effect("echo done-step-1"))]}));
    for turn in turns {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let rows: String = (0..jobs).map(|number| format!("job {number}\n")).collect();
    rig.haft.write("jobs.csv", &format!("name\n{rows}"));
    let mut started = 0;
    let mut start = |slots: &str| {
        started += 1;
        rig.mortal(&format!("w{started}"), &["--slots", slots])
    };
    let mut workers = vec![start("3"), start("3")];
    rig.until("a worker is there", || rig.worker_said("w1").contains("waits")).await;
    rig.ok(&["map", "jobs.csv", "-p", "{name}", "--permission-mode", "bypassPermissions"]);
    let store = FleetStore::open(&FleetAddress::parse(&rig.store).unwrap()).await.unwrap();
    let ended = async || {
        let counts = store.queue.counts(JobFilter::default()).await.unwrap();
        counts.of(JobState::Done) + counts.of(JobState::Parked)
    };
    // There is no limit on the total time; only progress is required.
    let mut last = (0, 0, std::time::Instant::now());
    let mut goes_on = |effects: usize, ended: u64| {
        if (last.0, last.1) != (effects, ended) {
            last = (effects, ended, std::time::Instant::now());
        }
        assert!(
            last.2.elapsed().as_secs() < 180,
            "nothing goes on: {effects} effects, {ended} of {jobs} ended"
        );
    };
    for number in 0..kills {
        // Kill after a different number of calls each time.
        let enough = rig.effects().len() + 1 + number % 3;
        loop {
            let (effects, ended) = (rig.effects().len(), ended().await);
            goes_on(effects, ended);
            if enough <= effects || ended == jobs as u64 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5 + (number % 7) as u64)).await;
        }
        workers.remove(fastrand::usize(..workers.len())).kill();
        workers.push(start("3"));
    }
    while ended().await < jobs as u64 {
        goes_on(rig.effects().len(), ended().await);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    drop(workers);
    let effects = rig.effects();
    let mut once = effects.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), effects.len(), "a call ran twice: {effects:?}");
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
    let parked = store.queue.counts(JobFilter::default()).await.unwrap().of(JobState::Parked);
    eprintln!("{kills} kills, {jobs} jobs ended ({parked} set aside), {} calls, none twice", effects.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_the_same_after_a_takeover() {
    let rig = FleetRig::new(json!([])).await;
    let repo = rig.path("repo");
    std::fs::create_dir_all(&repo).unwrap();
    std::fs::write(repo.join("a.txt"), "one\n").unwrap();
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["add", "."],
        &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "first"],
    ] {
        assert!(Command::new("git").args(args).current_dir(&repo).status().unwrap().success());
    }
    let change = "printf 'two\\n' > a.txt && mkdir -p new && printf '#!/bin/sh\\n' > new/run.sh && chmod 755 new/run.sh && echo done-step-1";
    for turn in [
        json!({"when": {"last_user": {"equals": "go"}}, "reply": [bash(change)]}),
        json!({"when": {"tool_result": "done-step-1"}, "reply": [bash("true; echo done-step-2")]}),
        json!({"when": {"tool_result": "done-step-2"}, "reply": [{"stall": "forever"}]}),
        json!({"when": {"tool_result": "done-step-2"}, "reply": [bash("cat a.txt; stat -c %a new/run.sh; echo done-step-3")]}),
        json!({"when": {"tool_result": "two\n755\ndone-step-3"}, "reply": [{"text": "all there"}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let worker = rig.mortal("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let url = format!("file://{}@main", repo.display());
    let id = rig.submit("go", &["--repo", &url, "--check", "test -x new/run.sh", "--branch", "haft/result"]);
    rig.model.wait_until(|requests| requests.len() == 3).await;
    rig.until("the files are kept", || rig.ok(&["logs", &id]).contains("\"checkpoint\"")).await;
    worker.kill();
    let _next = rig.worker("b", &[]);
    rig.until("it ends elsewhere", || !["running", "starting", "queued"].contains(&rig.state(&id).as_str()))
        .await;
    let result: Value = serde_json::from_str(rig.ok(&["results", &id, "--json"]).trim()).unwrap();
    assert_eq!(result["state"], "done", "{result} {}", rig.ok(&["logs", &id]));
    assert_eq!(result["result"]["result"], "all there");
    assert_eq!(result["check"]["exit_code"], 0);
    let patches = rig.path("patches").display().to_string();
    rig.ok(&["results", &id, "--patches", &patches]);
    let patch = std::fs::read_to_string(rig.path("patches").join(format!("{id}.patch"))).unwrap();
    assert!(patch.contains("+two") && patch.contains("new file mode 100755"), "{patch}");
    let pushed = Command::new("git").args(["show", "haft/result:a.txt"]).current_dir(&repo).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&pushed.stdout), "two\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_to_end_hands_its_runs_over() {
    let rig = FleetRig::new(json!([])).await;
    let began = rig.path("began").display().to_string();
    let step = rig.effect(&format!("touch {began}; sleep 1; echo done-step-1"));
    for turn in [
        json!({"when": {"last_user": {"equals": "go"}}, "reply": [bash(&step)]}),
        json!({"when": {"tool_result": "done-step-1"}, "times": "always", "delay_ms": 300, "reply": [{"text": "finished"}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let mut old = rig.worker("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    old.signal("TERM");
    assert!(old.0.wait().unwrap().success());
    let _next = rig.worker("b", &[]);
    rig.until("it ends elsewhere", || rig.state(&id) == "done").await;
    assert_eq!(rig.effects().len(), 1);
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
    assert!(rig.ok(&["logs", &id]).contains("finished"));
    let said = rig.worker_said("a");
    assert!(said.contains("given back") || said.contains("done"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_workers_is_set_aside_with_its_last_words() {
    let rig = FleetRig::new(json!([])).await;
    for turn in [
        json!({"when": {"last_user": {"equals": "be good"}}, "times": "always", "reply": [{"text": "fine"}]}),
        json!({"times": "always", "reply": [bash(KILLS_WORKER)]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let mut worker = rig.mortal("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let bad = rig.submit("be bad", &[]);
    let mut deaths = 0;
    while rig.state(&bad) != "parked" {
        if worker.0.try_wait().unwrap().is_some() {
            deaths += 1;
            assert!(deaths <= 3, "it was given out once more");
            worker = rig.mortal(&format!("w{deaths}"), &[]);
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let job = rig.jobs()[&bad].clone();
    // If a busy machine fails to renew a lease, that counts as a lost worker, too.
    assert!((1..=3).contains(&deaths) && job["lost"] == 3, "{deaths}: {job}");
    assert!(job["reason"].as_str().unwrap().contains("workers"), "{job}");
    assert!(job["reason"].as_str().unwrap().contains("The last lines"), "{job}");
    let good = rig.submit("be good", &[]);
    rig.until("another job is done", || rig.state(&good) == "done").await;
}
