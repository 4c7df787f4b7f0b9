//! Case 8: every message is duplicated, and acknowledgements are lost.

use std::{path::Path, process::Command, time::Duration};

use haft_fleet_store::{FleetStore, JobFilter, JobState};

use crate::{
    kill_rig::{POOL, Tally, as_worker, judge},
    support::{
        cluster::open_cluster,
        jobs::*,
        nets::FarProcess,
        servers::{Kind, Rig},
        wires::{Wire, open_wire},
        writers::at_last,
    },
};

/// Each job is done once, with each of its calls, over a connection with this fault.
async fn each_job_once(kind: Kind, wire: Wire) {
    let Some(rig) = Rig::start(kind) else { return };
    let port = rig.server.as_ref().unwrap().port;
    let address = rig.text.replace(&port.to_string(), &open_wire(wire, port).await.to_string());
    let effects = rig.dir.path().join("effects");
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        // No lease expires here, however long answers take.
        FarProcess(as_worker(command.env("RIG_LEASE_MS", "600000"), &address, &effects))
    };
    // The submitter has to retry too.
    let far = open_cluster(&address).await;
    let jobs: Vec<_> = (0..24).map(|_| job(&name(POOL))).collect();
    at_last(|| far.queue.submit(jobs.clone())).await;
    let workers: Vec<FarProcess> = (0..3).map(|_| start()).collect();
    let store = rig.open().await;
    let filter = JobFilter { pool: Some(name(POOL)), ..JobFilter::default() };
    until_long("all are done", || async {
        store.queue.counts(filter.clone()).await.unwrap().of(JobState::Done) == jobs.len() as u64
    })
    .await;
    drop(workers);
    let tally = judged(&store, &effects, &jobs.iter().map(id).collect::<Vec<_>>()).await;
    assert_eq!((tally.takeovers, tally.unknown_that_ran + tally.unknown_that_did_not), (0, 0), "{tally:?}");
}

async fn judged(store: &FleetStore, effects: &Path, runs: &[haft_fleet_store::RunId]) -> Tally {
    let mut tally = Tally::default();
    judge(store, effects, runs, &mut tally).await;
    tally
}

/// Waits for a condition that takes long because every fifth answer is lost.
async fn until_long<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let begin = std::time::Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < WAITS * 3, "never: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_duplicates_and_losses_run_each_job_once() {
    each_job_once(Kind::Nats, Wire::DoublingNats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_lost_answers_run_each_job_once() {
    each_job_once(Kind::Postgres, Wire::BreakingAnswers(20)).await;
}
