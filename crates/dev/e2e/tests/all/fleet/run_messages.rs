//! Jobs that send messages to each other and to users.

use haft_fleet::job_file::job_id;
use haft_fleet_store::{FleetAddress, FleetStore, RunId};
use serde_json::{Value, json};

use crate::fleet::{
    harness::{FleetRig, WorkerProcess, bash, until_there},
    support::servers::Kind,
};

fn push(rig: &FleetRig, turns: impl IntoIterator<Item = Value>) {
    turns.into_iter().for_each(|turn| rig.model.push(serde_json::from_value(turn).unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_between_runs_are_heard_once_and_in_order() {
    check_messages(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_between_runs_are_heard_once_on_nats() {
    check_messages(Kind::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_between_runs_are_heard_once_on_postgres() {
    check_messages(Kind::Postgres).await;
}

/// Scenario 27: agents on four workers send each other a hundred messages each, and one worker is killed
/// while it sends. Each message is delivered once, in order.
async fn check_messages(kind: Kind) {
    const EACH: usize = 100;
    let Some(rig) = FleetRig::on(kind, json!([])).await else { return };
    let ids: Vec<String> = (0..4).map(|number| job_id("default", &format!("key/agent-{number}"))).collect();
    let go = rig.path("go").display().to_string();
    let wait = format!("{}; echo done-step-1", until_there(&go));
    // Wait until all jobs exist: a message to a missing job fails.
    let all_there = rig.path("all-there").display().to_string();
    // The first matching rule answers. Messages may arrive together with the result that starts an
    // agent's sending; without messages the prompt stays the last user text.
    let done = json!({"when": {"tool_result": {"regex": "done-step-1|may be done in part|outcome unknown"}},
        "times": "always", "reply": [{"text": "and on"}]});
    push(&rig, [done]);
    for from in 0..4 {
        let to = format!("run:{}", ids[(from + 1) % 4]);
        let mut reply: Vec<Value> = (0..EACH)
            .map(|number| {
                let message = format!("message {number} of agent {from}");
                json!({"tool": {"name": "SendMessage", "input": {"to": to, "message": message}}})
            })
            .collect();
        reply.push(bash(&wait));
        // The answer that was lost with the worker is requested again.
        let begun =
            json!({"when": {"tool_result": format!("begin-{from}")}, "times": "always", "reply": reply});
        push(&rig, [begun]);
    }
    push(&rig, [json!({"when": {"last_user": "message"}, "times": "always", "reply": [{"text": "heard"}]})]);
    for from in 0..4 {
        let begin = bash(&format!("{}; echo begin-{from}", until_there(&all_there)));
        let prompt = format!("I am agent {from}");
        push(&rig, [json!({"when": {"last_user": prompt}, "times": "always", "reply": [begin]})]);
    }
    let names = ["a", "b", "c", "d"];
    let mut workers: Vec<WorkerProcess> =
        names.iter().map(|name| rig.mortal(name, &["--slots", "1"])).collect();
    rig.until("workers are there", || names.iter().all(|it| rig.worker_said(it).contains("waits"))).await;
    for (number, id) in ids.iter().enumerate() {
        let key = format!("agent-{number}");
        assert_eq!(rig.submit(&format!("I am agent {number}"), &["--key", &key]), *id);
    }
    std::fs::write(all_there, "").unwrap();
    let store = FleetStore::open(&FleetAddress::parse(&rig.store).unwrap()).await.unwrap();
    let heard = async |to: usize, count: usize| {
        let run = RunId::parse(&ids[to]).unwrap();
        let begin = std::time::Instant::now();
        loop {
            let found = store.log.controls(run.clone(), 0).await.map(|it| it.len());
            if found.as_ref().is_ok_and(|it| count <= *it) {
                return;
            }
            let patient = begin.elapsed().as_secs() < 300;
            assert!(patient, "agent {to}, {count} messages: {found:?}\n{}", rig.ok(&["status", "--json"]));
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    heard(1, fastrand::usize(1..80)).await;
    // Kill the worker that runs the first agent while it sends.
    let has = |name: &str| rig.worker_said(name).contains(&format!("{}: taken", ids[0]));
    let victim = names.iter().position(|name| has(name)).unwrap();
    workers.remove(victim).kill();
    let _next = rig.worker("e", &["--slots", "1"]);
    for to in 0..4 {
        heard(to, EACH).await;
    }
    std::fs::write(rig.path("go"), "").unwrap();
    rig.until("all end", || ids.iter().all(|id| rig.state(id) == "done")).await;
    for (number, id) in ids.iter().enumerate() {
        let from = (number + 3) % 4;
        let log = rig.ok(&["logs", id]);
        let said =
            log.lines().filter(|it| it.starts_with("{\"type\":\"user\"") && !it.contains("tool_result"));
        let words = format!(" of agent {from}");
        let got: Vec<usize> = said
            .flat_map(|line| line.split("message ").skip(1))
            .filter_map(|it| it.split_once(&words).filter(|it| it.0.len() <= 2)?.0.parse().ok())
            .collect();
        assert_eq!(got, (0..EACH).collect::<Vec<_>>(), "agent {from} to {number}: {log}");
    }
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
}

/// A job with a question waits, lists it, and continues with the first answer; also after its worker was
/// lost.
#[tokio::test(flavor = "multi_thread")]
async fn questions_are_listed_and_answered_from_anywhere() {
    let rig = FleetRig::new(json!([])).await;
    let question = json!({"tool": {"name": "AskUserQuestion", "input": {"questions": [
        {"question": "Which colour?", "header": "Colour", "multiSelect": false,
         "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}]}}});
    push(
        &rig,
        [
            json!({"when": {"tool_result": "blue"}, "times": "always", "reply": [{"text": "painted blue"}]}),
            json!({"when": {"tool_result": "done-step-1"}, "times": "always", "reply": [question]}),
            json!({"when": {"tool_result": "not today"}, "times": "always", "reply": [{"text": "then not"}]}),
            json!({"times": "always", "reply": [bash("touch made; echo done-step-1")]}),
        ],
    );
    let worker = rig.mortal("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let ask = |prompt: &str| rig.ok(&["submit", "-p", prompt, "--ask"]).trim().to_owned();
    let (first, second) = (ask("go"), ask("go too"));
    let asks = |id: &str, tool: &str| {
        let job = rig.jobs()[id].clone();
        job["state"] == "waiting" && job["questions"][0]["tool"] == tool
    };
    rig.until("both ask", || asks(&first, "Bash") && asks(&second, "Bash")).await;
    rig.ok(&["say", &second, "not today"]);
    rig.until("the second ends", || rig.jobs()[&second]["state"] != "waiting").await;
    // The next worker asks again and gets the answer given meanwhile.
    worker.kill();
    rig.ok(&["say", &first, "yes"]);
    let _next = rig.worker("b", &[]);
    rig.until("it asks the next", || asks(&first, "AskUserQuestion")).await;
    rig.ok(&["say", &first, "blue"]);
    rig.until("all end", || {
        [&first, &second]
            .iter()
            .all(|id| !["waiting", "running", "starting", "queued"].contains(&rig.state(id).as_str()))
    })
    .await;
    let result =
        |id: &str| -> Value { serde_json::from_slice(&rig.run(&["results", id, "--json"]).stdout).unwrap() };
    assert_eq!(result(&first)["result"]["result"], "painted blue", "{}", rig.ok(&["logs", &first]));
    assert_eq!(result(&second)["result"]["result"], "then not", "{}", rig.ok(&["logs", &second]));
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
}
