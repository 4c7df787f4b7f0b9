//! Sessions continue while the servers of their fleet fail.

use serde_json::{Value, json};

use crate::fleet::{
    harness::{FleetRig, bash, until_there},
    support::cluster::{another_leads, copies, leader, open_cluster, three_nodes},
};

const JOBS: usize = 24;

/// Scenarios 5 and 6: the leader of three servers is killed while sessions run, then the next leader,
/// then all at once. No session fails or restarts, and no call runs twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_go_on_while_servers_are_killed() {
    let mut rig = FleetRig::new(json!([])).await;
    let Some((mut nodes, address)) = three_nodes(&rig.path("nodes")) else { return };
    rig.store = address;
    let store = open_cluster(&rig.store).await;
    let step = |number: usize| {
        let go = rig.path(&format!("go-{number}")).display().to_string();
        bash(&rig.effect(&format!("{}; echo done-step-{number}", until_there(&go))))
    };
    let mut turns: Vec<Value> = vec![
        json!({"when": {"tool_result": "done-step-4"}, "times": "always", "reply": [{"text": "finished"}]}),
    ];
    for number in 1..4 {
        turns.push(json!({"when": {"tool_result": format!("done-step-{number}")}, "times": "always",
            "reply": [step(number + 1)]}));
    }
    turns.push(json!({"times": "always", "reply": [step(1)]}));
    turns.into_iter().for_each(|turn| rig.model.push(serde_json::from_value(turn).unwrap()));
    let names = ["a", "b"];
    let _workers = names.map(|it| rig.worker(it, &["--slots", "12", "--lease", "300s"]));
    rig.until("workers are there", || names.iter().all(|it| rig.worker_said(it).contains("waits"))).await;
    let rows: String = (0..JOBS).map(|number| format!("r{number}\n")).collect();
    rig.haft.write("jobs.csv", &format!("repo\n{rows}"));
    rig.ok(&["map", "jobs.csv", "-p", "do {repo}", "--permission-mode", "bypassPermissions"]);
    let runs = |step: usize| rig.effects().len() == JOBS * step;
    for number in 1..=2 {
        rig.until("all run", || runs(number)).await;
        let led = leader(&store).await;
        nodes[led].kill();
        // Results and further calls arrive while there is no leader.
        std::fs::write(rig.path(&format!("go-{number}")), "").unwrap();
        another_leads(&store, led).await;
        rig.until("all go on", || runs(number + 1)).await;
        nodes[led].begin();
        while !copies(&store).await.is_good {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    nodes.iter_mut().for_each(crate::fleet::support::servers::Server::kill);
    std::fs::write(rig.path("go-3"), "").unwrap();
    nodes.iter_mut().for_each(crate::fleet::support::servers::Server::begin);
    rig.until("all go on", || runs(4)).await;
    std::fs::write(rig.path("go-4"), "").unwrap();
    rig.until("all end", || rig.jobs().values().all(|it| it["state"] == "done")).await;
    let jobs = rig.jobs();
    assert!(jobs.values().all(|it| it["deliveries"] == 1 && it["lost"] == 0), "{jobs:?}");
    let mut effects = rig.effects();
    effects.sort();
    effects.dedup();
    assert_eq!((effects.len(), rig.effects().len()), (JOBS * 4, JOBS * 4));
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
}
