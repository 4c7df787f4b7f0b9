//! Runs that write while faults are injected.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use haft_fleet_store::{ClaimJobs, FleetStore, JobState, LeaseKey, StoreError};
use serde_json::Value;

use super::jobs::*;

/// Runs that write numbered lines and a counter until told to stop, and what was acknowledged for each.
pub struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<(LeaseKey, u64)>>,
    counting: tokio::task::JoinHandle<i64>,
    counter: String,
    longest_ms: Arc<AtomicU64>,
    lines: Arc<AtomicU64>,
}

impl Writers {
    pub async fn start(store: &FleetStore, number: usize) -> Self {
        Self::start_with(store, number, Duration::ZERO).await
    }

    /// Starts writers that pause after each line, so that many cause no more load than few.
    pub async fn start_with(store: &FleetStore, number: usize, rest: Duration) -> Self {
        let pool = fresh("writers");
        submit(store, &(0..number).map(|_| job(&pool)).collect::<Vec<_>>()).await;
        // Elections may take longer than a usual lease, and these writers do not renew.
        let lease = Duration::from_secs(600);
        let leases =
            store.queue.take(ClaimJobs { lease, ..room(&fresh("w"), &pool, number as u32) }).await.unwrap();
        let (stop, longest_ms) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let lines = Arc::new(AtomicU64::new(0));
        let tasks = leases.into_iter().map(|lease| {
            let (store, stop, longest) = (store.clone(), stop.clone(), longest_ms.clone());
            let lines = lines.clone();
            tokio::spawn(async move {
                let mut acknowledged = 0;
                while !stop.load(Ordering::Relaxed) {
                    let begin = Instant::now();
                    let line = format!("line {acknowledged}");
                    match store.log.append(lease.key.clone(), vec![line]).await {
                        Ok(end) => {
                            acknowledged += 1;
                            assert_eq!(end, acknowledged);
                            lines.fetch_add(1, Ordering::Relaxed);
                        }
                        // Retry the same line: it may already be stored.
                        Err(err) => assert!(err.is_passing(), "{err}"),
                    }
                    longest.fetch_max(begin.elapsed().as_millis() as u64, Ordering::Relaxed);
                    tokio::time::sleep(rest).await;
                }
                (lease.key, acknowledged)
            })
        });
        let tasks = tasks.collect();
        let counter = fresh("counter").to_string();
        let counting = tokio::spawn({
            let (store, stop, key) = (store.clone(), stop.clone(), counter.clone());
            async move {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(is) = store.clockwork.count(key.clone(), 1, None).await {
                        assert!(is > last, "an acknowledged count was lost");
                        last = is;
                    }
                    tokio::time::sleep(rest).await;
                }
                last
            }
        });
        Self { stop, tasks, counting, counter, longest_ms, lines }
    }

    /// Waits until this many more lines were acknowledged.
    pub async fn go_on(&self, more: u64) {
        let begin = self.lines.load(Ordering::Relaxed);
        until("writers go on", || async { self.lines.load(Ordering::Relaxed) >= begin + more }).await;
    }

    /// Stops, and checks over another connection that everything acknowledged is there exactly once.
    pub async fn judge(self, late: &FleetStore) -> (u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = 0;
        for task in self.tasks {
            let (key, acknowledged) = task.await.unwrap();
            let lines = at_last(|| late.log.read(key.run.clone(), 0, 1_000_000)).await;
            assert!(lines.len() as u64 >= acknowledged, "{} of {acknowledged} lines", lines.len());
            assert!(
                lines.iter().enumerate().all(|(at, it)| it.text == format!("line {at}")),
                "a line is there twice"
            );
            all += acknowledged;
            at_last(|| late.queue.end(key.clone(), JobState::Done, None, Value::Null)).await;
        }
        let counted = self.counting.await.unwrap();
        let is = at_last(|| late.clockwork.counters(self.counter.clone())).await.first().map_or(0, |it| it.1);
        assert!(is >= counted, "{is} of {counted}");
        (all, Duration::from_millis(self.longest_ms.load(Ordering::Relaxed)))
    }
}

/// Retries while the engine restarts.
pub async fn at_last<T, F: Future<Output = Result<T, StoreError>>>(ask: impl Fn() -> F) -> T {
    let begin = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(err) => assert!(err.is_passing() && begin.elapsed() < WAITS, "{err}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
