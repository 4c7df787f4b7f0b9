//! Waiting for jobs and taking them.

use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep, sleep_until};

use super::{StoreCore, unexpected};
use crate::{
    ClaimJobs, Lease, StoreError,
    ledger::{LedgerCommand, LedgerOutcome, PoolReadiness, TakenJob},
};

/// Delay after an attempt that was too early by the engine's clock.
const TOO_EARLY: Duration = Duration::from_millis(20);

/// Milliseconds by which attempts of waiting workers are spread, so that the first has the job before
/// the last would try in vain.
const SPREAD_MS: u64 = 2;

pub(super) async fn take(core: &StoreCore, room: ClaimJobs) -> Result<Vec<Lease>, StoreError> {
    core.become_undertaker();
    if room.most == 0 {
        return Ok(Vec::new());
    }
    let deadline = Instant::now() + room.wait;
    let mut applied = core.up_to_date().await?.subscribe();
    let mut has_waited = false;
    loop {
        applied.mark_unchanged();
        let is_known = core.mirror.read(|it| it.does_know_worker(&room.worker));
        let readiness = ready(core, &room);
        if readiness == PoolReadiness::Now || !is_known {
            // An unknown worker registers at once; one that has waited lets others go first.
            let asks = !is_known || !has_waited || is_still_ready_after_spread(core, &room).await;
            let taken = if asks { ask(core, &room).await? } else { Vec::new() };
            if !taken.is_empty() {
                return try_join_all(taken.into_iter().map(|job| lease(core, job))).await;
            }
            if readiness == PoolReadiness::Now {
                sleep(TOO_EARLY.min(deadline.saturating_duration_since(Instant::now()))).await;
            }
        }
        if Instant::now() >= deadline {
            return Ok(Vec::new());
        }
        let until = match ready(core, &room) {
            PoolReadiness::Now => continue,
            PoolReadiness::At(moment) => {
                let left = u64::try_from(moment - core.mirror.engine_now()).unwrap_or_default();
                (Instant::now() + Duration::from_millis(left)).min(deadline)
            }
            PoolReadiness::Nothing => deadline,
        };
        tokio::select! {
            _ = applied.changed() => {}
            () = sleep_until(until) => {}
        }
        has_waited = true;
    }
}

fn ready(core: &StoreCore, room: &ClaimJobs) -> PoolReadiness {
    let now = core.mirror.engine_now();
    core.mirror.read(|it| it.readiness(&room.worker, &room.pool, room.machine, now))
}

async fn is_still_ready_after_spread(core: &StoreCore, room: &ClaimJobs) -> bool {
    let others = core.mirror.read(|it| it.idle_workers(&room.pool));
    if others > 1 {
        sleep(Duration::from_millis(fastrand::u64(0..=(others * SPREAD_MS).min(100)))).await;
    }
    ready(core, room) == PoolReadiness::Now
}

async fn ask(core: &StoreCore, room: &ClaimJobs) -> Result<Vec<TakenJob>, StoreError> {
    let command = LedgerCommand::Take {
        worker: room.worker.clone(),
        pool: room.pool.clone(),
        most: room.most,
        lease_ms: u64::try_from(room.lease.as_millis()).unwrap_or(u64::MAX),
        boot: core.engine.boot(),
        machine: room.machine,
    };
    match core.ask(command).await? {
        LedgerOutcome::Taken(taken) => Ok(taken),
        other => Err(unexpected(&other)),
    }
}

/// Loads a job's body and log. A first delivery writes no owner marker: nobody else has an epoch, and
/// the next delivery writes one.
async fn lease(core: &StoreCore, job: TakenJob) -> Result<Lease, StoreError> {
    let end = if job.deliveries > 1 {
        core.engine.own(job.key.clone()).await?
    } else {
        core.engine.end(job.key.run.clone()).await?
    };
    let body = core.values.load(&job.head.tenant, job.body).await?;
    Ok(Lease {
        key: job.key,
        head: job.head,
        body,
        deliveries: job.deliveries,
        lost: job.lost,
        stalled: if job.deliveries > 1 { end.stalled } else { 0 },
        log_begin: job.log_begin,
        log_end: end.lines,
    })
}
