//! Jobs from the command line, files and HTTP to their results.

use std::{path::PathBuf, process::Stdio};

use serde_json::{Value, json};

use crate::fleet::{
    harness::{FleetRig, WorkerProcess, bash, is_gone, long_sleep, until_there},
    support::servers::Kind,
};

#[tokio::test(flavor = "multi_thread")]
async fn one_job_goes_from_the_command_line_to_its_result_without_a_worker() {
    let rig = FleetRig::new(json!([
        {"when": {"last_user": "say hello"}, "reply": [{"text": "hello there"}]},
    ]))
    .await;
    let said = rig.run(&["submit", "-p", "say hello", "--wait"]);
    assert_eq!(
        String::from_utf8_lossy(&said.stdout).trim(),
        "hello there",
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    assert!(said.status.success());
    let jobs = rig.jobs();
    let (id, job) = jobs.iter().next().unwrap();
    assert_eq!((jobs.len(), &job["state"], &job["deliveries"]), (1, &json!("done"), &json!(1)));
    let result: Value = serde_json::from_str(rig.ok(&["results", id, "--json"]).trim()).unwrap();
    assert_eq!((&result["exit_code"], &result["result"]["result"]), (&json!(0), &json!("hello there")));
    let log = rig.ok(&["logs", id]);
    assert!(log.contains("say hello") && log.contains("hello there"), "{log}");
    // The log is the same bytes on every read, also with `-f`.
    assert_eq!(rig.ok(&["logs", id, "-f"]), log);
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
}

/// A secret that a job prints is in no file of the store.
async fn check_secrets(kind: Kind) {
    let Some(rig) = FleetRig::on(kind, json!([])).await else { return };
    let value = "zebra-9f8e7d6c5b4a-quagga";
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    let print = format!(
        "echo \"$DEPLOY_CODE\"; echo \"$DEPLOY_CODE\" > note.txt; touch {began}; {}; echo done-step-1",
        until_there(&go)
    );
    for turn in [
        json!({"when": {"last_user": {"equals": "go"}},
               "reply": [bash(&print)]}),
        json!({"when": {"tool_result": "done-step-1"}, "reply": [{"text": format!("it is {value}")}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let config = rig.path("worker.json");
    std::fs::write(&config, json!({"secrets": {"allow": {"tenant:default": ["DEPLOY_CODE"]}}}).to_string())
        .unwrap();
    let root = rig.path("root").display().to_string();
    let log = std::fs::File::create(rig.path("w.log")).unwrap();
    let worker = rig
        .command(&["worker", "--lease", "60s", "--root", &root, "--config", config.to_str().unwrap()])
        .env("DEPLOY_CODE", value)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let _worker = WorkerProcess(worker);
    rig.until("a worker is there", || {
        std::fs::read_to_string(rig.path("w.log")).unwrap_or_default().contains("waits")
    })
    .await;
    let id = rig.submit("go", &["--secret", "DEPLOY_CODE", "--keep", "*.txt"]);
    let refused = rig.submit("go", &["--secret", "OTHER"]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(
            !line.windows(value.len()).any(|it| it == value.as_bytes()),
            "{}",
            String::from_utf8_lossy(&line)
        );
    }
    std::fs::write(rig.path("go"), "").unwrap();
    rig.until("they end", || rig.state(&id) == "done" && rig.state(&refused) == "failed").await;
    assert!(rig.jobs()[&refused]["reason"].as_str().unwrap().contains("OTHER"));
    let shown =
        [rig.ok(&["logs", &id]), rig.ok(&["show", &id]), rig.ok(&["results", &id, "--json"])].concat();
    assert!(shown.contains("«secret:DEPLOY_CODE»") && !shown.contains(value), "{shown}");
    let mut seen = 0;
    // Includes the worker's own output and files.
    rig.until("the worker has tidied up", || {
        std::fs::read_to_string(rig.path("w.log")).unwrap_or_default().contains(&format!("{id}: done"))
    })
    .await;
    let own = walk(rig.haft.dir.path()).into_iter();
    let of_engine = rig.engine.as_ref().map(|it| walk(it.dir.path())).unwrap_or_default();
    for entry in own.chain(of_engine) {
        let name = entry.display().to_string();
        if entry.is_file() && !name.contains("postmaster") {
            seen += 1;
            let Ok(bytes) = std::fs::read(&entry) else { continue };
            let found = bytes.windows(value.len()).any(|it| it == value.as_bytes());
            assert!(!found, "{name}");
        }
    }
    assert!(0 < seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_stay_with_the_worker() {
    check_secrets(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_stay_with_the_worker_on_nats() {
    check_secrets(Kind::Nats).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_stay_with_the_worker_on_postgres() {
    check_secrets(Kind::Postgres).await;
}

fn walk(dir: &std::path::Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(walk(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => (),
        }
    }
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_jobs_are_taken_whole_once_or_not_at_all() {
    let rig = FleetRig::new(json!([
        {"when": {"last_user": "bad"}, "times": "always", "reply": [{"text": "no"}]},
        {"times": "always", "reply": [{"text": "yes"}]},
    ]))
    .await;
    rig.haft.write("bad.csv", "repo,x\na,1\nb\n");
    let refused = rig.run(&["map", "bad.csv", "-p", "do {repo}"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("row 3, column 2"), "{said}");
    assert_eq!(rig.jobs().len(), 0);
    rig.haft.write("jobs.csv", "repo\na\nb\nc\n");
    let _worker = rig.worker("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let first = rig.ok(&["map", "jobs.csv", "-p", "do {repo}", "--wait", "--json"]);
    assert!(first.contains("\"queued\":3") && first.contains("\"done\":3"), "{first}");
    let again = rig.ok(&["map", "jobs.csv", "-p", "do {repo}", "--wait", "--json"]);
    assert!(again.contains("\"queued\":0,\"known\":3"), "{again}");
    // If a stage fails, the next one does not start.
    rig.haft.write("staged.yaml", "batch: staged\nrollout: [1, 100%]\ndefaults: {check: 'test -e never'}\njobs:\n  - {repo: a}\n  - {repo: b}\n");
    let staged = rig.run(&["map", "staged.yaml", "-p", "do {repo}"]);
    assert_eq!(staged.status.code(), Some(1), "{}", String::from_utf8_lossy(&staged.stderr));
    let of_stage = rig.jobs().into_values().filter(|it| it["batch"] == "staged").count();
    assert_eq!(of_stage, 1);
    let costs = rig.ok(&["cost", "--by", "repo", "--json"]);
    assert_eq!(costs.lines().count(), 3, "{costs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_cancelled_wherever_it_is_and_others_see_nothing() {
    let rig = FleetRig::new(json!([])).await;
    let began = rig.path("began").display().to_string();
    let sleep = long_sleep();
    let sleeps = format!("touch {began}; {sleep}");
    rig.model.push(serde_json::from_value(json!({"times": "always", "reply": [bash(&sleeps)]})).unwrap());
    let _worker = rig.worker("a", &["--slots", "1"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let running = rig.submit("one", &[]);
    let queued = rig.submit("two", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    let other = rig.command(&["show", &running]).env("HAFT_FLEET_TENANT", "other").output().unwrap();
    assert!(String::from_utf8_lossy(&other.stderr).contains("there is no job"), "{other:?}");
    let other = rig.command(&["cancel", &running]).env("HAFT_FLEET_TENANT", "other").output().unwrap();
    assert!(!other.status.success());
    rig.ok(&["cancel", &queued]);
    assert_eq!(rig.state(&queued), "cancelled");
    rig.ok(&["cancel", &running]);
    rig.until("it is cancelled", || rig.state(&running) == "cancelled").await;
    rig.until("its processes are gone", || is_gone(&sleep)).await;
    let log = rig.ok(&["logs", &running]);
    assert!(log.contains("interrupted"), "{log}");
}

/// The jobs of a batch together do not exceed its budget.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_shared_by_all_jobs_of_a_batch() {
    let rig = FleetRig::new(json!([{"times": "always", "delay_ms": 30, "reply": [{"text": "yes"}]}])).await;
    let _worker = rig.worker("a", &["--slots", "3"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let rows: String = (0..8).map(|number| format!("r{number}\n")).collect();
    rig.haft.write("jobs.csv", &format!("repo\n{rows}"));
    let mapped = rig.run(&["map", "jobs.csv", "-p", "do {repo}", "--budget-usd", "0.20", "--wait", "--json"]);
    assert_eq!(mapped.status.code(), Some(1), "{}", String::from_utf8_lossy(&mapped.stderr));
    let jobs: Vec<Value> = rig.jobs().into_values().collect();
    let spent: f64 = jobs.iter().filter_map(|it| it["usd"].as_f64()).sum();
    let done = jobs.iter().filter(|it| it["state"] == "done").count();
    let refused = jobs
        .iter()
        .filter(|it| it["reason"].as_str().unwrap_or_default().contains("the budget of the batch"));
    assert!(0 < done && done < 8 && spent <= 0.20 + 3.0 * 0.05, "{done} done, ${spent}");
    assert_eq!(refused.count(), 8 - done, "{jobs:?}");
}

/// A client that may submit may not read, and a delivery sent three times creates one job.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_over_http_once() {
    use tokio::io::AsyncBufReadExt as _;
    let rig = FleetRig::new(json!([])).await;
    std::fs::write(rig.path("token"), "a-token-of-some-length\n").unwrap();
    let token = rig.path("token").display().to_string();
    let mut command: tokio::process::Command =
        rig.command(&["serve", "--http", "127.0.0.1:0", "--token-file", &token]).into();
    let mut server = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(server.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let url = line.rsplit(' ').next().unwrap().to_owned();
    let client = reqwest::Client::new();
    let post = async |token: &str, body: Value| {
        let sent = client
            .post(format!("{url}/jobs"))
            .bearer_auth(token)
            .body(body.to_string())
            .send()
            .await
            .unwrap();
        (sent.status().as_u16(), sent.text().await.unwrap())
    };
    assert_eq!(post("another-token-entirely", json!({"prompt": "x"})).await.0, 401);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let (status, body) =
            post("a-token-of-some-length", json!({"prompt": "x", "key": "delivery-1"})).await;
        assert_eq!(status, 202, "{body}");
        ids.push(body);
    }
    ids.dedup();
    assert_eq!((ids.len(), rig.jobs().len()), (1, 1));
    for wrong in
        [json!({"prompt": ""}), json!({"prompt": "x", "workspace": {"dir": "/etc"}}), json!({"promt": "x"})]
    {
        assert_eq!(post("a-token-of-some-length", wrong.clone()).await.0, 400, "{wrong}");
    }
    let read = client.get(format!("{url}/jobs")).bearer_auth("a-token-of-some-length").send().await.unwrap();
    assert_eq!(read.status().as_u16(), 405);
}

/// A message to a job is delivered once, also after a takeover by another worker.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_to_a_run_is_heard_once() {
    let rig = FleetRig::new(json!([])).await;
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    let wait = format!("touch {began}; {}; echo done-step-1", until_there(&go));
    for turn in [
        json!({"when": {"last_user": {"equals": "go"}}, "reply": [bash(&wait)]}),
        json!({"when": {"last_user": "and be quick"}, "times": "always", "reply": [{"text": "quick"}]}),
        json!({"when": {"tool_result": "done-step-1"}, "reply": [{"text": "not told"}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let _worker = rig.worker("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    rig.ok(&["say", &id, "and be quick"]);
    std::fs::write(rig.path("go"), "").unwrap();
    rig.until("it ends", || rig.state(&id) == "done").await;
    let log = rig.ok(&["logs", &id]);
    let heard =
        log.lines().filter(|it| it.contains("and be quick") && it.starts_with("{\"type\":\"user\"")).count();
    assert_eq!(heard, 1, "{log}");
    let result: Value = serde_json::from_str(rig.ok(&["results", &id, "--json"]).trim()).unwrap();
    assert_eq!(result["result"]["result"], "quick");
}

/// A job file gives the same result on every store engine, except for ids and times.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_job_file_comes_out_the_same_on_every_engine() {
    let mut seen: Vec<(Kind, Vec<Value>)> = Vec::new();
    for kind in [Kind::Sqlite, Kind::Nats, Kind::Postgres] {
        let turns = json!([
            {"when": {"last_user": "do b"}, "times": "always", "reply": [bash("false")]},
            {"times": "always", "reply": [{"text": "yes"}]},
        ]);
        let Some(rig) = FleetRig::on(kind, turns).await else { continue };
        rig.haft.write("jobs.yaml", "batch: same\njobs:\n  - {repo: a, check: 'true'}\n  - {repo: b}\n  - {repo: c, check: 'false'}\n");
        let _worker = rig.worker("a", &[]);
        rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
        rig.run(&["map", "jobs.yaml", "-p", "do {repo}", "--flag", "max-turns=2", "--wait"]);
        let results = rig.run(&["results", "same", "--json"]);
        let text = String::from_utf8(results.stdout).unwrap();
        let mut lines: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        lines.iter_mut().for_each(without_ids_and_times);
        assert_eq!(lines.len(), 3, "{kind:?}: {text}");
        let status = rig.ok(&["status", "same", "--json"]);
        lines.extend(status.lines().map(|it| {
            let mut line: Value = serde_json::from_str(it).unwrap();
            without_ids_and_times(&mut line);
            line
        }));
        seen.push((kind, lines));
    }
    for (kind, lines) in &seen[1..] {
        assert_eq!(lines, &seen[0].1, "{kind:?}");
    }
}

fn without_ids_and_times(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        for name in [
            "id",
            "owners",
            "session_id",
            "uuid",
            "user_message_uuid",
            "user_message_uuids",
            "duration_ms",
            "duration_api_ms",
            "ttft_ms",
            "usd",
            "usage",
            "modelUsage",
            "total_cost_usd",
            "worker",
            "epoch",
            "submitted_at",
            "started_at",
            "changed_at",
        ] {
            fields.remove(name);
        }
        fields.values_mut().for_each(without_ids_and_times);
    }
    value.as_array_mut().into_iter().flatten().for_each(without_ids_and_times);
}
