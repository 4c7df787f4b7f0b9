//! Watches for new entries, and for workers that stopped renewing.
//!
//! A worker is declared dead by processes that have seen the same beat of it for a whole lease on their
//! own monotonic clock; no wall clock ends a lease. The ledger accepts the command only if that beat
//! still is the last one, so a lagging observer declares nobody dead.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, sleep_until},
};

use super::{group_commit::GroupCommitter, ledger_replica::Mirror};
use crate::{FleetName, engine::FleetEngine, ledger::LedgerCommand};

/// Delay after the engine did not answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Polling interval without notifications.
const GLANCE: Duration = Duration::from_secs(1);

/// Minimum time between two checks.
const BREATH: Duration = Duration::from_millis(5);

/// Last seen beat of a worker, and since when it has not changed.
struct WorkerSighting {
    beat: u64,
    since: Instant,
    lease: Duration,
    /// Whether its machine has been rebooted since.
    is_of_another_boot: bool,
}

pub(super) fn start(
    engine: Arc<dyn FleetEngine>,
    mirror: Arc<Mirror>,
    committer: GroupCommitter,
    is_undertaker: Arc<AtomicBool>,
) -> AbortHandle {
    let task = tokio::spawn(async move {
        let boot = engine.boot();
        let mut sightings = HashMap::new();
        let mut applied = mirror.subscribe();
        let mut news = engine.news();
        let mut looked = Instant::now();
        loop {
            look(&mirror, boot.as_deref(), &mut sightings);
            if is_undertaker.load(Ordering::Relaxed) {
                bury_the_silent(&committer, &sightings).await;
            }
            // Only a process that would declare workers dead watches for the end of leases.
            let ends = sightings.values().map(|it| it.since + it.lease);
            let next = ends.min().filter(|_| is_undertaker.load(Ordering::Relaxed));
            let glance = Instant::now() + GLANCE;
            let next = next.map_or(glance, |it| it.min(glance));
            let is_elsewhere = tokio::select! {
                () = news.wait() => true,
                // This process's own commands are already applied.
                _ = applied.changed() => false,
                () = sleep_until(next.max(Instant::now() + BREATH)) => true,
            };
            // React to the first notification immediately, then debounce.
            sleep_until(looked + BREATH).await;
            looked = Instant::now();
            if is_elsewhere && engine.catch_up(&mirror).await.is_err() {
                sleep(TIMEOUT).await;
            }
        }
    });
    task.abort_handle()
}

fn look(mirror: &Mirror, boot: Option<&str>, sightings: &mut HashMap<FleetName, WorkerSighting>) {
    let now = Instant::now();
    mirror.read(|ledger| {
        let mut there = HashMap::new();
        for (worker, beat, lease_ms, its_boot) in ledger.beats() {
            let since = sightings.get(worker).filter(|it| it.beat == beat).map_or(now, |it| it.since);
            let is_of_another_boot = its_boot.zip(boot).is_some_and(|(its, ours)| its != ours);
            let lease = Duration::from_millis(lease_ms);
            there.insert(worker.clone(), WorkerSighting { beat, since, lease, is_of_another_boot });
        }
        *sightings = there;
    });
}

async fn bury_the_silent(committer: &GroupCommitter, sightings: &HashMap<FleetName, WorkerSighting>) {
    for (worker, seen) in sightings {
        if seen.is_of_another_boot || seen.since.elapsed() >= seen.lease {
            // Accepted or not, the next check sees the result.
            let _ = committer.commit(LedgerCommand::Bury { worker: worker.clone(), beat: seen.beat }).await;
        }
    }
}
