//! Scenario 14: full disks of the store and of a worker.

use std::time::Duration;

use haft_fleet_store::{FleetAddress, FleetStore, NewJob};
use serde_json::{Value, json};

use crate::fleet::{
    harness::{FleetRig, bash, until_there},
    support::small_disk::{Ballast, SmallDisk},
};

fn push(rig: &FleetRig, turns: impl IntoIterator<Item = Value>) {
    turns.into_iter().for_each(|turn| rig.model.push(serde_json::from_value(turn).unwrap()));
}

/// The store's disk is full during a job: no call runs before its log line is stored, and the job
/// continues when there is space.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_runs_without_its_line_while_the_store_is_full() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let mut rig = FleetRig::new(json!([])).await;
    rig.store = format!("sqlite:{}", disk.path().join("fleet.db").display());
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    // The result is larger than the remaining space.
    let first = format!("touch {began}; {}; seq 1 200000; echo done-step-1", until_there(&go));
    push(
        &rig,
        [
            json!({"when": {"tool_result": "done-step-2"}, "times": "always", "reply": [{"text": "finished"}]}),
            json!({"when": {"tool_result": "done-step-1"}, "times": "always",
                "reply": [bash(&rig.effect("echo done-step-2"))]}),
            json!({"times": "always", "reply": [bash(&rig.effect(&first))]}),
        ],
    );
    let _worker = rig.worker("a", &["--lease", "300s"]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    let ballast = Ballast::fill(&disk.path(), 0);
    std::fs::write(rig.path("go"), "").unwrap();
    for _ in 0..30 {
        assert_eq!(rig.effects().len(), 1, "a call ran without its line");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let refused = rig.run(&["submit", "-p", "one more"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("fleet.db") && said.contains("room"), "{said}");
    drop(ballast);
    rig.until("it goes on", || rig.state(&id) == "done").await;
    let job = rig.jobs()[&id].clone();
    assert_eq!((rig.effects().len(), &job["deliveries"]), (2, &json!(1)), "{job}");
    assert_eq!(rig.model.refusals(), Vec::<String>::new());
}

/// A command fills its worker's disk: the worker takes no further jobs, names the path, and continues
/// when there is space.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_room_says_so_and_goes_on_when_there_is_some() {
    let Some(disk) = SmallDisk::mount(48) else { return };
    let rig = FleetRig::new(json!([{"times": "always", "reply": [{"text": "yes"}]}])).await;
    let ballast = Ballast::fill(&disk.path(), 2_000_000);
    let root = disk.path().join("root").display().to_string();
    let _worker = rig.worker("a", &["--root", &root, "--least-disk", "8M"]);
    // Submitted through the library: the command would start a worker of its own if none takes jobs.
    let store = FleetStore::open(&FleetAddress::parse(&rig.store).unwrap()).await.unwrap();
    let head = json!({"id": "waits-for-room", "tenant": "default", "pool": "default", "class": "normal",
        "batch": null, "dedup": null, "concurrency_key": null, "labels": {}});
    let (head, id) = (serde_json::from_value(head).unwrap(), "waits-for-room");
    let body = json!({"v": 1, "haft": env!("CARGO_PKG_VERSION"), "job": {"prompt": "go"}});
    store.queue.submit(vec![NewJob { head, not_before: None, body }]).await.unwrap();
    rig.until("it is said", || rig.worker_said("a").contains("takes no jobs: only 1 MB are left in")).await;
    assert_eq!(rig.state(id), "queued");
    drop(ballast);
    rig.until("it goes on", || rig.state(id) == "done").await;
}
