//! Throughput and latency of the engines, for docs/concepts/fleet.md:
//! `cargo bench -p haft-fleet-store --bench engines`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    reason = "a benchmark"
)]

#[path = "../tests/all/support/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use haft_fleet_store::{ClaimJobs, FleetStore, JobFilter, JobState, NewJob};
use serde_json::Value;

use support::{
    jobs::*,
    servers::{Kind, Rig},
};

fn middle(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1_000.0
}

async fn start_latency(store: &FleetStore, other: &FleetStore) -> f64 {
    let (pool, worker) = (fresh("latency"), fresh("w"));
    let mut times = Vec::new();
    for _ in 0..60 {
        let wait = Duration::from_secs(10);
        let waiting = tokio::spawn({
            let (other, room) = (other.clone(), ClaimJobs { wait, ..room(&worker, &pool, 1) });
            async move { (other.queue.take(room).await.unwrap().remove(0), Instant::now()) }
        });
        tokio::time::sleep(Duration::from_millis(15)).await;
        let begin = Instant::now();
        submit(store, &[job(&pool)]).await;
        let (lease, at) = waiting.await.unwrap();
        times.push(at - begin);
        other.queue.end(lease.key, JobState::Done, None, Value::Null).await.unwrap();
    }
    middle(times)
}

/// Takes and ends jobs, with a connection per worker.
async fn starts(rig: &Rig, store: &FleetStore, most: u32) -> f64 {
    let pool = fresh("starts");
    let jobs: Vec<NewJob> = (0..2_000).map(|_| job(&pool)).collect();
    submit(store, &jobs).await;
    let stores = join_all((0..8).map(|_| rig.open())).await;
    let begin = Instant::now();
    let workers = stores.iter().map(|store| async {
        let worker = fresh("w");
        loop {
            let taken = take(store, &worker, &pool, most).await;
            if taken.is_empty() {
                break;
            }
            let ends = taken.into_iter().map(|it| store.queue.end(it.key, JobState::Done, None, Value::Null));
            join_all(ends).await.into_iter().for_each(|it| it.unwrap());
        }
    });
    join_all(workers).await;
    2_000.0 / begin.elapsed().as_secs_f64()
}

async fn appends(store: &FleetStore, runs: usize, lines: usize) -> (f64, f64) {
    let pool = fresh("appends");
    submit(store, &(0..runs).map(|_| job(&pool)).collect::<Vec<_>>()).await;
    let leases = take(store, &fresh("w"), &pool, runs as u32).await;
    let begin = Instant::now();
    let writers = leases.iter().map(|lease| async {
        let mut times = Vec::new();
        for _ in 0..lines {
            let begin = Instant::now();
            store.log.append(lease.key.clone(), vec!["x".repeat(1_000)]).await.unwrap();
            times.push(begin.elapsed());
        }
        times
    });
    let times = join_all(writers).await.concat();
    ((runs * lines) as f64 / begin.elapsed().as_secs_f64(), middle(times))
}

async fn status(rig: &Rig, store: &FleetStore) -> (f64, f64, f64) {
    let pool = fresh("status");
    let jobs: Vec<NewJob> = (0..10_000).map(|_| job(&pool)).collect();
    let begin = Instant::now();
    submit(store, &jobs).await;
    let submitted = begin.elapsed();
    let begin = Instant::now();
    let late = rig.open().await;
    let opened = begin.elapsed();
    let begin = Instant::now();
    late.queue.counts(JobFilter { pool: Some(pool), ..JobFilter::default() }).await.unwrap();
    let ms = |it: Duration| it.as_secs_f64() * 1_000.0;
    (ms(submitted), ms(opened), ms(begin.elapsed()))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    for kind in [Kind::Sqlite, Kind::Nats, Kind::Postgres] {
        let Some(rig) = Rig::start(kind) else { continue };
        let (store, other) = (rig.open().await, rig.open().await);
        let latency = start_latency(&store, &other).await;
        let (one, many) = (starts(&rig, &store, 1).await, starts(&rig, &store, 16).await);
        let (_, alone) = appends(&store, 1, 200).await;
        let (together, _) = appends(&store, 64, 20).await;
        let (submitted, opened, counted) = status(&rig, &store).await;
        eprintln!(
            "{kind:?}: submit to start {latency:.1} ms; starts and ends {one:.0}/s one by one, {many:.0}/s by sixteens; \
             append {alone:.2} ms alone, {together:.0}/s of 64; 10,000 jobs: submit {submitted:.0} ms, \
             open {opened:.0} ms, count {counted:.1} ms"
        );
    }
}
