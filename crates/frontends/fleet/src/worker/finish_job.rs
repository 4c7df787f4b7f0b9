//! The end of a job at a worker: results, retries, and the final report to the store.

use std::{sync::Arc, time::Duration};

use haft_fleet_store::{JobState, Lease, StoreError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    FleetWorker, capacity,
    leased_job::{JobStopped, ReadyJob},
    leases::ActiveLease,
    outcome::{JobOutcome, result_json},
    results::ResultCollector,
    run_session::EndedRun,
};
use crate::{
    job_file::{JobBody, RetryOn},
    run_log_lines::FleetState,
};

/// How long the final report to the store is retried.
const LAST_WORD: Duration = Duration::from_secs(60);

/// Handles the end of a session: collects results, then ends the job or schedules a retry.
pub(super) async fn finish(
    worker: &Arc<FleetWorker>,
    lease: &Lease,
    held: &ActiveLease,
    job: &mut ReadyJob,
    ended: EndedRun,
) -> String {
    let stop = CancellationToken::new();
    let outcome = outcome_of(job, &ended);
    if let Some(wait) = ended.waits.filter(|_| outcome.retry == Some(RetryOn::Provider)) {
        let why = format!("the provider's key is used up for {} s", wait.as_secs());
        return leave(worker, lease, Some(job), JobStopped::Back(wait, why)).await;
    }
    let over_disk = job.disk.over.clone();
    let is_over_disk = over_disk.is_cancelled();
    let words = job.disk.deferred_text();
    let (outcome, summary) = {
        let collecting = collect(worker, lease, job, &ended, outcome, &stop);
        tokio::pin!(collecting);
        tokio::select! {
            collected = &mut collecting => collected,
            () = held.lost.cancelled() => return String::from("lost before its results were kept"),
            () = held.cancelled.cancelled(), if !ended.cancelled => {
                stop.cancel();
                collecting.await
            }
            () = over_disk.cancelled(), if !is_over_disk => {
                stop.cancel();
                let (_, summary) = collecting.await;
                (JobOutcome::out_of_disk(words()), summary)
            }
        }
    };
    let outcome = if held.cancelled.is_cancelled() && outcome.state != JobState::Done {
        JobOutcome::cancelled()
    } else {
        outcome
    };
    if let Some(delay) = retry_delay(&job.body, lease, &outcome) {
        let why = outcome.reason.clone().unwrap_or_else(|| String::from("tried again"));
        return leave(worker, lease, Some(job), JobStopped::Back(delay, why)).await;
    }
    if let Err(why) = job.fence.kept().await {
        return format!("lost: {why}");
    }
    end(worker, lease, outcome, summary).await
}

fn outcome_of(job: &ReadyJob, ended: &EndedRun) -> JobOutcome {
    if ended.cancelled {
        return JobOutcome::cancelled();
    }
    if job.disk.over.is_cancelled() {
        return JobOutcome::out_of_disk(job.disk.in_words());
    }
    let Some(turn) = &ended.turn else {
        return JobOutcome::failed(1, "the session broke off", Some(RetryOn::Incomplete));
    };
    let outcome = JobOutcome::new(&turn.end.reason, ended.denied && !ended.allow_denials);
    match job.money.refused().filter(|_| outcome.state == JobState::Failed) {
        Some(refused) => JobOutcome::out_of_money(refused.0),
        None => outcome,
    }
}

/// Collects check, patch, branch and files.
async fn collect(
    worker: &Arc<FleetWorker>,
    lease: &Lease,
    job: &mut ReadyJob,
    ended: &EndedRun,
    mut outcome: JobOutcome,
    stop: &CancellationToken,
) -> (JobOutcome, Value) {
    // A workspace that exceeded its disk limit is not uploaded.
    let is_kept = !job.disk.over.is_cancelled();
    if is_kept && 0 < job.fence.calls_begun() {
        let calls = job.fence.take_ended_calls();
        match job.checkpoints.keep().await {
            Ok(Some(manifest)) => job.fence.note(&FleetState::Checkpoint { manifest, calls }),
            Ok(None) => (),
            Err(why) => tracing::warn!(run = %lease.key.run, why, "files could not be kept"),
        }
    }
    let collector = ResultCollector {
        store: &worker.store,
        tenant: &lease.head.tenant,
        key: &lease.key,
        mask: &job.mask,
        fence: &job.fence,
        workspace: &job.workspace,
        dirs: &job.dirs,
        variables: &job.variables,
        body: &job.body,
        pushed: &job.history.pushed,
    };
    let mut problems: Vec<String> = Vec::new();
    let mut part = |got: Result<Value, String>| match got {
        Ok(value) => value,
        Err(why) => {
            problems.push(why);
            Value::Null
        }
    };
    let check = if outcome.state == JobState::Done { collector.check(stop).await } else { None };
    if check.as_ref().is_some_and(|(_, passed)| !passed) {
        outcome = JobOutcome::failed(1, "the check did not pass", Some(RetryOn::Check));
    }
    let (patch, files) = if is_kept {
        (part(collector.patch().await), part(collector.files().await))
    } else {
        let why = "neither patch nor files are kept of a workspace that grew beyond its limit";
        (part(Err(why.to_owned())), Value::Null)
    };
    let is_done = outcome.state == JobState::Done;
    let branch = if is_done { part(collector.branch(&commit_message(lease)).await) } else { Value::Null };
    if is_done && !problems.is_empty() {
        outcome = JobOutcome::failed(1, problems.join("; "), None);
    }
    let result = ended.turn.as_ref().map(|turn| result_json(&ended.session, turn, &outcome));
    let usd = ended.turn.as_ref().map_or(ended.usd, |turn| turn.bill.usd.max(ended.usd));
    let owners: Vec<Value> = job
        .history
        .owners
        .iter()
        .map(|(epoch, worker)| json!({"epoch": epoch, "worker": worker}))
        .chain([json!({"epoch": lease.key.epoch, "worker": worker.settings.name})])
        .collect();
    let mut summary = json!({
        "worker": worker.settings.name, "epoch": lease.key.epoch, "usd": usd, "requests": ended.requests,
        "exit_code": outcome.code, "outcome": outcome.word, "result": result, "patch": patch, "branch": branch,
        "files": files, "check": check.map(|(value, _)| value), "owners": owners, "problems": problems,
        "retries": lease.deliveries.saturating_sub(1), "memory_peak": capacity::memory_peak(), "warning": ended.warning,
    });
    job.mask.mask_value(&mut summary);
    outcome.reason = outcome.reason.map(|it| job.mask.masked(&it));
    (outcome, summary)
}

fn commit_message(lease: &Lease) -> String {
    match &lease.head.batch {
        Some(batch) => format!("{batch}: {}", lease.key.run),
        None => format!("haft: {}", lease.key.run),
    }
}

/// Returns the delay before a retry; `None` if there is none.
fn retry_delay(body: &JobBody, lease: &Lease, outcome: &JobOutcome) -> Option<Duration> {
    let wanted = outcome.retry.filter(|it| body.retry.on.contains(it))?;
    let tried = lease.deliveries.saturating_sub(1).saturating_sub(lease.lost);
    if body.retry.max <= tried {
        return None;
    }
    let seconds = match wanted {
        RetryOn::Check | RetryOn::Incomplete => 1,
        RetryOn::Lost | RetryOn::Provider | RetryOn::Setup => 5_u64 << tried.min(6),
    };
    Some(Duration::from_secs(seconds) + Duration::from_millis(fastrand::u64(0..1_000)))
}

/// Ends or returns a job whose session did not end normally.
pub(super) async fn leave(
    worker: &FleetWorker,
    lease: &Lease,
    job: Option<&mut ReadyJob>,
    stopped: JobStopped,
) -> String {
    let mask = |text: String| job.as_ref().map_or_else(|| text.clone(), |job| job.mask.masked(&text));
    let queue = &worker.store.queue;
    match stopped {
        JobStopped::Lost(why) => format!("lost: {}", mask(why)),
        JobStopped::Back(delay, why) => {
            let why = mask(why);
            let told = persist(|| queue.release(lease.key.clone(), delay, why.clone())).await;
            told.map_or_else(|err| format!("lost: {err}"), |()| format!("given back: {why}"))
        }
        JobStopped::Aside(why) => {
            let why = mask(why);
            let summary = json!({"worker": worker.settings.name, "memory_peak": capacity::memory_peak()});
            let told = persist(|| queue.park(lease.key.clone(), why.clone(), summary.clone())).await;
            told.map_or_else(|err| format!("lost: {err}"), |()| format!("set aside: {why}"))
        }
        JobStopped::Ends(outcome) => {
            let body: Option<JobBody> = serde_json::from_value(lease.body["job"].clone()).ok();
            if let Some((body, delay)) = body.and_then(|body| {
                let delay = retry_delay(&body, lease, &outcome)?;
                Some((body, delay))
            }) {
                drop(body);
                let why = outcome.reason.clone().unwrap_or_default();
                let told = persist(|| queue.release(lease.key.clone(), delay, why.clone())).await;
                return told.map_or_else(|err| format!("lost: {err}"), |()| format!("given back: {why}"));
            }
            if let Some(job) = &job {
                job.fence.kept().await.ok();
            }
            let summary = json!({
                "worker": worker.settings.name, "epoch": lease.key.epoch, "exit_code": outcome.code,
                "outcome": outcome.word, "retries": lease.deliveries.saturating_sub(1),
            });
            end(worker, lease, outcome, summary).await
        }
    }
}

async fn end(worker: &FleetWorker, lease: &Lease, outcome: JobOutcome, summary: Value) -> String {
    let queue = &worker.store.queue;
    let told =
        persist(|| queue.end(lease.key.clone(), outcome.state, outcome.reason.clone(), summary.clone()))
            .await;
    match told {
        Ok(()) => outcome.state.as_str().to_owned(),
        Err(err) => format!("lost: {err}"),
    }
}

/// Sends a request to the store until it is accepted, rejected, or [`LAST_WORD`] has passed.
async fn persist<'a, T>(ask: impl Fn() -> haft_fleet_store::StoreFuture<'a, T>) -> Result<T, StoreError> {
    let until = tokio::time::Instant::now() + LAST_WORD;
    loop {
        match ask().await {
            Err(err) if err.is_passing() && tokio::time::Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            answer => return answer,
        }
    }
}
