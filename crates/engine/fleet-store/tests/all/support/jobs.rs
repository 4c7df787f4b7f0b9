//! Helpers for jobs, leases and waiting.

use std::time::{Duration, Instant};

use haft_fleet_store::{
    ClaimJobs, FleetName, FleetStore, JobClass, JobFilter, JobHead, JobRecord, Lease, LeaseKey, NewJob,
    PageOfJobs, RunId, Submitted,
};
use serde_json::json;

/// A lease longer than any pause of the machine.
pub const LEASE: Duration = Duration::from_secs(300);

/// Timeout for things that certainly happen; only a hang takes this long. Cluster servers that share two
/// busy cores need minutes to elect a leader.
pub const WAITS: Duration = Duration::from_secs(300);

pub fn name(text: &str) -> FleetName {
    FleetName::parse(text).unwrap()
}

/// Creates a unique name.
pub fn fresh(text: &str) -> FleetName {
    name(&format!("{text}-{}", &RunId::random().as_str()[..8]))
}

/// A job of tenant `t` in a pool.
pub fn job(pool: &FleetName) -> NewJob {
    let id = RunId::random();
    NewJob {
        body: json!({ "of": id.as_str() }),
        head: JobHead {
            id,
            tenant: name("t"),
            pool: pool.clone(),
            class: JobClass::Normal,
            batch: None,
            dedup: None,
            concurrency_key: None,
            labels: Default::default(),
            needs: Default::default(),
        },
        not_before: None,
    }
}

pub fn with(mut job: NewJob, change: impl FnOnce(&mut JobHead)) -> NewJob {
    change(&mut job.head);
    job
}

pub fn id(job: &NewJob) -> RunId {
    job.head.id.clone()
}

/// Submits jobs that must be new.
pub async fn submit(store: &FleetStore, jobs: &[NewJob]) {
    let answers = store.queue.submit(jobs.to_vec()).await.unwrap();
    assert!(answers.iter().all(|it| *it == Submitted::Queued), "{answers:?}");
}

pub fn room(worker: &FleetName, pool: &FleetName, most: u32) -> ClaimJobs {
    ClaimJobs {
        worker: worker.clone(),
        pool: pool.clone(),
        most,
        machine: Default::default(),
        lease: LEASE,
        wait: Duration::ZERO,
    }
}

/// Takes jobs without waiting.
pub async fn take(store: &FleetStore, worker: &FleetName, pool: &FleetName, most: u32) -> Vec<Lease> {
    store.queue.take(room(worker, pool, most)).await.unwrap()
}

/// Takes exactly one job within a time.
pub async fn take_within(store: &FleetStore, worker: &FleetName, pool: &FleetName, wait: Duration) -> Lease {
    let mut taken = store.queue.take(ClaimJobs { wait, ..room(worker, pool, 1) }).await.unwrap();
    assert_eq!(taken.len(), 1, "nothing came in {wait:?}");
    taken.remove(0)
}

pub async fn record(store: &FleetStore, run: &RunId) -> JobRecord {
    let filter = JobFilter { ids: Some(vec![run.clone()]), ..JobFilter::default() };
    store.queue.jobs(filter, PageOfJobs::default()).await.unwrap().jobs.remove(0)
}

/// A job whose first worker was declared dead and that a second one holds: the stale key, and the valid
/// lease.
pub async fn taken_over(store: &FleetStore, other: &FleetStore) -> (LeaseKey, Lease) {
    let pool = fresh("takeover");
    submit(store, &[job(&pool)]).await;
    let short = Duration::from_millis(300);
    let first = store
        .queue
        .take(ClaimJobs { lease: short, ..room(&fresh("first"), &pool, 1) })
        .await
        .unwrap()
        .remove(0);
    let second = take_within(other, &fresh("second"), &pool, WAITS).await;
    assert_eq!(second.key.run, first.key.run);
    assert!(second.key.epoch > first.key.epoch);
    (first.key, second)
}

/// Waits until a condition holds.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < WAITS, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
