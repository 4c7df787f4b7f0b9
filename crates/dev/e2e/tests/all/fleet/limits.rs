//! Limits of jobs: disk, money, size of results, provider keys.

use serde_json::{Value, json};

use crate::fleet::harness::{FleetRig, WorkerProcess, bash, is_gone, long_sleep, until_there};

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_grows_beyond_its_limit_ends_its_job() {
    let rig = FleetRig::new(json!([])).await;
    let sleep = long_sleep();
    let fill = format!("head -c 9000000 /dev/zero > big; {sleep}");
    for turn in [
        json!({"when": {"last_user": {"equals": "fill"}}, "reply": [bash(&fill)]}),
        json!({"times": "always", "reply": [{"text": "fine"}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let _worker = rig.worker("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let large = rig.submit("fill", &["--max-disk", "4M"]);
    let setup = rig.submit("hello", &["--max-disk", "4M", "--setup", &fill]);
    let small = rig.submit("hello", &["--max-disk", "64M", "--setup", "head -c 9000000 /dev/zero > big"]);
    rig.until("all end", || {
        [&large, &setup, &small].iter().all(|id| ["done", "failed"].contains(&rig.state(id).as_str()))
    })
    .await;
    let jobs = rig.jobs();
    for id in [&large, &setup] {
        let reason = jobs[id]["reason"].as_str().unwrap();
        assert!(reason.contains("limits.disk") && reason.contains("may have 4 MB"), "{}", jobs[id]);
    }
    assert_eq!(jobs[&small]["state"], "done", "{}", jobs[&small]);
    let result: Value = serde_json::from_slice(&rig.run(&["results", &large, "--json"]).stdout).unwrap();
    assert_eq!((&result["exit_code"], &result["patch"]), (&json!(5), &Value::Null), "{result}");
    rig.until("its processes are gone", || is_gone(&sleep)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_warn_once_before_they_are_spent() {
    let rig = FleetRig::new(json!([{"times": "always", "reply": [{"text": "yes"}]}])).await;
    let config = rig.path("worker.json");
    std::fs::write(&config, json!({"tenant_usd": 0.5}).to_string()).unwrap();
    let _worker = rig.worker("a", &["--slots", "1", "--config", config.to_str().unwrap()]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    // A request to this model reserves about eight cents and costs three or four.
    let model = ["--model", "claude-opus-4-5"];
    let own = rig.submit("one", &[&["--max-usd", "0.1"][..], &model].concat());
    rig.until("it ends", || rig.state(&own) == "done").await;
    let log = rig.ok(&["logs", &own]);
    assert_eq!(log.matches("of the budget of the job are spent or set aside").count(), 1, "{log}");
    assert!(rig.jobs()[&own]["warning"].as_str().unwrap().contains("of $0.10"), "{}", rig.jobs()[&own]);
    let rows: String = (0..8).map(|number| format!("r{number}\n")).collect();
    rig.haft.write("jobs.csv", &format!("repo\n{rows}"));
    let batch = ["map", "jobs.csv", "-p", "do {repo}", "--budget-usd", "0.2", "--wait"];
    rig.run(&[&batch[..], &model].concat());
    let warned = |what: &str| {
        let jobs = rig.jobs();
        jobs.values().filter(|it| it["warning"].as_str().is_some_and(|it| it.contains(what))).count()
    };
    assert_eq!(warned("the budget of the batch"), 1, "{:?}", rig.jobs());
    let spent = rig.worker_said("a");
    assert!(spent.contains("% of the budget of the batch jobs-"), "{spent}");
    assert_eq!(warned("the budget of the tenant"), 0, "{spent}");
    // The tenant's budget is used up by further batches.
    rig.run(&[&["map", "jobs.csv", "-p", "again {repo}", "--wait"][..], &model].concat());
    let said = rig.worker_said("a");
    assert_eq!(said.matches("of the budget of the tenant default are").count(), 1, "{said}");
}

/// A result too large to show is available to the next worker, and in the log under a name that does not
/// depend on the machine.
#[tokio::test(flavor = "multi_thread")]
async fn large_results_go_along_to_another_worker() {
    let rig = FleetRig::new(json!([])).await;
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    let wait = format!("touch {began}; {}; echo done-step-2", until_there(&go));
    let text: String =
        (0..4_000).map(|number| format!("line {number} of a long text for nobody\n")).collect();
    std::fs::write(rig.path("large.txt"), format!("{text}the very last line\n")).unwrap();
    let print = bash(&format!("cat {}", rig.path("large.txt").display()));
    for turn in [
        json!({"when": {"last_user": {"equals": "go"}}, "reply": [print]}),
        json!({"when": {"tool_result": "line 1 of a long text"}, "reply": [{"stall": "forever"}]}),
        json!({"when": {"tool_result": "line 1 of a long text"}, "reply": [bash(&wait)]}),
        json!({"when": {"tool_result": "done-step-2"}, "reply": [{"text": "finished"}]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let worker = rig.mortal("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    rig.model.wait_until(|requests| requests.len() == 2).await;
    let told = rig.model.requests()[1].json()["messages"].to_string();
    assert!(told.contains("lines; the file ") && told.contains("root-a"), "{told}");
    rig.until("the result is kept", || rig.ok(&["logs", &id]).contains("\"tool_result\"")).await;
    worker.kill();
    std::fs::remove_dir_all(rig.path("root-a")).unwrap();
    let log = rig.ok(&["logs", &id]);
    let named = log.split("lines; the file ").nth(1).unwrap().split(" has them").next().unwrap().to_owned();
    assert!(named.starts_with("blob:"), "{named}");
    // Includes the part that was not shown.
    let is_whole =
        |text: &str| text.contains("line 2000 of a long text") && text.contains("the very last line");
    let shown = rig.ok(&["show", &named]);
    assert!(is_whole(&shown), "{} bytes", shown.len());
    let _next = rig.worker("b", &[]);
    rig.until("the next command runs", || rig.path("began").exists()).await;
    let told = rig.model.requests().last().unwrap().json()["messages"].to_string();
    let path = told.split("lines; the file ").nth(1).unwrap().split(" has them").next().unwrap().to_owned();
    assert!(path.contains("root-b"), "{path}");
    assert!(is_whole(&std::fs::read_to_string(&path).unwrap()), "{path}");
    std::fs::write(rig.path("go"), "").unwrap();
    rig.until("it ends", || rig.state(&id) == "done").await;
    // Another job that gets the name also has the file, and its log has the same name.
    let wait = json!({"when": {"last_user": "look into"}, "reply": [bash(&wait.replace("began", "again"))]});
    rig.model.push(serde_json::from_value(wait).unwrap());
    std::fs::remove_file(rig.path("go")).unwrap();
    let other = rig.submit(&format!("look into {named}, please"), &[]);
    rig.until("it is asked", || rig.path("again").exists()).await;
    let told = rig.model.requests().last().unwrap().json()["messages"].to_string();
    let path = told.split("look into ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    assert!(is_whole(&std::fs::read_to_string(&path).unwrap()), "{path}");
    rig.until("it is said", || rig.ok(&["logs", &other]).contains(&format!("look into {named}"))).await;
    rig.ok(&["cancel", &other]);
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
}

/// A model can read a blob under its name if the blob belongs to the tenant.
#[tokio::test(flavor = "multi_thread")]
async fn blobs_are_read_by_their_names() {
    let rig = FleetRig::new(json!([])).await;
    let text: String = (0..4_000).map(|number| format!("line {number} of a long text\n")).collect();
    std::fs::write(rig.path("large.txt"), format!("{text}the very last line\n")).unwrap();
    let push = |turn: Value| rig.model.push(serde_json::from_value(turn).unwrap());
    let read = |name: &str| {
        let input = json!({"file_path": name, "offset": -1});
        json!({"reply": [{"tool": {"name": "Read", "input": input}}]})
    };
    push(json!({"reply": [bash(&format!("cat {}", rig.path("large.txt").display()))]}));
    push(json!({"reply": [{"text": "it is long"}]}));
    let _worker = rig.worker("a", &[]);
    let first = rig.submit("print it", &[]);
    rig.until("it ends", || rig.state(&first) == "done").await;
    let log = rig.ok(&["logs", &first]);
    let named = log.split("lines; the file ").nth(1).unwrap().split(" has them").next().unwrap().to_owned();
    assert!(named.starts_with("blob:"), "{named}");
    let unknown = format!("blob:{}", "0".repeat(64));
    for (name, want) in
        [(named.as_str(), "the very last line"), (&unknown, "has no blob:0000"), ("blob:12", "blob:12")]
    {
        push(read(name));
        push(json!({"reply": [{"text": "so it is"}]}));
        let id = rig.ok(&["submit", "-p", "read what you find"]).trim().to_owned();
        rig.until("it ends", || rig.state(&id) == "done").await;
        let told = rig.model.requests().last().unwrap().json()["messages"].to_string();
        assert!(told.contains(want), "{name}: {told}");
        // The log has the path as the model wrote it.
        assert!(rig.ok(&["logs", &id]).contains(&format!("\"file_path\":\"{name}\"")), "{name}");
    }
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
}

/// All sessions share a key's rate limit, and a `retry-after` of the provider pauses all of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shared_and_one_refusal_stops_everybody() {
    let rig = FleetRig::new(json!([
        {"error": {"status": 429, "type": "rate_limit_error", "message": "slow down", "headers": {"retry-after": "20"}}},
        {"times": "always", "reply": [{"text": "yes"}]},
    ]))
    .await;
    let config = rig.path("worker.json");
    std::fs::write(&config, json!({"keys": {"*": {"requests": 120}}}).to_string()).unwrap();
    let rows: String = (0..30).map(|number| format!("r{number}\n")).collect();
    rig.haft.write("jobs.csv", &format!("repo\n{rows}"));
    let workers: Vec<WorkerProcess> = ["a", "b"]
        .iter()
        .map(|name| rig.worker(name, &["--slots", "20", "--config", config.to_str().unwrap()]))
        .collect();
    rig.until("workers are there", || ["a", "b"].iter().all(|it| rig.worker_said(it).contains("waits")))
        .await;
    rig.ok(&["map", "jobs.csv", "-p", "do {repo}"]);
    let ended = || rig.jobs().values().filter(|it| it["state"] == "done").count();
    rig.until("some end", || 12 <= ended()).await;
    drop(workers);
    let requests = rig.model.requests();
    let refused: Vec<_> = requests.iter().filter(|it| it.status == 429).collect();
    assert_eq!(refused.len(), 1, "{} requests", requests.len());
    // Requests already sent when the refusal came are allowed; then none until the pause is over.
    let at = refused[0].answered.unwrap_or(refused[0].received).as_secs_f64();
    let early = requests.iter().filter(|it| {
        let received = it.received.as_secs_f64();
        at + 10.0 < received && received < at + 19.5
    });
    assert_eq!(early.count(), 0, "asked although the provider said when to come back");
    // Two requests per second in total, plus what sessions reserved ahead.
    let (first, last) = (requests[0].received, requests[requests.len() - 1].received);
    let most = (last - first).as_secs_f64() * 2.0 + 2.0 * 4.0 + 1.0;
    #[allow(clippy::cast_precision_loss, reason = "a handful")]
    let were = requests.len() as f64;
    assert!(were <= most, "{were} requests in {:?}", last - first);
}

/// Jobs start after the jobs they need, on workers with the required resources. A failed job fails those
/// that need it.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_start_when_what_they_need_is_there() {
    let rig = FleetRig::new(json!([
        {"when": {"last_user": "do broken"}, "times": "always", "error": {"status": 400, "type": "invalid_request_error", "message": "no"}},
        {"times": "always", "reply": [{"text": "yes"}]},
    ]))
    .await;
    for (text, words) in [
        ("- {prompt: hi, name: a, needs: b}", "no job of this file is called `b`"),
        ("- {prompt: hi, name: a, needs: [a]}", "jobs wait for each other: a needs a"),
        (
            "- {prompt: hi, name: a, needs: b}\n  - {prompt: hi, name: b, needs: {jobs: [a]}}",
            "wait for each other",
        ),
        (
            "- {prompt: hi, needs: {cpus: 4}}",
            "row 3, column 26: `cpus` is not known here; did you mean `cpu`?",
        ),
        ("- {prompt: hi, needs: {mem: lots}}", "is no size"),
    ] {
        rig.haft.write("jobs.yaml", &format!("batch: x\njobs:\n  {text}\n"));
        let refused = rig.run(&["map", "jobs.yaml"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(words), "{words}: {said}");
    }
    assert_eq!(rig.jobs().len(), 0);
    let _worker = rig.worker("a", &["--slots", "3", "--cpu", "4", "--gpu", "0"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let file = "batch: chain\njobs:\n  - {name: last, needs: [middle, first]}\n  - {name: middle, needs: {cpu: 2, jobs: first}}\n  \
                - {name: first}\n  - {name: broken}\n  - {name: lost, needs: broken}\n  - {name: large, needs: {gpu: 1, mem: 1M}}\n";
    rig.haft.write("chain.yaml", file);
    rig.ok(&["map", "chain.yaml", "-p", "do {name}"]);
    let of = |name: &str| {
        let jobs = rig.jobs();
        jobs.values().find(|it| it["labels"]["name"] == name).cloned().unwrap_or_default()
    };
    rig.until("what can end has ended", || {
        of("last")["state"] == "done" && of("lost")["state"] == "cancelled"
    })
    .await;
    let started = |name: &str| of(name)["started_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(started("first") < started("middle") && started("middle") < started("last"));
    assert!(of("lost")["reason"].as_str().unwrap().contains("which is failed"), "{}", of("lost"));
    let large = of("large");
    assert_eq!(large["state"], "queued", "{large}");
    assert!(
        large["reason"].as_str().unwrap().contains("no worker of pool default has 1 MB, 1 gpu"),
        "{large}"
    );
    let _other = rig.worker("b", &["--gpu", "2"]);
    rig.until("the other worker has it", || of("large")["state"] == "done").await;
    // One at a time.
    let first = rig.submit("one", &["--cpu", "1"]);
    let second = rig.submit("two", &["--needs", &first]);
    rig.until("both end", || rig.state(&second) == "done").await;
    assert!(!rig.run(&["submit", "-p", "three", "--needs", "nobody"]).status.success());
}
