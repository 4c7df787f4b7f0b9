//! Looks for news, and for workers that give no sign of life.
//!
//! A worker is given up by others that saw the same beat of it for a whole lease,
//! on their own monotonic clock: no wall clock, ours or the engine's, ends a
//! lease. The ledger takes the burial only if that beat is still the last one, so
//! an observer that lags gives nobody up.

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

/// After an engine that did not answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Looked at even without news.
const GLANCE: Duration = Duration::from_secs(1);

/// At least so long between two looks.
const BREATH: Duration = Duration::from_millis(5);

/// What was seen of a worker, and since when.
struct WorkerSighting {
    beat: u64,
    since: Instant,
    lease: Duration,
    /// Its machine has been started anew since.
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
            // Only who would do something about it watches for the end of a lease.
            let ends = sightings.values().map(|it| it.since + it.lease);
            let next = ends.min().filter(|_| is_undertaker.load(Ordering::Relaxed));
            let glance = Instant::now() + GLANCE;
            let next = next.map_or(glance, |it| it.min(glance));
            let is_elsewhere = tokio::select! {
                () = news.wait() => true,
                // What this process did itself is applied already.
                _ = applied.changed() => false,
                () = sleep_until(next.max(Instant::now() + BREATH)) => true,
            };
            // The first of many news is looked at right away, the others together.
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
            // Refused or not, the next look shows what came of it.
            let _ = committer.commit(LedgerCommand::Bury { worker: worker.clone(), beat: seen.beat }).await;
        }
    }
}
