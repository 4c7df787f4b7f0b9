//! One job at one worker, from its lease to its result.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use haft_fleet_store::{JobState, Lease, LeaseKey, StoreError, cancel_control};
use haft_types::EnvVars;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    FleetWorker, disk_usage::DiskWatch, finish_job, leases::ActiveLease, outcome::JobOutcome,
    run_session::run, takeover,
};
use crate::{
    checkout::{RunDirs, RunWorkspace, SetupContext, WorkspaceHome, make_workspace, run_setup},
    checkpoint::Checkpoints,
    job_file::{JobBody, RetryOn},
    large_results::LargeResults,
    limits::RunBudget,
    run_log_lines::{FORMAT, FleetState, RunHistory},
    secret_rules::ValueMask,
    store_log::StoreLog,
};

/// Consecutive takeovers without progress (no new log line, or no finished call) after which a job is
/// parked.
const POISON: u32 = 3;

/// A job that is ready to open its session.
pub(super) struct ReadyJob {
    pub(super) body: JobBody,
    pub(super) dirs: RunDirs,
    pub(super) fence: StoreLog,
    pub(super) mask: ValueMask,
    pub(super) variables: EnvVars,
    pub(super) workspace: RunWorkspace,
    pub(super) checkpoints: Checkpoints,
    pub(super) history: RunHistory,
    pub(super) money: Arc<RunBudget>,
    pub(super) disk: DiskWatch,
    pub(super) results: LargeResults,
}

/// Why a job did not reach its session, or left it.
pub(super) enum JobStopped {
    /// The lease is lost, or its state is unknown.
    Lost(String),
    /// It returns to the queue after a delay.
    Back(Duration, String),
    /// It is parked.
    Aside(String),
    /// It ends.
    Ends(JobOutcome),
}

impl From<StoreError> for JobStopped {
    fn from(err: StoreError) -> Self {
        match err {
            StoreError::Stale { .. } => Self::Lost(err.to_string()),
            other => Self::Back(Duration::from_secs(5), other.to_string()),
        }
    }
}

/// Runs a job; returns what happened to it, for display.
pub(super) async fn work(
    worker: &Arc<FleetWorker>,
    lease: Lease,
    held: &ActiveLease,
    drain: &CancellationToken,
) -> String {
    let dirs = RunDirs::new(&worker.settings.root, lease.key.run.as_str(), lease.key.epoch);
    let hearing = tokio::spawn(hear_cancel(Arc::clone(worker), lease.key.clone(), held.cancelled.clone()));
    let stopped = match prepare(worker, &lease, held, &dirs).await {
        Ok(mut job) => match run(worker, &lease, held, drain, &mut job).await {
            Ok(ended) => finish_job::finish(worker, &lease, held, &mut job, ended).await,
            Err(stopped) => finish_job::leave(worker, &lease, Some(&mut job), stopped).await,
        },
        Err(stopped) => finish_job::leave(worker, &lease, None, stopped).await,
    };
    hearing.abort();
    if !worker.settings.keep_workspaces {
        // Also what earlier workers left in this directory.
        let left = dirs.run_and_earlier();
        let remove = move || left.iter().for_each(|dir| drop(std::fs::remove_dir_all(dir)));
        tokio::task::spawn_blocking(remove).await.ok();
    }
    stopped
}

/// Watches for a cancellation from the start of the run, without waiting for the next renewal.
async fn hear_cancel(worker: Arc<FleetWorker>, key: LeaseKey, cancelled: CancellationToken) {
    let wanted = cancel_control(key.epoch);
    loop {
        let mut controls = worker.store.log.follow_controls(key.run.clone(), 0);
        while let Some(Ok(entry)) = controls.next().await {
            if entry.id == wanted {
                return cancelled.cancel();
            }
        }
        // Reconnect after an interrupted stream.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Returns the environment of a job, and the mask for its secrets.
async fn variables_of(
    worker: &FleetWorker,
    lease: &Lease,
    body: &JobBody,
) -> Result<(EnvVars, ValueMask), JobStopped> {
    let (tenant, pool) = (lease.head.tenant.as_str(), lease.head.pool.as_str());
    let mut variables = EnvVars::of_process().without("HAFT_FLEET").without("HAFT_FLEET_TENANT");
    for name in worker.settings.secrets.hidden_variables() {
        variables = variables.without(name);
    }
    for (name, value) in &body.env {
        variables = variables.with(name, value);
    }
    let mut secrets = Vec::new();
    for name in &body.secrets {
        let value = worker.settings.secrets.value(tenant, pool, name).await;
        let value = value.map_err(|why| JobStopped::Ends(JobOutcome::failed(2, why, None)))?;
        variables = variables.with(name, &value);
        secrets.push((name.clone(), value));
    }
    if let Some(memory) = body.limits.memory {
        variables = variables.with("HAFT_TOOL_MEMORY_LIMIT", memory.to_string());
    }
    let mask = ValueMask::new(secrets.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    Ok((variables, mask))
}

/// Prepares workspace and history, up to the session.
async fn prepare(
    worker: &Arc<FleetWorker>,
    lease: &Lease,
    held: &ActiveLease,
    dirs: &RunDirs,
) -> Result<ReadyJob, JobStopped> {
    let body = body_of(&lease.body)?;
    let queue = &worker.store.queue;
    queue.report(lease.key.clone(), JobState::Starting, json!({"worker": worker.settings.name})).await?;
    let head = &lease.head;
    let (variables, mask) = variables_of(worker, lease, &body).await?;
    let mut history = worker.history(lease).await?;
    let came_no_further = POISON <= lease.lost && POISON <= history.owners_since_progress;
    if POISON <= lease.stalled || came_no_further {
        return Err(JobStopped::Aside(last_words(worker, lease).await));
    }
    if let Some((format, haft)) = &history.newer {
        return Err(newer_log(*format, haft));
    }
    let key = lease.key.clone();
    let results = LargeResults::new(head.tenant.clone(), &dirs.state(), &key.run);
    results.download_results(&worker.store, &mut history).await?;
    let fence = StoreLog::begin(
        &worker.store,
        key.clone(),
        worker.settings.name.as_str(),
        held.clock.clone(),
        mask.clone(),
        results.clone(),
    );
    let made = make_workspace(&worker.store, &head.tenant, &body.workspace, dirs, history.base.as_deref());
    let made = tokio::select! {
        made = made => made,
        () = held.lost.cancelled() => return Err(JobStopped::Lost(String::from("the lease was lost"))),
        () = held.cancelled.cancelled() => return Err(JobStopped::Ends(JobOutcome::cancelled())),
    };
    let workspace =
        made.map_err(|why| JobStopped::Ends(JobOutcome::failed(2, mask.masked(&why), Some(RetryOn::Setup))))?;
    takeover::resolve_unknown_call(&mut history, body.on_unknown, &workspace, &fence)
        .map_err(JobStopped::Aside)?;
    fence.note(&FleetState::Owner {
        format: FORMAT,
        haft: env!("CARGO_PKG_VERSION").to_owned(),
        worker: worker.settings.name.to_string(),
        epoch: key.epoch,
        cwd: workspace.dir.display().to_string(),
        base: workspace.base.commit().map(str::to_owned),
    });
    let mut checkpoints = Checkpoints::new(
        &worker.store,
        head.tenant.clone(),
        key.clone(),
        mask.clone(),
        &workspace,
        &dirs.state(),
    );
    let watched = match workspace.home {
        WorkspaceHome::Worker => {
            dirs.take_journal_over();
            workspace.dir.clone()
        }
        WorkspaceHome::Run | WorkspaceHome::Host(_) => dirs.run().to_owned(),
    };
    let disk = DiskWatch::begin(watched, body.limits.disk);
    set_up(&body, dirs, &workspace, &variables, (held, &disk), &fence).await?;
    if let Some(checkpoint) = history.checkpoint {
        let restored = checkpoints.restore(checkpoint).await;
        restored.map_err(|why| {
            JobStopped::Back(Duration::from_secs(5), format!("its files cannot be put back: {why}"))
        })?;
    }
    let batch = head.batch.as_ref().map(|batch| (batch.as_str(), lease.body["batch_usd"].as_f64()));
    let money = RunBudget::new(
        &worker.store,
        key,
        (head.tenant.as_str(), worker.settings.tenant_usd),
        batch,
        body.limits.usd,
    );
    let dirs = dirs.clone();
    Ok(ReadyJob { body, dirs, fence, mask, variables, workspace, checkpoints, history, money, disk, results })
}

/// Returns the job to the queue, because a newer worker wrote its log.
fn newer_log(format: u32, haft: &str) -> JobStopped {
    let why = format!(
        "its log is of format {format}, written by haft {haft}; this worker is haft {} and reads format {FORMAT}. Update \
         the worker",
        env!("CARGO_PKG_VERSION")
    );
    JobStopped::Back(Duration::from_secs(30), why)
}

/// Parses a job's body, if this worker supports it.
fn body_of(body: &Value) -> Result<JobBody, JobStopped> {
    let version = body["v"].as_u64().unwrap_or_default();
    if 1 < version {
        let why = format!(
            "the job is of version {version}, submitted by haft {}; this worker is haft {} and knows version 1. Update \
             the worker",
            body["haft"].as_str().unwrap_or("of a newer version"),
            env!("CARGO_PKG_VERSION")
        );
        return Err(JobStopped::Back(Duration::from_secs(30), why));
    }
    serde_json::from_value(body["job"].clone()).map_err(|err| {
        JobStopped::Ends(JobOutcome::failed(2, format!("the job cannot be read: {err}"), None))
    })
}

async fn set_up(
    body: &JobBody,
    dirs: &RunDirs,
    workspace: &RunWorkspace,
    variables: &EnvVars,
    (held, disk): (&ActiveLease, &DiskWatch),
    fence: &StoreLog,
) -> Result<(), JobStopped> {
    let order = SetupContext { order: &body.workspace, dirs, work: &workspace.dir, variables };
    let both = CancellationToken::new();
    let shown = fence.clone();
    let setup = run_setup(order, &both, move |text: &str| {
        if !text.is_empty() {
            shown.note(&FleetState::Setup { text: text.to_owned() });
        }
    });
    tokio::pin!(setup);
    let done = tokio::select! {
        done = &mut setup => done,
        () = held.lost.cancelled() => return Err(JobStopped::Lost(String::from("the lease was lost"))),
        () = held.cancelled.cancelled() => {
            both.cancel();
            setup.await.ok();
            return Err(JobStopped::Ends(JobOutcome::cancelled()));
        }
        () = disk.over.cancelled() => {
            both.cancel();
            setup.await.ok();
            return Err(JobStopped::Ends(JobOutcome::out_of_disk(disk.in_words())));
        }
    };
    done.map_err(|why| JobStopped::Ends(JobOutcome::failed(2, why, Some(RetryOn::Setup))))
}

/// Returns why a job is parked, with its last known error.
async fn last_words(worker: &FleetWorker, lease: &Lease) -> String {
    let run = &lease.key.run;
    let from = lease.log_end.saturating_sub(5).max(lease.log_begin);
    let lines = worker.store.log.read(run.clone(), from, 5).await.unwrap_or_default();
    let lines: Vec<String> = lines.iter().map(|it| haft_types::text::one_line(&it.text, 200)).collect();
    let why = if POISON <= lease.stalled {
        format!("{} workers in a row came no further with it", lease.stalled)
    } else {
        format!("{} workers died with it, the last of them before any call ended", lease.lost)
    };
    let filter = haft_fleet_store::JobFilter { ids: Some(vec![run.clone()]), ..Default::default() };
    let known = worker.store.queue.jobs(filter, haft_fleet_store::PageOfJobs::default()).await;
    let peak = known.ok().and_then(|page| page.jobs.first()?.summary["memory_peak"].as_u64());
    let peak = peak.map_or_else(String::new, |it| format!("; the last worker had used {} MB", it >> 20));
    format!("{why}{peak}. The last lines: {}", lines.join(" | "))
}
